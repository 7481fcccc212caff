/** Responds to the caller: a complete answer, a stream, an answer that is made in the background, or the error in the caller's format. */

import { GatewayError, isWait, needsOperator } from "../errors.ts";
import type { AnswerCollector, AnswerStream, Endpoint, FrameSource, BackgroundAnswer } from "../formats/format.ts";
import { NO_RETRY } from "../formats/shared/errors.ts";
import { type Answer, type JsonPieces, jsonAnswer } from "../http/answer.ts";
import { EventStream, type EventStreamOptions } from "../http/event-stream.ts";
import type { Conversion } from "../model/conversion.ts";
import { utf8Length, isHighSurrogate } from "../model/json.ts";
import type { Clock } from "../ports/clock.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { RateLimit } from "../ports/rate-limiter.ts";
import type { BodyLease, BodyRoom } from "../ports/shared-room.ts";
import type { CallAbort } from "./abort.ts";
import type { Call } from "./call.ts";
import type { AnswerRecorder } from "./idempotency.ts";
import type { AnswerEvents } from "./output.ts";

/** Collects the events into one body. */
export async function complete<Answered>(
  call: Call,
  events: AnswerEvents<Answered>,
  collector: AnswerCollector<Answered>,
): Promise<Answer> {
  if (collector.keep) events.keep = (finish) => collector.keep?.(finish);
  await events.each((event) => {
    collector.add(event);
    return true;
  });
  return jsonAnswer(200, collector.body(), answerHeaders(call));
}

/** The headers of a stream. The second tells reverse proxies not to buffer it. */
const STREAM_HEADERS = { "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" } as const;

/** Makes the body of a streamed answer. The call ends with the last frame, or when the client is gone. */
function eventStream(
  call: Call,
  format: Pick<FrameSource, "keepAlive" | "error">,
  source: Pick<EventStreamOptions, "silentSince" | "frames" | "isLast">,
): EventStream {
  if (call.slot) call.services.inFlight.stream(call.slot);
  return new EventStream({
    ...source,
    clock: call.clock,
    keepAlive: { frame: format.keepAlive, afterMs: call.limits.keepAliveMs },
    failed: (thrown) => format.error(call.fail(thrown)),
    cancelled: () => call.abort.disconnect(),
    ended: () => void call.end(),
  });
}

/** Writes the events as they come. The call ends with the last event. */
export function streamed<Answered>(
  call: Call,
  events: AnswerEvents<Answered>,
  stream: AnswerStream<Answered>,
  silentSince: number,
  recorder: AnswerRecorder | undefined,
): Answer {
  if (stream.keep) events.keep = (finish) => stream.keep?.(finish);
  const head = {
    status: 200,
    headers: { "content-type": stream.contentType, ...STREAM_HEADERS, ...answerHeaders(call) },
  };
  const body = eventStream(call, stream, {
    silentSince,
    frames: (write) =>
      events.each((event) => {
        const frames = stream.encode(event);
        return frames === "" || write(frames);
      }),
    isLast: () => events.isFinished,
  });
  // A call with an idempotency key may have more readers than its own client.
  const shared = recorder?.stream(head, body, stream.keepAlive);
  const own = shared?.reader(disconnecting(call.abort));
  const clientGone = (): void => {
    if (!shared) return body.drain();
    void own?.return();
    void shared.runOn();
  };
  call.abort.listen({ cut: (reason) => body.fail(reason), clientGone });
  call.found.status = 200;
  if (call.abort.isClientGone) clientGone();
  return { ...head, body: own ?? body };
}

/** The time between two questions to a source that is not at its end, in milliseconds. */
const POLL_MS = 500;

/** The room for an answer that is read from a store while it is written: the pieces that are read at once. */
const READ_BYTES = 256 * 1024;

/** Books room until the end of the call. Throws `busy` when the bodies of the key leave none. */
function book(call: Call, bytes: number): void {
  if (!call.key) return;
  const lease = call.services.bodies.lease(call.key.id);
  call.defer(() => lease[Symbol.dispose]());
  lease.take(bytes);
}

/**
 * Answers with JSON in pieces. The first piece is read before the head, so that a failure has its true status. A later failure breaks the
 * connection.
 */
export async function piecemeal(call: Call, { pieces, heldChars }: JsonPieces): Promise<Answer> {
  book(call, READ_BYTES + heldChars);
  const source = pieces[Symbol.asyncIterator]();
  const first = await source.next();
  call.found.status = 200;
  const headers = { "content-type": "application/json", ...callHeaders(call) };
  return { status: 200, headers, body: new Pieces(call, source, first) };
}

const NO_MORE: IteratorReturnResult<undefined> = { done: true, value: undefined };

/** A body that the gateway has or reads, piece by piece as its client reads it. The call ends with the last piece, or when the client is gone. */
class Pieces<Piece extends string | Uint8Array = string> implements AsyncIterableIterator<Piece, undefined> {
  readonly #call: Call;
  readonly #source: AsyncIterator<Piece> | Iterator<Piece>;
  #first: IteratorResult<Piece> | undefined;

  constructor(call: Call, source: AsyncIterator<Piece> | Iterator<Piece>, first?: IteratorResult<Piece>) {
    this.#call = call;
    this.#source = source;
    this.#first = first;
    call.abort.listen({ cut: (reason) => void this.#fail(reason) });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Piece, undefined>> {
    try {
      for (;;) {
        this.#call.assertLive();
        const { done, value } = this.#first ?? (await this.#source.next());
        this.#first = undefined;
        if (done) return await this.return();
        if (value.length > 0) return { done: false, value };
      }
    } catch (error) {
      await this.#fail(error);
      throw error;
    }
  }

  async return(): Promise<IteratorResult<Piece, undefined>> {
    this.#first = undefined;
    // The source may wait for a store that hangs.
    void Promise.resolve(this.#source.return?.()).catch(() => {});
    await this.#call.endAndSettle();
    return NO_MORE;
  }

  #fail(thrown: unknown): Promise<void> {
    const call = this.#call;
    if (!call.isEnded && !call.found.error) call.fail(thrown);
    return call.endAndSettle();
  }
}

/** Ends a call whose answer is complete. */
export async function finish(call: Call, answer: Answer, recorder?: AnswerRecorder): Promise<Answer> {
  recorder?.complete(answer);
  const { body } = answer;
  if (typeof body === "string" && body.length > LARGE_CHARS && call.key)
    return largeAnswer(call, call.key, answer, body);
  await call.endAndSettle();
  return answer;
}

/** A smaller answer is written at once. In characters. */
const LARGE_CHARS = 1024 ** 2;

/**
 * Returns a large answer in pieces, and counts its memory until its client has read it. The answer is paid for, so it is never refused: the
 * next calls of its key are, while too many answers are unread.
 */
function largeAnswer(call: Call, { id }: ApiKey, answer: Answer, body: string): Answer {
  const { room } = call.services.bodies;
  const bytes = utf8Length(body);
  room.add(id, bytes);
  call.defer(() => room.remove(id, bytes));
  call.found.status = answer.status;
  const pieces = new Pieces(call, piecesOf(body));
  // A settled call has no deadline any more, but an unread answer must still end.
  call.defer(call.clock.after(call.limits.deadlineMs, () => void pieces.return()));
  return { ...answer, headers: { ...answer.headers, "content-length": String(bytes) }, body: pieces };
}

/**
 * Ends a call with an answer that the gateway has: at once, or with the last piece of an answer that is large. Throws `busy` when the key's
 * bodies leave no room.
 */
export async function ending(call: Call, answer: Answer): Promise<Answer> {
  const { body } = answer;
  if (typeof body === "string" && body.length > PIECE_CHARS) {
    book(call, utf8Length(body));
    return { ...answer, body: new Pieces(call, piecesOf(body)) };
  }
  return finish(call, answer);
}

/**
 * The length of one piece of a recorded answer, in characters: a client that reads nothing costs no more memory than a piece.
 */
const PIECE_CHARS = 64 * 1024;

function* piecesOf(body: string): Generator<string, undefined> {
  for (let at = 0, end = 0; at < body.length; at = end) {
    end = at + PIECE_CHARS;
    // Keep the two halves of a character together.
    if (isHighSurrogate(body.charCodeAt(end - 1))) end++;
    yield body.slice(at, end);
  }
  return undefined;
}

/** Writes the frames of a source as they come. The first frames come before the head, so that a failure has its true status. */
export async function polled(call: Call, source: FrameSource): Promise<Answer> {
  book(call, READ_BYTES);
  let next = await source.next();
  let isFirst = true;
  const body = eventStream(call, source, {
    silentSince: call.clock.now(),
    frames: async (write) => {
      if (!isFirst) {
        if (next.frames === "") await call.pause(POLL_MS);
        next = await source.next();
      }
      isFirst = false;
      if (next.frames !== "") write(next.frames);
      return !next.isLast;
    },
    isLast: () => false,
  });
  call.abort.listen({ cut: (reason) => body.fail(reason) });
  call.found.status = 200;
  const { contentType } = source;
  return { status: 200, headers: { "content-type": contentType, ...STREAM_HEADERS, ...callHeaders(call) }, body };
}

/**
 * Returns a listener for a client that stops reading. Outside `streamed`, so that it holds nothing of the call: a client may stay
 * connected without reading.
 */
const disconnecting =
  (abort: CallAbort) =>
  (isThrough: boolean): void =>
    isThrough ? undefined : abort.disconnect();

/** Returns the error in the format of its endpoint. */
export function refusal(call: AnsweredCall, error: GatewayError): Answer {
  const { status, body } = call.endpoint.encodeError(error, call.id);
  return jsonAnswer(status, body, { ...errorHeaders(error, call.endpoint.format), ...callHeaders(call) });
}

/** The parts of a call that the headers of its answer need. */
interface AnsweredCall {
  readonly id: string;
  readonly endpoint: Pick<Endpoint, "encodeError" | "format" | "rateHeaders">;
  readonly services: { readonly clock: Clock };
  /** Missing for a request that reaches no endpoint. */
  readonly found?: { readonly rates: readonly RateLimit[] };
}

/** Returns the id of a request under both names that clients read. */
export const idHeaders = (id: string): Record<string, string> => ({ "request-id": id, "x-request-id": id });

/**
 * Returns the headers of every answer: the call's id under both names that clients read, and the state of the key's rate limits.
 */
export function callHeaders({ id, endpoint, found, services }: AnsweredCall): Record<string, string> {
  const headers = idHeaders(id);
  if (!found || found.rates.length === 0 || !endpoint.rateHeaders) return headers;
  return { ...endpoint.rateHeaders(found.rates, services.clock.now()), ...headers };
}

/** Returns the headers of a generated answer: those of every answer, the conversions, and an output limit that the quota has lowered. */
function answerHeaders(call: Call): Record<string, string> {
  const { affordedOutputTokens, conversions } = call.found;
  const headers = callHeaders(call);
  if (conversions.length > 0) Object.assign(headers, conversionHeaders(conversions));
  if (affordedOutputTokens !== undefined) headers["polygate-output-limit"] = String(affordedOutputTokens);
  return headers;
}

/** The longest header that names fields, in characters. */
const MAX_CONVERSIONS_CHARS = 1_024;

/** Names the fields of the request that the backend could not pass on as they are. */
function conversionHeaders(conversions: readonly Conversion[]): Record<string, string> {
  const named = (wanted: Conversion["conversion"]): string => {
    const fields = new Set(conversions.filter(({ conversion }) => conversion === wanted).map(({ field }) => field));
    // A host's backend names the fields: no name may break the header.
    return [...fields]
      .map((field) => field.replaceAll(/[^\w.-]/g, "_"))
      .join(", ")
      .slice(0, MAX_CONVERSIONS_CHARS);
  };
  const [dropped, approximated] = [named("dropped"), named("approximated")];
  return {
    ...(dropped && { "polygate-dropped": dropped }),
    ...(approximated && { "polygate-approximated": approximated }),
  };
}

function errorHeaders(error: GatewayError, format: string): Record<string, string> {
  const { code, retryAfterMs, allow, limits } = error;
  const headers: Record<string, string> = limits?.format === format ? { ...limits.headers } : {};
  if (allow) headers["allow"] = allow.join(", ");
  if (code === "upgrade_required") headers["upgrade"] = "websocket";
  // A limit of the gateway's own without a wait never has room for the call.
  const hasNoWait = error.refusedBy && retryAfterMs === undefined;
  if (hasNoWait || NO_RETRY.has(code) || needsOperator(error)) headers["x-should-retry"] = "false";
  if (isWait(retryAfterMs)) {
    headers["retry-after"] = String(Math.ceil(retryAfterMs / 1000));
    headers["retry-after-ms"] = String(retryAfterMs);
  }
  return headers;
}

/** The time between two writes of what has come so far, in milliseconds. A cancelled answer is noticed at a write. */
const SAVE_EVERY_MS = 1_000;

/**
 * Makes an answer in the background. A streamed answer is sent while it is made; any other caller gets the beginning of it. A disconnect of
 * the client does not end the call.
 *
 * @param make Asks the backend, and returns the streamed answer. Records it, unless the beginning of the answer is recorded.
 */
export async function inBackground<Event>(
  call: Call,
  background: BackgroundAnswer<Event>,
  isStreamed: boolean,
  recorder: AnswerRecorder | undefined,
  make: (recorder: AnswerRecorder | undefined) => Promise<Answer>,
): Promise<Answer> {
  const body = await background.begin();
  // Write the end of the call into the document, also when the call is cut.
  call.defer(() => background.end(call.found.error ?? call.endedBecause));
  call.assertLive();
  // Only a call that may go on without its client can be joined.
  call.abort.drainFor(1);
  call.abort.addWaiter();
  void saveOften(call, background);
  if (isStreamed) return make(recorder);
  const fail = (thrown: unknown): Promise<void> => {
    if (!call.found.error) call.fail(thrown);
    return call.endAndSettle();
  };
  call.abort.listen({ cut: (reason) => void fail(reason) });
  call.found.status = 200;
  const answer = jsonAnswer(200, body, answerHeaders(call));
  // A repetition gets this answer, and not the stream behind it.
  recorder?.settle(answer);
  const made = make(undefined).then(
    ({ body: frames }) => (frames as EventStream).drain(),
    (error: unknown) => (call.isEnded ? undefined : fail(error)),
  );
  call.waitUntil(made);
  return answer;
}

/** Writes what has come so far, again and again. Cuts the call when its answer was cancelled. */
async function saveOften(call: Call, background: { save(): Promise<boolean> }): Promise<void> {
  try {
    do await call.pause(SAVE_EVERY_MS);
    while (await background.save());
    call.cut(new GatewayError("client_closed", "The response was cancelled."));
  } catch {
    // The call has ended.
  }
}

/** A smaller public file, such as a picture, is written at once. */
const PIECE_BYTES = 64 * 1024;

/** The key of the room that clients without a key share. No key has this id. */
const NOBODY = "";

type Files = Map<ArrayBufferLike, { readonly lease: BodyLease; readers: number }>;

/** The public files of a gateway that are being read. */
const READING = new WeakMap<BodyRoom, Files>();

/** Returns a public file in pieces, as its client reads them. Throws `busy` when the files that are being read leave no room. */
export function inPieces(call: Call, answered: Answer): Answer {
  const { body } = answered;
  if (!(body instanceof Uint8Array) || body.length <= PIECE_BYTES) return answered;
  bookFile(call, body);
  return { ...answered, body: new Pieces(call, bytePieces(body)) };
}

/** Books room for a file, once for all clients that read the same bytes of a store in memory. */
function bookFile(call: Call, { buffer }: Uint8Array): void {
  const { bodies } = call.services;
  const reading: Files = READING.get(bodies) ?? new Map();
  READING.set(bodies, reading);
  let file = reading.get(buffer);
  if (!file) {
    const lease = bodies.lease(NOBODY);
    lease.take(buffer.byteLength);
    reading.set(buffer, (file = { lease, readers: 0 }));
  }
  const booked = file;
  booked.readers++;
  call.defer(() => {
    if (--booked.readers > 0) return;
    reading.delete(buffer);
    booked.lease[Symbol.dispose]();
  });
}

function* bytePieces(bytes: Uint8Array): Generator<Uint8Array, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) yield bytes.subarray(at, at + PIECE_BYTES);
  return undefined;
}
