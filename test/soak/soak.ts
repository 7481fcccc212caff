/** The soak of one host: many calls that end, many clients that hang up, and what is left of both. */

import { complete } from "./completions.ts";
import { POLICIES, type Policy } from "./calls.ts";
import { hangUp, type HangUps, type HungUp, type Moment } from "./hang-ups.ts";
import type { SoakHost } from "./hosts.ts";
import { type Rest, Subject } from "./subject.ts";

export interface Plan {
  /** What goes before the first count, so that all is loaded, compiled and full that will be. */
  readonly warmUp: { readonly completions: number; readonly hangUps: number };
  readonly completions: number;
  readonly hangUps: number;
  /** Hang-ups a few at a time, for the time until each signal fires. */
  readonly timed: number;
}

export interface Soaked {
  readonly completions: number;
  readonly hangUps: number;
  /** Calls whose signal fired though nothing had cut them short. */
  readonly falseAborts: readonly number[];
  /** What the calls that ended are to be charged, in units. */
  readonly units: number;
  readonly before: Rest;
  readonly after: Rest;
  /** From the hang-ups until the signals fired, in milliseconds: of many in the same turn, and of the timed ones. */
  readonly delaysMs: readonly number[];
  readonly timedMs: readonly number[];
  /** Whether each gateway had nothing to wait for when it closed. */
  readonly closedAtOnce: readonly boolean[];
}

const TOGETHER = 90;
const TOGETHER_TIMED = 10;

const KNOWN: readonly Moment[] = ["before the first", "in the middle", "after the last"];
const RACING: readonly Moment[] = ["while asking", "at once"];
const CUTTING: readonly Moment[] = ["before the first", "in the middle"];

/** The rounds of hang-ups, in turn: each policy, and each now and then with clients that leave before they are answered. */
export const round = (number: number): HangUps => ({
  together: TOGETHER,
  policy: POLICIES[number % POLICIES.length] as Policy,
  moments: number % 4 === 3 ? RACING : KNOWN,
});

const roundsOf = (hangUps: number): number => Math.ceil(hangUps / TOGETHER);

/** One host, from its start to its end. */
export async function soak(host: SoakHost, plan: Plan): Promise<Soaked> {
  await using subject = new Subject(host);
  await subject.open();
  if (plan.timed > 0) await subject.assertSameClock();
  const run = new Run(subject);
  await run.complete(plan.warmUp.completions);
  await run.hangUp(roundsOf(plan.warmUp.hangUps), round);
  const before = await subject.atRest();

  await run.complete(plan.completions);
  const delaysMs = await run.hangUp(roundsOf(plan.hangUps), round);
  const timed: HangUps = { together: TOGETHER_TIMED, policy: "cancels", moments: CUTTING };
  const timedMs = await run.hangUp(Math.ceil(plan.timed / TOGETHER_TIMED), () => timed);
  const after = await subject.atRest(before);

  const { completions, hangUps, units, falseAborts } = run;
  const closedAtOnce = await subject.close();
  return { completions, hangUps, units, falseAborts, before, after, delaysMs, timedMs, closedAtOnce };
}

/** How long a round of hang-ups may take before it is given up, in milliseconds: to end what is stuck, not to measure. */
const PATIENCE_MS = 300_000;

async function inTime(round: Promise<HungUp>, { policy, moments }: HangUps): Promise<HungUp> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`A signal that must fire has not, where a hang-up ${policy}, ${moments.join(" or ")}.`)),
    PATIENCE_MS,
  );
  return Promise.race([round, late]).finally(() => clearTimeout(timer));
}

/** What has been asked of a host so far. The calls of the warm-up count: they must be as right as all others. */
export class Run {
  readonly #subject: Subject;
  readonly #mayFire = new Set<number>();
  #calls = 0;
  completions = 0;
  hangUps = 0;
  units = 0;

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  get falseAborts(): readonly number[] {
    return [...this.#subject.fired.keys()].filter((id) => !this.#mayFire.has(id));
  }

  async complete(calls: number): Promise<void> {
    const first = this.#next(calls);
    const units = await complete(this.#subject, first, first + calls);
    this.units += units;
    this.completions += calls;
  }

  /** The id of a call that will be cut short. */
  nextToCut(): number {
    const id = this.#next(1);
    this.#mayFire.add(id);
    return id;
  }

  #next(calls: number): number {
    this.#calls += calls;
    return this.#calls - calls;
  }

  /** Rounds of hang-ups; how long each signal took. */
  async hangUp(rounds: number, roundOf: (number: number) => HangUps): Promise<readonly number[]> {
    const delaysMs: number[] = [];
    for (let number = 0; number < rounds; number++) {
      const hangUps = roundOf(number);
      const hungUp = await inTime(hangUp(this.#subject, this.#next(hangUps.together), hangUps), hangUps);
      this.hangUps += hangUps.together;
      this.units += hungUp.units;
      for (const id of hungUp.mayFire) this.#mayFire.add(id);
      if (hangUps.policy === "cancels") delaysMs.push(...hungUp.delaysMs);
    }
    return delaysMs;
  }
}
