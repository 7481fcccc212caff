/** The port behind which answers are kept for callers who repeat a request under the same `Idempotency-Key`. */

import type { CallInfo } from "./call-info.ts";

/**
 * Who works on a repeated request, and what came of it. An entry belongs to one api key, one route and one `Idempotency-Key`:
 * first a call claims it, for one lease at a time, then its answer is recorded, or the entry is released.
 *
 * Promises, which `polygate/testing` checks:
 * - Of calls that claim a free entry at once, exactly one gets it, also where several processes share the store.
 * - Whoever does not get it is told the fingerprint that the entry was claimed with, whatever its own is.
 * - A claim whose lease has run out by the store's own clock is free. The call that holds it renews it by claiming again.
 * - An answer that was recorded is told character by character for as long as it is retained, and never after that.
 * - Only the call that holds an entry, or one whose entry nobody holds, records or releases it; any other changes nothing.
 * - A store is bounded: it may forget recorded answers early, the oldest first. It never forgets a claim whose lease runs.
 *
 * What a verb rejects with is taken for a store that is down, and so is one that takes longer than `limits.storeTimeoutMs`.
 */
export interface ReplayStore<Context = unknown> {
  /** Takes an entry for a call, or tells who has it. A call that has it already renews its lease. Atomic. */
  claim(claim: ReplayClaim, call?: CallInfo<Context>): Promise<ReplayState>;
  /** Keeps the answer of the call that holds the entry, which is answered from then on. */
  record(record: ReplayRecord, call?: CallInfo<Context>): Promise<void>;
  /** Gives up a call's claim, so that the next one that asks gets it. A recorded answer stays. */
  release(holder: ReplayHolder, call?: CallInfo<Context>): Promise<void>;
}

/** Whose entry it is, and which call speaks of it. */
export interface ReplayHolder {
  /** The entry: 64 hexadecimal digits. */
  readonly id: string;
  /** The `ApiKey.id` of the caller: a store may bound what one key fills of it. */
  readonly keyId: string;
  /** The request id of the call. */
  readonly callId: string;
}

export interface ReplayClaim extends ReplayHolder {
  /** What the request says, as a hash of 64 hexadecimal digits: two requests of one entry are the same where these are. */
  readonly fingerprint: string;
  /** How long the claim holds unless it is renewed, in milliseconds: an integer from 1 up. */
  readonly leaseMs: number;
}

export interface ReplayRecord extends ReplayHolder {
  readonly fingerprint: string;
  readonly answer: RecordedAnswer;
  /** How long the answer is retained, in milliseconds: an integer from 1 up. */
  readonly retainMs: number;
}

/** What an entry is. */
export type ReplayState =
  /** It is the asking call's: it was free, or it was that call's already. */
  | { readonly state: "claimed" }
  /** Another call has it, and has not ended. */
  | { readonly state: "running"; readonly fingerprint: string }
  | { readonly state: "answered"; readonly fingerprint: string; readonly answer: RecordedAnswer };

/** An answer, as it can be given again. */
export interface RecordedAnswer {
  /** The request id of the call that was answered with it. */
  readonly requestId: string;
  readonly status: number;
  /** Those headers that belong to the answer, and not to the one call. */
  readonly headers: Readonly<Record<string, string>>;
  /** All of it; of a streamed answer every frame but the keep-alives. Undefined where it was too large to be kept. */
  readonly body: string | undefined;
  /** Whether it was a stream. */
  readonly stream: boolean;
}
