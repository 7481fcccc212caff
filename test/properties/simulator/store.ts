/** What a world asks of a store, whatever it keeps its quota in. */

import type { Delivery } from "./messages.ts";
import type { Process } from "./process.ts";

/** A key's ledger as the store has it. */
export interface Audit {
  readonly keyId: string;
  /** What was granted by the store's word. */
  readonly granted: number;
  /** Units charged, without live holds. */
  readonly charged: number;
  readonly held: number;
  readonly liveHolds: number;
  readonly overdraft: number;
  readonly estimated: number;
}

export interface SimulatedStore {
  /** Whether its code runs in the gateway's process, and dies with it. */
  readonly inProcess: boolean;
  /**
   * Carries out what a message asks, and tells the laws what that has done. Never settles where it dies with its process. Rejects
   * with a MadeUpFailure where the simulator has let it fail.
   */
  carryOut(delivery: Delivery, process: Process): Promise<unknown>;
  /** A process has died: what it was in the middle of is undone, or stands. */
  died(process: Process): void;
  /** The ledgers of all keys, when all is at rest. */
  audits(): Promise<readonly Audit[]>;
  /** What does not add up in its journal; undefined where it has none. */
  verify(): Promise<readonly string[] | undefined>;
  close(): Promise<void>;
}
