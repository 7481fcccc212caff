/** The frame of every attack: chance from a seed, attempts by count, a watch over the process and its event loop, and the findings. */

import process from "node:process";
import { Random } from "../properties/simulator/random.ts";
import { longestTurn, slowness } from "./turns.ts";

/** A class of attacks. */
export interface Attack {
  readonly name: string;
  /** Describes the class in the table of SECURITY.md. */
  readonly does: string;
  /** The number of attempts of `npm run attack`, and of the short form in the tests. */
  readonly counts: { readonly full: number; readonly short: number };
  open(run: Run): Promise<Siege> | Siege;
}

/** An attack that has been opened. */
export interface Siege {
  /** The number of attempts there are, where that is known: no more are made. */
  readonly count?: number;
  /** Whether the turns of the event loop are measured in all of an attempt: where the attacker itself does little beside. */
  readonly isMeasured?: boolean;
  /** Makes one attempt. What it throws is a finding. */
  attempt(random: Random, index: number): Promise<void>;
  /** Looks at what is left behind, and closes everything. */
  close?(): Promise<void>;
}

/** A breach of the oracle. */
export interface Finding {
  /** The breach in words that are the same for every attempt that shows it. */
  readonly what: string;
  /** What was sent and seen by the first attempt that shows it. */
  readonly detail: string;
  /** The first attempt that shows it. */
  readonly index: number;
  times: number;
}

/** How one class of attacks went. */
export interface Result {
  readonly name: string;
  readonly attempts: number;
  readonly findings: readonly Finding[];
  /**
   * The longest time without a turn of the event loop, in milliseconds of CPU, beside what parsing the same JSON alone takes; undefined
   * where it is not measured.
   */
  readonly longestTurnMs: number | undefined;
}

export interface Plan {
  /** An integer from 0 up. */
  readonly seed: number;
  readonly count: number;
  /** Makes this attempt alone, as a run of the same seed would make it. */
  readonly at?: number | undefined;
  /** Whether attempts are small, as in the tests: no body of many MiB. */
  readonly isShort: boolean;
  /** Is told of each attempt before it begins, so that a crash has a number. */
  readonly begin?: (index: number) => void;
}

/** The longest time without a turn of the event loop, in milliseconds of CPU beside parsing alone. */
const BLOCK_MS = 50;
/** By how much the short form is more patient: its process has just begun, and runs code that is not compiled yet. */
const SHORT_PATIENCE = 3;
/** A turn that is too long is measured again, and counts where each time was too long: a collection of garbage falls into one. */
const MEASUREMENTS = 3;
/** How long an attempt may take, in milliseconds, before it counts as hanging. Ends what is stuck, and measures nothing. */
const PATIENCE_MS = 60_000;

/** One run of an attack: its plan and what it has found. */
export class Run {
  readonly plan: Plan;
  readonly #findings = new Map<string, Finding>();
  #index = -1;
  #longestTurnMs: number | undefined;

  constructor(plan: Plan) {
    this.plan = plan;
  }

  get findings(): readonly Finding[] {
    return [...this.#findings.values()];
  }

  get longestTurnMs(): number | undefined {
    return this.#longestTurnMs;
  }

  /** Notes a breach. */
  find(what: string, detail: unknown = ""): void {
    const known = this.#findings.get(what);
    if (known) known.times++;
    else this.#findings.set(what, { what, detail: shortened(detail), index: this.#index, times: 1 });
  }

  /** Notes a breach unless the condition holds. */
  check(holds: boolean, what: string, detail: unknown = ""): void {
    if (!holds) this.find(what, detail);
  }

  /**
   * Does the work, and notes a breach where the event loop does not turn for too long meanwhile. Such work is done again, so it must
   * be repeatable.
   *
   * @param aloneMs What parsing the same JSON takes alone, in milliseconds of CPU.
   */
  async turning<Done>(what: string, work: () => Promise<Done>, aloneMs: number = 0): Promise<Done> {
    const allowedMs = BLOCK_MS * (this.plan.isShort ? SHORT_PATIENCE : 1);
    let leastMs = Number.POSITIVE_INFINITY;
    for (let measured = 1; ; measured++) {
      const { done, ms } = await longestTurn(work);
      leastMs = Math.min(leastMs, ms - aloneMs);
      const isBlocked = leastMs > allowedMs && leastMs > allowedMs * slowness();
      if (isBlocked && measured < MEASUREMENTS) continue;
      this.noteTurn(leastMs);
      if (isBlocked)
        this.find(`${what} keeps the event loop from turning`, `${Math.round(leastMs)} ms beside parsing alone`);
      return done;
    }
  }

  /** Notes how long the event loop did not turn, where no breach depends on it. */
  noteTurn(ms: number): void {
    this.#longestTurnMs = Math.max(this.#longestTurnMs ?? 0, ms);
  }

  /** Makes one attempt, watched. */
  async attempt(siege: Siege, index: number): Promise<void> {
    this.#index = index;
    this.plan.begin?.(index);
    const make = (): Promise<void> => siege.attempt(new Random(this.plan.seed * 65_537 + index), index);
    await this.#watched(async () => {
      if (siege.isMeasured) this.noteTurn((await longestTurn(make)).ms);
      else await make();
    });
  }

  async close(siege: Siege): Promise<void> {
    await this.#watched(async () => siege.close?.());
  }

  async #watched(work: () => Promise<void>): Promise<void> {
    const { promise: hangs, resolve } = Promise.withResolvers<"hangs">();
    const timer = setTimeout(resolve, PATIENCE_MS, "hangs");
    try {
      if ((await Promise.race([work(), hangs])) === "hangs") this.find("An attempt hangs");
    } catch (error) {
      this.find(`An attempt fails: ${firstLineOf(error)}`, error instanceof Error ? error.stack : error);
    } finally {
      clearTimeout(timer);
    }
  }
}

const MAX_DETAIL = 600;

function shortened(detail: unknown): string {
  const text = typeof detail === "string" ? detail : (JSON.stringify(detail) ?? String(detail));
  return text.length > MAX_DETAIL ? `${text.slice(0, MAX_DETAIL)}…` : text;
}

const firstLineOf = (error: unknown): string => String(error).split("\n", 1)[0] ?? "";

/** Runs an attack. A rejection or an exception that nobody handles is a finding too: it would end a host's process. */
export async function attack(attack: Attack, plan: Plan): Promise<Result> {
  const run = new Run(plan);
  const unhandled = (error: unknown): void =>
    run.find(`Nobody handles: ${firstLineOf(error)}`, error instanceof Error ? error.stack : error);
  process.on("unhandledRejection", unhandled).on("uncaughtException", unhandled);
  let attempts = 0;
  try {
    const siege = await attack.open(run);
    const count = Math.min(plan.count, siege.count ?? plan.count);
    const [first, end] = plan.at === undefined ? [0, count] : [plan.at, plan.at + 1];
    for (let index = first; index < end; index++, attempts++) await run.attempt(siege, index);
    await run.close(siege);
    // What is rejected in the last turn is told in the next one.
    await new Promise((resolve) => void setImmediate(resolve));
  } finally {
    process.off("unhandledRejection", unhandled).off("uncaughtException", unhandled);
  }
  return { name: attack.name, attempts, findings: run.findings, longestTurnMs: run.longestTurnMs };
}
