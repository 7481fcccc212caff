/** The playground's quota and its records of calls: in memory, or in the store that POLYGATE_STORE names, where they outlive the process. */

import process from "node:process";
import type { BudgetDirectory, CallReader, DurableQuotaStore, KeyDirectory } from "../src/admin/index.ts";
import { type CallRecord, memoryQuotaStore, type QuotaStore } from "../src/index.ts";
import { LATE, systemClock, within } from "../src/ports/clock.ts";
import type { AuditLog } from "../src/stores/open/index.ts";
import { demoKeys } from "./keys.ts";
import { optional } from "./optional.ts";

export interface PlaygroundQuotas {
  readonly quotas: QuotaStore;
  /** The keys of the store for the admin, and its budgets where it has any. */
  readonly directory: KeyDirectory & Partial<BudgetDirectory>;
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

/** Opens the store at an address, by default that of POLYGATE_STORE. Rejects, with one line that shows no password, where that cannot be. */
export async function playgroundQuotas(
  // What is set to nothing is not set.
  address: string | undefined = process.env["POLYGATE_STORE"] || undefined,
): Promise<PlaygroundQuotas> {
  // Without the builder of SQL, there are no records of calls.
  if (address === undefined && !(await optional(() => import("kysely")))) {
    const quotas = memoryQuotaStore(demoKeys);
    return { quotas, directory: quotas.keys, records: {}, hasDemoKeys: true, close: async () => {} };
  }
  // The databases' clients are loaded where they are needed alone.
  const { describeProblem } = await import("../src/stores/open/connection.ts");
  const opening = open(address ?? IN_MEMORY);
  const late = await within(opening, START_MS, systemClock).catch((error: unknown) => {
    throw unusable(describeProblem(error instanceof Error && error.cause ? error.cause : error), error);
  });
  if (late === LATE) throw unusable("it does not answer.");
  return opening;
}

async function open(address: string): Promise<PlaygroundQuotas> {
  const { openStores } = await import("../src/stores/open/index.ts");
  const stores = await openStores(address, { connections: CONNECTIONS });
  const { quotas } = stores.ports;
  const hasDemoKeys = await addDemoKeys(quotas);
  const records = /^rediss?:/.test(address)
    ? {}
    : { onCall: stores.recorder(), calls: stores.calls, audit: stores.auditLog };
  return { quotas, directory: quotas, records, hasDemoKeys, close: () => stores.close() };
}

const unusable = (reason: string, cause?: unknown): Error =>
  new Error(`The demo cannot use its store (--store or POLYGATE_STORE): ${reason}`, { cause });

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
