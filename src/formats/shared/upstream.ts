/** Reads the answers of upstreams, for all formats. */

import type * as v from "valibot";
import { type GatewayError, backendFailed } from "../../errors.ts";
import { type ChatEvent, type NativeEvent, type NativeFrame, noteRun } from "../../model/chat-event.ts";
import { isJsonObject, JsonLimitError, type JsonLimits, type JsonObject, parseJson } from "../../model/json.ts";
import type { Usage } from "../../model/usage.ts";
import type { TelemetryNames } from "../../ports/observer.ts";
import type { AnswerDecoder, FrameRun } from "../format.ts";
import type { AddressRules, UpstreamFormat } from "../module.ts";
import { frameOf } from "./answer.ts";
import { FrameShape, type VariedFields } from "./frame-shape.ts";
import type { UnsupportedFinder } from "./schema.ts";

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
  backendFailed("The model backend's picture cannot be fetched.", new Error(why));

/** Parses an upstream's JSON. Throws `backend_failed` for a text that is not JSON, and for JSON beyond the limits. */
export function parseAnswer(text: string, limits?: JsonLimits): unknown {
  try {
    return parseJson(text, limits);
  } catch (cause) {
    if (cause instanceof JsonLimitError)
      throw backendFailed(`The model backend's answer is too large: its JSON ${cause.message}.`);
    throw backendFailed("The model backend's answer is not valid JSON.", cause);
  }
}

/** Parses an upstream's JSON object. Throws `backend_failed` for any other text. */
export function parseAnswerObject(text: string, limits?: JsonLimits): JsonObject {
  const parsed = parseAnswer(text, limits);
  if (isJsonObject(parsed)) return parsed;
  throw backendFailed("The model backend's answer is no JSON object.");
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
  // Run the schema here: relays need this file before they need any code that validates.
  const usage =
    isJsonObject(found) && !schema["~run"]({ value: found }, { abortEarly: true }).issues ? decode(found as Wire) : {};
  return Object.keys(usage).length > 0 ? [{ type: "usage", usage }] : [];
}

/** The largest number of events in one frame of a stream or in one complete answer. A model calls tens of tools at once, not thousands. */
const MAX_EVENTS = 10_000;

/** Adds an event to the list of one frame or complete answer. Throws `backend_failed` if the list already has `MAX_EVENTS`. */
export function addEvent<Event>(events: Event[], event: Event): void {
  if (events.length === MAX_EVENTS)
    throw backendFailed(`The model backend said more than ${MAX_EVENTS} things at once.`);
  events.push(event);
}

/** The longest part of an answer that a decoder holds back, in characters. */
const MAX_HELD_CHARS = 16 * 1024 ** 2;

/** An event inside a native event. */
export type DecodedEvent = NativeEvent["events"][number];

interface DecodedFrame {
  readonly frame: NativeFrame;
  readonly wire: JsonObject;
  readonly events: readonly DecodedEvent[];
  readonly unsupported: () => readonly string[];
}

const TEXT_EVENTS: ReadonlySet<string> = new Set([
  "text-delta",
  "reasoning-delta",
  "refusal-delta",
  "tool-call-delta",
] satisfies DecodedEvent["type"][]);

/** Tells whether events are a text, with nothing but counts beside it: a longer text in the same frame has the same events. */
const areText = ([text, ...others]: readonly DecodedEvent[]): boolean =>
  text !== undefined &&
  TEXT_EVENTS.has(text.type) &&
  !("signature" in text) &&
  others.every(({ type }) => type === "usage");

/** After so many shapes that no frame has repeated, no further shape of the answer is told: its frames vary in other ways. */
const MAX_IDLE_SHAPES = 8;

/**
 * Decodes one answer of an upstream. A format extends this class with the state of the answer. It reads a frame of a stream in `frame`, and a
 * complete body in `whole`. Both add the same neutral events, which then stand beside the untouched text in a native event.
 */
export abstract class NativeDecoder implements AnswerDecoder {
  protected readonly limits: JsonLimits | undefined;
  /** The unsupported fields that were already reported. */
  protected readonly reported: Set<string> = new Set();
  hasSaid = false;
  readonly #format: string;
  readonly #findUnsupported: UnsupportedFinder;
  #heldChars = 0;
  /** The last frame, until its shape was asked for. */
  #last: DecodedFrame | undefined;
  /** The shape of the last frame, and the frame that was parsed to tell it. */
  #shape: FrameShape | undefined;
  #repeated: DecodedFrame | undefined;
  /** True when frames of the shape came as the gateway writes them. */
  #isVerbatim = false;
  #idleShapes = 0;
  /** The events of the piece that is being decoded; undefined before the first one. */
  #events: DecodedEvent[] | undefined;

  /** @param findUnsupported Finds the fields of a complete body that its events cannot express. */
  constructor(format: string, limits: JsonLimits | undefined, findUnsupported: UnsupportedFinder) {
    this.#format = format;
    this.#findUnsupported = findUnsupported;
    this.limits = limits;
  }

  abstract frame(event: string | undefined, data: string): ChatEvent[];

  abstract lost(text: string): ChatEvent[];

  note(frame: string): void {
    const last = this.#last;
    this.#last = undefined;
    if (!last || this.#shape || this.#idleShapes === MAX_IDLE_SHAPES || !areText(last.events)) return;
    const fields = this.variedIn(last.wire);
    this.#shape = fields && FrameShape.of(frame, last.frame.data, last.wire, fields, this.limits);
    if (!this.#shape) return;
    this.#repeated = last;
    this.#isVerbatim = frameOf(last.frame) === frame;
    this.#idleShapes++;
  }

  run(source: string, from: number, most: number, isJoined: boolean): FrameRun<ChatEvent> | undefined {
    const [shape, repeated] = [this.#shape, this.#repeated];
    if (!shape || !repeated) return undefined;
    const { event } = repeated.frame;
    const frames: NativeFrame[] = [];
    let [end, text, chars] = [from, "", 0];
    while (chars <= most) {
      const next = shape.match(source, end, isJoined && frames.length > 0);
      if (next < 0) break;
      end = next;
      chars += shape.data.length;
      frames.push(event === undefined ? { data: shape.data } : { event, data: shape.data });
      if (isJoined) text += shape.text;
      else this.read(shape.wireWith(shape.text));
    }
    if (frames.length === 0) return undefined;
    this.#idleShapes = 0;
    if (isJoined) {
      this.read(shape.wireWith(text));
      noteRun(frames, this.#isVerbatim ? source.slice(from, end) : frames.map(frameOf).join(""));
    }
    return { event: this.#native(frames, this.taken(), repeated.unsupported), end, chars };
  }

  end(): void {
    if (!this.isComplete()) throw backendFailed("The model backend's answer broke off.");
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

  /** Adds the events of a frame whose JSON holds to its schema. Keeps no object of it that has a field of `variedIn`. */
  protected abstract read(wire: JsonObject): void;

  /** Returns the fields in which a frame may differ from the next one, when they are a text; undefined for a frame of another meaning. */
  protected abstract variedIn(wire: JsonObject): VariedFields | undefined;

  /** Returns the fields of a complete body, or of a part of one, that its events cannot express. Each is returned once. */
  protected unsupportedIn(wire: unknown): readonly string[] {
    return this.#findUnsupported(wire, this.reported);
  }

  /** Adds an event to the piece that is being decoded. */
  protected add(event: DecodedEvent): void {
    this.hasSaid ||= event.type !== "start" && event.type !== "usage";
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
    if (this.#heldChars > MAX_HELD_CHARS) throw backendFailed("The model backend does not end what it has begun.");
  }

  /**
   * Returns a frame with its events.
   *
   * @param wire The JSON of the frame, which holds to its schema.
   * @param unsupported Returns the fields that the events cannot express. Default: those of a complete body with this JSON.
   */
  protected framed(
    frame: NativeFrame,
    wire: JsonObject,
    unsupported: () => readonly string[] = () => this.unsupportedIn(wire),
  ): NativeEvent {
    const events = this.taken();
    this.#last = { frame, wire, events, unsupported };
    // A frame of the same shape may have come in two pieces.
    if (this.#shape && !this.#shape.fits(frame.data)) this.#shape = this.#repeated = undefined;
    return this.#native([frame], events, unsupported);
  }

  #native(
    frames: readonly NativeFrame[],
    events: readonly DecodedEvent[],
    unsupported: () => readonly string[],
  ): NativeEvent {
    return { type: "native", format: this.#format, frames, events, unsupported };
  }
}
