/** The hold of one call on its key's quota: reserved for the worst case, renewed while the call lives, settled once. */

import { GatewayError } from "../errors.ts";
import type { Certainty } from "../model/usage.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { Keep } from "../ports/keep.ts";
import type { ApiKeyRecord, QuotaStore } from "../ports/quota-store.ts";
import type { Amounts } from "./price.ts";

/** What a hold is made with. */
export interface HoldTerms {
  readonly quotas: QuotaStore;
  readonly clock: Clock;
  readonly leaseMs: number;
  /** Told of a store that fails while no caller is left to hear of it. */
  readonly report: (error: unknown) => void;
  /** Is given a settlement that is tried again when nobody waits for it any more. */
  readonly keep: Keep;
}

/** When a settlement that failed is tried again, in milliseconds after the failure before it. */
const SETTLE_AGAIN_MS = [500, 5_000, 30_000];

/**
 * Reserves as much of `atMost` as the key has, and `atLeast` that. Throws `quota_exhausted` when nothing is left,
 * `quota_insufficient` when it is too little.
 */
export async function reserve(id: string, amounts: Amounts, key: ApiKeyRecord, terms: HoldTerms): Promise<Hold> {
  const expiresAt = terms.clock.now() + terms.leaseMs;
  const reservation = await terms.quotas.reserve({ id, keyId: key.id, ...amounts, expiresAt });
  if (!reservation) throw refusal(key);
  return new Hold(id, reservation.granted, terms);
}

const refusal = (key: ApiKeyRecord): GatewayError =>
  key.available > 0
    ? new GatewayError("quota_insufficient", "The remaining quota of this API key is too small for this request.")
    : new GatewayError("quota_exhausted", "The quota of this API key is used up.");

/** Units of quota set aside for one call. */
export class Hold {
  /** How many units are held. */
  readonly granted: number;
  readonly #id: string;
  readonly #terms: HoldTerms;
  #renewing = false;
  #settled = false;

  constructor(id: string, granted: number, terms: HoldTerms) {
    this.#id = id;
    this.granted = granted;
    this.#terms = terms;
  }

  /** Renews the lease until cancelled; each renewal notes the units that the call has used so far. */
  keepAlive(used: () => number): Cancel {
    const { clock, leaseMs } = this.#terms;
    return clock.every(leaseMs / 3, () => void this.#renew(used));
  }

  async #renew(used: () => number): Promise<void> {
    // A renewal that a slow store is still busy with must not be overtaken by the next.
    if (this.#renewing) return;
    const { quotas, clock, leaseMs, report } = this.#terms;
    this.#renewing = true;
    try {
      await quotas.extend(this.#id, { expiresAt: clock.now() + leaseMs, used: used() });
    } catch (error) {
      report(error);
    } finally {
      this.#renewing = false;
    }
  }

  /** Charges the units used, once; 0 voids the hold. A store that fails is asked again later: its lease bounds the loss. */
  async settle(units: number, how: Certainty): Promise<void> {
    if (this.#settled) return;
    this.#settled = true;
    await this.#settle(units, how, 0);
  }

  async #settle(units: number, how: Certainty, failures: number): Promise<void> {
    const { quotas, clock, report, keep } = this.#terms;
    try {
      await quotas.settle(this.#id, units, how);
    } catch (error) {
      report(error);
      const delay = SETTLE_AGAIN_MS[failures];
      if (delay === undefined) return;
      const again = (): Promise<void> => this.#settle(units, how, failures + 1);
      keep(new Promise<void>((resolve) => clock.after(delay, () => resolve(again()))));
    }
  }
}
