/** The port of a simulated store, the same for every kind of store. */

import type { Delivery } from "./messages.ts";
import type { Process } from "./process.ts";

/** The ledger of a key in the store. */
export interface Audit {
  readonly keyId: string;
  /** The granted units, as the store reports; the used ones for an unlimited key. */
  readonly granted: number;
  /** Units charged, without live holds. */
  readonly charged: number;
  readonly held: number;
  readonly liveHolds: number;
  readonly overdraft: number;
  readonly estimated: number;
}

/** The books of a budget's periods. */
export interface BudgetAudit {
  readonly id: string;
  readonly current: PeriodAudit;
  /** Undefined for a store that does not show them. */
  readonly closed: readonly PeriodAudit[] | undefined;
}

export interface PeriodAudit extends Pick<Audit, "granted" | "charged" | "held" | "overdraft" | "estimated"> {
  /** The day of its beginning by the clock of the store, counted from the Unix epoch; 0 without a period. */
  readonly day: number;
}

export interface SimulatedStore {
  /** True when its code runs in the process of the gateway, and dies with it. */
  readonly inProcess: boolean;
  /**
   * Carries out a message, and reports the effect to the laws. Never settles when the store dies with its process. Rejects with a
   * MadeUpFailure when the simulator injects a failure.
   */
  carryOut(delivery: Delivery, process: Process): Promise<unknown>;
  /** Ends the work of a process that has died. */
  died(process: Process): void;
  /** Revokes a key, as its host does. Only the memory store can. */
  revoke?(keyId: string): Promise<void>;
  /** Returns the ledgers of all keys at rest. */
  audits(): Promise<readonly Audit[]>;
  /** Returns the books of all budgets. */
  budgets(): Promise<readonly BudgetAudit[]>;
  /** Returns the differences in the journal. Undefined when the store has no journal. */
  verify(): Promise<readonly string[] | undefined>;
  close(): Promise<void>;
}
