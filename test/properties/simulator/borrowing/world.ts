/** A world of processes that borrow from one store, from a seed until everything is at rest. */

import {
  type BorrowingQuotaStore,
  borrowingQuotaStore,
  type BorrowingQuotaStoreOptions,
  type QuotaRecalls,
  type QuotaStore,
} from "../../../../src/index.ts";
import type { Law, Violation } from "../laws.ts";
import { LONGEST_DELAY_MS, type StoreName } from "../plan.ts";
import { Process } from "../process.ts";
import type { SimulatedStore } from "../store.ts";
import { quiescence } from "../timeline.ts";
import { type WorldParts, worldPartsOf } from "../world-parts.ts";
import { type Ended, STORES } from "../world.ts";
import { Caller, PATIENCE_MS } from "./caller.ts";
import { BorrowingCall, BorrowingLaws, FASTEST } from "./laws.ts";
import { BorrowingLink, Holders } from "./link.ts";
import { type BorrowingPlan, borrowingPlanOf, type CallPlan, callPlanOf } from "./plan.ts";

type Shared = QuotaStore & QuotaRecalls;

/** A deliberate fault of a borrowing store, as a change to what it asks the shared store for, or to what it answers. */
export interface BorrowingMutant {
  /** The fault, as a part of a test's name. */
  readonly fault: string;
  /** The laws that may notice the fault first. */
  readonly breaks: readonly Law[];
  /** The world in which the search begins, because the worlds before it show nothing. Default: 1. */
  readonly seed?: number;
  readonly options?: BorrowingQuotaStoreOptions;
  readonly below?: (shared: Shared) => Partial<Shared>;
  readonly above?: (store: BorrowingQuotaStore, shared: Shared) => Partial<BorrowingQuotaStore>;
}

export interface BorrowingWorldOptions {
  readonly seed: number;
  /** Replaces the seed's choice. */
  readonly store?: StoreName | undefined;
  readonly plan?: Partial<BorrowingPlan>;
  readonly mutant?: BorrowingMutant | undefined;
  /** Receives each step as a line of text. */
  readonly trace?: (line: string) => void;
}

const RECALL_WAIT_MS = 500;
const KEY_CACHE_MS = 1_000;
/** The time for messages to arrive, also over a queue, in milliseconds. */
const SHORT_MS = 200;
/** The time after which all leases are over, and all settlements were tried again, in milliseconds. */
const REST_MS = 90_000 + 2 * LONGEST_DELAY_MS;

/** Runs a world to its end, or to the first violation of a law. */
export async function runBorrowingWorld(options: BorrowingWorldOptions): Promise<Ended> {
  const { seed, store, plan, mutant, trace } = options;
  const planned = { ...borrowingPlanOf(seed, store), ...plan };
  const parts = worldPartsOf(
    seed,
    planned,
    undefined,
    trace && ((line, { steps, now }) => trace(`${String(steps).padStart(7)} ${now} ${line}`)),
  );
  const world = new BorrowingWorld(parts, planned, await STORES[planned.store](parts), mutant);
  return { seed, figures: parts.figures, violation: await world.run() };
}

class Member {
  readonly process: Process;
  readonly store: BorrowingQuotaStore;
  readonly caller: Caller;

  constructor(process: Process, store: BorrowingQuotaStore, caller: Caller) {
    this.process = process;
    this.store = store;
    this.caller = caller;
  }
}

class BorrowingWorld {
  readonly #parts: WorldParts;
  readonly #plan: BorrowingPlan;
  readonly #store: SimulatedStore;
  readonly #mutant: BorrowingMutant | undefined;
  readonly #laws: BorrowingLaws;
  readonly #holders: Holders;
  readonly #members: Member[] = [];
  readonly #calls: BorrowingCall[] = [];
  #isChaotic: boolean;
  #born = 0;

  constructor(parts: WorldParts, plan: BorrowingPlan, store: SimulatedStore, mutant: BorrowingMutant | undefined) {
    this.#parts = parts;
    this.#plan = plan;
    this.#store = store;
    this.#mutant = mutant;
    this.#laws = new BorrowingLaws(plan, parts.breaches, parts.timeline, RECALL_WAIT_MS);
    this.#holders = new Holders(parts.figures);
    this.#isChaotic = !plan.isCalm;
  }

  async run(): Promise<Violation | undefined> {
    const { timeline, breaches, figures } = this.#parts;
    try {
      for (let index = 0; index < this.#plan.processes; index++) this.#start();
      this.#planCalls();
      await this.#for(this.#plan.spanMs);
      this.#heal();
      await this.#for(REST_MS);
      await this.#checkIdle();
      for (const { id, granted } of this.#plan.keys) if (granted !== undefined) await this.#probe(id);
      await this.#end();
    } catch (error) {
      if (error !== breaches.first) throw error;
    } finally {
      await this.#store.close();
    }
    figures.steps = timeline.steps;
    return breaches.first;
  }

  /** Lets time pass, after all that is under way at this moment. */
  async #for(ms: number): Promise<void> {
    const { timeline, breaches } = this.#parts;
    await quiescence();
    return timeline.runUntil(timeline.now + ms, () => {
      if (breaches.first) throw breaches.first;
    });
  }

  get #alive(): Member[] {
    return this.#members.filter(({ process }) => process.alive && !process.closing);
  }

  #callOf(keyId: string, plan: CallPlan): BorrowingCall {
    const key = this.#plan.keys.find(({ id }) => id === keyId) ?? this.#plan.hot;
    const call = new BorrowingCall(`call-${this.#calls.length + 1}`, key, plan);
    this.#holders.add(call.id, key.id);
    this.#calls.push(call);
    return call;
  }

  #planCalls(): void {
    const { random, timeline } = this.#parts;
    const { lives, spanMs, keys, hot, revokes } = this.#plan;
    for (let index = 0; index < lives; index++) {
      const { id } = random.chance(0.6) ? hot : random.pick(keys);
      const call = this.#callOf(id, callPlanOf(random, this.#plan));
      timeline.after(random.int(0, spanMs), () => this.#begin(call));
    }
    if (revokes) timeline.after(random.int(0, spanMs), () => this.#revoke());
  }

  /** Plays a call in one of the processes, or waits until there is one. */
  #begin(call: BorrowingCall): void {
    const { random, timeline, trace, figures } = this.#parts;
    const [first, ...others] = this.#alive;
    if (!first) return void timeline.after(500, () => this.#begin(call));
    const { process, caller } = random.pick([first, ...others]);
    figures.lives++;
    process.whenAwake(() => {
      trace(() => `${process.name} plays ${call.id} of ${call.key.id}: ${JSON.stringify(call.plan)}`);
      void caller.play(call).then((isAdmitted) => {
        trace(() => `${call.id} ends as ${call.state}`);
        if (isAdmitted) figures.completed++;
        else figures[call.state === "refused" ? "refused" : "failed"]++;
        if (!this.#holders.of(call.id).isReserved && isAdmitted) figures["calls in blocks"]++;
      });
    });
  }

  #start(): void {
    const { random, timeline, figures, trace } = this.#parts;
    const plan = this.#plan;
    const name = `process-${++this.#born}`;
    const mayCrash = this.#isChaotic && random.chance(plan.crash);
    const process: Process = new Process(name, timeline, {
      skewMs: random.int(-20_000, 20_000),
      rate: 0.96 + random.next() * 0.08,
      crash: mayCrash ? { atEffect: random.int(1, 500), after: random.chance(0.5) } : undefined,
      died: () => {
        trace(() => `${name} dies`);
        figures["processes that crashed"]++;
        this.#store.died(process);
        timeline.after(random.int(0, 3_000), () => this.#start());
      },
    });
    const link = new BorrowingLink(this.#parts, this.#holders, this.#store, process);
    const shared: Shared = Object.assign(Object.create(link) as Shared, link, this.#mutant?.below?.(link));
    const borrowing = borrowingQuotaStore(shared, {
      windowMs: plan.windowMs,
      minCalls: plan.minCalls,
      recallWaitMs: RECALL_WAIT_MS,
      keyCacheMs: KEY_CACHE_MS,
      clock: process.clock,
      ...this.#mutant?.options,
    });
    const faults = this.#mutant?.above?.(borrowing, link);
    const store = faults ? { ...verbsOf(borrowing), ...faults } : borrowing;
    const member = new Member(process, store, new Caller(process, store, this.#laws, () => timeline.now));
    this.#members.push(member);
    trace(() => `${name} starts`);
    if (this.#isChaotic) this.#disturb(member);
  }

  /** Plans the pauses of a process, its partitions, the jumps of its clock, and its close. */
  #disturb(member: Member): void {
    const { random, figures, trace } = this.#parts;
    const { pause, cut, jump, close, spanMs } = this.#plan;
    const { process } = member;
    const once = (chance: number, run: () => void): void => {
      if (random.chance(chance)) process.later(random.int(0, spanMs), () => void (this.#isChaotic && run()));
    };
    once(pause, () => {
      const ms = random.pick([300, 3_000, 15_000]);
      trace(() => `${process.name} stands still for ${ms} ms`);
      figures["processes that paused"]++;
      process.pause(ms);
    });
    once(cut, () => {
      const directions = random.pick([
        { out: true, in: true },
        { out: true, in: false },
        { out: false, in: true },
      ]);
      trace(() => `${process.name} is cut off: ${JSON.stringify(directions)}`);
      figures.partitions++;
      process.cut = { ...directions, isTold: random.chance(0.5) };
      process.later(random.pick([300, 3_000, 15_000]), () => void (process.cut = undefined));
    });
    once(jump, () => {
      const ms = random.int(1, 20_000);
      trace(() => `the clock of ${process.name} jumps by ${ms} ms`);
      process.skewMs += ms;
      this.#laws.jumped(process);
    });
    once(close, () => void this.#close(member));
  }

  /** Closes a process as a host does: it ends after its calls, and another replaces it. */
  async #close({ process, store, caller }: Member): Promise<void> {
    const { figures, trace } = this.#parts;
    trace(() => `${process.name} closes`);
    figures["processes that closed"]++;
    process.closing = true;
    this.#start();
    for (let waits = 0; caller.calls > 0 && waits < 40; waits++)
      await new Promise<void>((resolve) => void process.later(500, () => resolve()));
    await store.close({ deadlineMs: 1_500 });
    if (!process.alive) return;
    process.alive = false;
    process.endedAt = this.#parts.timeline.now;
    this.#store.died(process);
    trace(() => `${process.name} ends`);
  }

  /** Revokes a key. When the time of the caches is over, no process may know its secret. */
  #revoke(): void {
    const { random, timeline, trace, breaches } = this.#parts;
    const { id, apiKey } = random.pick(this.#plan.keys);
    const secret = apiKey.replace(/^sk-/, "");
    for (const { store } of this.#alive) store.find(secret).catch(() => {});
    timeline.after(random.int(0, KEY_CACHE_MS), async () => {
      trace(() => `the host revokes ${id}`);
      await this.#store.revoke?.(id);
      timeline.after(Math.ceil(KEY_CACHE_MS * (FASTEST + 0.01)), () => {
        for (const { process, store } of this.#alive)
          process.whenAwake(() => {
            store.find(secret).then(
              (key) =>
                breaches.check(key === undefined, "a revoked key is forgotten in time", () => `${process.name}: ${id}`),
              () => {},
            );
          });
      });
    });
  }

  /** Ends all disturbances. */
  #heal(): void {
    this.#parts.trace(() => "all is well from now on");
    this.#isChaotic = false;
    for (const { process } of this.#members) process.heal();
    Object.assign(this.#plan, { rates: { drop: 0, duplicate: 0, delay: 0, fail: 0 } });
  }

  async #checkIdle(): Promise<void> {
    const { breaches } = this.#parts;
    for (const { process, caller } of this.#members)
      breaches.check(
        !process.alive || caller.calls === 0,
        "a settlement is confirmed once the store answers",
        () => `${caller.calls} calls of ${process.name}`,
      );
    await this.#sweep();
    for (const { keyId, held } of await this.#store.audits())
      breaches.check(held === 0, "what is idle returns to the store", () => `${keyId} holds ${held}`);
    if (breaches.first) throw breaches.first;
  }

  /** Lets all processes borrow from a key, and one of them ask for all that is left. */
  async #probe(keyId: string): Promise<void> {
    const { random, breaches, trace, plan } = this.#parts;
    while (this.#alive.length < 2) this.#start();
    const { granted = 0, charged = 0 } = (await this.#store.audits()).find((audit) => audit.keyId === keyId) ?? {};
    const free = granted - charged;
    if (free < 1) return;
    const tiny: CallPlan = {
      atLeast: 0,
      atMost: Math.min(free, 5),
      leaseMs: 1_500,
      holdMs: 0,
      renews: true,
      share: 0,
      estimatedShare: 0,
      settlesTwice: false,
      asksBalance: false,
    };
    const members = this.#alive;
    for (const { caller } of members)
      for (let calls = 0; calls < this.#plan.minCalls + 2; calls++) void caller.play(this.#callOf(keyId, tiny));
    const isBusy = (): boolean => members.some(({ caller }) => caller.calls > 0);
    for (let waits = 0; isBusy() && waits < 20; waits++) await this.#for(SHORT_MS / 2);
    trace(() => `${free} of ${keyId} are free: ${members.map(({ store }) => store.borrowed(keyId).free).join(", ")}`);
    for (const { process, store } of members) {
      const others = members.filter((other) => other.store !== store);
      const lentNow = (): number => others.reduce((sum, other) => sum + other.store.borrowed(keyId).free, 0);
      const [before, own] = [lentNow(), store.borrowed(keyId)];
      void store.balance(keyId).then((balance) => {
        const { available } = balance ?? { available: Number.NaN };
        // The units of a block count as used from its end until they are back. In SQLite, they wait for other transactions.
        const isSame = plan.store === "memory" && store.borrowed(keyId).units === own.units;
        const lent = Math.max(before, lentNow()) + (isSame ? 0 : own.units);
        breaches.check(
          available <= free && available >= free - lent,
          "a balance is within its bound",
          () => `${process.name}: ${available} of ${free}, of which others have ${lent}`,
        );
      });
    }
    await this.#for(random.int(SHORT_MS, 4 * SHORT_MS));
    const asking = random.pick(members as [Member, ...Member[]]);
    const all = this.#callOf(keyId, { ...tiny, atLeast: free, atMost: free, leaseMs: 6_000, holdMs: 3_000, share: 1 });
    void asking.caller.play(all);
    await this.#for(RECALL_WAIT_MS * FASTEST + 3 * SHORT_MS);
    breaches.check(
      all.state === "live",
      "a call that fits into what is free is admitted in time",
      () => `${all.id} of ${keyId} asks for all ${free} units and is ${all.state}`,
    );
    const more = this.#callOf(keyId, { ...tiny, atLeast: 1, atMost: 1 });
    void random.pick(members as [Member, ...Member[]]).caller.play(more);
    await this.#for(random.pick([0, 20_000]) + 2 * PATIENCE_MS);
    breaches.check(
      more.state !== "live" && more.state !== "settled",
      "together, processes hand out no more than the quota",
      () => `${more.id} of ${keyId} is ${more.state}`,
    );
    breaches.check(
      more.state === "refused",
      "a call that fits into what is free is admitted in time",
      () => `${more.id} of ${keyId} is ${more.state}, and nothing is free`,
    );
    if (breaches.first) throw breaches.first;
  }

  /** Closes all processes, and checks the ledgers. */
  async #end(): Promise<void> {
    const { timeline, breaches, ledgerLaws, plan, figures } = this.#parts;
    for (const { store, process } of this.#members) if (process.alive) void store.close();
    await this.#for(REST_MS);
    await this.#sweep();
    ledgerLaws.atRest(await this.#store.audits(), timeline.now, await this.#store.budgets());
    for (const audit of await this.#store.audits()) {
      const key = plan.keys.find(({ id }) => id === audit.keyId);
      if (key) this.#laws.atRest(key, audit);
    }
    for (const problem of (await this.#store.verify()) ?? []) breaches.broken("the journal adds up", problem);
    figures[`worlds in ${plan.store}`]++;
  }

  async #sweep(): Promise<void> {
    const { timeline } = this.#parts;
    const janitor = new Process("janitor", timeline, { skewMs: 0, reliable: true });
    timeline.after(0, () => void this.#store.carryOut({ message: { verb: "sweep" } }, janitor));
    await this.#for(1_000);
  }
}

/** The verbs of a borrowing store, as an object that a fault can change. */
const verbsOf = (store: BorrowingQuotaStore): BorrowingQuotaStore => ({
  find: (apiKey, call) => store.find(apiKey, call),
  balance: (keyId, call) => store.balance(keyId, call),
  reserve: (hold, call) => store.reserve(hold, call),
  renew: (id, renewal, call) => store.renew(id, renewal, call),
  settle: (id, outcome, call) => store.settle(id, outcome, call),
  borrowed: (keyId) => store.borrowed(keyId),
  close: (options) => store.close(options),
});
