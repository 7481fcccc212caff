/** The design of answers that all chat formats have: a builder of neutral events, the complete answer and the stream; and the list of models. */

import { backendFailed, GatewayError, invalidField } from "../../errors.ts";
import { RawJson } from "../../http/answer.ts";
import { type AnswerEvent, type NativeAnswerEvent, type NativeFrame, textOfRun } from "../../model/chat-event.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { escapedLine, LINE_ENDS } from "../../model/json.ts";
import { modelHint } from "../../options.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { AnswerCollector, AnswerStream, Query } from "../format.ts";

/**
 * Returns the id of an answer for its caller. Keeps the backend's id, unless it comes from an upstream of another format: ids of
 * another format look different, and the caller could not look anything up by them.
 *
 * @param own The gateway's own id.
 */
export const answerId = (
  { id, native }: Extract<AnswerEvent, { type: "start" }>,
  format: string,
  own: string,
): string => (native === undefined || native === format ? (id ?? own) : own);

/** Tells whether the caller of a request sees the answer's reasoning. */
export const showsThoughts = ({ reasoning }: ChatRequest): boolean =>
  reasoning === undefined || reasoning.type === "disabled" || reasoning.visible !== false;

export type NeutralEvent = Exclude<AnswerEvent, NativeAnswerEvent>;

/** The last event of an answer. */
export type AnswerFinish = Extract<AnswerEvent, { type: "finish" }>;

/** Takes a frame of the stream that a builder writes. */
export type Emit<Frame> = (frame: Frame) => void;

/**
 * Builds one answer of a chat format from its events. A format extends this class with the state of its answer, and with an optional
 * function that takes the frames of a stream. With the function, the builder emits frames as the answer grows; without it, the builder
 * makes the complete body. Both follow from the same state, so they agree, and events in an impossible order never become an answer.
 */
export abstract class AnswerBuilder<Body extends object = object> {
  #hasEnded = false;

  /** Adds an event. Throws `backend_failed` for an event that is out of order. */
  add(event: AnswerEvent): void {
    if (this.#hasEnded) throw backendFailed("The model backend went on after its answer's end.");
    if (event.type === "finish") this.#hasEnded = true;
    if (event.type !== "native") this.write(event);
    else for (const inner of event.events) this.write(inner);
  }

  /** The complete body. Throws `backend_failed` before the answer has ended. */
  get body(): Body {
    if (!this.#hasEnded) throw backendFailed("The model backend gave no answer.");
    return this.complete();
  }

  /** Writes an event into the answer. */
  protected abstract write(event: NeutralEvent): void;

  /** Returns the body of an answer that has ended. */
  protected abstract complete(): Body;
}

/**
 * Collects a complete answer. If the upstream speaks the caller's format, the answer is the upstream's own body. Otherwise the builder makes
 * the body.
 */
export class CompleteAnswer implements AnswerCollector<AnswerEvent> {
  /** The body of an upstream of the same format, as the caller gets it. */
  protected native: string | undefined;
  readonly #format: string;
  readonly #builder: AnswerBuilder;
  readonly #passed: (body: string, finish: AnswerFinish) => string;

  /** @param passed Changes the body of an upstream before the caller gets it. */
  constructor(
    format: string,
    builder: AnswerBuilder,
    passed: (body: string, finish: AnswerFinish) => string = unchanged,
  ) {
    this.#format = format;
    this.#builder = builder;
    this.#passed = passed;
  }

  add(event: AnswerEvent): void {
    // Skip the decoded events of a complete body: `finish` brings the body itself.
    if (event.type === "native" && event.isWhole && event.format === this.#format) return;
    if (event.type === "finish" && event.native?.format === this.#format && event.native.body !== undefined)
      this.native = this.#passed(event.native.body, event);
    else this.#builder.add(event);
  }

  body(): object {
    return this.native === undefined ? this.#builder.body : new RawJson(this.native);
  }
}

const unchanged = (body: string): string => body;

/**
 * Writes one answer as a stream. Frames of an upstream that speaks the caller's format pass by without being built again, and cost no more
 * than their bytes. The builder gets all other events, and emits its frames into `text`.
 */
export abstract class StreamedAnswer implements AnswerStream<AnswerEvent> {
  readonly contentType: string = "text/event-stream; charset=utf-8";
  /** A comment, which clients skip. */
  readonly keepAlive: string = ": keep-alive\n\n";
  protected abstract readonly builder: AnswerBuilder;
  /** The frames that the builder has emitted, and that are not yet written. */
  protected text = "";
  /** True where the builder writes the rest of the answer, also when an upstream of the same format sends frames. */
  protected isBuilt = false;
  readonly #format: string;

  constructor(format: string) {
    this.#format = format;
  }

  encode(event: AnswerEvent): string {
    if (event.type === "finish")
      return this.finish(event, event.native?.format === this.#format ? event.native.frames : []);
    if (event.type !== "native" || event.format !== this.#format || this.isBuilt) return this.write(event);
    if (event.frames) {
      const text = textOfRun(event.frames);
      return text === undefined ? this.pass(event.frames, event.events.length === 0) : this.passRun(text, event.frames);
    }
    // Only a complete body has no frames. The last frames of a stream come with `finish`.
    return event.isWhole ? this.write(event) : "";
  }

  abstract error(error: GatewayError): string;

  /**
   * Returns frames of the upstream as the caller gets them.
   *
   * @param isEmpty True if the frames mean no event.
   */
  protected abstract pass(frames: readonly NativeFrame[], isEmpty: boolean): string;

  /**
   * Returns the frames of a run as the caller gets them: they are of one shape, and nothing but a text goes on in them.
   *
   * @param text The frames as they are written.
   */
  protected abstract passRun(text: string, frames: readonly NativeFrame[]): string;

  /** Returns the frames that end the answer: the last ones of the upstream if there are any, and those of the builder otherwise. */
  protected abstract finish(event: AnswerFinish, frames: readonly NativeFrame[]): string;

  /** Adds an event to the built answer. Returns the frames that the builder emits. */
  protected write(event: AnswerEvent): string {
    this.builder.add(event);
    return this.taken();
  }

  /** Returns the emitted frames, once. */
  protected taken(): string {
    const { text } = this;
    this.text = "";
    return text;
  }
}

/** The line breaks between the members of JSON. */
const BREAKS = /\r\n|\r|\n/g;

/**
 * Writes one frame of server-sent events. Its JSON becomes a single line: some clients read line by line, and end a line at U+0085, U+2028
 * and U+2029, too.
 */
export function frameOf({ event, data }: NativeFrame): string {
  // Search first: these characters are rare, and a search is faster than a replacement.
  const line = LINE_ENDS.test(data) ? escapedLine(data.replace(BREAKS, " ")) : data;
  return `${event === undefined ? "" : `event: ${event}\n`}data: ${line}\n\n`;
}

/**
 * Finds the model that an address names. Throws `not_found`.
 *
 * @param encoded The name as it stands in the address, percent-encoded.
 */
export async function modelNamed({ models }: Query, encoded: string): Promise<ModelInfo> {
  let name = encoded;
  try {
    name = decodeURIComponent(encoded);
  } catch {
    // Take a name with malformed percent-encoding literally.
  }
  const listed = await models();
  const info = listed.find(({ id, aliases }) => id === name || aliases?.includes(name));
  if (!info) {
    const names = listed.map(({ id }) => id);
    throw new GatewayError("not_found", `There is no model "${name}".${modelHint(name, names)}`, { path: ["model"] });
  }
  // Answer with the name that the caller used, which may be an alias.
  return { ...info, id: name };
}

/**
 * Reads the number of items on a page from a query parameter. Throws `invalid_request` unless the number is an integer from 1 to `most`.
 *
 * @param otherwise The number without the parameter.
 * @param most Default: no limit.
 */
export function pageSize(text: string | null, name: string, otherwise: number, most?: number): number {
  if (text === null || text === "") return otherwise;
  const size = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isInteger(size) && size >= 1 && size <= (most ?? size)) return size;
  const range = most === undefined ? "of at least 1" : `from 1 to ${most}`;
  throw invalidField([name], `must be an integer ${range}`);
}
