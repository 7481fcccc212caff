/** The port for stores of answers, which callers get again when they repeat a request with the same `Idempotency-Key`. */

import type { CallInfo } from "./call-info.ts";

/**
 * Stores the state of repeatable requests. An entry belongs to one api key, one route and one `Idempotency-Key`. A call claims the entry,
 * for one lease at a time. Then its answer is recorded, or the entry is released.
 *
 * Promises, which `polygate/testing` checks:
 * - When several calls claim a free entry at once, exactly one gets it, also when several processes share the store.
 * - Each other call receives the fingerprint of the claim, even when its own is different.
 * - A claim expires with its lease, by the store's own clock. Its call renews the lease by claiming again.
 * - A recorded answer is returned without any change until its retention ends, and never after that.
 * - Only the call that holds an entry records or releases it. While no call holds the entry, any call can. All other attempts change
 *   nothing.
 * - A store is bounded: it may forget recorded answers early, the oldest first. It never forgets a claim with a running lease.
 *
 * A store counts as down when a verb rejects, or takes longer than `limits.storeTimeoutMs`.
 */
export interface ReplayStore<Context = unknown> {
  /** Claims an entry for a call, or returns its state. Renews the lease of a call that holds the entry. Atomic. */
  claim(claim: ReplayClaim, call?: CallInfo<Context>): Promise<ReplayState>;
  /** Records the answer of the call that holds the entry. */
  record(record: ReplayRecord, call?: CallInfo<Context>): Promise<void>;
  /** Ends a call's claim, so that the next call gets the entry. A recorded answer stays. */
  release(holder: ReplayHolder, call?: CallInfo<Context>): Promise<void>;
}

/** An entry, and the call that works on it. */
export interface ReplayHolder {
  /** The id of the entry: 64 hexadecimal digits. */
  readonly id: string;
  /** The `ApiKey.id` of the caller's key. A store may limit the entries of one key. */
  readonly keyId: string;
  /** The request id of the call. */
  readonly callId: string;
}

/** A claim of an entry. */
export interface ReplayClaim extends ReplayHolder {
  /** A hash of the request, as 64 hexadecimal digits. Requests of one entry with the same fingerprint are the same request. */
  readonly fingerprint: string;
  /** The lifetime of the claim without a renewal, in milliseconds: an integer from 1 up. */
  readonly leaseMs: number;
}

/** The answer of an entry. */
export interface ReplayRecord extends ReplayHolder {
  /** The fingerprint of the claim. */
  readonly fingerprint: string;
  /** The answer that later calls of the entry get. */
  readonly answer: RecordedAnswer;
  /** The time until the answer may be forgotten, in milliseconds: an integer from 1 up. */
  readonly retainMs: number;
}

/** The state of an entry. */
export type ReplayState =
  /** The call that made the claim holds the entry. */
  | { readonly state: "claimed" }
  /** Another call holds the entry, and has not ended. */
  | { readonly state: "running"; readonly fingerprint: string }
  | { readonly state: "answered"; readonly fingerprint: string; readonly answer: RecordedAnswer };

/** A recorded answer. */
export interface RecordedAnswer {
  /** The request id of the call that was answered first. */
  readonly requestId: string;
  /** The HTTP status. */
  readonly status: number;
  /** The headers of the answer, without headers that belong to one call, such as the request id. */
  readonly headers: Readonly<Record<string, string>>;
  /** The complete body; a stream has every frame except keep-alives. Undefined for a body that was too large to keep. */
  readonly body: string | undefined;
  /** True for a stream. */
  readonly stream: boolean;
}
