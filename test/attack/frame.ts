/** The frame of every attack: random attempts from a seed, a watch over the process and its event loop, and the findings. */

import process from "node:process";
import { Random } from "../trial/random.ts";

/** A class of attacks. */
export interface Attack {
  readonly name: string;
  /** Describes the class in the table of SECURITY.md. */
  readonly does: string;
  /** The number of attempts of the trial, and of the short form in the tests. */
  readonly counts: { readonly full: number; readonly short: number };
  open(run: Run): Promise<Siege> | Siege;
}

/** The number of all attempts that make sense. It reaches the process of an attack as JSON, which has no infinity. */
export const ALL: number = Number.MAX_SAFE_INTEGER;

/** An attack that has been opened. */
export interface Siege {
  /** The most attempts that make sense. Default: no limit. */
  readonly count?: number;
  /** True when the whole attempt counts as work of the gateway, and the longest turn in it is measured. */
  readonly isMeasured?: boolean;
  /** Makes one attempt. An error that it throws is a finding. */
  attempt(random: Random, index: number): Promise<void>;
  /** Checks that nothing is left, and closes everything. */
  close?(): Promise<void>;
}

/** A violation that an attack has found. */
export interface Finding {
  /** The violation, in the same words for every attempt that shows it. */
  readonly what: string;
  /** The request and the result of the first attempt that shows it. */
  readonly detail: string;
  /** The number of the first attempt that shows it. */
  readonly index: number;
  times: number;
}

/** The result of one class of attacks. */
export interface Result {
  readonly name: string;
  readonly attempts: number;
  readonly findings: readonly Finding[];
  /** The longest turn of the event loop beyond parsing the same JSON, in milliseconds of CPU. Undefined when not measured. */
  readonly longestTurnMs: number | undefined;
}

export interface Plan {
  /** An integer from 0 up. */
  readonly seed: number;
  readonly count: number;
  /** The number of a single attempt to make, exactly as in a full run of the same seed. */
  readonly at?: number | undefined;
  /** True for small attempts, as in the tests: no body of many MiB. */
  readonly isShort: boolean;
  /** Receives the number of each attempt before it begins, so that a crash has a number. */
  readonly begin?: (index: number) => void;
}

/** The most CPU time of one turn of the event loop beyond parsing the same JSON, in milliseconds. */
const BLOCK_MS = 50;
/** The factor by which the short form allows longer turns: its process has just begun, and its code is not compiled yet. */
const SHORT_PATIENCE = 3;
/** The measurements of a turn that is too long. Only a turn that is too long every time counts: one may contain a garbage collection. */
const MEASUREMENTS = 3;
/** The time after which an attempt counts as hanging, in milliseconds. Ends a stuck attempt, and measures nothing. */
const PATIENCE_MS = 300_000;

/** A run of one attack, with its plan and its findings. */
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

  /** Notes a violation. */
  find(what: string, detail: unknown = ""): void {
    const known = this.#findings.get(what);
    if (known) known.times++;
    else this.#findings.set(what, { what, detail: shortened(detail), index: this.#index, times: 1 });
  }

  /** Notes a violation unless the condition holds. */
  check(holds: boolean, what: string, detail: unknown = ""): void {
    if (!holds) this.find(what, detail);
  }

  /**
   * Does the work, and notes a violation when a turn of the event loop takes too long. The work must be repeatable: a long turn is
   * measured again.
   *
   * @param aloneMs The time to parse the same JSON alone, in milliseconds of CPU.
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

  /** Notes the length of a turn without judging it. */
  noteTurn(ms: number): void {
    this.#longestTurnMs = Math.max(this.#longestTurnMs ?? 0, ms);
  }

  /** Makes one attempt under watch. */
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

/** Runs an attack. An unhandled rejection or exception is a finding too: it would end the process of a host. */
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
    run.check(attempts > 0, "Nothing was attempted");
    await run.close(siege);
    // Node reports the unhandled rejections of the last turn in the next turn.
    await new Promise((resolve) => void setImmediate(resolve));
  } finally {
    process.off("unhandledRejection", unhandled).off("uncaughtException", unhandled);
  }
  return { name: attack.name, attempts, findings: run.findings, longestTurnMs: run.longestTurnMs };
}

/** Returns the CPU time of this thread in milliseconds, or that of the process where the runtime does not count by thread. */
export function cpuMs(): number {
  const { user, system } = process.threadCpuUsage?.() ?? process.cpuUsage();
  return (user + system) / 1_000;
}

/** Does the work, and measures its longest turn of the event loop, in milliseconds of CPU. */
export async function longestTurn<Done>(work: () => Promise<Done>): Promise<{ done: Done; ms: number }> {
  let isOver = false;
  let ms = 0;
  let last = cpuMs();
  const look = (): void => {
    const now = cpuMs();
    ms = Math.max(ms, now - last);
    last = now;
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  try {
    const done = await work();
    look();
    return { done, ms };
  } finally {
    isOver = true;
  }
}

/** Returns the CPU time of synchronous work in milliseconds: the longer of two runs, because the first one compiles. */
export function aloneMs(work: () => unknown): number {
  let longest = 0;
  for (let time = 0; time < 2; time++) {
    const before = cpuMs();
    work();
    longest = Math.max(longest, cpuMs() - before);
  }
  return longest;
}

const SAMPLE = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => ({ index, name: `name ${index}` })));
/** The CPU time to parse the sample on the reference machine of the limits, in milliseconds. */
const REFERENCE_MS = 8;

/** Returns the factor by which this machine is slower than the reference at the moment; at least 1. */
export function slowness(): number {
  return Math.max(1, aloneMs(() => JSON.parse(SAMPLE)) / REFERENCE_MS);
}
