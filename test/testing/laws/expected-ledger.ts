/** The expected books of a key: counted hold by hold, without accounts, so that they cannot fail as a store does. */

import type { HoldRequest, Outcome, Renewal, Reservation } from "../../../src/index.ts";

export interface ExpectedHold {
  granted: number;
  state: "live" | "expired" | "settled";
  expiresAt: number;
  /** Units that a resolved hold has used, or that the last renewal of a live one noted. */
  used: number;
  /** The part of `used` that rests on estimates. */
  estimated: number;
}

export class ExpectedLedger {
  /** Undefined for an unlimited key. */
  readonly granted: number | undefined;
  readonly #holds = new Map<string, ExpectedHold>();
  readonly #live = new Set<ExpectedHold>();
  /** Units of live holds. */
  held = 0;
  /** Units that all resolved holds have used. */
  consumed = 0;
  /** The part of it that rests on estimates. */
  estimated = 0;

  constructor(granted: number | undefined) {
    this.granted = granted;
  }

  get liveHolds(): number {
    return this.#live.size;
  }

  hold(id: string): ExpectedHold | undefined {
    return this.#holds.get(id);
  }

  /** The first reservation of an id that is granted decides the later ones; refusals leave no trace. */
  reserved({ id, atLeast, atMost }: HoldRequest, available: number, expiresAt: number): Reservation {
    const refusal = { refused: true, available, held: this.held } as const;
    const known = this.#holds.get(id);
    if (known) return known.state === "live" ? { granted: known.granted } : refusal;
    const granted = this.granted === undefined ? atMost : Math.min(atMost, available);
    if (granted < atLeast) return refusal;
    const hold: ExpectedHold = { granted, state: "live", expiresAt, used: 0, estimated: 0 };
    this.#holds.set(id, hold);
    this.#live.add(hold);
    this.held += granted;
    return { granted };
  }

  renewed(id: string, { used, keep }: Pick<Renewal, "used" | "keep">, expiresAt: number): void {
    const hold = this.#holds.get(id);
    if (hold?.state !== "live") return;
    const granted = Math.min(hold.granted, Math.max(keep ?? hold.granted, used));
    this.held -= hold.granted - granted;
    // An expiry charges the whole note as an estimate.
    Object.assign(hold, { granted, used, estimated: used, expiresAt });
  }

  /** Applies a settlement. Returns undefined when it changes nothing. */
  settled(id: string, { used, certainty, estimated = used }: Outcome): "settlement" | "correction" | undefined {
    const hold = this.#holds.get(id);
    if (!hold || hold.state === "settled") return undefined;
    const isLate = hold.state === "expired";
    // The settlement replaces the charge of the expiry.
    if (isLate) this.#count(hold, -1);
    Object.assign(hold, { used, estimated: certainty === "estimated" ? estimated : 0 });
    this.#resolve(hold, "settled");
    return isLate ? "correction" : "settlement";
  }

  /** Ends the leases that have run out, and returns how many. */
  expire(now: number): number {
    let ended = 0;
    for (const hold of this.#live) {
      if (hold.expiresAt > now) continue;
      this.#resolve(hold, "expired");
      ended++;
    }
    return ended;
  }

  #resolve(hold: ExpectedHold, state: "expired" | "settled"): void {
    if (this.#live.delete(hold)) this.held -= hold.granted;
    hold.state = state;
    this.#count(hold, 1);
  }

  #count({ used, estimated }: ExpectedHold, times: 1 | -1): void {
    this.consumed += times * used;
    this.estimated += times * estimated;
  }
}
