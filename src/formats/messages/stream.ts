/**
 * The answer to a messages caller as a stream (spec 6.1): built of neutral events, or the bytes of an upstream that speaks this format. Such an
 * upstream may leave out fields that the spec requires (2.7), and the ends of blocks and of the stream, and may send frames in another order.
 * What is missing is added; all other bytes stay.
 */

import type { GatewayError } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../model/chat-event.ts";
import { isJsonObject, jsonLine, type JsonObject, type JsonValue, PARSED_BEFORE } from "../../model/json.ts";
import type { AnswerContext } from "../format.ts";
import { type AnswerFinish, frameOf, StreamedAnswer } from "../shared/answer.ts";
import { jsonAt, membersOf, withMember } from "../shared/json-text.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { type AnswerEnd, endDelta, endOf, MAX_TEXT_LENGTH, MessagesBuilder, pieceOf } from "./answer.ts";
import { encodeError } from "./errors.ts";
import { FORMAT } from "./routes.ts";
import type { ContentDelta, MessagesStreamEvent, MessagesUsage, StartedAnswer } from "./schema.answer.ts";

const frameText = (frame: MessagesStreamEvent): string => `event: ${frame.type}\ndata: ${jsonLine(frame)}\n\n`;

const PING = frameText({ type: "ping" });
const MESSAGE_STOP = frameText({ type: "message_stop" });

/** The start of an upstream's block. */
interface BegunBlock {
  readonly frame: NativeFrame;
  /** The upstream's own index. */
  readonly index: number;
  readonly type: unknown;
}

/** A block of an upstream that has begun and not ended. */
interface PassedBlock {
  /** The index in the stream that the caller gets. The upstream's own may differ. */
  readonly index: number;
  readonly type: unknown;
}

/** Writes one answer as a stream: as the frames of its upstream, or as frames of the builder, or first as the ones and then as the others. */
export class MessagesStream extends StreamedAnswer {
  override readonly keepAlive: string = PING;
  protected readonly builder: MessagesBuilder;
  readonly #requestId: string;
  /** True once frames of the content have passed. */
  #isPassed = false;
  /** The upstream's `message_delta`, which `finish` writes behind all blocks. */
  #messageDelta: NativeFrame | undefined;
  /** The upstream's blocks that have begun and not ended, by the upstream's indices. */
  readonly #openBlocks: Map<number, PassedBlock> = new Map();
  /**
   * The start of a block that waits for the next frame: a text, which is left out if it ends empty (spec 8), or a tool call whose arguments
   * stand in its start.
   */
  #held: (BegunBlock & { readonly input?: string }) | undefined;
  #nextIndex = 0;
  /** True once an index differs from that of the upstream. */
  #isRenumbered = false;

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
    const [key] = Array.from(this.#openBlocks).find(([, { index, type }]) => index === last && type === "text") ?? [];
    if (key !== undefined) this.#openBlocks.delete(key);
    this.builder.goOn(key === undefined ? this.#nextIndex : last, key !== undefined);
    return this.#stops();
  }

  /** Returns the ends of the open blocks. */
  #stops(): string {
    let text = "";
    for (const { index } of this.#openBlocks.values()) text += frameText({ type: "content_block_stop", index });
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
      if (type === "message_delta")
        this.#messageDelta = this.#messageDelta ? withReason(frame, this.#messageDelta) : frame;
      else if (type === "content_block_start") text += this.#begin(frame);
      else if (type === "content_block_stop" || this.#held || this.#isRenumbered) text += this.#passBlock(frame);
      else text += frameOf(frame);
    }
    return text;
  }

  /**
   * Passes the start of a block on. Gives the block the next index, and ends a block of the same index first. The content that stands in the
   * start follows in a delta, where all clients read it.
   */
  #begin(frame: NativeFrame): string {
    const { index, content_block } = parseAnswerObject(frame.data, PARSED_BEFORE);
    const block = isJsonObject(content_block) ? content_block : {};
    const { type } = block;
    const begun = { index: Number(index), type, frame: wholeBlock(frame, block) };
    let text = this.#released();
    const earlier = this.#openBlocks.get(begun.index);
    if (earlier) text += frameText({ type: "content_block_stop", index: earlier.index });
    this.#openBlocks.delete(begun.index);
    if (type === "text" && block["text"] === "") this.#held = begun;
    else if (type === "tool_use" && isJsonObject(block["input"]) && Object.keys(block["input"]).length > 0)
      this.#held = { ...begun, input: jsonAt(frame.data, ["content_block", "input"]) };
    else text += this.#open(begun) + this.#deltas(block);
    return text;
  }

  #open({ frame, index, type }: BegunBlock): string {
    const own = this.#nextIndex++;
    this.#openBlocks.set(index, { index: own, type });
    this.#isRenumbered ||= own !== index;
    return frameOf(withIndex(frame, own));
  }

  /** Returns the content of a block's start, as the deltas of the newest block. */
  #deltas({ type, text, thinking, signature }: JsonObject): string {
    const deltas: ContentDelta[] = [];
    if (type === "text" && typeof text === "string") deltas.push({ type: "text_delta", text });
    if (type === "thinking" && typeof thinking === "string" && thinking !== "")
      deltas.push({ type: "thinking_delta", thinking });
    if (type === "thinking" && typeof signature === "string" && signature !== "")
      deltas.push({ type: "signature_delta", signature });
    return deltas.map((delta) => this.#delta(delta)).join("");
  }

  #delta(delta: ContentDelta): string {
    return frameText({ type: "content_block_delta", index: this.#nextIndex - 1, delta });
  }

  /**
   * Returns the start that was held, in front of the block's next frame.
   *
   * @param hasArguments True if the arguments of a tool call follow. They are those of the start.
   */
  #released(hasArguments = false): string {
    const held = this.#held;
    this.#held = undefined;
    if (!held) return "";
    const { input } = held;
    const isLast = input === undefined || hasArguments;
    return this.#open(held) + (isLast ? "" : this.#delta({ type: "input_json_delta", partial_json: input }));
  }

  /** Passes a frame on that may belong to a block. */
  #passBlock(frame: NativeFrame): string {
    const { index, delta } = parseAnswerObject(frame.data, PARSED_BEFORE);
    const isStop = frame.event === "content_block_stop";
    let text = "";
    if (this.#held && this.#held.index === index) {
      // Nothing has come yet.
      if (isJsonObject(delta) && (delta["text"] === "" || delta["partial_json"] === "")) return "";
      if (isStop && this.#held.type === "text") {
        this.#held = undefined;
        return "";
      }
      text = this.#released(!isStop);
    }
    const block = this.#openBlocks.get(Number(index));
    if (isStop) this.#openBlocks.delete(Number(index));
    return text + frameOf(block ? withIndex(frame, block.index) : frame);
  }

  protected passRun(text: string, frames: readonly NativeFrame[]): string {
    return this.#held || this.#isRenumbered ? this.pass(frames) : this.#begun() + text;
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
  return withBlocks(filled(body, fields));
}

/** Finds blocks that may lack a field, and empty texts. It may find the input of a tool, too. */
const UNSURE = /"type"\s*:\s*"(?:thinking|tool_use)"|"text"\s*:\s*""/;

function withBlocks(body: string): string {
  if (body.length <= MAX_TEXT_LENGTH && !UNSURE.test(body)) return body;
  const { content } = parseAnswerObject(body, PARSED_BEFORE);
  if (!Array.isArray(content)) return body;
  const blocks = content.flatMap((block): JsonValue[] => (isJsonObject(block) ? wholeBlocks(block) : [block]));
  const isSame = blocks.length === content.length && blocks.every((block, index) => block === content[index]);
  return isSame ? body : withMember(body, ["content"], JSON.stringify(blocks));
}

/** The fields that clients need in a block, and that some upstreams leave out. A caller could not send the block back without them. */
const BLOCK_FIELDS: ReadonlyMap<unknown, JsonObject> = new Map([
  ["thinking", { thinking: "", signature: "" }],
  ["tool_use", { input: {} }],
]);

function wholeBlocks(block: JsonObject): JsonObject[] {
  if (block["type"] === "text") return textBlocks(block);
  const missing = Object.entries(BLOCK_FIELDS.get(block["type"]) ?? {}).filter(([name]) => block[name] == null);
  return missing.length === 0 ? [block] : [{ ...block, ...Object.fromEntries(missing) }];
}

/** Cuts a block into those that its text needs: none for an empty text. */
function textBlocks(block: JsonObject): JsonObject[] {
  const { text } = block;
  if (typeof text !== "string" || (text !== "" && text.length <= MAX_TEXT_LENGTH)) return [block];
  const blocks: JsonObject[] = [];
  for (let rest = text; rest !== "";) {
    const piece = pieceOf(rest, MAX_TEXT_LENGTH);
    blocks.push({ ...block, text: piece });
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
  const data = filled(frame.data, { message: fieldsOf(started) });
  return { ...frame, data: withMember(data, ["message", "stop_reason"], "null") };
}

/** Returns the `message_delta` with all fields. Its counts stand beside `delta`, as in the official service, and inside (spec 6.1). */
function wholeDelta(frame: NativeFrame, { stop_reason, stop_sequence, usage }: AnswerEnd): NativeFrame {
  const { input_tokens, output_tokens } = usage;
  const delta = { stop_reason, stop_sequence, usage: { input_tokens, output_tokens } };
  return { ...frame, data: filled(frame.data, { delta, usage: countsOf(usage) }) };
}

/** Returns a `message_delta` with the stop reason of an earlier one, if it has none itself. */
function withReason(frame: NativeFrame, earlier: NativeFrame): NativeFrame {
  const { delta } = parseAnswerObject(earlier.data, PARSED_BEFORE);
  if (!isJsonObject(delta)) return frame;
  const { stop_reason = null, stop_sequence = null } = delta;
  return { ...frame, data: filled(frame.data, { delta: { stop_reason, stop_sequence } }) };
}

/** Returns a frame with the index that its block has for the caller. */
function withIndex(frame: NativeFrame, index: number): NativeFrame {
  const data = withMember(frame.data, ["index"], String(index), (json) => Number(json) !== index);
  return data === frame.data ? frame : { ...frame, data };
}

/**
 * Returns the text of a JSON object with these members. A member that is there stays, unless it is null. In an object that is there, the
 * missing members are added.
 */
function filled(text: string, members: JsonObject): string {
  const present = membersOf(text);
  let changed = text;
  for (const [name, member] of Object.entries(members)) {
    const { start, end } = present.get(name) ?? { start: 0, end: 0 };
    const json = text.slice(start, end);
    let value = json === "" || json === "null" ? JSON.stringify(member) : json;
    if (value === json && json[0] === "{" && isJsonObject(member)) value = filled(json, member);
    if (value !== json) changed = withMember(changed, [name], value);
  }
  return changed;
}
