/** The port for rate limiters: requests, tokens and concurrent calls. */

import type { RefusedBy } from "../errors.ts";
import type { CallInfo } from "./call-info.ts";
import type { ApiKey } from "./quota-store.ts";

/**
 * Limits the rate of a key's calls. The limiter chooses its time windows, and counts by key, by model or by both.
 *
 * Promises, which `polygate/testing` checks:
 * - A refusal counts nothing, so a refused attempt does not make a later attempt fail.
 * - The limit on concurrent calls also holds for calls that begin at the same time.
 * - After `begin` has admitted a call, the gateway calls `end` exactly once, however the call ends. After a refusal by `begin`, it does not
 *   call `end`.
 * - If a call ends before `begin` has decided, the gateway also calls `end`, and once more if the call is admitted after its end.
 * - `end` may be called while `take` is under way, when a client disconnects. Nothing stays counted then but the call's real usage.
 * - Tokens that a call has not used are given back only to the window that they were taken from.
 *
 * A limiter counts as down when a verb rejects, or takes longer than `limits.storeTimeoutMs`. A GatewayError of the code `misconfigured`
 * refuses the call even then: its `cause` tells the host which setting of the key is wrong.
 */
export interface RateLimiter<Context = unknown> {
  /** Counts a request and a concurrent call of the key. Called before the body is read. */
  begin(demand: CallDemand, call?: CallInfo<Context>): Promise<RateVerdict>;
  /**
   * Counts the tokens of a call. Limits by model also count the request and the concurrent call here. Called when the model, the input and
   * the limit of the answer are known. If a limiter ignores `outputTokens`, concurrent calls can exceed a limit by the length of all their
   * answers.
   */
  take(demand: TokenDemand, call?: CallInfo<Context>): Promise<RateVerdict>;
  /**
   * Ends a call: it no longer counts as concurrent, and `tokens`, its real usage, replaces the tokens that `take` counted. Changes nothing
   * for an unknown id.
   */
  end(id: string, tokens: number, call?: CallInfo<Context>): Promise<void>;
  /**
   * Says in a sentence why the calls of a key would be refused as `misconfigured`, such as for a tier that the limiter does not have.
   * Returns undefined for a sound key. The admin over HTTP makes no key with a fault. Default: all keys are sound.
   */
  keyFault?(key: ApiKey): string | undefined;
  /** The tiers that the entry `tier` of a key's metadata can name, for the choices of the admin's page. Default: not known. */
  readonly tiers?: readonly string[] | undefined;
}

/** A call that begins. */
export interface CallDemand {
  /** The id of the call, unique to one call. */
  readonly id: string;
  /** The `ApiKey.id` of the caller's key. */
  readonly keyId: string;
  /** The caller's key, from which a limiter may choose its limits. The gateway always gives it. */
  readonly key?: ApiKey;
}

/** A call whose model and input are known. */
export interface TokenDemand extends CallDemand {
  /** The requested model. */
  readonly model: string;
  /** The input tokens, by the gateway's estimate. */
  readonly tokens: number;
  /** The most tokens of the answer, of all candidates together; 0 when unknown, as for images. */
  readonly outputTokens?: number;
}

/** The kind of limit. */
export type RateKind = "requests" | "tokens" | "calls";

/** The decision about a call, and the state of its limits. */
export interface RateVerdict {
  /** The limit that refuses the call; absent for an admitted call. */
  readonly refused?: RateRefusal;
  /** The state of each consulted limit. The answer's headers tell the caller, for each kind, the limit that is closest to exhaustion. */
  readonly limits: readonly RateLimit[];
}

/** The limit that refuses a call. All fields but `by` and `retryAfterMs` are for the record, and for the message to the caller. */
export interface RateRefusal extends Pick<
  RefusedBy,
  "needed" | "available" | "limit" | "windowMs" | "endsAt" | "model" | "group"
> {
  /** The kind of limit that refuses. */
  readonly by: RateKind;
  /** The time until the call may have room, in milliseconds; Infinity where no wait helps, such as for a call beyond the whole limit. */
  readonly retryAfterMs: number;
}

/** The state of one limit. */
export interface RateLimit {
  /** The counted kind. */
  readonly kind: Exclude<RateKind, "calls">;
  /** The most requests or tokens of one window, from 0. */
  readonly limit: number;
  /** The requests or tokens that are left in this window, from 0. */
  readonly remaining: number;
  /** The time until the next window, in milliseconds. */
  readonly resetMs: number;
}
