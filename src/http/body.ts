/** Reads a JSON request body within its limits, and names the problem of a body that cannot be read. */

import { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";
import { isContainer, type JsonBudget, jsonFaultIn, JsonLimitError, utf8Length } from "../model/json.ts";
import { bytesInWords } from "../options.ts";
import { type Cancel, type Clock, LATE, within } from "../ports/clock.ts";
import type { BodyLease } from "../ports/shared-room.ts";
import type { KnownBodies } from "./known-bodies.ts";

/** A buffer doubles up to this size, in bytes; beyond, it gets its final size at once. */
const DOUBLED_BYTES = 1024 * 1024;

/**
 * Collects bytes in one buffer. Copies chunks at once, so that they can be reclaimed, and never holds large bytes twice: a large buffer
 * has its final size at once, and the operating system provides only the pages that are written.
 */
export class GrowingBytes {
  readonly #maxBytes: number;
  /** Starts with the length of the first chunk, because most bytes come in one. */
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array();
  #length = 0;

  /** @param maxBytes The most that will be appended, in bytes. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get length(): number {
    return this.#length;
  }

  /** Appends a copy of a chunk. Throws a RangeError beyond `maxBytes`. */
  append(chunk: Uint8Array): void {
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length) this.#resize(this.#capacityFor(length));
    this.#buffer.set(chunk, this.#length);
    this.#length = length;
  }

  /** Returns the bytes. Append nothing afterwards. */
  seal(): Uint8Array<ArrayBuffer> {
    // A copy pays only when it frees more than it moves.
    if (this.#length < this.#buffer.length / 2) this.#resize(this.#length);
    return this.#buffer.subarray(0, this.#length);
  }

  #capacityFor(length: number): number {
    return length > DOUBLED_BYTES
      ? this.#maxBytes
      : Math.min(this.#maxBytes, Math.max(length, 2 * this.#buffer.length));
  }

  #resize(length: number): void {
    // `transfer` frees the old buffer at once, without waiting for the collector.
    this.#buffer = new Uint8Array(this.#buffer.buffer.transfer(length));
  }
}

/** Joins pieces of bytes. Does not copy a single piece. */
export function concatenated(pieces: readonly Uint8Array[]): Uint8Array {
  const [first] = pieces;
  if (first && pieces.length === 1) return first;
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** Node's own request behind a fetch request. Body parsers leave their result in `body`. */
interface NodeSource {
  readonly readableDidRead?: boolean;
  readonly readableEnded?: boolean;
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/**
 * Returns the body that middleware of the host has read: bytes, a text, or a parsed value; undefined for an unread body. Throws
 * `internal` when nothing usable is left.
 */
export function consumedBody(request: Request): unknown {
  const source = (request as { runtime?: { node?: { req?: NodeSource } } }).runtime?.node?.req;
  // A parser may leave an empty object for a body that it did not read, so check that the stream was read.
  const isRead = request.bodyUsed || source?.readableDidRead === true;
  if (!isRead) return source?.readableEnded ? "" : undefined;
  const left = source?.rawBody instanceof Uint8Array ? source.rawBody : source?.body;
  // A parser leaves null for the JSON text `null`.
  if (left === undefined) throw readBefore();
  return left;
}

/** Returns the error of a body that was read and not kept. The mistake is the host's, so only the host is told the remedy. */
export const readBefore = (): GatewayError =>
  new GatewayError("internal", "This service could not hand the request body to the gateway.", {
    cause: new Error(
      "The request body was read by another middleware before it came to the gateway. Mount the gateway before that middleware, " +
        "let the middleware read a clone of the request, or, on Node, let it leave what it has parsed in req.body.",
    ),
  });

/** The terms under which a body is read. */
export interface BodyIntake {
  /** Books the bytes as they come. */
  readonly lease: Pick<BodyLease, "take">;
  /** The call whose body it is. */
  readonly call: {
    /** Ends the reading with its reason, even while the client sends nothing. Created when it is read: only for large bodies. */
    readonly signal: AbortSignal;
    readonly clock: Clock;
    /** The least rate is measured over windows of ten seconds and more. */
    readonly limits: Pick<Limits, "bodyStallMs" | "minBodyBytesPerSecond">;
    /** Calls `release` at the end of the call, whether the body was read or not. */
    defer(release: () => void): void;
  };
}

/** The shortest window for the rate, in milliseconds: a connection has to get going, and may pause. */
const WINDOW_MS = 10_000;

/**
 * Yields a body's chunks as they arrive, and releases the body at the end. Throws the signal's reason as soon as it fires;
 * `deadline_exceeded` for a body that stalls or crawls; `busy` or `body_too_large` when there is no room; `body_too_large` for a body that
 * the host cuts off; `client_closed` or `malformed_body` for a body that breaks off.
 */
export async function* chunksOf(request: Request, { lease, call }: BodyIntake): AsyncGenerator<Uint8Array> {
  if (request.body === null) return;
  const { signal, clock, limits } = call;
  const { bodyStallMs, minBodyBytesPerSecond } = limits;
  const reader = request.body.getReader();
  let interrupt: ((reason: unknown) => void) | undefined;
  const onAbort = (): void => interrupt?.(signal.reason);
  signal.addEventListener("abort", onAbort);
  const crawls = rateOf(clock, minBodyBytesPerSecond);
  let cancelTimer: Cancel | undefined;
  try {
    for (;;) {
      if (signal.aborted) throw signal.reason;
      // No Promise.race with one lasting promise: it would hold every chunk until the end.
      const { promise, resolve, reject } = Promise.withResolvers<ReadableStreamReadResult<Uint8Array>>();
      interrupt = reject;
      cancelTimer = clock.after(bodyStallMs, () => reject(stalled(bodyStallMs)));
      reader.read().then(resolve, reject);
      const step = await promise;
      cancelTimer();
      if (step.done) return;
      lease.take(step.value.length);
      if (crawls(step.value.length)) throw crawling(minBodyBytesPerSecond);
      yield step.value;
    }
  } catch (cause) {
    throw signal.aborted ? signal.reason : brokenOff(request, cause);
  } finally {
    cancelTimer?.();
    signal.removeEventListener("abort", onAbort);
    try {
      // Release the lock instead of cancelling: on Node a cancel would close the connection before the caller is answered.
      reader.releaseLock();
    } catch {
      // workerd does not release during a read; there the end of the request ends everything.
    }
  }
}

/**
 * Counts the bytes of a body as they come. The returned function returns true for a body that is slower than its least rate, window by
 * window: a fast start does not excuse a body that crawls later.
 */
export function rateOf(clock: Clock, minBytesPerSecond: number): (bytes: number) => boolean {
  let begin = clock.now();
  let received = 0;
  return (bytes) => {
    received += bytes;
    const now = clock.now();
    // A clock may be set back.
    if (now < begin) begin = now;
    const elapsedMs = now - begin;
    if (elapsedMs <= WINDOW_MS) return false;
    if (received * 1000 < minBytesPerSecond * elapsedMs) return true;
    begin = now;
    received = 0;
    return false;
  };
}

/** Returns the declared length of a body, in bytes; undefined without a valid length. */
export function declaredBytes(headers: Headers): number | undefined {
  const declared = headers.get("content-length");
  return declared !== null && /^\d+$/.test(declared) ? Number(declared) : undefined;
}

/** Returns the caller's error for a body that ended early. */
function brokenOff(request: Request, cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause;
  // A host with a limit of its own, such as SvelteKit's Node adapter, ends the stream with an error of this status.
  if (typeof cause === "object" && cause !== null && "status" in cause && cause.status === 413)
    return new GatewayError("body_too_large", "The request body is larger than this server accepts.", { cause });
  return request.signal.aborted
    ? new GatewayError("client_closed", "The client closed the connection.", { cause })
    : new GatewayError("malformed_body", "The request body could not be read to its end.", { cause });
}

/** Returns the error of a body that comes too slowly. */
const crawling = (minBytesPerSecond: number): GatewayError =>
  new GatewayError(
    "deadline_exceeded",
    `The request body comes too slowly: fewer than ${minBytesPerSecond} bytes a second.`,
  );

/** Returns the error of a body that stalls. */
const stalled = (stallMs: number): GatewayError =>
  new GatewayError("deadline_exceeded", `Nothing of the request body came for ${Math.ceil(stallMs / 1000)} seconds.`);

/** Returns the error of a small body that is not whole in time, although its client may still send. */
const unfinished = (stallMs: number): GatewayError =>
  new GatewayError("deadline_exceeded", `The request body was not whole after ${Math.ceil(stallMs / 1000)} seconds.`);

/** Throws `unsupported_media_type` for a compressed body. A header without a value names no coding (RFC 9110, 8.4). */
export function assertNotCompressed(headers: Headers): void {
  const encoding = headers.get("content-encoding");
  if (encoding && encoding.toLowerCase() !== "identity")
    throw new GatewayError("unsupported_media_type", "The request body must not be compressed (content-encoding).");
}

/** A body up to this size is read at once, in bytes: booking it is cheap beside reading it. */
const SMALL_BYTES = 256 * 1024;

/**
 * Reads the whole body. Throws `body_too_large` (before reading, when the length is declared), `unsupported_media_type` for a compressed
 * body, `malformed_body`, `client_closed`, `deadline_exceeded` for a body that stalls, `busy` when there is no room, or `internal` when
 * the host has read the body and kept nothing.
 */
export function readText(request: Request, maxBytes: number, intake: BodyIntake): string | Promise<string> {
  const declared = declaredBytes(request.headers);
  if (declared !== undefined && declared > maxBytes) throw tooLarge(maxBytes);
  const left = consumedBody(request);
  if (left !== undefined) {
    const consumed = textOf(left);
    intake.lease.take(consumed.length);
    assertFits(consumed, maxBytes);
    return consumed;
  }
  assertNotCompressed(request.headers);
  if (declared !== undefined && declared <= SMALL_BYTES) return readAtOnce(request, declared, maxBytes, intake);
  return readChunks(request, declared ?? maxBytes, intake);
}

async function readAtOnce(
  request: Request,
  declared: number,
  maxBytes: number,
  { lease, call }: BodyIntake,
): Promise<string> {
  const { bodyStallMs } = call.limits;
  lease.take(declared);
  try {
    const reading = request.text();
    const text = await within(reading, bodyStallMs, call.clock, (end) => call.defer(end));
    if (text === LATE) throw unfinished(bodyStallMs);
    // A host may not check the declared length of a body.
    assertFits(text, maxBytes);
    if (text.length > declared) lease.take(text.length - declared);
    return text;
  } catch (error) {
    throw brokenOff(request, error);
  }
}

async function readChunks(request: Request, maxBytes: number, intake: BodyIntake): Promise<string> {
  let first: Uint8Array | undefined;
  // No list of chunks: a client that sends byte by byte would make the list far larger than the body.
  let bytes: GrowingBytes | undefined;
  let length = 0;
  for await (const chunk of chunksOf(request, intake)) {
    if (chunk.length === 0) continue;
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
    if (length === chunk.length) first = chunk;
    else {
      bytes ??= new GrowingBytes(maxBytes);
      if (first) bytes.append(first);
      first = undefined;
      bytes.append(chunk);
    }
  }
  const text = new TextDecoder().decode(bytes ? bytes.seal() : first);
  // A single character beyond Latin-1 makes V8 store the whole string in two bytes per character.
  if (text.length < length) intake.lease.take(Math.max(0, 2 * text.length - length));
  return text;
}

/**
 * Throws for a text with more bytes. Counts bytes only when needed: a character has one byte at least, three at most.
 */
function assertFits(text: string, maxBytes: number): void {
  if (text.length > maxBytes || (text.length * 3 > maxBytes && utf8Length(text) > maxBytes)) throw tooLarge(maxBytes);
}

export const tooLarge = (maxBytes: number): GatewayError =>
  new GatewayError("body_too_large", `The request body is larger than ${bytesInWords(maxBytes)}.`);

/** Returns the text of a body that middleware has read. */
function textOf(left: unknown): string {
  if (typeof left === "string") return left;
  return left instanceof Uint8Array ? new TextDecoder().decode(left) : writtenAgain(left);
}

/** Throws for a number that JSON cannot hold. The value must be without a cycle. */
function assertFinite(parsed: unknown): void {
  const open: object[] = [{ parsed }];
  for (let container = open.pop(); container; container = open.pop())
    for (const value of Object.values(container) as readonly unknown[]) {
      if (isContainer(value)) open.push(value);
      else if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError("A number is too large.");
    }
}

/** Writes a parsed body as text again, so that it meets the same limits as any other. */
function writtenAgain(parsed: unknown): string {
  let cause: unknown;
  try {
    const text: string | undefined = JSON.stringify(parsed);
    // A number beyond all, such as 1e999, becomes null, which may stand for no limit.
    if (text?.includes("null")) assertFinite(parsed);
    if (text !== undefined) return text;
  } catch (error) {
    // The value is nested too deep to be written, or is not JSON.
    cause = error;
  }
  throw new GatewayError(
    "malformed_body",
    "The request body that another middleware has parsed is no JSON, or is nested too deep.",
    {
      cause,
    },
  );
}

/**
 * Reads the text of a JSON body, unparsed. Throws `unsupported_media_type`, `malformed_body` for an empty body, and the errors of
 * `readText`.
 */
export async function readJsonText(request: Request, maxJsonBytes: number, intake: BodyIntake): Promise<string> {
  const type = request.headers.get("content-type");
  if (type === null || !JSON_TYPE.test(type))
    throw new GatewayError("unsupported_media_type", "The request's content-type must be application/json.");
  const read = await readText(request, maxJsonBytes, intake);
  const text = read.charCodeAt(0) === BYTE_ORDER_MARK ? read.slice(1) : read;
  if (text.trim() === "") throw malformed("is empty; a JSON object is expected");
  return text;
}

/**
 * Returns the parsed body, or the form, once. Keeps the text of an object for an upstream that gets the object again, until `forgetText`.
 * Throws `malformed_body`, and the errors of the budget's booking.
 */
export function parseBody(
  body: { content?: unknown },
  budget: JsonBudget,
  { known, keyId }: { readonly known: KnownBodies; readonly keyId: string },
): unknown {
  const { content } = body;
  body.content = undefined;
  if (typeof content !== "string") return content;
  try {
    return known.parse(keyId, content, budget);
  } catch (cause) {
    if (cause instanceof JsonLimitError) throw malformed(cause.message);
    // The parser's own message quotes the body, which may hold secrets.
    if (cause instanceof SyntaxError) throw malformed(`is not valid JSON${placeOfFault(content)}`, cause);
    throw cause;
  }
}

/** A fault is located only in texts up to this length, in characters: the search takes longer than to parse the text. */
const MAX_PLACED_CHARS = 1024 * 1024;

/** Says where a text is not JSON; nothing for a long text. */
function placeOfFault(text: string): string {
  if (text.length > MAX_PLACED_CHARS) return "";
  const at = jsonFaultIn(text);
  if (at === text.length) return ": it ends too early";
  let [line, begin] = [1, 0];
  for (let end = text.indexOf("\n"); end >= 0 && end < at; end = text.indexOf("\n", begin)) {
    line++;
    begin = end + 1;
  }
  return ` at line ${line}, column ${at - begin + 1}`;
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

const malformed = (what: string, cause?: unknown): GatewayError =>
  new GatewayError("malformed_body", `The request body ${what}.`, { cause });

const BYTE_ORDER_MARK = 0xfeff;
