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

/** The most that one call of an unlimited key holds: any number of them must add up exactly. */
export const MOST_UNLIMITED: number = 2 ** 36;

/** One key and its units. */
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

  /** What a reservation gets; less than `atLeast` when it must be refused. */
  grantable(atLeast: number, atMost: number): number {
    if (this.key.unlimited) return Math.max(atLeast, Math.min(atMost, MOST_UNLIMITED));
    return Math.min(atMost, this.available);
  }

  hold(id: string, granted: number, expiresAt: number): Hold {
    this.held += granted;
    this.liveHolds++;
    return { id, account: this, granted, expiresAt, used: 0, overdraft: 0, corrected: false };
  }

  /** Returns a live hold's units and charges what was used. */
  resolve(hold: Hold, used: number, certainty: Certainty): void {
    this.held -= hold.granted;
    this.liveHolds--;
    this.#charge(hold, used, certainty);
  }

  /** The true count has come after the lease had run out: it replaces what expiry charged, once. */
  correct(hold: Hold, used: number, certainty: Certainty): void {
    if (hold.corrected) return;
    hold.corrected = true;
    const charged = hold.used - hold.overdraft;
    this.charged -= charged;
    this.estimated -= charged;
    this.overdraft -= hold.overdraft;
    this.#charge(hold, used, certainty);
  }

  #charge(hold: Hold, used: number, certainty: Certainty): void {
    const overdraft = this.key.unlimited ? 0 : Math.max(0, used - this.available);
    hold.used = used;
    hold.overdraft = overdraft;
    this.charged += used - overdraft;
    this.overdraft += overdraft;
    if (certainty === "estimated") this.estimated += used - overdraft;
  }
}
