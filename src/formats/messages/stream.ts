/**
 * The answer to a messages caller as a stream (spec 6.1): built of neutral events, or the bytes of an upstream that speaks this format. Such an
 * upstream may leave out fields that the spec requires (2.7), and the ends of blocks and of the stream, and may send frames in another order.
 * What is missing is added; all other bytes stay.
 */

import type { GatewayError } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../model/chat-event.ts";
import { isJsonObject, jsonLine, type JsonObject, type JsonValue, PARSED_BEFORE, parseJson } from "../../model/json.ts";
import type { AnswerContext } from "../format.ts";
import { type AnswerFinish, frameOf, StreamedAnswer } from "../shared/answer.ts";
import { jsonAt, ObjectText, withElements, withMember } from "../shared/json-text.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { type AnswerEnd, endDelta, endOf, MAX_TEXT_LENGTH, MessagesBuilder, pieceOf } from "./answer.ts";
import { encodeError } from "./errors.ts";
import { FORMAT } from "./routes.ts";
import type {
  ContentDelta,
  MessagesStreamEvent,
  MessagesUsage,
  StartedAnswer,
  VendorMessagesError,
} from "./schema.answer.ts";

const frameText = (frame: MessagesStreamEvent | VendorMessagesError): string =>
  `event: ${frame.type}\ndata: ${jsonLine(frame)}\n\n`;

const deltaText = (index: number, delta: ContentDelta): string =>
  frameText({ type: "content_block_delta", index, delta });

const PING = frameText({ type: "ping" });
const MESSAGE_STOP = frameText({ type: "message_stop" });

/** A block of an upstream that has begun and not ended. */
interface PassedBlock {
  readonly type: unknown;
  /** The index in the stream that the caller gets. The upstream's own may differ. Undefined until the start is written. */
  index?: number;
  /** The start of a text that has no content yet. */
  start?: NativeFrame | undefined;
  /** The arguments in the start of a tool call, until the block's next frame comes. */
  input?: string | undefined;
}

/** Writes one answer as a stream: as the frames of its upstream, or as frames of the builder, or first as the ones and then as the others. */
export class MessagesStream extends StreamedAnswer {
  override readonly keepAlive: string = PING;
  protected readonly builder: MessagesBuilder;
  readonly #requestId: string;
  readonly #vendorErrors: boolean;
  /** True once frames of the content have passed. */
  #isPassed = false;
  /** The upstream's `message_delta`, which `finish` writes behind all blocks. */
  #messageDelta: NativeFrame | undefined;
  /** The upstream's blocks that have begun and not ended, by the upstream's indices. */
  readonly #blocks: Map<unknown, PassedBlock> = new Map();
  /** The number of blocks that wait for their next frame. */
  #waiting = 0;
  #nextIndex = 0;
  /** True once an index differs from that of the upstream. */
  #isRenumbered = false;

  constructor(context: AnswerContext, vendorErrors: boolean) {
    super(FORMAT);
    this.#vendorErrors = vendorErrors;
    this.#requestId = context.requestId;
    this.builder = new MessagesBuilder(context, (frame) => {
      this.text += frameText(frame);
    });
  }

  error(error: GatewayError): string {
    return frameText(encodeError(error, this.#requestId, this.#vendorErrors));
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
    const [key] = Array.from(this.#blocks).find(([, { index, type }]) => index === last && type === "text") ?? [];
    if (key !== undefined) this.#blocks.delete(key);
    this.builder.goOn(key === undefined ? this.#nextIndex : last, key !== undefined);
    return this.#stops();
  }

  /** Returns the ends of the open blocks. */
  #stops(): string {
    let text = "";
    for (const block of this.#blocks.values()) text += this.#end(block);
    this.#blocks.clear();
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
      if (type === "message_delta") this.#messageDelta = this.#messageDelta ? merged(frame, this.#messageDelta) : frame;
      else if (type === "content_block_start") text += this.#begin(frame);
      else if (type === "content_block_stop" || this.#isChanged) text += this.#passBlock(frame);
      else text += frameOf(frame);
    }
    return text;
  }

  /** True while frames of blocks may change. */
  get #isChanged(): boolean {
    return this.#waiting > 0 || this.#isRenumbered;
  }

  /**
   * Passes the start of a block on. Ends a block of the same index first. The content that stands in the start follows in a delta, where all
   * clients read it. A text without content waits, because it is left out if it ends empty (spec 8). Arguments wait, because some upstreams
   * repeat them in deltas.
   */
  #begin(frame: NativeFrame): string {
    const { index, content_block } = parseAnswerObject(frame.data, PARSED_BEFORE);
    const block = isJsonObject(content_block) ? content_block : {};
    const { type, input } = block;
    const earlier = this.#blocks.get(index);
    const text = earlier ? this.#end(earlier) : "";
    const begun: PassedBlock = { type };
    this.#blocks.set(index, begun);
    const start = wholeBlock(frame, block);
    if (type === "text" && !block["text"]) begun.start = start;
    if (type === "tool_use" && isJsonObject(input) && Object.keys(input).length > 0)
      begun.input = jsonAt(frame.data, ["content_block", "input"]);
    if (begun.start ?? begun.input) this.#waiting++;
    if (begun.start) return text;
    const opened = this.#open(begun, start, index);
    return (
      text +
      opened +
      deltasIn(block)
        .map((delta) => deltaText(this.#nextIndex - 1, delta))
        .join("")
    );
  }

  /** Gives a block the next index, and returns its start. */
  #open(block: PassedBlock, start: NativeFrame, upstreamIndex: unknown): string {
    block.index = this.#nextIndex++;
    this.#isRenumbered ||= block.index !== upstreamIndex;
    return frameOf(withIndex(start, upstreamIndex, block.index));
  }

  /** Passes a frame on that may belong to a block. */
  #passBlock(frame: NativeFrame): string {
    const { index, delta } = parseAnswerObject(frame.data, PARSED_BEFORE);
    const block = this.#blocks.get(index);
    if (!block) return frameOf(frame);
    if (frame.event === "content_block_stop") {
      this.#blocks.delete(index);
      return this.#end(block, withIndex(frame, index, block.index));
    }
    const opening = this.#opening(block, index, delta);
    return opening === undefined ? "" : opening + frameOf(withIndex(frame, index, block.index));
  }

  /** Lets a block go on that waits for content. Returns what stands in front of the delta; undefined for a delta without content. */
  #opening(block: PassedBlock, upstreamIndex: unknown, delta: JsonValue | undefined): string | undefined {
    if (!(block.start ?? block.input)) return "";
    if (isJsonObject(delta) && (delta["text"] === "" || delta["partial_json"] === "")) return undefined;
    const opening = block.start ? this.#open(block, block.start, upstreamIndex) : "";
    block.start = block.input = undefined;
    this.#waiting--;
    return opening;
  }

  /** Returns the rest of a block and its end. Returns nothing for a text without content. */
  #end({ index, start, input }: PassedBlock, stop?: NativeFrame): string {
    if (start ?? input) this.#waiting--;
    if (index === undefined) return "";
    const rest = input === undefined ? "" : deltaText(index, { type: "input_json_delta", partial_json: input });
    return rest + (stop ? frameOf(stop) : frameText({ type: "content_block_stop", index }));
  }

  protected passRun(text: string, frames: readonly NativeFrame[]): string {
    const [first] = frames;
    if (!first || !this.#isChanged) return this.#begun() + text;
    const { index, delta } = parseAnswerObject(first.data, PARSED_BEFORE);
    const block = this.#blocks.get(index);
    // The frames of a run belong to one block: if its first has content, the others pass as they are.
    const opening = block && this.#opening(block, index, delta);
    if (opening === undefined || this.#isRenumbered) return (opening ?? "") + this.pass(frames);
    return this.#begun() + opening + text;
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
    return frameOf(started ? wholeStart(frame, started) : frame);
  }

  /** Passes an upstream's last frames on. Adds missing fields and frames, and puts the end of the answer behind all blocks. */
  protected finish(event: AnswerFinish, frames: readonly NativeFrame[]): string {
    if (this.isBuilt || (!this.#isPassed && frames.length === 0)) return this.write(event);
    const end = endOf(event, true);
    const stop = frames.find((frame) => frame.event === "message_stop");
    const text = this.pass(stop ? frames.slice(0, frames.indexOf(stop)) : frames) + this.#stops();
    const delta = this.#messageDelta ? frameOf(wholeDelta(this.#messageDelta, end)) : frameText(endDelta(end));
    return text + delta + (stop ? frameOf(stop) : MESSAGE_STOP);
  }
}

/** The counts that the spec requires (2.7). */
const countsOf = (usage: MessagesUsage): JsonObject => ({
  input_tokens: usage.input_tokens,
  output_tokens: usage.output_tokens,
  cache_creation_input_tokens: usage.cache_creation_input_tokens,
  cache_read_input_tokens: usage.cache_read_input_tokens,
});

/** The fields that every answer has (spec 2.7). Their values here stand in for those that an upstream has left out. */
const fieldsOf = ({ id, type, role, model, content, usage }: StartedAnswer): JsonObject => ({
  id,
  type,
  role,
  model,
  content: content as JsonValue,
  stop_reason: null,
  stop_sequence: null,
  usage: countsOf(usage),
});

/** Returns the body of an upstream with all fields. Leaves empty texts out, and cuts texts that are too long for one block (spec 8). */
export function wholeBody(body: string, started: StartedAnswer | undefined, finish: AnswerFinish): string {
  const { stop_reason, stop_sequence, usage } = endOf(finish, true);
  const fields = { ...(started && fieldsOf(started)), stop_reason, stop_sequence, usage: countsOf(usage) };
  const object = new ObjectText(body);
  fill(object, fields);
  object.set("content", withElements(object.get("content"), wholeBlocks));
  return object.text;
}

/** The fields that clients need in a block, and that some upstreams leave out. A caller could not send the block back without them. */
const BLOCK_FIELDS: ReadonlyMap<unknown, JsonObject> = new Map([
  ["thinking", { thinking: "", signature: "" }],
  ["tool_use", { input: {} }],
]);

const EMPTY_TEXT = '""';

/** Returns the blocks that stand for a block of an upstream: more than one for a text that is too long, and none for an empty text. */
function wholeBlocks(json: string): string | readonly string[] {
  const block = new ObjectText(json);
  const type = block.get("type");
  if (type !== '"text"') {
    fill(block, BLOCK_FIELDS.get(type.slice(1, -1)) ?? {});
    if (type === '"tool_use"' && block.get("input") === EMPTY_TEXT) block.set("input", "{}");
    return block.text;
  }
  const text = block.get("text");
  if (text === "" || text === "null" || text === EMPTY_TEXT) return [];
  if (text.length <= MAX_TEXT_LENGTH) return json;
  const blocks: string[] = [];
  // The upstream's answer was decoded, so the value is a text.
  for (let rest = parseJson(text, PARSED_BEFORE) as string; rest !== "";) {
    const piece = pieceOf(rest, MAX_TEXT_LENGTH);
    block.set("text", JSON.stringify(piece));
    blocks.push(block.text);
    rest = rest.slice(piece.length);
  }
  return blocks;
}

/** The value that a field of a block has at the start of the block. */
const AT_START: ReadonlyMap<unknown, JsonObject> = new Map<unknown, JsonObject>([
  ...BLOCK_FIELDS,
  ["text", { text: "" }],
]);

/** Returns the start of a block without the block's content. */
function wholeBlock(frame: NativeFrame, block: JsonObject): NativeFrame {
  let { data } = frame;
  for (const [name, value] of Object.entries(AT_START.get(block["type"]) ?? {})) {
    const json = JSON.stringify(value);
    if (JSON.stringify(block[name]) !== json) data = withMember(data, ["content_block", name], json);
  }
  return data === frame.data ? frame : { ...frame, data };
}

/** Returns the first frame with all fields. Its `stop_reason` is null (spec 6.1). */
function wholeStart(frame: NativeFrame, started: StartedAnswer): NativeFrame {
  const start = new ObjectText(frame.data);
  const message = new ObjectText(start.get("message"));
  fill(message, fieldsOf(started));
  message.set("stop_reason", "null");
  start.set("message", message.text);
  return { ...frame, data: start.text };
}

/** Returns the `message_delta` with all fields. Its counts stand beside `delta`, as in the official service, and inside (spec 6.1). */
function wholeDelta(frame: NativeFrame, { stop_reason, stop_sequence, usage }: AnswerEnd): NativeFrame {
  const { input_tokens, output_tokens } = usage;
  const delta = { stop_reason, stop_sequence, usage: { input_tokens, output_tokens } };
  return { ...frame, data: filled(frame.data, { delta, usage: countsOf(usage) }) };
}

/** Returns a `message_delta` with what an earlier one has besides. */
const merged = (frame: NativeFrame, earlier: NativeFrame): NativeFrame => ({
  ...frame,
  data: filled(frame.data, parseAnswerObject(earlier.data, PARSED_BEFORE)),
});

/** Returns a frame with the index that its block has for the caller. */
const withIndex = (frame: NativeFrame, upstreamIndex: unknown, index: number | undefined): NativeFrame =>
  index === upstreamIndex ? frame : { ...frame, data: withMember(frame.data, ["index"], String(index)) };

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

/** Returns the content of a block's start, as deltas. */
function deltasIn({ type, text, thinking, signature }: JsonObject): ContentDelta[] {
  if (type === "text") return isText(text) ? [{ type: "text_delta", text }] : [];
  if (type !== "thinking") return [];
  const deltas: ContentDelta[] = [];
  if (isText(thinking)) deltas.push({ type: "thinking_delta", thinking });
  if (isText(signature)) deltas.push({ type: "signature_delta", signature });
  return deltas;
}

/** Returns the text of a JSON object with these members, as `fill` sets them. */
function filled(text: string, members: JsonObject): string {
  const object = new ObjectText(text);
  fill(object, members);
  return object.text;
}

/** Sets the members that an object lacks, or that are null. A member that is an object itself gets the members that it lacks. */
function fill(object: ObjectText, members: JsonObject): void {
  for (const [name, member] of Object.entries(members)) {
    const json = object.get(name);
    if (json === "" || json === "null") object.set(name, JSON.stringify(member));
    else if (json[0] === "{" && isJsonObject(member)) object.set(name, filled(json, member));
  }
}
