/**
 * The answer to a messages caller as a stream (spec 6.1): built of neutral events, or the bytes of an upstream that speaks this format. Such an
 * upstream may leave out counts that the spec requires (2.7), and the end of a stream. They are added; all other bytes stay.
 */

import type { GatewayError } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../model/chat-event.ts";
import { isJsonObject, jsonLine, type JsonObject, type JsonValue, PARSED_BEFORE } from "../../model/json.ts";
import type { AnswerContext } from "../format.ts";
import { type AnswerFinish, frameOf, StreamedAnswer } from "../shared/answer.ts";
import { spanAt, withMember } from "../shared/json-text.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { endDelta, endOf, MessagesBuilder } from "./answer.ts";
import { encodeError } from "./errors.ts";
import { FORMAT } from "./routes.ts";
import type { MessagesStreamEvent, MessagesUsage } from "./schema.answer.ts";

const frameText = (frame: MessagesStreamEvent): string => `event: ${frame.type}\ndata: ${jsonLine(frame)}\n\n`;

const PING = frameText({ type: "ping" });
const MESSAGE_STOP = frameText({ type: "message_stop" });

/** Returns the body of an upstream with all counts. */
export const withCounts = (body: string, finish: AnswerFinish): string =>
  completed(body, ["usage"], countsOf(endOf(finish, true).usage));

/** Writes one answer as a stream: as the frames of its upstream, or as frames of the builder, or first as the ones and then as the others. */
export class MessagesStream extends StreamedAnswer {
  override readonly keepAlive: string = PING;
  protected readonly builder: MessagesBuilder;
  readonly #requestId: string;
  /** True once frames of the content have passed. */
  #isPassed = false;
  #hasDelta = false;
  /** The types of the upstream's blocks that have begun and not ended, by their indices. */
  readonly #openBlocks: Map<number, unknown> = new Map();
  /** The index behind those of the upstream's blocks. */
  #nextIndex = 0;

  constructor(context: AnswerContext) {
    super(FORMAT);
    this.#requestId = context.requestId;
    this.builder = new MessagesBuilder(context, (frame) => {
      this.text += frameText(frame);
    });
  }

  error(error: GatewayError): string {
    return frameText(encodeError(error, this.#requestId));
  }

  protected override write(event: AnswerEvent): string {
    const ended = this.#isPassed ? this.#goOn() : "";
    if (event.type !== "start" && (event.type !== "native" || event.events.length > 0)) this.isBuilt = true;
    return ended + super.write(event);
  }

  /** Lets the builder go on behind the frames of an upstream that has broken off. Returns the ends of the blocks that do not go on. */
  #goOn(): string {
    this.#isPassed = false;
    const last = this.#nextIndex - 1;
    const isText = this.#openBlocks.get(last) === "text";
    if (isText) this.#openBlocks.delete(last);
    this.builder.goOn(isText ? last : this.#nextIndex, isText);
    return this.#stops();
  }

  /** Returns the ends of the open blocks. */
  #stops(): string {
    let text = "";
    for (const index of this.#openBlocks.keys()) text += frameText({ type: "content_block_stop", index });
    return text;
  }

  /** Passes an upstream's frames on. Skips a second start, and adds a missing one. */
  protected pass(frames: readonly NativeFrame[]): string {
    let text = "";
    for (const frame of frames) {
      const type = frame.event ?? "";
      // A stop in front of the finish belongs to an answer that fails behind it. `finish` writes the stop.
      if (type === "message_stop") continue;
      if (type === "message_start") {
        text += this.#passStart(frame);
        continue;
      }
      text += this.#begun();
      if (type === "content_block_start") this.#begin(frame);
      else if (type === "content_block_stop")
        this.#openBlocks.delete(Number(parseAnswerObject(frame.data, PARSED_BEFORE)["index"]));
      else if (type === "message_delta") this.#hasDelta = true;
      text += frameOf(frame);
    }
    return text;
  }

  #begin({ data }: NativeFrame): void {
    const { index, content_block: block } = parseAnswerObject(data, PARSED_BEFORE);
    this.#openBlocks.set(Number(index), isJsonObject(block) && block["type"]);
    this.#nextIndex = Number(index) + 1;
  }

  protected passRun(text: string): string {
    return this.#begun() + text;
  }

  /** Returns the start of an answer whose upstream has sent none. */
  #begun(): string {
    this.#isPassed = true;
    if (this.builder.hasBegun) return "";
    this.builder.begin();
    return this.taken();
  }

  #passStart(frame: NativeFrame): string {
    if (this.builder.hasBegun) return "";
    this.builder.hasBegun = true;
    const { started } = this.builder;
    return frameOf(started ? startWithCounts(frame, started.usage) : frame);
  }

  /** Passes an upstream's last frames on. Adds the missing counts, and the missing frames if the answer was cut. */
  protected finish(event: AnswerFinish, frames: readonly NativeFrame[]): string {
    if (this.isBuilt || (!this.#isPassed && frames.length === 0)) return this.write(event);
    const end = endOf(event, true);
    const stop = frames.find((frame) => frame.event === "message_stop");
    const before = stop ? frames.slice(0, frames.indexOf(stop)) : frames;
    const delta = before.findLast((frame) => frame.event === "message_delta");
    let text = this.pass(before.map((frame) => (frame === delta ? deltaWithCounts(frame, end.usage) : frame)));
    text += this.#stops();
    if (!this.#hasDelta) text += frameText(endDelta(end));
    return text + (stop ? frameOf(stop) : MESSAGE_STOP);
  }
}

/** The counts that the spec requires (2.7). */
const countsOf = (usage: MessagesUsage): JsonObject => ({
  input_tokens: usage.input_tokens,
  output_tokens: usage.output_tokens,
  cache_creation_input_tokens: usage.cache_creation_input_tokens,
  cache_read_input_tokens: usage.cache_read_input_tokens,
});

/** Returns the first frame with all counts. */
function startWithCounts(frame: NativeFrame, usage: MessagesUsage): NativeFrame {
  const counts = countsOf(usage);
  if (hasMembers(parseAnswerObject(frame.data, PARSED_BEFORE), { message: { usage: counts } })) return frame;
  return { ...frame, data: completed(frame.data, ["message", "usage"], counts) };
}

/** Returns the last `message_delta` with all counts: beside `delta`, where the official service has them, and inside (spec 6.1). */
function deltaWithCounts(frame: NativeFrame, usage: MessagesUsage): NativeFrame {
  const counts = countsOf(usage);
  const { input_tokens, output_tokens } = usage;
  const inside = { input_tokens, output_tokens };
  if (hasMembers(parseAnswerObject(frame.data, PARSED_BEFORE), { usage: counts, delta: { usage: inside } }))
    return frame;
  const beside = completed(frame.data, ["usage"], counts);
  return { ...frame, data: completed(beside, ["delta", "usage"], inside) };
}

/** Tells whether a value has these members. Most frames do, and to parse a short text is faster than to search it for each member. */
function hasMembers(value: JsonValue | undefined, members: JsonObject): boolean {
  if (!isJsonObject(value)) return false;
  for (const [name, member] of Object.entries(members))
    if (isJsonObject(member) ? !hasMembers(value[name], member) : value[name] == null) return false;
  return true;
}

/**
 * Returns the text of a JSON object in which the object at a path has these members. A member that is there stays, unless it is null.
 *
 * @param path The path of an object that may be missing, in an object that is there.
 */
function completed(text: string, path: readonly [string, ...string[]], members: JsonObject): string {
  const span = spanAt(text, path);
  if (!span || text[span.start] !== "{") return withMember(text, path, JSON.stringify(members), isNull);
  if (hasMembers(parseAnswerObject(text.slice(span.start, span.end), PARSED_BEFORE), members)) return text;
  let changed = text;
  for (const [name, value] of Object.entries(members))
    changed = withMember(changed, [...path, name], JSON.stringify(value), isNull);
  return changed;
}

const isNull = (json: string): boolean => json === "null";
