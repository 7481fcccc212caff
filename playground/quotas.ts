/** The playground's quota and its records of calls: in memory, or in the store that POLYGATE_STORE names, where they outlive the process. */

import process from "node:process";
import type { CallReader, DurableQuotaStore } from "../src/admin/index.ts";
import type { CallRecord } from "../src/index.ts";
import { describeProblem } from "../src/stores/open/connection.ts";
import { type AuditLog, openStores } from "../src/stores/open/index.ts";
import { fail } from "./address.ts";
import { demoKeys } from "./keys.ts";

export interface PlaygroundQuotas {
  readonly quotas: DurableQuotaStore;
  /** The parts that only an SQL database has: the recorder of calls, and the options of the admin. */
  readonly records: {
    readonly onCall?: (record: CallRecord) => void;
    readonly calls?: CallReader;
    readonly audit?: AuditLog;
  };
  /** True when the store has the keys that everybody knows. */
  readonly hasDemoKeys: boolean;
  /** Lets go of the store's connections, when no call needs it any more. */
  close(): Promise<void>;
}

/** How many calls may ask an SQL server at once. */
const CONNECTIONS = 10;

/** How long a store may take to be ready, in milliseconds. */
const START_MS = 10_000;

const IN_MEMORY = "sqlite::memory:";

/** Opens the store that the environment names. Ends the process, with one line that shows no password, where that cannot be. */
export async function playgroundQuotas(env: NodeJS.ProcessEnv = process.env): Promise<PlaygroundQuotas> {
  // What is set to nothing is not set.
  const address = env["POLYGATE_STORE"] || IN_MEMORY;
  const overdue = setTimeout(() => refuse("it does not answer."), START_MS);
  try {
    const stores = await openStores(address, { connections: CONNECTIONS });
    const { quotas } = stores.ports;
    const hasDemoKeys = await addDemoKeys(quotas);
    const records = /^rediss?:/.test(address)
      ? {}
      : { onCall: stores.recorder(), calls: stores.calls, audit: stores.auditLog };
    return { quotas, records, hasDemoKeys, close: () => stores.close() };
  } catch (error) {
    return refuse(describeProblem(error instanceof Error && error.cause ? error.cause : error));
  } finally {
    clearTimeout(overdue);
  }
}

function refuse(reason: string): never {
  return fail(`The playground cannot use POLYGATE_STORE: ${reason}`);
}

/**
 * Adds the demo's keys that are not there yet: what was used stays used. Where a store has keys of others, it is left as it is:
 * the demo's secrets are known to everybody, and one of them is unlimited. Resolves with whether the store has them.
 */
async function addDemoKeys(store: DurableQuotaStore): Promise<boolean> {
  const ids = new Set(demoKeys.map(({ id }) => id));
  const known = await store.list({ limit: ids.size + 1 });
  if (known.some(({ id }) => !ids.has(id))) return false;
  const missing = demoKeys.filter(({ id }) => !known.some((key) => key.id === id));
  for (const key of missing)
    try {
      await store.add(key);
    } catch (error) {
      // Another playground that starts beside this one may have been faster.
      if (!(await store.report(key.id))) throw error;
    }
  return true;
}
