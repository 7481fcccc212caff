/** Keeps the playground's quota and its records of calls in memory, or lastingly in the store that POLYGATE_STORE names. */

import process from "node:process";
import type { BudgetDirectory, CallReader, DurableQuotaStore, KeyDirectory } from "../src/admin/index.ts";
import { type CallRecord, memoryQuotaStore, type QuotaStore } from "../src/index.ts";
import { LATE, systemClock, within } from "../src/ports/clock.ts";
import type { AuditLog, CallRecorder } from "../src/stores/open/index.ts";
import type { BudgetSource } from "../src/telemetry/index.ts";
import { demoKeys, teamBudgets, teamKeys, useUpTeamBlue } from "./keys.ts";
import { commandToAdd, optional } from "./optional.ts";

export interface PlaygroundQuotas {
  readonly quotas: QuotaStore & BudgetSource;
  /** The keys of the store for the admin, and its budgets if the store supports them. */
  readonly directory: KeyDirectory & Partial<BudgetDirectory>;
  /** Parts that only an SQL database has: the recorder of calls, and options of the admin. */
  readonly records: {
    readonly onCall?: (record: CallRecord) => void;
    readonly calls?: CallReader;
    readonly audit?: AuditLog;
  };
  /** True if the package kysely is missing, and with it the admin's budgets, spend and refusals. */
  readonly lacksKysely: boolean;
  /** True if the store has the demo's public keys. */
  readonly hasDemoKeys: boolean;
  /** Closes the store's connections. Call this after the last call has ended. */
  close(): Promise<void>;
}

/** Says which package `lacksKysely` means. */
export const KYSELY: string = `The budgets, spend and refusals of the admin need one more package: ${commandToAdd("kysely")}`;

/** The most connections to an SQL server. */
const CONNECTIONS = 10;

/** The time for a store to become ready, in milliseconds. */
const START_MS = 10_000;

const IN_MEMORY = "sqlite::memory:";

/** Opens the store at an address. Default: POLYGATE_STORE, or memory. Rejects with a single line without passwords if this fails. */
export async function playgroundQuotas(
  // An empty variable counts as missing.
  address: string | undefined = process.env["POLYGATE_STORE"] || undefined,
): Promise<PlaygroundQuotas> {
  // The records of calls need the package kysely.
  if (address === undefined && !(await optional(() => import("kysely")))) {
    const quotas = memoryQuotaStore([...demoKeys, ...teamKeys], { budgets: teamBudgets });
    await useUpTeamBlue(quotas);
    return { quotas, directory: quotas.keys, records: {}, lacksKysely: true, hasDemoKeys: true, close: async () => {} };
  }
  // Load the clients of databases only if needed.
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
  const { describeProblem } = await import("../src/stores/open/connection.ts");
  // A user who mistypes an address must hear of it at once: the demo does not wait for a store that is away at the start.
  let away: unknown;
  let onError = (error: unknown): void => void (away ??= error);
  const stores = await openStores(address, { connections: CONNECTIONS, onError: (error) => onError(error) });
  if (away !== undefined) throw away;
  onError = (error) => console.error(`The store has a problem: ${describeProblem(error)}`);
  const { quotas, responseStore } = stores.ports;
  // Redis keeps no calls.
  const onCall = responseStore ? stores.recorder({ currency: "usd" }) : undefined;
  const hasDemoKeys = await addDemoKeys(quotas, onCall);
  const records = onCall ? { onCall, calls: stores.calls, audit: stores.auditLog } : {};
  return { quotas, directory: quotas, records, lacksKysely: false, hasDemoKeys, close: () => stores.close() };
}

const unusable = (reason: string, cause?: unknown): Error =>
  new Error(`The demo cannot use its store (--store or POLYGATE_STORE): ${reason}`, { cause });

/**
 * Adds the missing keys of the demo, and keeps the usage of existing keys. Leaves a store with other keys unchanged, because the demo's
 * secrets are public and one of the keys is unlimited. Resolves with true if the store has the demo's keys.
 */
async function addDemoKeys(store: DurableQuotaStore, onCall: CallRecorder | undefined): Promise<boolean> {
  const ids = new Set([...demoKeys, ...teamKeys].map(({ id }) => id));
  const known = await store.list({ limit: ids.size + 1 });
  if (known.some(({ id }) => !ids.has(id))) return false;
  const missing = demoKeys.filter(({ id }) => !known.some((key) => key.id === id));
  for (const key of missing)
    try {
      await store.add(key);
    } catch (error) {
      // Another playground may have added the key at the same time.
      if (!(await store.report(key.id))) throw error;
    }
  if (!known.some(({ id }) => id === "blue")) await addTeams(store, onCall);
  return true;
}

/** Adds the teams. A Redis Cluster refuses budgets, and another playground may add the teams at the same time. */
async function addTeams(store: DurableQuotaStore, onCall: CallRecorder | undefined): Promise<void> {
  try {
    for (const budget of teamBudgets) await store.addBudget(budget);
    for (const key of teamKeys) await store.add(key);
    const record = await useUpTeamBlue(store);
    onCall?.(record);
    // The spend agrees with the budgets from the first look at them.
    await onCall?.flush();
  } catch (error) {
    console.error(`The demo has no teams: ${error instanceof Error ? error.message : String(error)}`);
  }
}
