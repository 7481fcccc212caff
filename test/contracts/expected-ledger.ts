/** The expected books of a key: counted hold by hold, without accounts, so that they cannot fail as a store does. */

import type { Certainty, HoldRequest, Outcome, Renewal, Reservation } from "../../src/index.ts";

export interface ExpectedHold {
  readonly granted: number;
  state: "live" | "expired" | "settled";
  expiresAt: number;
  /** Units that a resolved hold has used, or that the last renewal of a live one noted. */
  used: number;
  certainty: Certainty;
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
    const hold: ExpectedHold = { granted, state: "live", expiresAt, used: 0, certainty: "estimated" };
    this.#holds.set(id, hold);
    this.#live.add(hold);
    this.held += granted;
    return { granted };
  }

  renewed(id: string, { used }: Pick<Renewal, "used">, expiresAt: number): void {
    const hold = this.#holds.get(id);
    if (hold?.state === "live") Object.assign(hold, { used, expiresAt });
  }

  /** Applies a settlement. Returns undefined when it changes nothing. */
  settled(id: string, outcome: Outcome): "settlement" | "correction" | undefined {
    const hold = this.#holds.get(id);
    if (!hold || hold.state === "settled") return undefined;
    const isLate = hold.state === "expired";
    // The settlement replaces the charge of the expiry.
    if (isLate) this.#count(hold, -1);
    Object.assign(hold, outcome);
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

  #count({ used, certainty }: ExpectedHold, times: 1 | -1): void {
    this.consumed += times * used;
    if (certainty === "estimated") this.estimated += times * used;
  }
}
