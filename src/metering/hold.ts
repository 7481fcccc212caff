/** The hold of one call on its key's quota: reserved for the worst case, renewed while the call lives, settled once. */

import { GatewayError } from "../errors.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import type { Cancel, Clock } from "../ports/clock.ts";
import type { ApiKeyRecord, QuotaStore } from "../ports/quota-store.ts";
import { affordableOutput, charge, type Price } from "./price.ts";

/** What a hold is made with. */
export interface HoldTerms {
  readonly quotas: QuotaStore;
  readonly price: Price;
  readonly clock: Clock;
  readonly leaseMs: number;
  /** Told of a store that fails while no caller is left to hear of it. */
  readonly report: (error: unknown) => void;
}

/** When a settlement that failed is tried again, in milliseconds after the failure before it. */
const SETTLE_AGAIN_MS = [500, 5_000, 30_000];

/**
 * Reserves quota for a request: as much of its worst case as the key has, at least enough for its input and the smallest
 * answer. Throws `quota_exhausted` when nothing is left, `quota_insufficient` when it is too little.
 */
export async function reserve(
  id: string,
  request: ChatRequest,
  inputTokens: number,
  key: ApiKeyRecord,
  terms: HoldTerms,
): Promise<Hold> {
  const cost = (outputTokens: number): number =>
    charge(terms.price, { ...NO_USAGE, inputTokens, outputTokens }, request.model);
  const max = request.maxOutputTokens;
  const min = Math.min(max, request.reasoning?.type === "enabled" ? request.reasoning.budgetTokens + 1 : 1);
  const atLeast = cost(min);
  const atMost = Math.max(atLeast, cost(max));
  const expiresAt = terms.clock.now() + terms.leaseMs;
  const reservation = await terms.quotas.reserve({ id, keyId: key.id, atLeast, atMost, expiresAt });
  if (!reservation) throw refusal(key);
  const maxOutputTokens = key.unlimited ? max : affordableOutput(reservation.granted, { min, max }, cost);
  return new Hold(id, maxOutputTokens === max ? request : { ...request, maxOutputTokens }, terms);
}

const refusal = (key: ApiKeyRecord): GatewayError =>
  key.available > 0
    ? new GatewayError("quota_insufficient", "The remaining quota of this API key is too small for this request.")
    : new GatewayError("quota_exhausted", "The quota of this API key is used up.");

const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

export class Hold {
  /** The request as the hold affords it: its output limit may be lower than what was asked for. */
  readonly request: ChatRequest;
  readonly #id: string;
  readonly #terms: HoldTerms;
  #settled = false;

  constructor(id: string, request: ChatRequest, terms: HoldTerms) {
    this.#id = id;
    this.request = request;
    this.#terms = terms;
  }

  /** Renews the lease until cancelled; each renewal notes what the call has used so far. */
  keepAlive(used: () => Usage | undefined): Cancel {
    const { quotas, clock, leaseMs, report } = this.#terms;
    const renew = async (): Promise<void> =>
      quotas.extend(this.#id, { expiresAt: clock.now() + leaseMs, used: this.#units(used()) });
    return clock.every(leaseMs / 3, () => void renew().catch(report));
  }

  /** Charges what was used, once; undefined voids the hold. A store that fails is asked again later: its lease bounds the loss. */
  async settle(usage: Usage | undefined, how: Certainty): Promise<void> {
    if (this.#settled) return;
    this.#settled = true;
    await this.#settle(this.#units(usage), how, 0);
  }

  async #settle(units: number, how: Certainty, failures: number): Promise<void> {
    const { quotas, clock, report } = this.#terms;
    try {
      await quotas.settle(this.#id, units, how);
    } catch (error) {
      report(error);
      const delay = SETTLE_AGAIN_MS[failures];
      if (delay !== undefined) clock.after(delay, () => void this.#settle(units, how, failures + 1));
    }
  }

  #units(usage: Usage | undefined): number {
    return usage ? charge(this.#terms.price, usage, this.request.model) : 0;
  }
}
