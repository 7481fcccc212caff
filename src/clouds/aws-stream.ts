/** Reads the event streams of AWS, and the errors of AWS in responses and in streams. */

import { EventStreamCodec } from "@smithy/eventstream-codec";
import { backendError, type GatewayError, backendFailed } from "../errors.ts";
import type { UpstreamFormat } from "../formats/module.ts";
import { decodeUpstreamError, errorObject, retryAfterOf } from "../formats/shared/errors.decode.ts";
import { parseAnswer } from "../formats/shared/upstream.ts";
import { GrowingBytes } from "../http/body.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";

/** The types of errors by the exceptions of Bedrock. */
const ERROR_TYPES: Readonly<Record<string, string>> = {
  accessDenied: "permission_error",
  expiredToken: "authentication_error",
  internalServer: "api_error",
  invalidSignature: "authentication_error",
  modelError: "api_error",
  modelNotReady: "rate_limit_error",
  modelStreamError: "api_error",
  modelTimeout: "timeout_error",
  resourceNotFound: "not_found_error",
  serviceQuotaExceeded: "rate_limit_error",
  serviceUnavailable: "overloaded_error",
  throttling: "rate_limit_error",
  unrecognizedClient: "authentication_error",
  validation: "invalid_request_error",
};

const typeOf = (exception: string): string => {
  const [named = ""] = exception.slice(exception.lastIndexOf("#") + 1).split(":", 1);
  const name = named.replace(/Exception$/, "");
  const type = name.charAt(0).toLowerCase() + name.slice(1);
  return Object.hasOwn(ERROR_TYPES, type) ? (ERROR_TYPES[type] ?? "api_error") : "api_error";
};

/** Returns an exception as the messages format writes an error. */
const errorOf = (exception: string, message: unknown): JsonObject => ({
  type: "error",
  error: { type: typeOf(exception), message: typeof message === "string" ? message : "The model failed." },
});

/** Decodes an error response of Bedrock. */
export function decodeAwsError(status: number, headers: Headers, body: unknown): GatewayError {
  const exception = headers.get("x-amzn-errortype");
  const isOfAws = exception !== null && isJsonObject(body);
  const error = isOfAws ? errorOf(exception, body["message"] ?? body["Message"]) : body;
  // 424 means that the model has failed: the request is not at fault. A 404 without a type comes from another server.
  const isFailure = status === 424 || (status === 404 && errorObject(error)["type"] === undefined);
  return decodeUpstreamError(isFailure ? 500 : status, error, retryAfterOf(headers));
}

export const AWS_STREAM = "application/vnd.amazon.eventstream";

/** Writes a message of an event stream as a frame of HTTP. Returns an empty text for a message without meaning. */
export type WriteFrame = (name: string, json: string) => string;

/** Makes the function that reads the event streams of AWS as event streams of HTTP. Exceptions become events of the name `error`. */
export const readingEvents =
  (write: WriteFrame): NonNullable<UpstreamFormat["reframe"]> =>
  (response) => {
    if (response.header("content-type")?.split(";", 1)[0]?.trim().toLowerCase() !== AWS_STREAM) return response;
    const frames = new AwsFrames(write);
    return {
      status: response.status,
      header: (name) => (name === "content-type" ? "text/event-stream" : response.header(name)),
      headers: () => response.headers(),
      async read() {
        // The frames before a broken one are read first.
        if (frames.error) throw frames.error.thrown;
        const piece = await response.read();
        if (piece) return frames.decode(piece);
        if (frames.hasPart) throw backendError("brokeOff", undefined);
        return undefined;
      },
      arrived: () => frames.decode(response.arrived?.() ?? new Uint8Array()),
    };
  };

/** The largest message of an event stream that AWS sends, in bytes, and the smallest one. */
const MAX_MESSAGE_BYTES = 16 * 1024 ** 2 + 128 * 1024;
const MIN_MESSAGE_BYTES = 16;
/** The most bytes of a message's headers. */
const MAX_HEADER_BYTES = 128 * 1024;
/** A message begins with its length and that of its headers. */
const LENGTH_BYTES = 8;
/** A message, and a piece that may hold the beginnings of others. */
const MAX_WAITING_BYTES = 2 * MAX_MESSAGE_BYTES;

/** Cuts the pieces of a body into messages, and writes each as a frame. */
class AwsFrames {
  readonly #write: WriteFrame;
  readonly #codec = new EventStreamCodec(
    (bytes) => (typeof bytes === "string" ? bytes : textOf(bytes)),
    (text) => new TextEncoder().encode(text),
  );
  #waiting: GrowingBytes = new GrowingBytes(MAX_WAITING_BYTES);
  /** The length of the message that waits; that of its first bytes until they have come. */
  #length = LENGTH_BYTES;
  /** Set once a message cannot be read. */
  error: { readonly thrown: unknown } | undefined;

  constructor(write: WriteFrame) {
    this.#write = write;
  }

  /** True when a message has begun and not ended. */
  get hasPart(): boolean {
    return this.#waiting.length > 0;
  }

  /** Returns the frames of the messages that end in a piece. Returns nothing behind a message that cannot be read. */
  decode(piece: Uint8Array): Uint8Array {
    if (this.error) return new Uint8Array();
    let text = "";
    try {
      this.#waiting.append(piece);
      // A long message comes in many pieces: read it once.
      if (this.#waiting.length < this.#length) return new Uint8Array();
      const bytes = this.#waiting.seal();
      let at = 0;
      for (;;) {
        this.#length = lengthAt(bytes, at);
        if (at + this.#length > bytes.length) break;
        const message = bytes.subarray(at, at + this.#length);
        at += this.#length;
        text += this.#frame(message);
      }
      this.#waiting = new GrowingBytes(MAX_WAITING_BYTES);
      this.#waiting.append(bytes.subarray(at));
    } catch (thrown) {
      this.error = { thrown };
    }
    return new TextEncoder().encode(text);
  }

  #frame(message: Uint8Array): string {
    const { headers, body } = this.#codec.decode(message);
    const header = (name: string): string => String(headers[name]?.value ?? "");
    const type = header(":message-type");
    const json = textOf(body);
    if (type === "event") return this.#write(header(":event-type"), json);
    if (type !== "exception") return errorFrame(header(":error-code"), header(":error-message"));
    // The type tells enough without the message.
    const words = json === "" ? undefined : objectIn(json)["message"];
    return errorFrame(header(":exception-type"), words);
  }
}

/** Returns the length of the message at a place; that of its first bytes when they have not come. */
function lengthAt(bytes: Uint8Array, at: number): number {
  if (bytes.length < at + LENGTH_BYTES) return LENGTH_BYTES;
  const lengths = new DataView(bytes.buffer, bytes.byteOffset + at, LENGTH_BYTES);
  const length = lengths.getUint32(0);
  const isPossible = length >= MIN_MESSAGE_BYTES && length <= MAX_MESSAGE_BYTES;
  if (isPossible && lengths.getUint32(4) <= MAX_HEADER_BYTES) return length;
  throw backendFailed("The model backend's answer is no event stream of AWS.");
}

const UTF_8 = new TextDecoder();
export const textOf = (bytes: Uint8Array): string => UTF_8.decode(bytes);

const EVENT_LIMITS = {
  maxJsonBytes: MAX_MESSAGE_BYTES,
  maxJsonDepth: 200,
  maxJsonValues: 1_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 1_000_000,
};

/** Parses the JSON of a message. Returns an empty object for any other value. */
export function objectIn(json: string): JsonObject {
  const value = parseAnswer(json, EVENT_LIMITS);
  return isJsonObject(value) ? value : {};
}

/** Writes an event. Its data stand in one line. */
export const eventFrame = (name: string, data: string): string => `event: ${name}\ndata: ${data}\n\n`;

/** Returns JSON without line breaks, which would end the line of a frame. */
export const inOneLine = (json: string): string => (/[\r\n]/.test(json) ? JSON.stringify(objectIn(json)) : json);

const errorFrame = (exception: string, message: unknown): string =>
  eventFrame("error", JSON.stringify(errorOf(exception, message)));
