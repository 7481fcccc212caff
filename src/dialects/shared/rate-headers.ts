/** How the formats' clients are told of their rates: each family reads headers of its own. */

import type { RateLimit } from "../../ports/rate-limiter.ts";

type Headers = Record<string, string>;

/** `anthropic-ratelimit-requests-limit`, `-remaining` and `-reset`, which is a moment in RFC 3339. */
export function anthropicRateHeaders(limits: readonly RateLimit[], now: number): Headers {
  const headers: Headers = {};
  for (const { kind, limit, remaining, resetMs } of limits) {
    const name = `anthropic-ratelimit-${kind}`;
    headers[`${name}-limit`] = String(limit);
    headers[`${name}-remaining`] = String(remaining);
    headers[`${name}-reset`] = momentOf(now + resetMs);
  }
  return headers;
}

/** `x-ratelimit-limit-requests`, `-remaining-requests` and `-reset-requests`, which is a time to wait, such as `6m0s`. */
export function openaiRateHeaders(limits: readonly RateLimit[]): Headers {
  const headers: Headers = {};
  for (const { kind, limit, remaining, resetMs } of limits) {
    headers[`x-ratelimit-limit-${kind}`] = String(limit);
    headers[`x-ratelimit-remaining-${kind}`] = String(remaining);
    headers[`x-ratelimit-reset-${kind}`] = durationOf(Math.ceil(resetMs));
  }
  return headers;
}

/** The last moment that a Date can tell. */
const LAST = 8_640_000_000_000_000;

/** In whole seconds, rounded up: whoever waits until then has waited long enough. */
const momentOf = (at: number): string =>
  new Date(Math.min(Math.ceil(at / 1000) * 1000, LAST)).toISOString().replace(".000Z", "Z");

function durationOf(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const seconds = Math.ceil(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `${hours > 0 ? `${hours}h` : ""}${seconds >= 60 ? `${minutes}m` : ""}${seconds % 60}s`;
}
