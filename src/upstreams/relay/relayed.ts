/** Runs one relayed call: sends the request, forwards the events of the answer as they come, and informs the gateway's observer. */

import { type EventSourceParser, createParser } from "eventsource-parser";
import { backendError, GatewayError, backendFailed } from "../../errors.ts";
import type { ChatCodec } from "../../formats/format.ts";
import type { AnswerNotes, RelayedCall, RelayedContext, RequestBelow, StreamableCall } from "../../formats/module.ts";
import { errorObject } from "../../formats/shared/errors.decode.ts";
import { MAX_JOINED_CHARS } from "../../formats/shared/frame-shape.ts";
import { GrowingBytes } from "../../http/body.ts";
import type { ChatEvent } from "../../model/chat-event.ts";
import { isJsonObject, parseJson } from "../../model/json.ts";
import { bytesInWords } from "../../options.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { UpstreamObserver, UpstreamOutcome } from "../../ports/observer.ts";
import { lackingModel, mistaken, refusesKey } from "../mistakes.ts";
import { isAboutRoute, NO_ROUTE, wantsTls } from "./address.ts";
import { brokenOff, type Failures } from "./failures.ts";
import { type UpstreamResponse, Exchange, UNREAD, PhaseTimeout } from "./transport.ts";
import type { Upstream } from "./upstream.ts";

/**
 * Decoding a frame, a body, or many pieces of a stream that wait, of more characters together takes milliseconds. The event loop then gets a
 * turn, to serve other calls.
 */
const LARGE_CHARS = 128 * 1024;

/**
 * Asks the upstream, and yields the caller's events. `prepare` encodes the request when the first event is requested. Throws a
 * GatewayError that may be shown to the caller. The exchange is over when the call ends, also after an error.
 */
export async function* relayed<Decoded, Event>(
  upstream: Upstream,
  context: RelayedContext<Event>,
  prepare: () => RelayedCall<Decoded, Event> | Promise<RelayedCall<Decoded, Event>>,
): AsyncGenerator<Event> {
  const call = await prepare();
  const failures = upstream.failuresFor(call.model, call.callerModel);
  const exchange = new Exchange(upstream.clock, context.signal);
  const { observeUpstream } = context;
  let failure: GatewayError | undefined;
  let answer: StreamedAnswer<Decoded> | undefined;
  const { kind, model, stream } = call;
  const observation =
    observeUpstream && new Observation(upstream, observeUpstream({ ...upstream.facts, kind, model, stream }));
  try {
    const response = await (observation ? observation.send(call, exchange) : upstream.send(call, exchange));
    call.body = "";
    call.turn = undefined;
    observation?.onHead(response);
    if (response.status < 200 || response.status > 299)
      throw await refusalOf(response, upstream, call, failures, exchange);
    if (call.stream && isOfType(response, EVENT_STREAM)) {
      const streamed = (answer = new StreamedAnswer(upstream, call, exchange));
      context.reportUnread?.(() => call.unread?.(streamed.decode(response.arrived?.() ?? NO_BYTES)) ?? []);
      // A stream has many pieces. For speed, wait only once for each piece, and do all other work synchronously.
      let readChars = 0;
      for (;;) {
        let piece: Uint8Array | undefined;
        try {
          piece = await response.read();
        } catch (error) {
          if (!answer.mayBreakOff) throw brokenOff(error);
        }
        if (!piece) break;
        const events = call.handOn(answer.decode(piece), exchange, observation);
        readChars += Math.max(piece.length, answer.decodedChars);
        if (readChars > LARGE_CHARS) {
          readChars = 0;
          await nextIteration();
        }
        for (const event of events) yield event;
        if (answer.error) throw answer.error.thrown;
      }
      call.decoder.end();
    } else if (isOfType(response, JSON_TYPE)) {
      // Some upstreams answer a request for a stream with a complete answer too.
      const bytes = new BodyBytes(upstream.limits.maxBodyBytes);
      context.reportUnread?.(() => call.unread?.(call.decoder.lost?.(bytes.text()) ?? []) ?? []);
      const { events, error } = await completeAnswer(response, bytes, upstream, call, exchange);
      context.reportUnread?.(() => call.unread?.([]) ?? []);
      for (const event of call.handOn(events, exchange, observation)) yield event;
      if (error) throw error.thrown;
    } else throw await ofWrongType(response, upstream, call, failures, exchange);
    exchange.end();
  } catch (error) {
    const shaped = answer ? ofOtherFormat(error, answer.frames, upstream, call) : error;
    const told = blamed(failures.told(shaped), upstream, call.model);
    observation?.onError(told, context.signal);
    failure = told;
    throw told;
  } finally {
    // A call that was cut tells nothing about its upstream.
    if (!context.signal.aborted) {
      const { clock, models, name } = upstream;
      upstream.lastFailures.note(name, failure, clock.now(), context, models !== undefined);
    }
    // Release the connection of an answer that was not read to its end.
    exchange.cut(UNREAD);
    observation?.end(context.signal);
  }
}

/**
 * Returns the error of a response whose status is not 2xx. An upstream that does not have the route has probably a wrong base address, unless
 * the call does without the route.
 */
export async function refusalOf(
  response: UpstreamResponse,
  upstream: Upstream,
  { codec, path, model, onNoRoute }: Pick<RelayedCall<unknown, unknown>, "codec" | "path" | "model" | "onNoRoute">,
  failures: Failures,
  exchange: Exchange,
): Promise<GatewayError> {
  let isPlainHttp = false;
  let isOfKey = refusesKey(response.status);
  const decodeError: ChatCodec["decodeError"] = (status, headers, body) => {
    const { message } = errorObject(body);
    isOfKey ||= refusesKey(status, message);
    isPlainHttp = upstream.origin.startsWith("http:") && wantsTls(status, body);
    return isPlainHttp || isAboutRoute(status, body, withoutQuery(path), model)
      ? backendError("failed", body)
      : codec.decodeError(status, headers, body);
  };
  const { status } = response;
  const whole = withoutQuery(upstream.pathOf(path));
  // Each client knows a path of a version and a vendor's words: no word of the host is in it.
  const isKnown = whole === `/v1${path}` && /^[a-z_/]+$/.test(path);
  const error = await failures.ofResponse(response, { ...codec, decodeError }, exchange, isKnown ? undefined : whole);
  if (error.code === "backend_refused" && (isOfKey || status === 402))
    return mistaken(error, refusalMistake(upstream, isOfKey ? 401 : status));
  if (error.code !== "backend_failed") return error;
  if (isPlainHttp) return misdirected(error, upstream, path, "wants https for");
  if (status < 400) return misdirected(error, upstream, path, "answers with a redirect to");
  if (!NO_ROUTE.has(status)) return error;
  onNoRoute?.();
  return onNoRoute ? error : misdirected(error, upstream, path, "does not serve");
}

/** Returns the error of a 2xx response of a type that no answer has, such as a page of HTML at a wrong address. */
export async function ofWrongType(
  response: UpstreamResponse,
  upstream: Upstream,
  { path }: Pick<RelayedCall<unknown, unknown>, "path">,
  failures: Failures,
  exchange: Exchange,
): Promise<GatewayError> {
  const error = await failures.ofWrongType(response, exchange);
  return misdirected(error, upstream, path, NO_JSON);
}

/** The most fields of an answer that an error names. */
const MOST_FIELDS = 8;

/**
 * Adds to a decoder's error that the answer is a page of HTML, or JSON of another format. Returns any other error as it is: an answer of the
 * right format that has a fault or has broken off, an error in the upstream's own words, and frames that only keep a stream alive.
 *
 * @param texts The answer, or the first frames of a stream.
 */
function ofOtherFormat(
  thrown: unknown,
  texts: readonly string[],
  upstream: Upstream,
  { codec: { answerFields }, decoder, path }: Pick<RelayedCall<unknown, unknown>, "codec" | "decoder" | "path">,
): unknown {
  if (!(thrown instanceof GatewayError) || thrown.code !== "backend_failed" || !answerFields) return thrown;
  // The cause of an error that the upstream itself tells is its JSON.
  if (decoder.hasSaid || (thrown.cause !== undefined && !(thrown.cause instanceof SyntaxError))) return thrown;
  if (/^\s*</.test(texts[0] ?? "")) return misdirected(thrown, upstream, path, NO_JSON);
  let foreign: string[] | undefined;
  try {
    for (const text of texts) {
      // Reading a large answer once more would block other calls.
      if (text.length > LARGE_CHARS) return thrown;
      const answer = parseJson(text, upstream.json);
      const [first] = Array.isArray(answer) ? (answer as unknown[]) : [answer];
      const fields = isJsonObject(first) ? Object.keys(first) : [];
      if (fields.some((name) => answerFields.test(name)) || errorObject(first)["message"] !== undefined) return thrown;
      if (!isKeepAlive(first)) foreign ??= fields;
    }
  } catch {
    // Text that is no JSON.
    return thrown;
  }
  if (!foreign) return thrown;
  const shown = foreign.filter((name) => /^\w{1,32}$/.test(name)).slice(0, MOST_FIELDS);
  const names = shown.length === 0 ? "no known field" : `the fields ${upstream.failures.redacted(shown.join(", "))}`;
  return misdirected(
    thrown,
    upstream,
    path,
    `answers in another format than ${upstream.facts.format}, with ${names}, to`,
  );
}

/** True for an empty object, for one with a type alone, and for one whose type says that it only keeps a stream alive. */
function isKeepAlive(frame: unknown): boolean {
  if (!isJsonObject(frame)) return false;
  const { type, ...others } = frame;
  return (
    Object.keys(others).length === 0 || (typeof type === "string" && /^(?:ping|keep-?_?alive|heartbeat)$/i.test(type))
  );
}

const NO_JSON = "answers with no JSON and no event stream to";

/** Adds to an error that the upstream's address or format is wrong. The host needs the address, without the query and without secrets. */
function misdirected(error: GatewayError, upstream: Upstream, path: string, does: string): GatewayError {
  const served = withoutQuery(upstream.pathOf(path));
  const [origin, shown] = [upstream.origin, served].map((part) => upstream.failures.redacted(part));
  const mistake = `The upstream at ${origin} ${does} POST ${shown}. Check the baseUrl and the format of the relay.`;
  return mistaken(error, mistake);
}

/** True for an error of the host's own functions for credentials. The error that is told is a copy, so its name tells. */
export const isOfCredential = ({ cause }: GatewayError): boolean =>
  cause instanceof Error && cause.name === "CredentialError";

/** Adds the mistake in the relay's settings that the code of an error shows. */
function blamed(error: GatewayError, upstream: Upstream, model: string): GatewayError {
  if (error.code === "backend_refused" && !isOfCredential(error)) return mistaken(error, refusalMistake(upstream));
  return upstream.models ? lackingModel(error, upstream.name, model) : error;
}

/**
 * Returns the mistake of a relay whose upstream refuses it.
 *
 * @param status 401 where the upstream refuses the key itself, 402 where it refuses the account. Default: either.
 */
export function refusalMistake({ hasCredential, lacksKey }: Upstream, status?: number): string {
  if (status === 402 && !hasCredential)
    return `The upstream refuses the relay's account. Check its credit. ${lacksKey ? LACKS_KEY : "The relay has no apiKey: the upstream may want one."}`;
  if (lacksKey) return `The upstream wants a credential. ${LACKS_KEY}`;
  if (!hasCredential) return "The upstream wants a credential, but the relay has no apiKey.";
  return status === 401
    ? "The upstream refuses the relay's credential. Check its apiKey and headers."
    : "The upstream refuses the relay's credential or account. Check its apiKey, what it may use, and its credit.";
}

/** The mistake of a relay whose options name an `apiKey` without a value. */
export const LACKS_KEY = "The relay's apiKey is undefined: is its environment variable set?";

const withoutQuery = (path: string): string => path.split("?", 1)[0] ?? "";

const NO_BYTES = new Uint8Array();

const EVENT_STREAM = /^text\/event-stream$/;
export const JSON_TYPE: RegExp = /^application\/(?:[\w.-]+\+)?json$/;

/** True when the content type of a response matches, or is missing. */
export function isOfType(response: UpstreamResponse, type: RegExp): boolean {
  const contentType = response.header("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  return contentType === undefined || contentType === "" || type.test(contentType);
}

/** The time for which a stream may stay open after its answer has finished, in milliseconds: some upstreams do not close their streams. */
const LINGER_MS = 5_000;

/** The most frames of a stream that are kept, to tell its format should it fail. */
const MOST_FRAMES = 8;
const NO_FRAMES: readonly string[] = [];

/** Decodes a streamed answer piece by piece, and limits the waits between its events. */
class StreamedAnswer<Decoded> {
  /** The error that follows the last events. The caller throws it after forwarding these events. */
  error: { readonly thrown: unknown } | undefined;
  /** The data of the first frames, until the answer has said something. */
  frames: readonly string[] = NO_FRAMES;
  /** The size of the frames of the last piece, in characters. */
  decodedChars = 0;
  readonly #upstream: Upstream;
  readonly #exchange: Exchange;
  readonly #call: Pick<StreamableCall<Decoded, unknown>, "decoder" | "isFinish" | "joinsTexts">;
  readonly #parser: EventSourceParser;
  readonly #text: TextDecoder = new TextDecoder();
  #events: Decoded[] = [];
  #hasFrames = false;
  /** The characters of the frames of this piece that are joined so far. */
  #joinedChars = 0;
  /** True when the parser has read up to a blank line, and a frame begins. */
  #isAtFrame = false;
  #hasBegun = false;
  #isFinished = false;

  constructor(
    upstream: Upstream,
    call: Pick<StreamableCall<Decoded, unknown>, "decoder" | "isFinish" | "joinsTexts">,
    exchange: Exchange,
  ) {
    const { maxEventChars } = upstream.limits;
    this.#upstream = upstream;
    this.#exchange = exchange;
    this.#call = call;
    this.#parser = createParser({
      maxBufferSize: maxEventChars,
      onEvent: ({ event, data }) => {
        this.#hasFrames = true;
        if (this.error) return;
        this.#keep(data);
        this.#count(data.length);
        try {
          const decoded = call.decoder.frame(event, data);
          if (event === "error") throw errorEvent(undefined, data);
          for (const one of decoded) {
            this.#events.push(one);
            this.#isFinished ||= call.isFinish(one);
          }
        } catch (thrown) {
          this.error = { thrown: event === "error" ? errorEvent(thrown, data) : thrown };
          for (const count of call.decoder.lost?.(data) ?? []) this.#events.push(count);
        }
      },
      // Without `onError`, the parser makes no error of each line that is no field: that takes a hundred times as long as to skip the line.
    });
    exchange.enter({ name: "first event", limitMs: upstream.timeouts.firstEventMs });
  }

  /** Returns the events of the frames that end in this piece. */
  decode(piece: Uint8Array): readonly Decoded[] {
    this.#events = [];
    this.#hasFrames = false;
    this.decodedChars = this.#joinedChars = 0;
    const wasFinished = this.#isFinished;
    this.#read(this.#text.decode(piece, { stream: true }));
    // Comments do not restart the time limit. Keep-alive frames of the format do, but they do not count as the first event.
    if (!this.#hasFrames || (!this.#hasBegun && this.#events.length === 0)) return this.#events;
    const { betweenEventsMs } = this.#upstream.timeouts;
    const limitMs = this.#isFinished ? Math.min(LINGER_MS, betweenEventsMs) : betweenEventsMs;
    if (!this.#hasBegun || this.#isFinished !== wasFinished) this.#exchange.enter({ name: "next event", limitMs });
    else if (!this.#isFinished) this.#exchange.touch();
    this.#hasBegun = true;
    return this.#events;
  }

  /** Reads frame by frame, because frames that differ from the last one by a text need no parser. */
  #read(source: string): void {
    const { decoder } = this.#call;
    const blank = source.includes("\r") ? "\r\n\r\n" : "\n\n";
    for (let at = 0; !this.error;) {
      const wasAtFrame = this.#isAtFrame;
      if (wasAtFrame) at = this.#runs(source, at);
      if (at === source.length) return;
      const found = source.indexOf(blank, at);
      const frame = source.slice(at, found < 0 ? source.length : found + blank.length);
      at += frame.length;
      this.#isAtFrame = found >= 0;
      try {
        this.#parser.feed(frame);
      } catch {
        // The parser throws when it is fed on behind an event that is too long.
        const { maxEventChars } = this.#upstream.limits;
        this.error ??= { thrown: tooLarge(`An event of the upstream's is longer than ${maxEventChars} characters.`) };
      }
      if (wasAtFrame && found >= 0) decoder.note?.(frame);
    }
  }

  /** Decodes the frames that differ from the last one by a text. Returns the place behind them. */
  #runs(source: string, from: number): number {
    const { decoder, isFinish, joinsTexts = false } = this.#call;
    let end = from;
    try {
      for (;;) {
        const room = this.#joinedChars > MAX_JOINED_CHARS ? MAX_JOINED_CHARS : MAX_JOINED_CHARS - this.#joinedChars;
        const run = decoder.run?.(source, end, room, joinsTexts);
        if (!run) break;
        this.#count(run.chars);
        this.#events.push(run.event);
        this.#isFinished ||= isFinish(run.event);
        end = run.end;
      }
    } catch (thrown) {
      this.error = { thrown };
    }
    this.#hasFrames ||= end > from;
    return end;
  }

  /** Keeps the first frames, until the answer has said something in its format. */
  #keep(data: string): void {
    // Only a decoder that tells when the answer has said something lets the frames go.
    const { hasSaid } = this.#call.decoder;
    if (hasSaid) this.frames = NO_FRAMES;
    else if (hasSaid === false && data !== "" && data.length <= LARGE_CHARS && this.frames.length < MOST_FRAMES)
      this.frames = [...this.frames, data];
  }

  /** Counts the characters of the piece, and of the frames that will be joined with the last ones. */
  #count(chars: number): void {
    this.decodedChars += chars;
    this.#joinedChars = chars + (this.#joinedChars > MAX_JOINED_CHARS ? 0 : this.#joinedChars);
  }

  /**
   * True when a stream may break off without an error: its answer has finished, and then the stream lost its connection, or stayed
   * open for too long.
   */
  get mayBreakOff(): boolean {
    const { reason } = this.#exchange;
    const hasLingered = reason instanceof GatewayError && reason.cause instanceof PhaseTimeout;
    return this.#isFinished && (reason === undefined || hasLingered);
  }
}

/**
 * Returns the error for an event of the name `error`, which ends the answer in every format. Some upstreams write it in another format, or
 * as plain text.
 *
 * @param thrown The error of the decoder. It is the upstream's own error if its cause is the upstream's data.
 */
function errorEvent(thrown: unknown, data: string): unknown {
  const isOwn = thrown instanceof GatewayError && thrown.cause !== undefined && !(thrown.cause instanceof Error);
  return isOwn ? thrown : backendFailed("The model backend ended its answer with an error.", data);
}

/** Reads and decodes a complete answer. If this fails, returns the error with the events to charge. */
async function completeAnswer<Decoded>(
  response: UpstreamResponse,
  bytes: BodyBytes,
  upstream: Upstream,
  call: Pick<RelayedCall<Decoded, unknown>, "codec" | "decoder" | "path">,
  exchange: Exchange,
): Promise<Pick<StreamedAnswer<Decoded>, "error"> & { readonly events: readonly Decoded[] }> {
  const { decoder } = call;
  exchange.enter({ name: "next event", limitMs: upstream.timeouts.betweenEventsMs });
  let isLarge = false;
  let events: readonly Decoded[];
  let error: { readonly thrown: unknown } | undefined;
  try {
    await bytes.read(response, exchange);
    const text = bytes.text();
    isLarge = text.length > LARGE_CHARS;
    if (isLarge) await nextIteration();
    events = decoder.answer(text);
  } catch (thrown) {
    const text = bytes.text();
    events = decoder.lost?.(text) ?? [];
    error = { thrown: ofOtherFormat(brokenOff(thrown), [text], upstream, call) };
  }
  if (isLarge) await nextIteration();
  return { events, error };
}

/**
 * Reads the whole body. Throws `backend_failed` as soon as there are more than `maxBytes`.
 *
 * @param exchange Restarts the time limit of its phase with each piece.
 */
export async function readBytes(
  response: UpstreamResponse,
  maxBytes: number,
  exchange?: Exchange,
): Promise<Uint8Array> {
  const body = new BodyBytes(maxBytes);
  await body.read(response, exchange);
  return body.seal();
}

/** The bytes of a body that have come so far. */
class BodyBytes {
  readonly #maxBytes: number;
  #first: Uint8Array = NO_BYTES;
  #all: GrowingBytes | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  async read(response: UpstreamResponse, exchange?: Exchange): Promise<void> {
    for (let piece = await response.read(); piece; piece = await response.read()) {
      exchange?.touch();
      const { length } = this.#all ?? this.#first;
      if (length + piece.length > this.#maxBytes)
        throw tooLarge(`The upstream's answer is larger than ${bytesInWords(this.#maxBytes)}.`);
      if (length > 0 && !this.#all) (this.#all = new GrowingBytes(this.#maxBytes)).append(this.#first);
      // Do not copy an answer that comes in one piece, as most do.
      if (this.#all) this.#all.append(piece);
      else this.#first = piece;
    }
  }

  /** Returns the bytes. Read nothing afterwards. */
  seal(): Uint8Array {
    return this.#all?.seal() ?? this.#first;
  }

  text(): string {
    return new TextDecoder().decode(this.seal());
  }
}

const tooLarge = (why: string): GatewayError => backendError("failed", new Error(why));

/** Tells the gateway about one exchange: its outcome, and the model and usage that the upstream reports. */
class Observation implements AnswerNotes {
  readonly #upstream: Upstream;
  readonly #observer: UpstreamObserver;
  readonly #beganAt: number;
  readonly #outcome: { -readonly [Field in keyof UpstreamOutcome]?: UpstreamOutcome[Field] } = {};

  constructor(upstream: Upstream, observer: UpstreamObserver) {
    this.#upstream = upstream;
    this.#observer = observer;
    this.#beganAt = upstream.clock.now();
  }

  /** Sends the request with the observer's headers. The headers that the host has configured replace them. */
  send(request: RequestBelow, exchange: Exchange): Promise<UpstreamResponse> {
    if (this.#observer.isBrief) return this.#upstream.send(request, exchange);
    const headers = { ...request.headers, ...this.#observer.headers };
    return this.#observer.run(() => this.#upstream.send({ ...request, headers }, exchange));
  }

  onHead(response: UpstreamResponse): void {
    this.#outcome.status = response.status;
    this.#observer.head?.((name) => response.header(name));
  }

  /** Records the time of the first event. */
  onEvent(): void {
    if (this.#observer.isBrief) return;
    this.#outcome.firstEventMs ??= this.#elapsedMs();
  }

  onChatEvents(events: readonly ChatEvent[]): void {
    if (this.#observer.isBrief) return;
    if (events.length > 0) this.onEvent();
    const outcome = this.#outcome;
    for (const event of events) {
      if (event.type === "native") this.onChatEvents(event.events);
      if (event.type === "start" || event.type === "usage") outcome.model = event.model ?? outcome.model;
      if (event.type === "finish") outcome.finishReason ??= event.reason;
      if ("usage" in event && event.usage) outcome.usage = { ...outcome.usage, ...event.usage };
    }
  }

  /** Records the model and the count of an answer that is not a chat's. */
  onUsage(model: string | undefined, inputTokens: number | undefined): void {
    this.onEvent();
    this.#outcome.model = model ?? this.#outcome.model;
    if (inputTokens !== undefined) this.#outcome.usage = { inputTokens };
  }

  /** @param signal The call's signal. The error of a call that was aborted is not the upstream's. */
  onError(error: GatewayError, { aborted }: AbortSignal): void {
    this.#outcome.errorCode = error.code;
    if (!aborted) this.#outcome.error = error;
  }

  /** @param signal The call's signal. Its reason is the error when the call was aborted. */
  end({ reason }: AbortSignal): void {
    const { model, errorCode } = this.#outcome;
    this.#observer.end({
      ...this.#outcome,
      errorCode: errorCode ?? (reason as GatewayError | undefined)?.code,
      model: model && this.#upstream.failures.redacted(model),
      endMs: this.#elapsedMs(),
    });
  }

  #elapsedMs(): number {
    return this.#upstream.clock.now() - this.#beganAt;
  }
}
