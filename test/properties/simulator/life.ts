/** One life: a call from its request to the end of its hold, and what its client has seen of it. */

import type { CallInfo, CallRecord, Outcome } from "../../../src/index.ts";
import { DRAIN_MS, type KeyPlan } from "./plan.ts";
import type { Process } from "./process.ts";
import type { Random } from "./random.ts";

/** What the backend says of its usage: the truth, more input than was estimated, nothing, or nonsense. */
export type Reports = "exact" | "more input" | "nothing" | "nonsense";

/** How the backend ends: by itself, with a failure, or never. */
export type Ending = "finish" | "throw" | "hang";

export interface LifePlan {
  readonly dialect: "messages" | "chat-completions" | "generate-content" | "token-usage";
  readonly stream: boolean;
  /** Whether the request tells its length, its body is JSON at all, and its key is known. */
  readonly tellsLength: boolean;
  readonly malformed: boolean;
  readonly stranger: boolean;
  /** In tokens, which are characters here. */
  readonly input: number;
  readonly maxTokens: number;
  /** Before each word of the answer, in milliseconds; and how long the words are. */
  readonly pausesMs: readonly number[];
  readonly word: number;
  readonly reports: Reports;
  readonly ending: Ending;
  /** Whether the backend keeps to the limit that it is told, and stops when it is told to. */
  readonly honest: boolean;
  readonly obedient: boolean;
  readonly drains: boolean;
  /** When the client hangs up after its request, and how long it takes to read a frame, in milliseconds. */
  readonly hangUpMs: number | undefined;
  readonly readMs: number;
}

export class Life {
  readonly id: string;
  readonly key: KeyPlan;
  readonly plan: LifePlan;
  process: Process | undefined = undefined;
  /** Whether its backend was asked, how many tokens that has yielded, and whether it has said its usage and its end. */
  asked = false;
  yielded = 0;
  reported = false;
  ended = false;
  /** How many tokens its client has received, and whether the answer was whole. */
  received = 0;
  status: number | undefined = undefined;
  isDelivered = false;
  clientGone = false;
  disconnect: (() => void) | undefined = undefined;
  /** When the line first settled, what it told, whether a store has said that it failed, and whether one has done it. */
  settleSentAt: number | undefined = undefined;
  told: Outcome | undefined = undefined;
  settleFailed = false;
  settleWorked = false;
  /** Whether the host was told that the call is not settled. */
  unsettled = false;
  readonly records: CallRecord[] = [];

  constructor(id: string, key: KeyPlan, plan: LifePlan) {
    this.id = id;
    this.key = key;
    this.plan = plan;
  }

  /** What it has to be charged when its answer is whole. */
  get whole(): number {
    const { input, reports } = this.plan;
    if (!this.reported || reports === "nothing" || reports === "nonsense") return input + Math.max(1, this.yielded);
    return this.reportedInput + this.yielded;
  }

  /** The input that the backend tells, in tokens. */
  get reportedInput(): number {
    return this.plan.reports === "more input" ? 2 * this.plan.input + 7 : this.plan.input;
  }

  /** Between what its charge must lie by now. */
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
  // Seldom so slow that leases have to be renewed, and deadlines pass.
  const slowest = random.pick([5, 200, 200, 1_000, 6_000]);
  return {
    dialect: random.chance(0.05)
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
