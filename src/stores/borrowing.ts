/** A quota store before a shared one: each process borrows blocks of a busy key's units, and serves calls from memory. */

import { assertMethods, assertOptions, CLOCK, closeOptionsOf, MAX_TIMER_MS } from "../options.ts";
import type { CallInfo } from "../ports/call-info.ts";
import { type Cancel, type Clock, steadyClock } from "../ports/clock.ts";
import {
  type ApiKey,
  type Balance,
  databaseOf,
  type HoldRequest,
  noteDatabase,
  type Outcome,
  type QuotaRecalls,
  type QuotaStore,
  type Refusal,
  type Renewal,
  type Reservation,
} from "../ports/quota-store.ts";
import { Block, BusyKey, type LocalCall } from "./blocks.ts";
import {
  assertHoldAmounts,
  assertOutcome,
  assertRenewal,
  estimatedOf,
  foreignHold,
  hashApiKey,
  MOST_UNLIMITED,
  noteHold,
  resolveHold,
  TwoGenerationMap,
  UNKNOWN_KEY,
} from "./ledger.ts";

/** Options of a borrowing store. All times are integers in milliseconds. */
export interface BorrowingQuotaStoreOptions {
  /** The time for which a block lends units to calls, and in which the use of a key is measured: from 1 up, default 2,000. */
  readonly windowMs?: number;
  /**
   * The calls of a key in this process from which on the process borrows: an integer from 0 up, default 20. They are counted over one to
   * two windows. The store serves the calls of other keys.
   */
  readonly minCalls?: number;
  /** The interval at which a process that has borrowed units asks the store for recalls: from 1 up, default 250. */
  readonly recallMs?: number;
  /** The longest wait of a call for units that other processes give back: from 0 up, default 500. */
  readonly recallWaitMs?: number;
  /** The time for which `find` remembers a key: from 0 up, default 1,000. A revoked key or secret stays valid for this time. */
  readonly keyCacheMs?: number;
  /** Default: a clock that never steps back, and that counts the time while the machine sleeps. */
  readonly clock?: Clock;
}

/** The units of a key that this process has borrowed. */
export interface BorrowedUnits {
  /** The number of blocks. Each block is a hold in the store. */
  readonly blocks: number;
  /** The units that the blocks hold in the store: the sum of `held`, `charged` and `free`. */
  readonly units: number;
  /** Units of live calls. */
  readonly held: number;
  /** Units of settled and expired calls, which the store charges when the block ends. */
  readonly charged: number;
  readonly free: number;
  /** Units that calls have used beyond their blocks. The store charges them when the block ends, as far as units are available. */
  readonly overdraft: number;
  /** Units of `charged` that rest on estimates. */
  readonly estimated: number;
}

/** A quota store that borrows units from another. The host keeps the other store, to manage keys and budgets. */
export interface BorrowingQuotaStore<Context = unknown> extends QuotaStore<Context> {
  /** Returns what this process has borrowed of a key. */
  borrowed(keyId: string): BorrowedUnits;
  /**
   * Gives all free units back; the store then serves new calls. Resolves after at most `deadlineMs` milliseconds (default 5,000). Units
   * that could not be given back return when their leases end. Running calls are settled as before. Call it after `gateway.close`.
   */
  close(options?: { readonly deadlineMs?: number }): Promise<void>;
}

/**
 * Makes a quota store that borrows units of busy keys from a shared store, so that a call of such a key costs no write of its own. What
 * `settle` has confirmed is noted in the shared store. The quota is never overspent.
 *
 * @example
 * const quotas = borrowingQuotaStore(sqlQuotaStore({ db, dialect: "postgres" }));
 */
export function borrowingQuotaStore<Context = unknown>(
  store: QuotaStore<Context> & QuotaRecalls,
  options: BorrowingQuotaStoreOptions = {},
): BorrowingQuotaStore<Context> {
  const methods = ["find", "balance", "reserve", "renew", "settle", "recall", "recalled"];
  assertMethods("borrowingQuotaStore", "the first argument", store, methods, "a quota store with recalls");
  assertOptions<BorrowingQuotaStoreOptions>("borrowingQuotaStore", options, {
    windowMs: "positive?",
    minCalls: "fromZero?",
    recallMs: "positive?",
    recallWaitMs: "fromZero?",
    keyCacheMs: "fromZero?",
    clock: CLOCK,
  });
  const { windowMs = 2_000, minCalls = 20, recallMs = 250, recallWaitMs = 500, keyCacheMs = 1_000 } = options;
  const clock = options.clock ?? steadyClock();
  const borrowing = new BorrowingLedger(store, { windowMs, minCalls, recallMs, recallWaitMs, keyCacheMs, clock });
  noteDatabase(borrowing, databaseOf(store));
  return borrowing;
}

/** A lease in the store is longer than the process counts on by this factor, because clocks run at different speeds. */
const DRIFT = 1.05;
/** After a key has run short of units, the store serves the key directly for this time, in milliseconds. */
const DIRECT_MS = 5_000;
/** The age up to which recalls count, in milliseconds: also a process that has borrowed after a recall gives back what it does not use. */
const RECALLED_MS = DIRECT_MS;
/** The pause between two attempts to get units that others give back, in milliseconds. */
const PAUSE_MS = 50;
/** The longest wait for an answer of the store that others wait for, in milliseconds. A connection may lose an answer. */
const ANSWER_MS = 5_000;
/** The lease of an expired call's own hold until its last note is written, in milliseconds. */
const MOVE_MS = 60_000;
/** The most keys, settled calls and calls that the store serves which are remembered, of each. */
const MOST_REMEMBERED = 10_000;
/** The most units of a call, and the longest lease in milliseconds, that a block serves. */
const [MOST_OF_CALL, LONGEST_LEASE_MS] = [2 ** 32, 2 ** 36];

type Settings = Required<BorrowingQuotaStoreOptions>;

/** The block that lends, its free units, and the charged units of all blocks of a key. */
interface Lent {
  readonly block: Block | undefined;
  readonly free: number;
  readonly charged: number;
}

class BorrowingLedger<Context> implements BorrowingQuotaStore<Context> {
  readonly #store: QuotaStore<Context> & QuotaRecalls;
  readonly #settings: Settings;
  readonly #clock: Clock;
  readonly #found = new TwoGenerationMap<{ readonly key: Promise<ApiKey | undefined>; until: number }>(MOST_REMEMBERED);
  readonly #keys = new Map<string, BusyKey>();
  /** The time of the next look for keys that are no longer used. */
  #forgetAt = 0;
  readonly #blocks = new Set<Block>();
  /** The calls in blocks, and those that move, by their ids. */
  readonly #calls = new Map<string, LocalCall>();
  /** The calls that have left their block, and are not in the store yet. */
  readonly #leaving = new Set<LocalCall>();
  readonly #settled = new TwoGenerationMap<LocalCall>(MOST_REMEMBERED / 2);
  /** The ids of calls that the store serves. */
  readonly #served = new TwoGenerationMap<true>(MOST_REMEMBERED);
  /** The reservations that wait for a block, by the calls' ids. */
  readonly #claims = new Map<string, Promise<unknown>>();
  /** No call in a block expires before this time. */
  #nextExpiry = Number.POSITIVE_INFINITY;
  #stopTicking: Cancel | undefined;
  #isPolling = false;
  /** The time of the last question for recalls. */
  #polledAt: number = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(store: QuotaStore<Context> & QuotaRecalls, settings: Settings) {
    this.#store = store;
    this.#settings = settings;
    this.#clock = settings.clock;
  }

  find(apiKey: string, call?: CallInfo<Context>): Promise<ApiKey | undefined> {
    const { keyCacheMs } = this.#settings;
    if (keyCacheMs === 0) return this.#store.find(apiKey, call);
    const [hash, now] = [hashApiKey(apiKey), this.#clock.now()];
    const known = this.#found.get(hash);
    // A clock that was set back must not make a revoked key valid for longer.
    if (known && now < known.until && now >= known.until - keyCacheMs) return known.key;
    const found = { key: this.#store.find(apiKey, call), until: now + keyCacheMs };
    this.#found.add(hash, found);
    const forget = (): void => void (found.until = Number.NEGATIVE_INFINITY);
    found.key.then((key) => key ?? forget(), forget);
    return found.key;
  }

  /** The store's balance, with the units that this process has borrowed and does not use as available ones. */
  async balance(keyId: string, call?: CallInfo<Context>): Promise<Balance | undefined> {
    this.#now();
    const key = this.#keys.get(keyId);
    // Let changes that are on their way arrive first.
    if (key) await Promise.allSettled([...key.moves, ...this.#writeAll(key)]);
    const before = this.#lent(keyId);
    const balance = await this.#store.balance(keyId, call);
    if (!balance) return undefined;
    const corrected = this.#corrected(keyId, balance, before);
    return { ...corrected, used: balance.used + balance.available - corrected.available };
  }

  /** Writes to the store, for the health of a gateway. */
  recall(keyId: string): Promise<void> {
    return this.#store.recall(keyId);
  }

  borrowed(keyId: string): BorrowedUnits {
    this.#now();
    const blocks = Array.from(this.#keys.get(keyId)?.blocks ?? []);
    const sum = (units: (block: Block) => number): number => blocks.reduce((total, block) => total + units(block), 0);
    return {
      blocks: blocks.length,
      units: sum(({ stored }) => stored),
      held: sum(({ books }) => books.held),
      charged: sum(({ books }) => books.charged),
      free: sum(({ stored, books }) => stored - books.used),
      overdraft: sum(({ books }) => books.overdraft),
      estimated: sum(({ books, estimated }) => Math.min(books.charged, estimated)),
    };
  }

  #lent(keyId: string): Lent {
    const { charged } = this.borrowed(keyId);
    const block = this.#keys.get(keyId)?.lending;
    return { block, free: block ? block.stored - block.books.used : 0, charged };
  }

  /**
   * Counts the free units of the lending block as available, and charged units as charged. The store counts both as held. Free units of
   * other blocks are on their way back: the store may have counted them as available already.
   */
  #corrected<T extends Pick<Balance, "available" | "held">>(
    keyId: string,
    told: T,
    before: Lent = this.#lent(keyId),
  ): T {
    const now = this.#lent(keyId);
    // The block may have come while the store answered.
    const free = now.block === before.block ? Math.max(0, Math.min(now.free, before.free, told.held)) : 0;
    const held = Math.max(0, told.held - free - Math.min(now.charged, before.charged));
    return { ...told, available: told.available + free, held };
  }

  reserve(request: HoldRequest, call?: CallInfo<Context>): Promise<Reservation> {
    try {
      assertHoldAmounts(request);
    } catch (error) {
      return Promise.reject(error);
    }
    const { id, keyId, atMost, leaseMs } = request;
    const now = this.#now();
    if (this.#calls.has(id) || this.#settled.get(id) || this.#claims.has(id)) return this.#reserveAgain(request, call);
    const key = this.#keyOf(keyId, now);
    key.now.calls++;
    const { minCalls } = this.#settings;
    const isBorrower = !this.#isClosed && now >= key.directUntil && key.now.calls + key.before.calls > minCalls;
    // The store serves all holds of a call whose first hold it has served: a report adds them up.
    const isServed = this.#served.get(id) ?? (call && call.requestId !== id && this.#served.get(call.requestId));
    if (!isBorrower || atMost > MOST_OF_CALL || leaseMs > LONGEST_LEASE_MS || isServed === true)
      return this.#serveDirectly(key, request, call);
    if (key.waiting.length === 0 && key.lending?.canLend(request, now))
      return Promise.resolve(this.#lend(key.lending, request, now));
    const claim = this.#serveFromNewBlock(key, request, call).finally(() => this.#claims.delete(id));
    this.#claims.set(id, claim);
    return claim;
  }

  /** Reserves an id that this process has seen before. */
  async #reserveAgain(request: HoldRequest, call: CallInfo<Context> | undefined): Promise<Reservation> {
    const { id, keyId } = request;
    await this.#claims.get(id)?.catch(() => {});
    const known = this.#calls.get(id) ?? this.#settled.get(id);
    if (!known) return this.reserve(request, call);
    if (known.key.id !== keyId) throw foreignHold();
    if (this.#leaving.has(known)) {
      await this.#move(known);
      return this.#store.reserve(request, call);
    }
    if (known.state === "live") return { granted: known.granted };
    const { used: _, ...left } = { used: 0, ...((await this.balance(keyId, call)) ?? UNKNOWN_KEY) };
    return { ...left, refused: true };
  }

  /** Holds all units that a call asks for in a block. */
  #lend(block: Block, { id, atMost, leaseMs }: HoldRequest, now: number): Reservation {
    const { key, books } = block;
    const units = { granted: atMost, noted: 0, used: 0, overdraft: 0 };
    const expiresAt = now + leaseMs;
    const later = { beyond: undefined, moving: undefined };
    const call: LocalCall = { id, key, block, state: "live", ...units, expiresAt, changes: 0, ...later };
    books.held += atMost;
    key.held += atMost;
    if (key.held > key.now.peak) key.now.peak = key.held;
    if (expiresAt < this.#nextExpiry) this.#nextExpiry = expiresAt;
    block.calls.add(call);
    this.#calls.set(id, call);
    return { granted: atMost };
  }

  async #serveFromNewBlock(
    key: BusyKey,
    request: HoldRequest,
    call: CallInfo<Context> | undefined,
  ): Promise<Reservation> {
    const served = await new Promise<Reservation | undefined>((resolve, reject) => {
      key.waiting.push({ request, resolve, reject });
      if (!key.isBorrowing) void this.#borrow(key);
    });
    return served ?? this.#serveDirectly(key, request, call);
  }

  /** Borrows blocks until no reservation of the key waits. Never rejects. */
  async #borrow(key: BusyKey): Promise<void> {
    key.isBorrowing = true;
    // Let the other reservations of this turn share the block.
    await DONE;
    let isAgain = false;
    while (key.waiting.length > 0) {
      const batch = key.waiting.length;
      try {
        const isServed = await this.#borrowOnce(key, isAgain);
        if (isServed) continue;
        isAgain = (isAgain || (await this.#isHeldElsewhere(key))) && (await this.#recall(key));
        if (isAgain) continue;
        key.directUntil = this.#clock.now() + DIRECT_MS;
        for (const { resolve } of key.waiting.splice(0)) resolve(undefined);
      } catch (error) {
        for (const { reject } of key.waiting.splice(0, batch)) reject(error);
      }
    }
    key.isBorrowing = false;
  }

  /** Borrows a block, and serves the reservations that fit, in their order. Returns false when units are short. */
  async #borrowOnce(key: BusyKey, isAgain: boolean): Promise<boolean> {
    let [needed, callLeaseMs] = [0, 1];
    for (const { request } of key.waiting) {
      needed += request.atMost;
      callLeaseMs = Math.max(callLeaseMs, request.leaseMs);
    }
    const size = Math.min(MOST_UNLIMITED, needed + (isAgain ? 0 : key.recentUse(needed)));
    const block = new Block(key, size, callLeaseMs, this.#clock.now() + this.#settings.windowMs);
    const leaseMs = this.#leaseOf(block);
    const hold = { id: block.id, keyId: key.id, atLeast: 0, atMost: size, leaseMs };
    const asked = this.#store.reserve(hold);
    // A process that has recalled the key lately does not ask again, and waits no more: learn of it now, not at the next tick.
    if (this.#clock.now() >= this.#polledAt + PAUSE_MS) void this.#poll();
    const answer = await this.#inTime(asked).catch((error: unknown) => {
      // The store may have made the hold, and its answer was lost. It may also make the hold later.
      const giveBack = (): void => void this.#store.settle(block.id, { used: 0, certainty: "exact" }).catch(() => {});
      giveBack();
      asked.then(giveBack).catch(() => {});
      throw error;
    });
    if (answer.refused) {
      // There is no such key: the store has refused to hold nothing at all.
      for (const { resolve } of key.waiting.splice(0)) resolve(undefined);
      return true;
    }
    block.stored = block.books.granted = answer.granted;
    if (key.lending) this.#endLending(key.lending);
    key.lending = block;
    this.#add(block);
    const tickMs = Math.min(this.#settings.recallMs, MAX_TIMER_MS);
    this.#stopTicking ??= this.#clock.every(tickMs, () => this.#tick());
    const now = this.#clock.now();
    let served = 0;
    for (let first = key.waiting[0]; first && block.canLend(first.request, now); first = key.waiting[0]) {
      key.waiting.shift();
      served++;
      first.resolve(this.#lend(block, first.request, now));
    }
    const isShort = answer.granted < size || served === 0;
    // Units that came back for waiting calls are not lent again: others may wait for them.
    if (isShort || isAgain || this.#isClosed) key.directUntil = now + DIRECT_MS;
    // The key may have been recalled while the store answered.
    if (now < key.directUntil) this.#endLending(block);
    return !isShort || key.waiting.length === 0;
  }

  #add(block: Block): void {
    block.key.blocks.add(block);
    this.#blocks.add(block);
  }

  #remove(block: Block): void {
    block.key.blocks.delete(block);
    this.#blocks.delete(block);
  }

  /** True when other processes, or calls that the store serves, hold units of a key. */
  async #isHeldElsewhere(key: BusyKey): Promise<boolean> {
    const balance = await this.#inTime(this.#store.balance(key.id));
    return balance !== undefined && balance.held > this.borrowed(key.id).units;
  }

  /** Asks the other processes for their free units, and waits a moment. Returns false when the wait is over. */
  async #recall(key: BusyKey): Promise<boolean> {
    const now = this.#clock.now();
    await this.#askBack(key, now);
    if (now >= key.recallUntil) return false;
    await new Promise<void>((resolve) => void this.#clock.after(PAUSE_MS, resolve));
    return true;
  }

  /** Asks the other processes for their free units, unless each process that borrows now will see the last recall. */
  async #askBack(key: BusyKey, now: number): Promise<void> {
    const { recallMs, recallWaitMs } = this.#settings;
    // A clock that was set back makes no recall last.
    const isRecent = now < key.recallUntil || now < key.recalledAt + RECALLED_MS - 2 * recallMs;
    if (isRecent && now >= key.recalledAt) return;
    key.recalledAt = now;
    key.recallUntil = now + recallWaitMs;
    key.directUntil = key.recallUntil + DIRECT_MS;
    await this.#inTime(this.#store.recall(key.id)).catch((error: unknown) => {
      key.recalledAt = key.recallUntil = Number.NEGATIVE_INFINITY;
      throw error;
    });
  }

  /** Lets the store serve a call. When its units are short, other processes give back what they do not use. */
  async #serveDirectly(key: BusyKey, request: HoldRequest, call: CallInfo<Context> | undefined): Promise<Reservation> {
    this.#served.add(request.id, true);
    for (;;) {
      if (key.blocks.size > 0) await this.#giveBack(key);
      const answer = await this.#store.reserve(request, call);
      if (!answer.refused) {
        // The next calls get more when the others have given back their units.
        if (answer.granted < request.atMost) await this.#askBack(key, this.#clock.now()).catch(() => {});
        return answer;
      }
      if (key.lending) {
        // This process itself has borrowed the units while the store answered: give them back, and borrow no more for now.
        key.directUntil = this.#clock.now() + DIRECT_MS;
        continue;
      }
      const isHeldElsewhere = answer.held > this.borrowed(key.id).units;
      if (!isHeldElsewhere || !(await this.#recall(key))) return this.#corrected<Refusal>(key.id, answer);
    }
  }

  async #giveBack(key: BusyKey): Promise<void> {
    if (key.lending) this.#endLending(key.lending);
    await Promise.all(this.#writeAll(key));
  }

  #writeAll({ blocks }: BusyKey): Promise<void>[] {
    return Array.from(blocks).flatMap((block) => (block.changes > block.written ? this.#write(block) : []));
  }

  #endLending(block: Block): void {
    if (block.key.lending === block) block.key.lending = undefined;
    block.isLending = false;
    this.#changeInBackground(block);
  }

  renew(id: string, renewal: Renewal, call?: CallInfo<Context>): Promise<void> {
    try {
      assertRenewal(renewal);
    } catch (error) {
      return Promise.reject(error);
    }
    const now = this.#now();
    const local = this.#calls.get(id);
    if (!local) return this.#settled.get(id) ? DONE : this.#store.renew(id, renewal, call);
    const { block, beyond } = local;
    const { used, leaseMs } = renewal;
    if (leaseMs > LONGEST_LEASE_MS || this.#leaving.has(local))
      return this.#move(local).then(() => this.#store.renew(id, renewal, call));
    if (used > local.granted && !beyond) return this.#extend(local).then(() => this.renew(id, renewal, call));
    const notedBefore = notedInBlock(local);
    local.key.held -= noteHold(block.books, local, undefined, renewal);
    const noted = notedInBlock(local);
    block.noted += noted - notedBefore;
    local.expiresAt = now + leaseMs;
    if (local.expiresAt < this.#nextExpiry) this.#nextExpiry = local.expiresAt;
    if (leaseMs > block.callLeaseMs) block.callLeaseMs = leaseMs;
    block.changes++;
    if (beyond) {
      beyond.noted = used - noted;
      beyond.callLeaseMs = block.callLeaseMs;
      beyond.changes++;
    }
    return this.#writeBoth(local);
  }

  /**
   * Makes a block of no units for a call that uses more than its hold. The units and the note of the hold stay where they are, so that no
   * other call takes them, and a process that dies pays both notes.
   */
  async #extend(call: LocalCall): Promise<Block> {
    const { key, block } = call;
    const beyond = new Block(key, 0, block.callLeaseMs, this.#clock.now() + this.#settings.windowMs);
    beyond.isLending = false;
    const hold = { id: beyond.id, keyId: key.id, atLeast: 0, atMost: 0, leaseMs: this.#leaseOf(beyond) };
    await this.#inTime(this.#store.reserve(hold));
    // Another renewal may have made one meanwhile. A hold of nothing that is not used costs nothing.
    if (call.beyond || !block.calls.has(call)) return call.beyond ?? beyond;
    beyond.calls.add(call);
    this.#add(beyond);
    return (call.beyond = beyond);
  }

  settle(id: string, outcome: Outcome, call?: CallInfo<Context>): Promise<void> {
    try {
      assertOutcome(outcome);
      const now = this.#now();
      const local = this.#calls.get(id);
      if (!local) return this.#settleAgain(id, outcome, call);
      const { block, granted } = local;
      if (this.#leaving.has(local)) return this.#move(local).then(() => this.#store.settle(id, outcome, call));
      // After the window, the last call of a block is charged with it, to its period.
      const isBeyond =
        outcome.used > granted + block.books.available && (now < block.lendsUntil || block.calls.size > 1);
      if (!isBeyond && !local.beyond && !local.moving) return this.#settleNow(local, outcome);
      return this.#move(local, () => this.#settleBeyond(local, outcome));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Charges what a call has used beyond its hold, once the store has all free units of the key, and then the rest in its block. */
  async #settleBeyond(local: LocalCall, outcome: Outcome): Promise<void> {
    const beyond = local.beyond ?? (await this.#extend(local));
    await this.#giveBack(local.key);
    const { certainty } = outcome;
    const used = Math.min(outcome.used, local.granted);
    const estimated = Math.min(used, estimatedOf(outcome));
    const rest = { used: outcome.used - used, certainty, estimated: estimatedOf(outcome) - estimated };
    await this.#inTime(this.#store.settle(beyond.id, rest)).then(
      () => this.#remove(beyond),
      (error: unknown) => {
        // The key cannot count so much: the call goes on. After any other failure, the block repeats the settlement.
        if (error instanceof RangeError) throw error;
      },
    );
    beyond.books.overdraft = rest.used;
    beyond.estimated = rest.estimated;
    return this.#settleNow(local, { used, certainty, estimated });
  }

  #settleNow(local: LocalCall, outcome: Outcome): Promise<void> {
    const { id, block, key } = local;
    resolveHold(block.books, local, undefined, "settled", outcome);
    block.estimated += estimatedOf(outcome);
    key.now.charged += outcome.used;
    this.#leave(local);
    this.#calls.delete(id);
    this.#settled.add(id, local);
    if (block.isLending && block.calls.size === 0 && block.books.available === 0) this.#endLending(block);
    local.changes = block.changes;
    return this.#writeBoth(local);
  }

  /** Settles a call that is in no block. A repeated settlement waits until the store has noted the first. */
  async #settleAgain(id: string, outcome: Outcome, call: CallInfo<Context> | undefined): Promise<void> {
    const settled = this.#settled.get(id);
    if (!settled) return this.#store.settle(id, outcome, call);
    if (settled.beyond || settled.changes > settled.block.written) await this.#writeBoth(settled);
  }

  #writeBoth({ block, beyond }: LocalCall): Promise<void> {
    const written = this.#write(block);
    return beyond ? Promise.all([written, this.#write(beyond)]).then(() => {}) : written;
  }

  /** Takes a live call out of its block. */
  #leave(call: LocalCall): void {
    const { block, beyond, key, granted } = call;
    block.calls.delete(call);
    block.noted -= notedInBlock(call);
    block.changes++;
    key.held -= granted;
    if (!beyond) return;
    beyond.calls.delete(call);
    beyond.noted = 0;
    beyond.changes++;
  }

  /**
   * Moves a call to a hold of its own in the store: its lease is over, or is longer than a block serves, or the lease of its block
   * may be over. The hold of an expired call expires at once, so that the store charges its last note and takes a late settlement.
   */
  #move(call: LocalCall, work: () => Promise<void> = () => this.#moveNow(call)): Promise<void> {
    if (call.moving) return call.moving;
    const { moves } = call.key;
    const moving = work().finally(() => {
      moves.delete(moving);
      call.moving = undefined;
      // A settlement failed. The lease may have ended meanwhile.
      if (call.block.calls.has(call)) this.#nextExpiry = Math.min(this.#nextExpiry, call.expiresAt);
    });
    moves.add(moving);
    call.moving = moving;
    return moving;
  }

  async #moveNow(call: LocalCall): Promise<void> {
    const { id, key, block, granted, noted } = call;
    if (block.calls.has(call)) {
      this.#leave(call);
      this.#leaving.add(call);
      block.books.held -= granted;
      block.books.granted -= granted;
    }
    await this.#giveBack(key);
    const leftMs = Math.max(1, Math.ceil(call.expiresAt - this.#clock.now()));
    const [atMost, leaseMs] = leftMs > 1 ? [granted, leftMs] : [Math.min(granted, noted), MOVE_MS];
    await this.#inTime(this.#store.reserve({ id, keyId: key.id, atLeast: 0, atMost, leaseMs }));
    if (noted > 0 || leftMs === 1) await this.#inTime(this.#store.renew(id, { leaseMs: leftMs, used: noted }));
    this.#leaving.delete(call);
    this.#calls.delete(id);
    this.#served.add(id, true);
  }

  #changeInBackground(block: Block): void {
    block.changes++;
    this.#write(block).catch(() => {});
  }

  /**
   * Resolves once the store has confirmed all changes of a block. Changes that come while a write is in flight share the next write.
   * After a failure, the next change or tick writes again.
   */
  #write(block: Block): Promise<void> {
    block.next ??= this.#writeNext(block);
    return block.next;
  }

  async #writeNext(block: Block): Promise<void> {
    await block.writing?.catch(() => {});
    block.writing = block.next;
    block.next = undefined;
    try {
      await this.#writeNow(block);
    } finally {
      block.writing = undefined;
    }
  }

  async #writeNow(block: Block): Promise<void> {
    const { id, books, changes } = block;
    if (!this.#blocks.has(block)) return;
    if (!block.isLending) books.granted -= books.available;
    const { granted: keep } = books;
    const { used, estimated } = block;
    if (!block.isLending && block.calls.size === 0) {
      const outcome =
        estimated > 0 ? ({ certainty: "estimated", estimated } as const) : { certainty: "exact" as const };
      await this.#inTime(this.#store.settle(id, { used, ...outcome })).catch((error: unknown) => {
        // The key cannot count so much. When the lease ends, the store charges the last note as far as it can count it.
        if (!(error instanceof RangeError)) throw error;
      });
      this.#remove(block);
    } else {
      const [leaseMs, sentAt] = [this.#leaseOf(block), this.#clock.now()];
      await this.#inTime(this.#store.renew(id, { leaseMs, used, ...(keep < block.stored && { keep }) }));
      block.stored = Math.min(block.stored, Math.max(keep, used));
      // A renewal that comes after the end of the lease changes nothing.
      if (this.#clock.now() < block.expiresAt) block.expiresAt = sentAt + leaseMs / DRIFT;
      else this.#lose(block);
    }
    block.written = changes;
  }

  /** Rejects when an answer of the store does not come: what waits for it tries again. */
  #inTime<Answer>(asked: Promise<Answer>): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.after(ANSWER_MS, () => reject(new Error(`The store took more than ${ANSWER_MS} ms.`)));
      asked.then(resolve, reject).finally(cancel);
    });
  }

  #leaseOf({ callLeaseMs }: Block): number {
    return Math.ceil((callLeaseMs + this.#settings.windowMs) * DRIFT);
  }

  /** Gives up a block whose lease in the store may be over. Its calls move to holds of their own. */
  #lose(block: Block): void {
    block.isLost = true;
    this.#endLending(block);
    for (const call of block.calls) this.#move(call).catch(() => {});
  }

  #keyOf(id: string, now: number): BusyKey {
    const { windowMs } = this.#settings;
    if (now >= this.#forgetAt) {
      this.#forgetAt = now + windowMs;
      for (const key of this.#keys.values()) {
        key.turn(now, windowMs);
        const isUsed = key.now.calls + key.before.calls + key.blocks.size + key.waiting.length > 0;
        if (!isUsed && now >= key.recallUntil + DIRECT_MS) this.#keys.delete(key.id);
      }
    }
    let key = this.#keys.get(id);
    if (!key) this.#keys.set(id, (key = new BusyKey(id, now)));
    key.turn(now, windowMs);
    return key;
  }

  /** Returns the time, after calls whose lease is over have expired. */
  #now(): number {
    const now = this.#clock.now();
    if (now >= this.#nextExpiry) this.#expire(now);
    return now;
  }

  #expire(now: number): void {
    this.#nextExpiry = Number.POSITIVE_INFINITY;
    for (const block of this.#blocks) {
      if (now >= block.expiresAt && !block.isLost) this.#lose(block);
      for (const call of block.calls)
        if (call.expiresAt > now) this.#nextExpiry = Math.min(this.#nextExpiry, call.expiresAt);
        else this.#move(call).catch(() => {});
    }
  }

  /** Ends blocks whose time is over, repeats failed writes, and polls for recalls. Stops the timer when no block is left. */
  #tick(): void {
    const now = this.#now();
    for (const block of this.#blocks)
      if (now >= block.expiresAt) this.#lose(block);
      else if (block.isLending && now >= block.lendsUntil) this.#endLending(block);
      else if (block.changes > block.written && !block.writing) this.#write(block).catch(() => {});
    for (const call of this.#leaving) this.#move(call).catch(() => {});
    if (this.#blocks.size + this.#leaving.size > 0) return void this.#poll();
    this.#stopTicking?.();
    this.#stopTicking = undefined;
  }

  /** Gives back the free units of recalled keys. Never rejects. */
  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    this.#polledAt = this.#clock.now();
    try {
      const withinMs = Math.max(RECALLED_MS, 2 * this.#settings.recallMs);
      for (const keyId of await this.#inTime(this.#store.recalled(withinMs))) {
        const key = this.#keys.get(keyId);
        if (!key) continue;
        const now = this.#clock.now();
        // A recall is seen several times, and counts once.
        if (now >= key.directUntil) key.directUntil = now + DIRECT_MS;
        if (key.lending) this.#endLending(key.lending);
      }
    } catch {
      // The next tick asks again.
    } finally {
      this.#isPolling = false;
    }
  }

  async close(options?: { readonly deadlineMs?: number }): Promise<void> {
    const { deadlineMs = 5_000 } = closeOptionsOf(options);
    this.#isClosed = true;
    const returned = Promise.allSettled(Array.from(this.#keys.values(), (key) => this.#giveBack(key)));
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.after(Math.min(deadlineMs, MAX_TIMER_MS), resolve);
      void returned.then(() => {
        cancel();
        resolve();
      });
    });
  }
}

/** The part of a call's last note that its block counts. */
const notedInBlock = ({ noted, granted }: LocalCall): number => Math.min(noted, granted);

/** The result of a verb with nothing to wait for. */
const DONE: Promise<void> = Promise.resolve();
