/** The laws of processes that borrow: they compare what callers were told with the ledger of the store. */

import type { Balance, Outcome } from "../../../../src/index.ts";
import type { Breaches } from "../laws.ts";
import type { KeyPlan, StoreName } from "../plan.ts";
import type { Process } from "../process.ts";
import type { Audit } from "../store.ts";
import type { Timeline } from "../timeline.ts";
import type { BorrowingPlan, CallPlan } from "./plan.ts";

/**
 * The longest time for the messages of a call in a calm world, beside the wait for other processes, in milliseconds. In SQLite, all
 * transactions of a world wait for one another.
 */
const LATENCY_MS: Readonly<Record<StoreName, number>> = { memory: 700, sqlite: 1_500, redis: 1_500 };

/** The fastest clock of a process. */
export const FASTEST = 1.04;

export class BorrowingCall {
  readonly id: string;
  readonly key: KeyPlan;
  readonly plan: CallPlan;
  process: Process | undefined = undefined;
  /** The state, as the caller was told. A failed reservation is settled with 0 units. */
  state: "planned" | "pending" | "refused" | "failed" | "live" | "settling" | "settled" = "planned";
  granted = 0;
  /** Surely, no clock ends the lease before this moment. */
  leasedUntil: number = Number.NEGATIVE_INFINITY;
  /** The last note that the store has confirmed, and the highest note that the caller has sent. */
  noted = 0;
  sent = 0;
  outcome: Outcome = { used: 0, certainty: "exact" };
  /** True when the settlement was confirmed after the lease, or not at all. */
  isLate = true;
  /** The begin of the reservation, and the fewest units that were free for it since then. */
  beganAt = 0;
  leastFree: number = Number.POSITIVE_INFINITY;

  constructor(id: string, key: KeyPlan, plan: CallPlan) {
    this.id = id;
    this.key = key;
    this.plan = plan;
  }

  /** The units that the call has surely taken from the quota. */
  sureUnits(now: number): number {
    const { state, granted, outcome, leasedUntil, isLate } = this;
    const charged = Math.min(outcome.used, granted);
    switch (state) {
      case "live":
        return now < leasedUntil ? granted : 0;
      case "settling":
        return now < leasedUntil ? charged : 0;
      case "settled":
        return isLate ? 0 : charged;
      case "planned":
      case "pending":
      case "refused":
      case "failed":
        return 0;
    }
  }

  /** The most units that the call may take from the quota. */
  get mostUnits(): number {
    const { state, plan, granted, outcome } = this;
    switch (state) {
      case "planned":
      case "refused":
        return 0;
      case "pending":
      case "failed":
        return plan.atMost;
      case "live":
        return granted;
      case "settling":
        return Math.max(granted, outcome.used);
      case "settled":
        return outcome.used;
    }
  }

  /** The bounds of the charge at the end of the world. */
  get bounds(): { least: number; most: number; leastEstimated: number; mostEstimated: number } {
    const { state, outcome, noted, sent, process } = this;
    const { used, certainty, estimated = used } = outcome;
    const byEstimate = certainty === "estimated" ? estimated : 0;
    // The blocks of a process that has ended are charged by their notes, as estimates.
    if (state === "settled")
      return { least: used, most: used, leastEstimated: byEstimate, mostEstimated: process?.alive ? byEstimate : used };
    const isTold = state === "settling";
    const most = Math.max(sent, isTold ? used : 0);
    // A call that has lost its lease is between two holds for a moment. Its notes may die with it.
    const isNoted = (process?.endedAt ?? 0) < this.leasedUntil;
    const least = isNoted ? Math.min(noted, isTold ? used : noted) : 0;
    return { least, most, leastEstimated: 0, mostEstimated: most };
  }
}

export class BorrowingLaws {
  readonly #plan: BorrowingPlan;
  readonly #breaches: Breaches;
  readonly #timeline: Timeline;
  readonly #recallWaitMs: number;
  /** The calls of each key since their begin. */
  readonly #calls = new Map<string, BorrowingCall[]>();

  constructor(plan: BorrowingPlan, breaches: Breaches, timeline: Timeline, recallWaitMs: number) {
    this.#plan = plan;
    this.#breaches = breaches;
    this.#timeline = timeline;
    this.#recallWaitMs = recallWaitMs;
  }

  callsOf(keyId: string): readonly BorrowingCall[] {
    return this.#calls.get(keyId) ?? [];
  }

  began(call: BorrowingCall, process: Process): void {
    call.process = process;
    call.state = "pending";
    call.beganAt = this.#timeline.now;
    const calls = this.#calls.get(call.key.id) ?? [];
    this.#calls.set(call.key.id, calls);
    calls.push(call);
    this.#moved(call.key);
  }

  /** Notes what is free for the reservations that wait. */
  #moved({ id, granted }: KeyPlan): void {
    if (granted === undefined || !this.#plan.isCalm) return;
    const calls = this.callsOf(id);
    const taken = calls.reduce((sum, call) => sum + call.mostUnits, 0);
    for (const call of calls)
      if (call.state === "pending") call.leastFree = Math.min(call.leastFree, granted - taken + call.mostUnits);
  }

  granted(call: BorrowingCall, units: number): void {
    const { plan, key, id } = call;
    const { now } = this.#timeline;
    call.state = "live";
    call.granted = units;
    call.leasedUntil = call.beganAt + plan.leaseMs / FASTEST;
    this.#breaches.check(
      units >= plan.atLeast && units <= plan.atMost,
      "a store does what the pipeline asks of it",
      () => `${id}: ${units} units for ${plan.atLeast} to ${plan.atMost}`,
    );
    this.#inTime(call);
    if (key.granted === undefined) return;
    const sum = this.callsOf(key.id).reduce((total, each) => total + each.sureUnits(now), 0);
    const quota = key.granted;
    this.#breaches.check(sum <= quota, "together, processes hand out no more than the quota", () => {
      const taken = this.callsOf(key.id).filter((each) => each.sureUnits(now) > 0);
      const list = taken.map((each) => `${each.id} (${each.state}) ${each.sureUnits(now)}`).join(", ");
      return `${key.id}: ${sum} of ${quota} with ${id}: ${list}`;
    });
  }

  refused(call: BorrowingCall): void {
    const { key, plan, id, leastFree, beganAt } = call;
    call.state = "refused";
    const isUnlimited = key.granted === undefined && key.budget === undefined;
    // A doubled reservation is refused when it comes after the lease of the first.
    const isAfterLease = this.#timeline.now >= beganAt + plan.leaseMs;
    this.#breaches.check(
      (!isUnlimited || isAfterLease) && (!this.#plan.isCalm || key.granted === undefined || leastFree < plan.atLeast),
      "a call that fits into what is free is admitted in time",
      () => `${id} of ${key.id}: ${plan.atLeast} of ${leastFree} free units are refused`,
    );
    this.#inTime(call);
  }

  #inTime({ beganAt, id }: BorrowingCall): void {
    const tookMs = this.#timeline.now - beganAt;
    this.#breaches.check(
      !this.#plan.isCalm || tookMs <= this.#recallWaitMs * FASTEST + LATENCY_MS[this.#plan.store],
      "a call that fits into what is free is admitted in time",
      () => `${id}: the answer took ${tookMs} ms`,
    );
  }

  failed(call: BorrowingCall): void {
    const { isCalm } = this.#plan;
    call.state = "failed";
    this.#breaches.check(
      !isCalm,
      "a call that fits into what is free is admitted in time",
      () => `${call.id}: no answer`,
    );
  }

  renewed(call: BorrowingCall, sentAt: number, used: number): void {
    // A renewal of a lease that is over changes nothing.
    if (call.state !== "live" || this.#timeline.now >= call.leasedUntil) return;
    call.noted = used;
    call.leasedUntil = Math.max(call.leasedUntil, sentAt + call.plan.leaseMs / FASTEST);
  }

  settling(call: BorrowingCall, outcome: Outcome): void {
    if (call.state === "failed") return;
    call.state = "settling";
    call.outcome = outcome;
    this.#moved(call.key);
  }

  settled(call: BorrowingCall): void {
    if (call.state !== "settling") return;
    call.isLate = this.#timeline.now >= call.leasedUntil;
    call.state = "settled";
    this.#moved(call.key);
  }

  /** The clock of a process has jumped: its leases may be over. */
  jumped(process: Process): void {
    for (const calls of this.#calls.values())
      for (const call of calls)
        if (call.process === process && call.state !== "settled") call.leasedUntil = this.#timeline.now;
  }

  /** Returns the units that the calls of a key have surely taken, to compare with a balance later. */
  taken({ id }: KeyPlan): () => number {
    const { now } = this.#timeline;
    const units = this.callsOf(id).map((call) => ({ call, units: call.sureUnits(now) }));
    return () => units.reduce((sum, { call, units }) => sum + Math.min(units, call.sureUnits(this.#timeline.now)), 0);
  }

  balanced({ id, granted }: KeyPlan, { used, available, held }: Balance, taken: () => number): void {
    this.#breaches.check(
      Math.min(available, held) >= 0 && held <= used && (granted === undefined || used + available === granted),
      "a balance is within its bound",
      () => `${id}: ${JSON.stringify({ used, available, held })} of ${granted}`,
    );
    this.#breaches.check(
      granted === undefined || available <= granted - taken(),
      "a balance is within its bound",
      () => `${id}: ${available} of ${granted} are available after ${taken()}`,
    );
  }

  /** Checks the charges of a key after the end of all leases. */
  atRest(key: KeyPlan, { charged, overdraft, estimated }: Audit): void {
    const sums = { least: 0, most: 0, leastEstimated: 0, mostEstimated: 0, over: 0 };
    for (const call of this.callsOf(key.id)) {
      const { least, most, leastEstimated, mostEstimated } = call.bounds;
      sums.least += least;
      sums.most += most;
      sums.leastEstimated += leastEstimated;
      sums.mostEstimated += mostEstimated;
      sums.over += call.isLate ? most : Math.max(0, most - call.granted);
    }
    const consumed = charged + overdraft;
    const of = () => `${key.id}: ${JSON.stringify({ charged, overdraft, estimated, ...sums })}`;
    this.#breaches.check(
      consumed >= sums.least && consumed <= sums.most,
      "a confirmed charge is in the ledger once, and another at most once",
      of,
    );
    this.#breaches.check(
      estimated + overdraft >= sums.leastEstimated && estimated <= sums.mostEstimated,
      "a confirmed estimate is counted as one, and nothing else of it",
      of,
    );
    this.#breaches.check(
      overdraft <= sums.over || key.budget !== undefined,
      "overdraft comes from calls that use more than they hold, or settle late",
      of,
    );
  }
}
