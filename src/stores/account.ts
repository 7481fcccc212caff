/** The arithmetic of one key of a ledger, in memory or in SQL: what is held, charged, overdrawn and estimated. */

import type { Certainty } from "../model/usage.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { Leased } from "./holds.ts";

/** A hold and what became of it. */
export interface Hold extends Leased<Account> {
  readonly granted: number;
  /** Units: of a live hold what its last renewal noted, of an expired one what it was charged for. */
  used: number;
  /** Units of `used` that the account could not cover when they were charged. */
  overdraft: number;
  /** Its true count came after the lease had run out. */
  corrected: boolean;
}

/** The most that one call of an unlimited key holds, in units: any number of them must add up exactly. */
export const MOST_UNLIMITED: number = 2 ** 36;

/** The most units that a book of a key counts, and the most that its charges and holds come to: beyond it a number is not exact. */
export const MOST_UNITS: number = Number.MAX_SAFE_INTEGER;

/** Refuses a change after which a key would count more than `MOST_UNITS`. Nothing of the change is written. */
export const beyondMost = (keyId: string, book: string): RangeError =>
  new RangeError(`The ${book} units of the key ${keyId} would be beyond 2^53 - 1.`);

/** One key and its units. A method that throws a RangeError has changed nothing. */
export class Account {
  readonly key: ApiKey;
  granted: number;
  /** The hashes of the key's secrets. */
  readonly secrets: Set<string> = new Set();
  /** Units charged, without live holds. */
  charged: number;
  /** Units of live holds. */
  held = 0;
  liveHolds = 0;
  overdraft = 0;
  /** Units of `charged` that rest on estimates. */
  estimated = 0;

  constructor(key: ApiKey, granted: number, used: number) {
    this.key = key;
    this.granted = granted;
    this.charged = used;
  }

  get used(): number {
    return this.charged + this.held;
  }

  /** 0 for an unlimited key. */
  get available(): number {
    return Math.max(0, this.granted - this.charged - this.held);
  }

  /**
   * Returns what a reservation gets; less than `atLeast` when it must be refused. Throws a RangeError where an unlimited key cannot
   * count `atLeast` any more.
   */
  grantable(atLeast: number, atMost: number): number {
    if (!this.key.unlimited) return Math.min(atMost, this.available);
    const countable = MOST_UNITS - this.charged - this.held;
    if (atLeast > countable) throw beyondMost(this.key.id, "used");
    return Math.max(atLeast, Math.min(atMost, MOST_UNLIMITED, countable));
  }

  /** Adds units to the quota. Throws a RangeError where they are too many to count. */
  grant(units: number): void {
    if (units > MOST_UNITS - this.granted) throw beyondMost(this.key.id, "granted");
    this.granted += units;
  }

  hold(id: string, granted: number, expiresAt: number): Hold {
    this.held += granted;
    this.liveHolds++;
    return { id, account: this, granted, expiresAt, used: 0, overdraft: 0, corrected: false };
  }

  /** Returns a live hold's units and charges what was used. Throws a RangeError where that is too much to count. */
  resolve(hold: Hold, used: number, certainty: Certainty): void {
    this.#charge(hold, used, certainty, { held: hold.granted, charged: 0, overdraft: 0 });
    this.liveHolds--;
  }

  /** Ends a live hold whose lease has run out: charges what its last renewal noted, as far as the key can count it. */
  expire(hold: Hold): void {
    const charged = this.charged + this.held - hold.granted;
    const countable = this.key.unlimited
      ? MOST_UNITS - charged
      : Math.max(0, this.granted - charged) + (MOST_UNITS - this.overdraft);
    this.resolve(hold, Math.min(hold.used, countable), "estimated");
  }

  /**
   * Replaces what the expiry of a hold has charged by the true count, once. Throws a RangeError where that is too much to count.
   */
  correct(hold: Hold, used: number, certainty: Certainty): void {
    if (hold.corrected) return;
    const charged = hold.used - hold.overdraft;
    this.#charge(hold, used, certainty, { held: 0, charged, overdraft: hold.overdraft });
    hold.corrected = true;
  }

  /** Charges what was used in place of what stands in the books for the hold. */
  #charge(
    hold: Hold,
    used: number,
    certainty: Certainty,
    before: Pick<Account, "held" | "charged" | "overdraft">,
  ): void {
    const held = this.held - before.held;
    const charged = this.charged - before.charged;
    const overdraft = this.overdraft - before.overdraft;
    const over = this.key.unlimited ? 0 : Math.max(0, used - Math.max(0, this.granted - charged - held));
    const charge = used - over;
    if (charge > MOST_UNITS - charged - held) throw beyondMost(this.key.id, "used");
    if (over > MOST_UNITS - overdraft) throw beyondMost(this.key.id, "overdrawn");
    hold.used = used;
    hold.overdraft = over;
    this.held = held;
    this.charged = charged + charge;
    this.overdraft = overdraft + over;
    this.estimated += (certainty === "estimated" ? charge : 0) - before.charged;
  }
}
