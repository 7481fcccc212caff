/** Holds a key to its rate limits: requests before the body is read, tokens before quota is reserved. */

import { GatewayError } from "../errors.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { RateKind, RateLimit, RateLimiter, RateVerdict } from "../ports/rate-limiter.ts";
import { askStore, tellStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { report } from "./reports.ts";

/** The pause before a retry when the rate limiter names an impossible time, in milliseconds. */
const COME_BACK_MS = 1_000;

const MESSAGE: Readonly<Record<RateKind, string>> = {
  requests: "This API key sends too many requests.",
  tokens: "This API key uses too many tokens in too short a time.",
  calls: "This API key has too many calls at once.",
};

/** Counts a request of the key, and takes a slot of its concurrent calls until the call ends. Throws `rate_limited`. */
export async function limitRequests(call: Call, key: ApiKey, limiter: RateLimiter): Promise<void> {
  const taken = (verdict: RateVerdict): void => {
    // A verdict that comes after the call has ended gives its slot back at once.
    if (!verdict.refused) call.defer(() => endLimits(call, limiter));
  };
  await askLimiter(call, "begin", () => limiter.begin({ id: call.id, keyId: key.id, key }, call.details), taken);
}

/** Counts the estimated tokens of the input and the most tokens of the answer. Throws `rate_limited`. */
export async function limitTokens(call: Call, key: ApiKey, model: string, limiter: RateLimiter): Promise<void> {
  const { inputTokens: tokens, maxOutputTokens: outputTokens } = call;
  const demand = { id: call.id, keyId: key.id, key, model, tokens, outputTokens };
  await askLimiter(call, "take", () => limiter.take(demand, call.details));
}

/** @param taken Receives the verdict, in time or late. */
async function askLimiter(
  call: Call,
  verb: "begin" | "take",
  ask: () => Promise<RateVerdict>,
  taken?: (verdict: RateVerdict) => void,
): Promise<void> {
  const verdict = await verdictOf(call, verb, ask, taken);
  if (verdict) taken?.(verdict);
  call.assertLive();
  if (!verdict) return;
  call.rates = tightest([...call.rates, ...verdict.limits]);
  const { refused } = verdict;
  if (!refused) return call.watch?.rateLimit({ decision: "admitted" });
  const { retryAfterMs: told } = refused;
  const by = Object.hasOwn(MESSAGE, refused.by) ? refused.by : "requests";
  call.watch?.rateLimit({ decision: "refused", by });
  const retryAfterMs = Number.isFinite(told) && told >= 0 ? Math.ceil(told) : COME_BACK_MS;
  throw new GatewayError("rate_limited", MESSAGE[by], { retryAfterMs });
}

/** Returns the rate limiter's verdict; undefined when the limiter is down and the host lets calls pass all the same. */
async function verdictOf(
  call: Call,
  verb: string,
  ask: () => Promise<RateVerdict>,
  late?: (verdict: RateVerdict) => void,
): Promise<RateVerdict | undefined> {
  try {
    return await askStore(call, "rate-limiter", verb, ask, late);
  } catch (error) {
    if (!call.isEnded) call.watch?.rateLimit({ decision: "down" });
    if (call.services.rateLimiterDown === "closed" || call.isEnded) throw error;
    report(call, error, "rate-limiter");
    return undefined;
  }
}

/** For each kind of limit, keeps the one closest to exhaustion; skips limits that are not counts. */
function tightest(limits: readonly RateLimit[]): readonly RateLimit[] {
  const byKind = new Map<string, RateLimit>();
  for (const found of limits) {
    const { kind, limit, remaining, resetMs } = found;
    if (![limit, remaining, Math.ceil(resetMs)].every((count) => Number.isSafeInteger(count) && count >= 0)) continue;
    if (remaining < (byKind.get(kind)?.remaining ?? Number.POSITIVE_INFINITY)) byKind.set(kind, found);
  }
  return [...byKind.values()];
}

/** Gives the call's slot back, and reports the tokens that the call used. */
const endLimits = (call: Call, limiter: RateLimiter): Promise<unknown> =>
  tellStore(call, "rate-limiter", () => limiter.end(call.id, call.meter?.report.tokens ?? 0, call.details));
