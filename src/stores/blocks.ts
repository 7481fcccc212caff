/** The blocks of units that a process has borrowed, and the use of their keys. */

import { MOST_UNITS } from "../model/money.ts";
import type { HoldRequest, Reservation } from "../ports/quota-store.ts";
import { Books, type Hold } from "./ledger.ts";

/** A call that a block serves. */
export interface LocalCall extends Hold {
  readonly id: string;
  readonly key: BusyKey;
  readonly block: Block;
  /** A block of no units for this call alone, which counts what the call uses beyond its hold. */
  beyond: Block | undefined;
  expiresAt: number;
  /** The number of changes of the block with the settlement. */
  changes: number;
  /** The move of the call to a hold of its own in the store, or its settlement above its hold. */
  moving: Promise<void> | undefined;
}

/** A hold in the store from which this process serves calls of one key. */
export class Block {
  readonly id: string = `block-${crypto.randomUUID()}`;
  readonly key: BusyKey;
  readonly books: Books;
  /** The live calls. A block that no longer lends ends after them. */
  readonly calls: Set<LocalCall> = new Set();
  /** The sum of what live calls have noted. */
  noted = 0;
  /** Units of settled calls that rest on estimates. */
  estimated = 0;
  /** The units of the hold, as far as the store has confirmed. */
  stored: number;
  /** The longest lease of a call. */
  callLeaseMs: number;
  isLending = true;
  readonly lendsUntil: number;
  /** The store lets the hold expire no earlier than this, by the clock of this process. */
  expiresAt: number;
  isLost = false;
  /** The number of changes, and how many of them the store has confirmed. */
  changes = 0;
  written = 0;
  /** The write in flight, and the write after it, which carries all changes until it begins. */
  writing: Promise<void> | undefined;
  next: Promise<void> | undefined;

  constructor(key: BusyKey, units: number, callLeaseMs: number, lendsUntil: number) {
    this.key = key;
    this.books = new Books(`key ${key.id}`, false, units, 0);
    this.stored = units;
    this.callLeaseMs = callLeaseMs;
    this.lendsUntil = lendsUntil;
    this.expiresAt = lendsUntil + callLeaseMs;
  }

  /** The units that calls have used so far. */
  get used(): number {
    return Math.min(MOST_UNITS, this.books.charged + this.books.overdraft + this.noted);
  }

  canLend({ atMost, leaseMs }: HoldRequest, now: number): boolean {
    return this.isLending && now < this.lendsUntil && leaseMs <= this.callLeaseMs && this.books.available >= atMost;
  }
}

/** A reservation that waits for a block. Undefined as an answer lets the store serve the call. */
export interface Waiting {
  readonly request: HoldRequest;
  readonly resolve: (granted: Reservation | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** The use of a key in one window. */
interface KeyUse {
  calls: number;
  charged: number;
  /** The most units that calls in blocks held at once. */
  peak: number;
}

export class BusyKey {
  readonly id: string;
  readonly blocks: Set<Block> = new Set();
  lending: Block | undefined;
  waiting: Waiting[] = [];
  isBorrowing = false;
  /** The store serves the calls until then. */
  directUntil: number = Number.NEGATIVE_INFINITY;
  /** The time of the last recall by this process. */
  recalledAt: number = Number.NEGATIVE_INFINITY;
  /** Calls wait for units of other processes until then. */
  recallUntil: number = Number.NEGATIVE_INFINITY;
  /** The units of live calls. */
  held = 0;
  /** The moves of calls that are under way. */
  readonly moves: Set<Promise<void>> = new Set();
  /** The use in this window, and in the window before. */
  now: KeyUse = { calls: 0, charged: 0, peak: 0 };
  before: KeyUse = { calls: 0, charged: 0, peak: 0 };
  #since: number;

  constructor(id: string, now: number) {
    this.id = id;
    this.#since = now;
  }

  turn(now: number, windowMs: number): void {
    const elapsed = now - this.#since;
    if (elapsed < windowMs) return;
    const idle = { calls: 0, charged: 0, peak: this.held };
    this.before = elapsed < 2 * windowMs ? this.now : idle;
    this.now = { ...idle };
    this.#since = now;
  }

  /** The units that the calls of the next window will probably need beyond those that calls hold now, and those that wait for units. */
  recentUse(needed: number): number {
    const { now, before, held } = this;
    return Math.max(now.charged, before.charged) + Math.max(0, Math.max(now.peak, before.peak) - held - needed);
  }
}
