// my-limiter.ts
import { type Clock, type RateLimiter, type RateVerdict, systemClock } from "polygate";

export interface MyLimits {
  readonly requests?: number;
  readonly tokens?: number;
  readonly callsAtOnce?: number;
  readonly windowMs: number;
  readonly clock?: Clock;
}

/** The counts of a key in one window, and its running calls. */
interface Counts {
  window: number;
  requests: number;
  tokens: number;
  calls: number;
}

export function myRateLimiter(limits: MyLimits): RateLimiter {
  const { requests = Infinity, tokens = Infinity, callsAtOnce = Infinity, windowMs, clock = systemClock } = limits;
  const keys = new Map<string, Counts>();
  const calls = new Map<string, { readonly counts: Counts; window: number; tokens: number }>();

  function countsOf(keyId: string): Counts {
    const window = Math.floor(clock.now() / windowMs);
    const counts = keys.get(keyId) ?? { window, requests: 0, tokens: 0, calls: 0 };
    if (counts.window !== window) Object.assign(counts, { window, requests: 0, tokens: 0 });
    keys.set(keyId, counts);
    return counts;
  }

  /** Adds to a count, or refuses when the limit has no room. */
  function add(counts: Counts, kind: "requests" | "tokens", limit: number, amount: number): RateVerdict {
    const resetMs = windowMs - (clock.now() % windowMs);
    const hasRoom = counts[kind] + amount <= limit;
    if (hasRoom) counts[kind] += amount;
    const state = { kind, limit, remaining: Math.max(0, limit - counts[kind]), resetMs };
    return {
      ...(!hasRoom && { refused: { by: kind, retryAfterMs: resetMs } }),
      limits: Number.isFinite(limit) ? [state] : [],
    };
  }

  return {
    async begin({ id, keyId }) {
      const counts = countsOf(keyId);
      if (counts.calls >= callsAtOnce) return { refused: { by: "calls", retryAfterMs: 1_000 }, limits: [] };
      const verdict = add(counts, "requests", requests, 1);
      if (verdict.refused) return verdict;
      counts.calls++;
      calls.set(id, { counts, window: counts.window, tokens: 0 });
      return verdict;
    },
    async take({ id, keyId, tokens: input, outputTokens = 0 }) {
      const call = calls.get(id);
      if (!call) return { limits: [] }; // The call has ended already.
      const counts = countsOf(keyId);
      const verdict = add(counts, "tokens", tokens, input + outputTokens);
      if (!verdict.refused) Object.assign(call, { window: counts.window, tokens: input + outputTokens });
      return verdict;
    },
    async end(id, used) {
      const call = calls.get(id);
      if (!call) return;
      calls.delete(id);
      call.counts.calls--;
      if (call.counts.window === call.window) call.counts.tokens += used - call.tokens;
    },
  };
}
