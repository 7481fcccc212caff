/** The holds of a ledger by their ids: live ones, expired ones, and the ids of settled ones for as long as they are retained. */

import { Generations } from "./generations.ts";

/** What a hold must tell to be found and to expire. */
export interface Leased<Owner> {
  readonly id: string;
  readonly account: Owner;
  /** When the lease ends, in milliseconds since the Unix epoch. */
  expiresAt: number;
}

/** How long a resolved hold is retained at least, so that a repeated call changes nothing and a late one corrects. */
const RETAINED_MS = 3_600_000;

/**
 * Holds under their ids. A live hold stays until it is resolved. Of a settled one only its owner is retained, for an hour or until
 * too many have followed it. One whose lease has run out is retained for the full hour, because its true count may still come.
 */
export class Holds<Owner, Hold extends Leased<Owner>> {
  readonly #live = new Map<string, Hold>();
  readonly #expired: Generations<Hold>;
  readonly #settled: Generations<Owner>;
  /** No live hold expires before this. */
  #nextExpiry = Number.POSITIVE_INFINITY;

  /** @param maxSettled The most settled holds that are retained; the newer half of them is for certain. */
  constructor(maxSettled: number, now: number) {
    this.#expired = new Generations(Number.POSITIVE_INFINITY, RETAINED_MS, now);
    this.#settled = new Generations(Math.floor(maxSettled / 2), RETAINED_MS, now);
  }

  live(id: string): Hold | undefined {
    return this.#live.get(id);
  }

  expired(id: string): Hold | undefined {
    return this.#expired.get(id);
  }

  /** Whose the hold of this id is or was; undefined for an id that is free. */
  ownerOf(id: string): Owner | undefined {
    return (this.#live.get(id) ?? this.#expired.get(id))?.account ?? this.#settled.get(id);
  }

  open(hold: Hold): void {
    this.#live.set(hold.id, hold);
    this.lease(hold, hold.expiresAt);
  }

  /** Sets the end of a live hold's lease. */
  lease(hold: Hold, expiresAt: number): void {
    hold.expiresAt = expiresAt;
    if (expiresAt < this.#nextExpiry) this.#nextExpiry = expiresAt;
  }

  settle(hold: Hold, now: number): void {
    this.#live.delete(hold.id);
    this.#settled.add(hold.id, hold.account, now);
  }

  /** Forgets the live holds of an owner. */
  drop(owner: Owner): void {
    for (const hold of this.#live.values()) if (hold.account === owner) this.#live.delete(hold.id);
  }

  /**
   * Takes the holds whose lease has run out from the live ones and returns them, the first to end first; forgets what is too old.
   * To be called before each use.
   */
  expire(now: number): readonly Hold[] {
    this.#settled.age(now);
    this.#expired.age(now);
    return now < this.#nextExpiry ? NONE : this.#expire(now);
  }

  // Looks at every live hold, but seldom: leases are renewed, or their holds settled, long before they end.
  #expire(now: number): readonly Hold[] {
    const ended: Hold[] = [];
    this.#nextExpiry = Number.POSITIVE_INFINITY;
    for (const hold of this.#live.values()) {
      if (hold.expiresAt <= now) ended.push(hold);
      else this.#nextExpiry = Math.min(this.#nextExpiry, hold.expiresAt);
    }
    for (const hold of ended) {
      this.#live.delete(hold.id);
      this.#expired.add(hold.id, hold, now);
    }
    return ended.toSorted((a, b) => a.expiresAt - b.expiresAt);
  }
}

const NONE: readonly never[] = [];
