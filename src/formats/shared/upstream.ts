/** Reads the answers of upstreams, for all formats. */

import type * as v from "valibot";
import { GatewayError } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import type { ChatEvent, NativeEvent, NativeFrame } from "../../model/chat-event.ts";
import { isJsonObject, JsonLimitError, type JsonLimits, type JsonObject, parseJson } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { TelemetryNames } from "../../ports/observer.ts";
import type { AnswerDecoder } from "../format.ts";
import type { AddressRules, UpstreamFormat } from "../module.ts";

/** The names of all formats of OpenAI for observers. */
export const OPENAI_TELEMETRY: TelemetryNames = { provider: "openai" };

/** The rules that the upstreams of all formats of OpenAI share. Addresses for OpenAI's clients are complete, unless they have no path. */
export const OPENAI_UPSTREAM: Pick<UpstreamFormat, "telemetry" | "credential" | "listPath"> & {
  readonly address: Pick<AddressRules, "version" | "complete">;
} = {
  telemetry: OPENAI_TELEMETRY,
  address: { version: "/v1", complete: /./ },
  credential: (apiKey) => ({ authorization: `Bearer ${apiKey}` }),
  listPath: "/models",
};

/** A path that ends with a version, such as `/v1`, `/v4` or `/v1beta`. */
export const VERSIONED: RegExp = /\/v\d+(?:(?:alpha|beta)\d*)?$/;

/** The most models that a check asks for. */
export const MAX_LISTED_MODELS = 1_000;

/** The error for a picture that an upstream keeps at an address. */
export const pictureFailed = (why: string): GatewayError =>
  new GatewayError("backend_failed", "The model backend's picture cannot be fetched.", {
    port: "model-backend",
    cause: new Error(why),
  });

/** Parses an upstream's JSON. Throws `backend_failed` for a text that is not JSON, and for JSON beyond the limits. */
export function parseAnswer(text: string, limits?: JsonLimits): unknown {
  try {
    return parseJson(text, limits);
  } catch (cause) {
    if (cause instanceof JsonLimitError)
      throw upstreamFailed(`The model backend's answer is too large: its JSON ${cause.message}.`);
    throw upstreamFailed("The model backend's answer is not valid JSON.", cause);
  }
}

/** Parses an upstream's JSON object. Throws `backend_failed` for any other text. */
export function parseAnswerObject(text: string, limits?: JsonLimits): JsonObject {
  const parsed = parseAnswer(text, limits);
  if (isJsonObject(parsed)) return parsed;
  throw upstreamFailed("The model backend's answer is no JSON object.");
}

/**
 * Returns the counts that an upstream sent with an error, as the event of a usage; an empty list without valid counts. The upstream charges
 * them, although the answer is lost.
 *
 * @param find Returns the usage in a JSON object of the format.
 */
export function lostUsage<Wire>(
  text: string,
  limits: JsonLimits | undefined,
  find: (wire: JsonObject) => unknown,
  schema: v.GenericSchema<unknown, Wire>,
  decode: (usage: Wire) => Partial<Usage>,
): { readonly type: "usage"; readonly usage: Partial<Usage> }[] {
  let wire: unknown;
  try {
    wire = parseJson(text, limits);
  } catch {
    return [];
  }
  const found = isJsonObject(wire) ? find(wire) : undefined;
  const usage = isJsonObject(found) && isValid(schema, found) ? decode(found) : {};
  return Object.keys(usage).length > 0 ? [{ type: "usage", usage }] : [];
}

export const upstreamFailed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("backend_failed", message, { port: "model-backend", cause });

/** The largest number of events in one frame of a stream or in one complete answer. A model calls tens of tools at once, not thousands. */
const MAX_EVENTS = 10_000;

/** Adds an event to the list of one frame or complete answer. Throws `backend_failed` if the list already has `MAX_EVENTS`. */
export function addEvent<Event>(events: Event[], event: Event): void {
  if (events.length === MAX_EVENTS)
    throw upstreamFailed(`The model backend said more than ${MAX_EVENTS} things at once.`);
  events.push(event);
}

/** The longest part of an answer that a decoder holds back, in characters. */
const MAX_HELD_CHARS = 16 * 1024 ** 2;

/** An event inside a native event. */
export type DecodedEvent = NativeEvent["events"][number];

/**
 * Decodes one answer of an upstream. A format extends this class with the state of the answer. It reads a frame of a stream in `frame`, and a
 * complete body in `whole`. Both add the same neutral events, which then stand beside the untouched text in a native event.
 */
export abstract class NativeDecoder implements AnswerDecoder {
  protected readonly limits: JsonLimits | undefined;
  /** The unsupported fields that were already reported. */
  protected readonly reported: Set<string> = new Set();
  readonly #format: string;
  #heldChars = 0;
  /** The events of the piece that is being decoded; undefined before the first one. */
  #events: DecodedEvent[] | undefined;

  constructor(format: string, limits: JsonLimits | undefined) {
    this.#format = format;
    this.limits = limits;
  }

  abstract frame(event: string | undefined, data: string): ChatEvent[];

  abstract lost(text: string): ChatEvent[];

  end(): void {
    if (!this.isComplete()) throw upstreamFailed("The model backend's answer broke off.");
  }

  answer(body: string): ChatEvent[] {
    return this.answered(parseAnswer(body, this.limits), body);
  }

  /** Decodes a complete body, given parsed and as it came. */
  protected answered(wire: unknown, body: string): ChatEvent[] {
    this.whole(wire);
    const unsupported = (): readonly string[] => this.unsupportedIn(wire);
    return [{ type: "native", format: this.#format, body, events: this.taken(), unsupported }];
  }

  /** Tells whether the upstream has ended its answer. */
  protected abstract isComplete(): boolean;

  /** Adds the events of a complete body. Throws the upstream's own error, or `backend_failed` for a value that is not an answer. */
  protected abstract whole(wire: unknown): void;

  /** Returns the fields of a complete body that its events cannot express. */
  protected abstract unsupportedIn(wire: unknown): readonly string[];

  /** Adds an event to the piece that is being decoded. */
  protected add(event: DecodedEvent): void {
    // Make the array with its first event: most pieces have no other, and an array that grows takes more memory.
    if (this.#events) addEvent(this.#events, event);
    else this.#events = [event];
  }

  /** Returns the events that were added, once. */
  protected taken(): DecodedEvent[] {
    const events = this.#events ?? [];
    this.#events = undefined;
    return events;
  }

  /**
   * Counts characters that are held back until a piece of the stream is complete; a negative number for those that are let go. No output
   * limit counts them, so an upstream that never completes the piece could fill the memory. Throws `backend_failed` beyond the limit.
   */
  protected hold(chars: number): void {
    this.#heldChars += chars;
    if (this.#heldChars > MAX_HELD_CHARS) throw upstreamFailed("The model backend does not end what it has begun.");
  }

  /** Returns a frame with its events. */
  protected framed(frame: NativeFrame, unsupported: () => readonly string[]): NativeEvent {
    return { type: "native", format: this.#format, frames: [frame], events: this.taken(), unsupported };
  }
}
