/** Answers a repeated call with the answer of the first call, at no charge and without the backend. */

import { type GatewayErrorCode, toGatewayError, GatewayError } from "../errors.ts";
import { type Answer, isStream } from "../http/answer.ts";
import { queryOf } from "../http/request.ts";
import { SharedStream } from "../http/shared-stream.ts";
import { utf8Length } from "../model/json.ts";
import type { Cancel } from "../ports/clock.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { RecordedAnswer, ReplayState, ReplayStore } from "../ports/replay-store.ts";
import { takeSoon } from "./admission.ts";
import { askStore, retryBehind, tellStore } from "./ask-store.ts";
import type { Call } from "./call.ts";
import {
  hashOf,
  saidBy,
  saidByHeaders,
  type AnswerRecorder,
  type BodyContent,
  type Entry,
  type Follower,
  type Opened,
  type Replayed,
  type Replays,
  type RunningCall,
  checkedState,
} from "./idempotency.ts";
import { report } from "./reports.ts";
import { callHeaders, ending, refusal } from "./respond.ts";

/** Recognises a repeated request by its key, and answers it with the answer of the first. */
export interface Repetitions {
  /** Returns the request's idempotency key; undefined without one. Throws `invalid_request` for a header that is not a key. */
  keyOf(request: Request): string | undefined;
  replay: typeof replay;
}

/** The headers that belong to the answer. All other headers belong to one call. */
const KEPT_HEADERS: ReadonlySet<string> = new Set([
  "content-type",
  "cache-control",
  "x-accel-buffering",
  "polygate-dropped",
  "polygate-approximated",
  "polygate-output-limit",
]);

/** Refusals of a backend that stay the same however often the request is repeated. */
const FINAL: ReadonlySet<GatewayErrorCode> = new Set([
  "invalid_request",
  "context_length_exceeded",
  "content_refused",
  "failed_precondition",
  "body_too_large",
  "not_found",
  "model_not_found",
]);

class Recording implements RunningCall, AnswerRecorder {
  readonly fingerprint: string;
  readonly #call: Call;
  readonly #replays: Replays;
  readonly #entry: Entry;
  /** The calls that wait for the answer. Each is removed when it ends. */
  readonly #followers = new Set<Follower>();
  /** The answer for followers, once it is there. */
  #answer: Opened | undefined;
  #isOver = false;
  #isStarted = false;
  #isClaimed = false;
  #isGivenUp = false;
  #cancelRenewals: Cancel | undefined;
  #complete: RecordedAnswer | undefined;
  #streamed: Exclude<Opened, RecordedAnswer> | undefined;

  /** Registers the call: from now on, repetitions in this process follow it. The call's end removes it. */
  constructor(call: Call, replays: Replays, entry: Entry) {
    this.#call = call;
    this.fingerprint = entry.fingerprint;
    this.#replays = replays;
    this.#entry = entry;
    // In Workers each request has its own context, and no request may wait for the work of another.
    if (!call.hasWaitUntil && !replays.running.has(entry.id)) replays.running.set(entry.id, this);
    call.defer(() => this.#end());
  }

  /**
   * Claims the entry, or renews its lease. Returns undefined when the store is down and the host lets calls pass all the same.
   */
  async claim(): Promise<ReplayState | undefined> {
    const call = this.#call;
    const { store, down } = this.#replays;
    const claim = { ...this.#entry, callId: call.id, leaseMs: call.limits.leaseMs };
    const ask = (): Promise<ReplayState> => store.claim(claim, call.details);
    try {
      // Give up a claim that comes when nobody waits for it, and a renewal that the store took after the entry was given up.
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
   * Makes this call the one that is answered. The call outlives its client for a while, because the client may come back.
   *
   * @param isClaimed True when the store has recorded the claim.
   */
  start(isClaimed: boolean): void {
    const { clock, limits } = this.#call;
    this.#isStarted = true;
    this.#isClaimed = isClaimed;
    this.#call.abort.drainFor(limits.replayDrainMs);
    if (isClaimed) this.#cancelRenewals = clock.every(limits.leaseMs / 3, () => void this.#renew());
  }

  get isStarted(): boolean {
    return this.#isStarted;
  }

  /** Passes on an answer that the store already has. */
  found(answer: RecordedAnswer): void {
    this.#tellFollowers(answer);
  }

  complete(answer: Answer): void {
    this.#complete = this.#recorded(answer);
  }

  settle(answer: Answer): void {
    this.#cancelRenewals?.();
    const recorded = this.#recorded(answer);
    this.#tellFollowers(recorded);
    if (this.#isClaimed) this.#call.waitUntil(this.#record(recorded));
    this.#isClaimed = false;
  }

  stream(answered: Omit<Answer, "body">, body: AsyncIterator<string, undefined>, keepAlive: string): SharedStream {
    const shared = new SharedStream(body, { keepAlive, maxBytes: this.#call.limits.maxReplayBytes });
    const { body: _body, ...head } = this.#recorded({ ...answered, body: null });
    this.#streamed = { ...head, stream: true, shared };
    this.#tellFollowers(this.#streamed);
    return shared;
  }

  join(follower: Follower): void {
    this.#call.abort.addWaiter();
    const answer = this.#answer;
    // A stream that has failed is no answer to begin with.
    const isLasting = answer && !("shared" in answer && this.#call.found.error);
    if (isLasting || this.#isOver) follower(isLasting ? answer : undefined);
    else this.#followers.add(follower);
  }

  leave(follower: Follower): void {
    this.#followers.delete(follower);
    this.#call.abort.removeWaiter();
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

  /** Returns the answer to record; undefined when a repetition should try again. */
  async #outcome(): Promise<RecordedAnswer | undefined> {
    const { error, status, meter } = this.#call.found;
    if (error) {
      // A refusal before the backend was asked has cost nothing, and the next try may succeed.
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
    // Record a too large answer without its body: a repetition must not be charged again.
    const isTooLarge = answer.body !== undefined && utf8Length(answer.body) > maxReplayBytes;
    const kept = isTooLarge ? { ...answer, body: undefined } : answer;
    const record = { ...this.#entry, callId: call.id, answer: kept, retainMs };
    await this.#tell((store) => store.record(record, call.details));
  }

  async #release(): Promise<void> {
    const call = this.#call;
    this.#isGivenUp = true;
    const { id, keyId } = this.#entry;
    const holder = { id, keyId, callId: call.id };
    await this.#tell((store) => store.release(holder, call.details));
  }

  /** Tells the store how the call ended, and after a failure again behind the caller: until its lease ends, the claim blocks repetitions. */
  async #tell(tell: (store: ReplayStore) => Promise<void>): Promise<void> {
    const call = this.#call;
    await retryBehind(
      call.clock,
      () => tellStore(call, "replay-store", () => tell(this.#replays.store)),
      (next) => call.waitUntil(next),
    );
  }

  #forget(): void {
    const { running } = this.#replays;
    if (running.get(this.#entry.id) === this) running.delete(this.#entry.id);
    this.#isOver = true;
    this.#tellFollowers(undefined);
    // A store that has not answered may keep this object for ever.
    this.#answer = this.#complete = this.#streamed = undefined;
  }
}

/** Checks the state that a store has told. Throws `store_unavailable` for an impossible state. */
function stateOf(told: ReplayState): ReplayState {
  try {
    return checkedState(told, KEPT_HEADERS);
  } catch (error) {
    throw toGatewayError(error, "replay-store");
  }
}

/** The first and the longest pause between two looks at an entry that another process answers, in milliseconds. */
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
/** The pause before a caller should retry while its call is still being answered, in milliseconds. */
const COME_BACK_MS = 1_000;

/**
 * Returns the answer of the first call, which may still be streaming; for the first call itself, returns the recorder of its answer. Compares
 * bodies as they came, so that a repetition is answered without being parsed.
 *
 * Throws `idempotency_key_reused` for another request under the same key, and `idempotency_key_in_use` when the first call is still
 * being answered elsewhere and the host does not let calls wait.
 */
export async function replay(
  call: Call,
  replays: Replays,
  key: ApiKey,
  idempotencyKey: string,
  body: BodyContent,
): Promise<Replayed> {
  const entry = await entryOf(call, key, idempotencyKey, body);
  for (;;) {
    call.assertLive();
    const running = call.hasWaitUntil ? undefined : replays.running.get(entry.id);
    // Before the running call has started, the entry may belong to another request. So a request with a different body makes its own
    // store query.
    const decides = running && (running.isStarted || running.fingerprint === entry.fingerprint);
    const opened = await (decides ? follow(call, running, entry) : begin(call, replays, entry));
    call.assertLive();
    if (opened instanceof Recording) return { recorder: opened };
    if (opened) return { answer: await answerAgain(call, opened) };
  }
}

/** Returns the id and the fingerprint that all repetitions of a call share, from its key, its route and its content. */
async function entryOf(
  { endpoint, wildcardPath, request }: Call,
  key: ApiKey,
  idempotencyKey: string,
  body: BodyContent,
): Promise<Entry> {
  const query = queryOf(request.url);
  // The query may hold the secret, and a repetition may use another secret of the same key.
  query.delete("key");
  const scope = [key.id, endpoint.format, endpoint.path, wildcardPath];
  const id = await hashOf([...scope, idempotencyKey]);
  const said = [...saidByHeaders(request.headers), ...saidBy(body)];
  return { id, keyId: key.id, fingerprint: await hashOf([...scope, query.toString(), ...said]) };
}

/** Waits for the answer of a call in this process; undefined when that call has no lasting answer. */
async function follow(call: Call, running: RunningCall, entry: Entry): Promise<Opened | undefined> {
  assertSame(running, entry);
  const { promise, resolve } = Promise.withResolvers<Opened | undefined>();
  running.join(resolve);
  // Leave at the end of the call, not after the answer: a followed stream goes on as long as somebody reads it.
  call.defer(() => {
    running.leave(resolve);
    resolve(undefined);
  });
  return promise;
}

/** Claims with room for the answer that a claim may bring: the whole answer comes before its length is known. Throws `busy` without room. */
async function claimed(call: Call, { keyId }: Entry, recording: Recording): Promise<ReplayState | undefined> {
  const { bodies } = call.services;
  using lease = bodies.lease(keyId);
  // Take a part of a small room only, which has to hold the body of the call, too.
  const bytes = Math.min(call.limits.maxReplayBytes, Math.ceil(bodies.room.mostPerKey / 8));
  await takeSoon(call, lease, bytes);
  return await recording.claim();
}

/** Claims the entry, or waits until another process has answered. Returns the recorder of the answer, or the recorded answer. */
async function begin(call: Call, replays: Replays, entry: Entry): Promise<Opened | Recording> {
  const recording = new Recording(call, replays, entry);
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
    const state = await claimed(call, entry, recording);
    call.assertLive();
    if (!state || state.state === "claimed") {
      recording.start(state !== undefined);
      return recording;
    }
    assertSame(state, entry);
    if (state.state === "answered") {
      recording.found(state.answer);
      return state.answer;
    }
    if (replays.inFlightElsewhere === "refuse")
      throw new GatewayError("idempotency_key_in_use", "The request of this Idempotency-Key is still being answered.", {
        retryAfterMs: COME_BACK_MS,
      });
    await call.pause(pauseMs);
  }
}

function assertSame({ fingerprint }: { readonly fingerprint: string }, entry: Entry): void {
  if (fingerprint !== entry.fingerprint)
    throw new GatewayError(
      "idempotency_key_reused",
      "Another request was sent with this Idempotency-Key. A new request needs a new one.",
    );
}

async function answerAgain(call: Call, opened: Opened): Promise<Answer> {
  const { requestId, status, stream } = opened;
  const headers = { ...opened.headers, "polygate-replayed": requestId, ...callHeaders(call) };
  const body = "shared" in opened ? followed(call, opened.shared) : opened.body;
  if (body === undefined)
    throw new GatewayError(
      "idempotency_key_reused",
      "The request of this Idempotency-Key was answered, and the answer is too large to be given again.",
    );
  Object.assign(call.found, { replayOf: requestId, status, stream });
  if (typeof body !== "string") return { status, headers, body };
  return ending(call, { status, headers, body });
}

/** Returns the stream of another call from its beginning. The call ends with the stream. */
function followed(call: Call, shared: SharedStream): AsyncIterableIterator<string, undefined> | undefined {
  const reader = shared.reader((isThrough) => (isThrough ? void call.end() : call.abort.disconnect()));
  if (!reader) return undefined;
  call.abort.listen({
    cut(reason) {
      call.fail(reason);
      reader.fail(reason);
      void call.end();
    },
  });
  return reader;
}
