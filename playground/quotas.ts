/** Where the playground's quota lives: in memory, or in the store that POLYGATE_STORE names, where it outlives the process. */

import process from "node:process";
import type { BudgetDirectory, DurableQuotaStore, KeyDirectory } from "../src/admin/index.ts";
import { memoryQuotaStore, type QuotaStore } from "../src/index.ts";
import { LATE, systemClock, within } from "../src/ports/clock.ts";
import { demoKeys } from "./keys.ts";

export interface PlaygroundQuotas {
  readonly quotas: QuotaStore;
  /** The keys of the store, and its budgets where it has some, for the admin. */
  readonly directory: KeyDirectory & Partial<BudgetDirectory>;
  /** True when the store has the keys that everybody knows. */
  readonly hasDemoKeys: boolean;
  /** Lets go of the store's connections, when no call needs it any more. */
  close(): Promise<void>;
}

/** How many calls may ask an SQL server at once. */
const CONNECTIONS = 10;

/** How long a store may take to be ready, in milliseconds. */
const START_MS = 10_000;

/** Opens the store at an address, by default that of POLYGATE_STORE. Rejects, with one line that shows no password, where that cannot be. */
export async function playgroundQuotas(
  // What is set to nothing is not set.
  address: string | undefined = process.env["POLYGATE_STORE"] || undefined,
): Promise<PlaygroundQuotas> {
  if (address === undefined) {
    const quotas = memoryQuotaStore(demoKeys);
    return { quotas, directory: quotas.keys, hasDemoKeys: true, close: async () => {} };
  }
  // The databases' clients are loaded where they are needed alone.
  const { openStore } = await import("../src/admin/open-store.ts");
  const { describeProblem } = await import("../src/stores/open/connection.ts");
  const open = async (): Promise<PlaygroundQuotas> => {
    const opened = await openStore(address, { create: true, connections: CONNECTIONS, forGateway: true });
    await opened.migrate?.();
    const hasDemoKeys = await addDemoKeys(opened.store);
    return { quotas: opened.store, directory: opened.store, hasDemoKeys, close: () => opened.close() };
  };
  const opening = open();
  const late = await within(opening, START_MS, systemClock).catch((error: unknown) => {
    throw unusable(describeProblem(error), error);
  });
  if (late === LATE) throw unusable("it does not answer.");
  return opening;
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
