/** A life: a call from its request to the end of its hold, and the answer that its client has seen. */

import type { CallInfo, CallRecord, Outcome } from "../../../src/index.ts";
import type { Random } from "../../trial/random.ts";
import { DRAIN_MS, type KeyPlan } from "./plan.ts";
import type { Process } from "./process.ts";

/** The usage that the backend reports: the truth, more input than estimated, nothing, or nonsense. */
export type Reports = "exact" | "more input" | "nothing" | "nonsense";

/** The end of the backend: a finish, a failure, or never. */
export type Ending = "finish" | "throw" | "hang";

export interface LifePlan {
  readonly format: "messages" | "chat-completions" | "generate-content" | "token-usage";
  readonly stream: boolean;
  /** True when the request tells its length, when its body is JSON, and when its key is known. */
  readonly tellsLength: boolean;
  readonly malformed: boolean;
  readonly stranger: boolean;
  /** In tokens. A token is one character here. */
  readonly input: number;
  readonly maxTokens: number;
  /** The pauses before the words of the answer, in milliseconds, and the lengths of the words. */
  readonly pausesMs: readonly number[];
  readonly word: number;
  readonly reports: Reports;
  readonly ending: Ending;
  /** True when the backend respects its limit and its signal. */
  readonly honest: boolean;
  readonly obedient: boolean;
  readonly drains: boolean;
  /** The time from the request to the hang-up of the client, and the time to read a frame, in milliseconds. */
  readonly hangUpMs: number | undefined;
  readonly readMs: number;
}

export class Life {
  readonly id: string;
  readonly key: KeyPlan;
  readonly plan: LifePlan;
  process: Process | undefined = undefined;
  /** The state of the backend: called or not, the tokens yielded, and whether it has reported usage and its end. */
  asked = false;
  yielded = 0;
  reported = false;
  ended = false;
  /** The tokens that the client has received, and true when the answer was complete. */
  received = 0;
  status: number | undefined = undefined;
  isDelivered = false;
  clientGone = false;
  disconnect: (() => void) | undefined = undefined;
  /** The first settlement: its time, its charge, and whether a store has reported a failure or has carried it out. */
  settleSentAt: number | undefined = undefined;
  told: Outcome | undefined = undefined;
  settleFailed = false;
  settleWorked = false;
  /** True when the host was told that the call is not settled. */
  unsettled = false;
  readonly records: CallRecord[] = [];

  constructor(id: string, key: KeyPlan, plan: LifePlan) {
    this.id = id;
    this.key = key;
    this.plan = plan;
  }

  /** The charge of a complete answer. */
  get whole(): number {
    const { input, reports } = this.plan;
    if (!this.reported || reports === "nothing" || reports === "nonsense") return input + Math.max(1, this.yielded);
    return this.reportedInput + this.yielded;
  }

  /** The input that the backend reports, in tokens. */
  get reportedInput(): number {
    return this.plan.reports === "more input" ? 2 * this.plan.input + 7 : this.plan.input;
  }

  /** The bounds of the charge at this moment. */
  get bounds(): { least: number; most: number } {
    const { input } = this.plan;
    const least = this.received > 0 ? input + this.received : 0;
    if (this.yielded === 0 && !this.reported && !this.ended) return { least, most: 0 };
    return { least, most: Math.max(input, this.reportedInput) + Math.max(1, this.yielded) };
  }
}

export const lifeOf = (call: CallInfo | undefined): Life => {
  if (call?.context instanceof Life) return call.context;
  throw new Error("A verb was called without its call.");
};

export function lifePlanOf(random: Random): LifePlan {
  const words = random.int(0, 5);
  // Few lives are so slow that leases must be renewed, or that deadlines pass.
  const slowest = random.pick([5, 200, 200, 1_000, 6_000]);
  return {
    format: random.chance(0.05)
      ? "token-usage"
      : random.pick(["messages", "messages", "chat-completions", "generate-content"]),
    stream: random.chance(0.5),
    tellsLength: random.chance(0.85),
    malformed: random.chance(0.02),
    stranger: random.chance(0.02),
    input: random.int(1, 40),
    maxTokens: random.int(2, 60),
    pausesMs: Array.from({ length: words }, () => random.int(0, slowest)),
    word: random.int(1, 12),
    reports: random.pick(["exact", "exact", "more input", "nothing", "nonsense"]),
    ending: random.pick(["finish", "finish", "finish", "finish", "finish", "throw", "hang"]),
    honest: random.chance(0.8),
    obedient: random.chance(0.7),
    drains: random.chance(0.2),
    hangUpMs: random.chance(0.15) ? random.int(0, DRAIN_MS) : undefined,
    readMs: random.chance(0.1) ? random.int(1, 2_000) : 0,
  };
}
