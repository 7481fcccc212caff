/** What a mutant is: a world in which one thing is broken on purpose. */

import type { GatewayOptions, QuotaStore } from "../../../src/index.ts";
import type { OpenedQuotaStore } from "../../contracts/index.ts";
import type { Law } from "./laws.ts";
import type { KeyPlan, StoreName } from "./plan.ts";
import type { Process } from "./process.ts";
import type { Audit } from "./store.ts";

/** A fault, by what it changes: of the memory store, of the SQL that reaches a database, or of the gateway around them. */
export interface Mutant {
  /** The fault, fit for a test's name. */
  readonly fault: string;
  /** In worlds of which store it shows. */
  readonly store: StoreName;
  /** The laws by which it may be noticed first. */
  readonly breaks: readonly Law[];
  readonly keys?: (keys: readonly KeyPlan[]) => readonly KeyPlan[];
  /** Takes the place of the memory store. `skewMs` tells how far the clock of who asks is ahead of the store's. */
  readonly verbs?: (opened: OpenedQuotaStore, skewMs: () => number) => QuotaStore;
  /** What the memory store's books tell. */
  readonly audit?: (audit: Audit) => Audit;
  /** Changes a statement of the SQL store on its way. */
  readonly statement?: (statement: string, process: Process) => string;
  /** Changes what each gateway is made with: for faults of the line, and of ports beside the quota store. */
  readonly gateway?: (options: GatewayOptions) => GatewayOptions;
}

/** What a store that holds without a condition takes for available beyond what there is. */
export const HIDDEN = 1_000_000;

export const CHARGED_ONCE = "each hold is charged once, and what was not covered is overdraft";
export const REMAINS = "what remains never falls below zero";
export const LEASED = "no hold outlives its lease once it is swept";
export const FITS = "exactly what fits is held";
