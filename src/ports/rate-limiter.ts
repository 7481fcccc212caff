/** The port behind which rates are counted: requests, tokens and calls at once. */

import type { CallInfo } from "./call-info.ts";

/**
 * How often a key may call. Windows, and whether one counts by key, by model or both, are the limiter's own.
 *
 * Promises:
 * - A refused verb counts nothing: whoever waits as long as it was told is not worse off for having asked.
 * - Of calls that ask at once, no more are let in than the limit on calls at once has places for.
 * - After a `begin` that admits, the gateway calls `end` once, however the call ends; after one that refuses, it does not.
 *
 * What a verb rejects with is taken for a limiter that is down, and so is one that takes longer than `limits.storeTimeoutMs`.
 */
export interface RateLimiter<Context = unknown> {
  /** A call of a key begins, nothing of its body being read yet: counts one request, and takes one place of its calls at once. */
  begin(demand: CallDemand, call?: CallInfo<Context>): Promise<RateVerdict>;
  /**
   * The call's model, its input and the limit of its answer are known: counts the tokens, and a request and a place of what is limited by
   * model. A limiter that counts the input alone lets calls that run at once exceed a limit by all of their answers.
   */
  take(demand: TokenDemand, call?: CallInfo<Context>): Promise<RateVerdict>;
  /** The call has ended: gives its places back, and counts `tokens` in place of those that were taken. An unknown id changes nothing. */
  end(id: string, tokens: number, call?: CallInfo<Context>): Promise<void>;
}

/** A call that begins, and whose it is. */
export interface CallDemand {
  /** Unique to one call. */
  readonly id: string;
  /** The `ApiKey.id` of the caller. */
  readonly keyId: string;
}

/** A call whose model and input are known. */
export interface TokenDemand extends CallDemand {
  readonly model: string;
  /** The tokens of the input, by the gateway's estimate. */
  readonly tokens: number;
  /** The most tokens that the answer may have, all candidates together; 0 where that is not known, as of pictures. */
  readonly outputTokens?: number;
}

/** The kind of limit. */
export type RateKind = "requests" | "tokens" | "calls";

/** Whether a call may go on, and how its limits stand. */
export interface RateVerdict {
  /** Why the call may not go on, and in how many milliseconds it may come back; absent where it may. */
  readonly refused?: { readonly by: RateKind; readonly retryAfterMs: number };
  /** How the limits stand that were asked. Of each kind the caller is told the one of which least remains. */
  readonly limits: readonly RateLimit[];
}

/** How one limit stands. */
export interface RateLimit {
  readonly kind: Exclude<RateKind, "calls">;
  /** How many a window has, from 0. */
  readonly limit: number;
  /** How many of them are left, from 0. */
  readonly remaining: number;
  /** How long until the window begins anew, in milliseconds. */
  readonly resetMs: number;
}
