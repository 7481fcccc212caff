/** The work on one entry in this process: claims it, passes the answer on to who repeats the call meanwhile, records it. */

import { type GatewayErrorCode, toGatewayError } from "../errors.ts";
import { type Answer, isStream } from "../http/answer.ts";
import { SharedStream } from "../http/shared-stream.ts";
import { utf8Length } from "../model/utf8-length.ts";
import type { Cancel } from "../ports/clock.ts";
import type { RecordedAnswer, ReplayRecord, ReplayState } from "../ports/replay-store.ts";
import { askStore, TELL_AGAIN_MS, tellStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import { report } from "./failure.ts";
import { checkedState } from "./replay-state.ts";
import type { AnswerRecorder, Entry, Follower, Opened, Replays, RunningCall } from "./replays.ts";
import { refusal } from "./respond.ts";

/** Headers that belong to the answer. All others are about the one call, or how it is sent. */
export const KEPT_HEADERS: ReadonlySet<string> = new Set([
  "content-type",
  "cache-control",
  "x-accel-buffering",
  "polygate-dropped",
  "polygate-approximated",
]);

/** Refusals of a backend that stay what they are, however often the same is asked. */
const FINAL: ReadonlySet<GatewayErrorCode> = new Set([
  "invalid_request",
  "failed_precondition",
  "body_too_large",
  "not_found",
  "model_not_found",
]);

export class Recording implements RunningCall, AnswerRecorder {
  readonly fingerprint: string;
  readonly #call: Call;
  readonly #replays: Replays;
  readonly #entry: Entry;
  /** Who waits for the answer. They are many where a client repeats often, and each is forgotten when its call ends. */
  readonly #followers = new Set<Follower>();
  /** What followers are told, once it is there. */
  #answer: Opened | undefined;
  #isOver = false;
  #isStarted = false;
  #isClaimed = false;
  #isGivenUp = false;
  #cancelRenewals: Cancel | undefined;
  #complete: RecordedAnswer | undefined;
  #streamed: Exclude<Opened, RecordedAnswer> | undefined;

  /** From here on calls of this process that repeat it follow this one. Its call's end ends it. */
  constructor(call: Call, replays: Replays, entry: Entry) {
    this.#call = call;
    this.fingerprint = entry.fingerprint;
    this.#replays = replays;
    this.#entry = entry;
    // Where each request has a context of its own, as in Workers, none may wait for what belongs to another.
    if (!call.hasWaitUntil && !replays.running.has(entry.id)) replays.running.set(entry.id, this);
    call.defer(() => this.#end());
  }

  /** Claims the entry, or renews its lease; undefined where the store is down and its host lets calls through all the same. */
  async claim(): Promise<ReplayState | undefined> {
    const call = this.#call;
    const { store, down } = this.#replays;
    const claim = { ...this.#entry, callId: call.id, leaseMs: call.limits.leaseMs };
    const ask = (): Promise<ReplayState> => store.claim(claim, call.details);
    try {
      // A claim that comes when nobody waits for it any more is given up; so is a renewal that a store took up after that.
      const told = await askStore(call, "replay-store", "claim", ask, (late) =>
        late?.state === "claimed" && (this.#isGivenUp || !this.#isStarted) ? this.#release() : undefined,
      );
      return stateOf(told);
    } catch (error) {
      if (down === "closed" || call.isEnded) throw error;
      report(call, error, "replay-store");
      return undefined;
    }
  }

  /**
   * The call is the one that is answered: it goes on for a while when its client is gone, because that may come back.
   *
   * @param isClaimed Whether the store knows that.
   */
  start(isClaimed: boolean): void {
    const { clock, limits } = this.#call.services;
    this.#isStarted = true;
    this.#isClaimed = isClaimed;
    this.#call.abort.drainFor(limits.replayDrainMs);
    if (isClaimed) this.#cancelRenewals = clock.every(limits.leaseMs / 3, () => void this.#renew());
  }

  get isStarted(): boolean {
    return this.#isStarted;
  }

  /** The answer is there already. */
  found(answer: RecordedAnswer): void {
    this.#tellFollowers(answer);
  }

  complete(answer: Answer): void {
    this.#complete = this.#recorded(answer);
  }

  stream(body: AsyncIterator<string, undefined>, keepAlive: string): SharedStream {
    return new SharedStream(body, { keepAlive, maxBytes: this.#call.limits.maxReplayBytes });
  }

  open(answer: Answer, shared: SharedStream): void {
    const { body: _body, ...head } = this.#recorded({ ...answer, body: null });
    this.#streamed = { ...head, stream: true, shared };
    this.#tellFollowers(this.#streamed);
  }

  join(follower: Follower): void {
    this.#call.abort.join();
    const answer = this.#answer;
    // A stream that has failed is none to begin with.
    const isLasting = answer && !("shared" in answer && this.#call.error);
    if (isLasting || this.#isOver) follower(isLasting ? answer : undefined);
    else this.#followers.add(follower);
  }

  leave(follower: Follower): void {
    this.#followers.delete(follower);
    this.#call.abort.leave();
  }

  #tellFollowers(answer: Opened | undefined): void {
    this.#answer ??= answer;
    for (const follower of this.#followers) follower(answer);
    this.#followers.clear();
  }

  async #renew(): Promise<void> {
    try {
      const state = await this.claim();
      if (!state || state.state === "claimed" || this.#call.isEnded) return;
      this.#isClaimed = false;
      this.#cancelRenewals?.();
      throw new Error("The store has given the claim of a call that runs to another one.");
    } catch (error) {
      if (!this.#call.isEnded) report(this.#call, error, "replay-store");
    }
  }

  #end(): Promise<unknown> | undefined {
    this.#cancelRenewals?.();
    if (this.#isStarted) return this.#keep();
    this.#forget();
    return undefined;
  }

  async #keep(): Promise<void> {
    const answer = await this.#outcome();
    if (answer) this.#tellFollowers(answer);
    if (this.#isClaimed) await (answer ? this.#record(answer) : this.#release());
    this.#forget();
  }

  /** The answer to record; undefined where a repetition may do better. */
  async #outcome(): Promise<RecordedAnswer | undefined> {
    const { error, status, meter } = this.#call;
    if (error) {
      // What was refused before a backend was asked has cost nothing, and may be let through the next time.
      const isFinal = meter !== undefined && status === undefined && FINAL.has(error.code);
      return isFinal ? this.#recorded(refusal(this.#call, error)) : undefined;
    }
    if (!this.#streamed) return this.#complete;
    const { shared, ...head } = this.#streamed;
    await shared.drain();
    return { ...head, body: shared.text() };
  }

  #recorded({ status, headers, body }: Answer): RecordedAnswer {
    const kept = Object.entries(headers).filter(([name]) => KEPT_HEADERS.has(name));
    const text = typeof body === "string" ? body : undefined;
    return { requestId: this.#call.id, status, headers: Object.fromEntries(kept), body: text, stream: isStream(body) };
  }

  async #record(answer: RecordedAnswer): Promise<void> {
    const call = this.#call;
    const { maxReplayBytes, replayRetentionMs: retainMs } = call.limits;
    // Of one that is too large it is recorded that it was given: a repetition must not be charged again.
    const isTooLarge = answer.body !== undefined && utf8Length(answer.body) > maxReplayBytes;
    const kept = isTooLarge ? { ...answer, body: undefined } : answer;
    const record = { ...this.#entry, callId: call.id, answer: kept, retainMs };
    await this.#tell(record, 0);
  }

  /** Where the store fails it is told again, beside the call: until its lease runs out, the claim keeps repetitions waiting. */
  async #tell(record: ReplayRecord, failures: number): Promise<void> {
    const call = this.#call;
    if (await tellStore(call, "replay-store", () => this.#replays.store.record(record, call.details))) return;
    const delay = TELL_AGAIN_MS[failures];
    if (delay === undefined) return;
    const again = (): Promise<void> => this.#tell(record, failures + 1);
    call.waitUntil(new Promise<void>((resolve) => call.services.clock.after(delay, () => resolve(again()))));
  }

  async #release(): Promise<void> {
    const call = this.#call;
    this.#isGivenUp = true;
    const { id, keyId } = this.#entry;
    const holder = { id, keyId, callId: call.id };
    await tellStore(call, "replay-store", () => this.#replays.store.release(holder, call.details));
  }

  #forget(): void {
    const { running } = this.#replays;
    if (running.get(this.#entry.id) === this) running.delete(this.#entry.id);
    this.#isOver = true;
    this.#tellFollowers(undefined);
    // A store that has not answered yet may keep this object for ever.
    this.#answer = this.#complete = this.#streamed = undefined;
  }
}

/** The state as a store told it. Throws `store_unavailable` for one that cannot be. */
function stateOf(told: ReplayState): ReplayState {
  try {
    return checkedState(told, KEPT_HEADERS);
  } catch (error) {
    throw toGatewayError(error, "replay-store");
  }
}
