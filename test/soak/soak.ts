/** The soak of one host: many calls that end, many clients that hang up, and the counts that both must leave at zero. */

import { POLICIES, type Policy } from "./calls.ts";
import { complete, type Connection, hangUp, type HangUps, type HungUp, type Moment, turn } from "./clients.ts";
import { handlesIn, type Rest, type SoakHost, Subject, TOLERANCE_BYTES } from "./subject.ts";

export interface Plan {
  /** Calls before the first count, which load and compile all code and fill all caches. */
  readonly warmUp: { readonly completions: number; readonly hangUps: number };
  readonly completions: number;
  readonly hangUps: number;
  /** Hang-ups a few at a time, which measure the time until each signal fires. */
  readonly timed: number;
}

export interface Soaked {
  readonly completions: number;
  readonly hangUps: number;
  /** Calls whose signal fired although no client hung up. */
  readonly falseAborts: readonly number[];
  /** The units to charge for the calls that ended. */
  readonly units: number;
  readonly before: Rest;
  readonly after: Rest;
  /** The times from hang-ups to their signals, in milliseconds: of many in the same turn, and of the timed hang-ups. */
  readonly delaysMs: readonly number[];
  readonly timedMs: readonly number[];
  /** For each gateway, true when it had no call to wait for as it closed. */
  readonly closedAtOnce: readonly boolean[];
}

const TOGETHER = 90;
const TOGETHER_TIMED = 10;

const KNOWN: readonly Moment[] = ["before the first", "in the middle", "after the last"];
const RACING: readonly Moment[] = ["while asking", "at once"];
const CUTTING: readonly Moment[] = ["before the first", "in the middle"];

/** Returns the hang-ups of a round: the policies in turn, and in every fourth round clients that leave before their answers. */
export const round = (number: number): HangUps => ({
  together: TOGETHER,
  policy: POLICIES[number % POLICIES.length] as Policy,
  moments: number % 4 === 3 ? RACING : KNOWN,
});

const roundsOf = (hangUps: number): number => Math.ceil(hangUps / TOGETHER);

/** Soaks a host from its start to its end. */
export async function soak(host: SoakHost, plan: Plan): Promise<Soaked> {
  await using subject = new Subject(host);
  await subject.open();
  if (plan.timed > 0) await subject.assertSameClock();
  const traffic = new Traffic(subject);
  await traffic.complete(plan.warmUp.completions);
  await traffic.hangUp(roundsOf(plan.warmUp.hangUps), round);
  const before = await subject.atRest();

  await traffic.complete(plan.completions);
  const delaysMs = await traffic.hangUp(roundsOf(plan.hangUps), round);
  const timed: HangUps = { together: TOGETHER_TIMED, policy: "cancels", moments: CUTTING };
  const timedMs = await traffic.hangUp(Math.ceil(plan.timed / TOGETHER_TIMED), () => timed);
  const after = await subject.atRest(before);

  const { completions, hangUps, units, falseAborts } = traffic;
  const closedAtOnce = await subject.close();
  return { completions, hangUps, units, falseAborts, before, after, delaysMs, timedMs, closedAtOnce };
}

/** The most time for a round of hang-ups, in milliseconds. Ends a stuck run, and measures nothing. */
const PATIENCE_MS = 300_000;

async function inTime(round: Promise<HungUp>, { policy, moments }: HangUps): Promise<HungUp> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () =>
      reject(new Error(`An expected signal has not fired, after a hang-up that ${policy}, ${moments.join(" or ")}.`)),
    PATIENCE_MS,
  );
  return Promise.race([round, late]).finally(() => clearTimeout(timer));
}

/** The calls made to a host so far. The calls of the warm-up count too: they must be as right as all others. */
export class Traffic {
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

  /** Takes a turn over a WebSocket. */
  async turn(connection: Connection): Promise<void> {
    await turn(connection, this.#next(1));
    this.completions++;
  }

  /** Returns the id of a call that will be cut short. */
  nextToCut(): number {
    const id = this.#next(1);
    this.#mayFire.add(id);
    return id;
  }

  #next(calls: number): number {
    this.#calls += calls;
    return this.#calls - calls;
  }

  /** Makes rounds of hang-ups. Returns the time that each signal took, in milliseconds. */
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

/** The counts that must all be zero. */
export interface Left {
  /** Calls whose signal fired although no client hung up. */
  readonly falseAborts: number;
  readonly liveHolds: number;
  /** The difference between charge and usage of the calls that ended, and the part of the charge that is an estimate. */
  readonly chargedAmiss: number;
  readonly chargedByEstimate: number;
  readonly runningBackends: number;
  readonly timers: number;
  readonly moreHandles: number;
  readonly moreFiles: number;
  /** Growth of the heap in whole MiB, beyond the tolerance between two collections. */
  readonly moreMib: number;
  /** Calls of `onFailure`. */
  readonly failures: number;
  /** Gateways that had calls to wait for as they closed. */
  readonly openGateways: number;
}

const MIB = 2 ** 20;

export function leftOf({ falseAborts, units, before, after, closedAtOnce }: Soaked): Left {
  const { ended } = after.ledgers;
  return {
    falseAborts: falseAborts.length,
    liveHolds: liveHoldsIn(after),
    chargedAmiss: Math.abs((ended?.used ?? 0) - units),
    chargedByEstimate: ended?.estimated ?? 0,
    runningBackends: after.running,
    timers: after.timers,
    moreHandles: more(handlesIn(before), handlesIn(after)),
    moreFiles: more(before.files, after.files),
    moreMib: moreMib(before.heapBytes, after.heapBytes),
    failures: after.failures.length,
    openGateways: closedAtOnce.filter((atOnce) => !atOnce).length,
  };
}

/** Returns the growth of memory in whole MiB, beyond the tolerance. */
export const moreMib = (beforeBytes: number, afterBytes: number): number =>
  Math.floor(more(beforeBytes + TOLERANCE_BYTES, afterBytes) / MIB);

const more = (before = 0, after = 0): number => Math.max(0, after - before);

const liveHoldsIn = ({ ledgers }: Rest): number =>
  Object.values(ledgers).reduce((sum, ledger) => sum + (ledger?.liveHolds ?? 0), 0);
