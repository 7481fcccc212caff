/** Mutants: worlds with one deliberate fault, which a law must notice. */

import type { GatewayOptions, QuotaStore } from "../../../src/index.ts";
import type { OpenedQuotaStore } from "../../../src/testing/laws/index.ts";
import type { Law } from "./laws.ts";
import type { KeyPlan, Plan, StoreName } from "./plan.ts";
import type { Process } from "./process.ts";
import type { Audit } from "./store.ts";

/** A fault in the memory store, in the SQL or the scripts on their way to a database, or in the gateway. */
export interface Mutant {
  /** The fault, as a part of a test's name. */
  readonly fault: string;
  /** The store in whose worlds the fault shows. */
  readonly store: StoreName;
  /** The laws that may notice the fault first. */
  readonly breaks: readonly Law[];
  /** The world in which the search begins, because the worlds before it show nothing. Default: 1. */
  readonly seed?: number;
  readonly keys?: (keys: readonly KeyPlan[]) => readonly KeyPlan[];
  readonly budgets?: (budgets: Plan["budgets"]) => Plan["budgets"];
  /** Replaces the memory store. `skewMs` returns how far the clock of the calling process is ahead of the store's. */
  readonly verbs?: (opened: OpenedQuotaStore, skewMs: () => number) => QuotaStore;
  /** Changes the ledgers that the memory store shows. */
  readonly audit?: (audit: Audit) => Audit;
  /** Changes a statement of the SQL store on its way. */
  readonly statement?: (statement: string, process: Process) => string;
  /** Changes a script of the Redis store on its way. */
  readonly script?: (script: string) => string;
  /** Changes the options of each gateway, for faults of the pipeline and of ports other than the quota store. */
  readonly gateway?: (options: GatewayOptions) => GatewayOptions;
}

/** The units beyond the balance that a store without conditions treats as available. */
export const HIDDEN = 1_000_000;

export const CHARGED_ONCE = "each hold is charged once, and what was not covered is overdraft";
export const REMAINS = "what remains never falls below zero";
export const LEASED = "no hold outlives its lease once it is swept";
export const FITS = "exactly what fits is held";
export const SHARED = "a budget has what its keys have used and hold, once each";
