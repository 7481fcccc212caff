/** Decodes an upstream's answer in this format (spec 2.7, 6.1), complete or in frames, into native events with neutral events inside. */

import { backendFailed } from "../../errors.ts";
import { isValid } from "../../http/validation.ts";
import type { ChatEvent, FinishReason } from "../../model/chat-event.ts";
import { given, isJsonObject, type JsonLimits, type JsonObject, utf8Length } from "../../model/json.ts";
import { decodeUpstreamError, isError } from "../shared/errors.decode.ts";
import type { VariedFields } from "../shared/frame-shape.ts";
import { withMember } from "../shared/json-text.ts";
import { AnsweredArguments } from "../shared/tools.ts";
import { lostUsage, NativeDecoder, parseAnswerObject } from "../shared/upstream.ts";
import { ToolUses } from "../shared/usage.decode.ts";
import { decodeUsage, type Fallback, fallbackIn } from "./answer.usage.ts";
import { FORMAT } from "./routes.ts";
import {
  knownBlock,
  unsupportedInAnswer,
  unsupportedInFrame,
  UPSTREAM_FRAMES,
  UpstreamAnswer,
  type UpstreamBlock,
  type UpstreamCitation,
  type UpstreamFrame,
  type UpstreamFrameType,
  UpstreamUsage,
} from "./schema.upstream.ts";

/** A content block that has begun and not ended. */
interface DecodedBlock {
  readonly wire: UpstreamBlock;
  /** The id of a tool call; undefined for any other block. */
  readonly callId: string | undefined;
  /** For a provider's own tool, its input so far. For a tool call, the last piece of its arguments. */
  json: string;
  readonly citations: UpstreamCitation[];
  /** The position of the block's text in the whole text of the answer, in bytes. */
  readonly textStart: number;
  /** The characters that are held in memory until the block ends. */
  heldChars: number;
}

/** Matches the type of a block with the result of a tool that is billed by the use. The group is the name of the tool. */
const BILLED_RESULT = /^(web_search|web_fetch)_tool_result$/;

const NO_DATA = /^\s*(?:\[DONE\]\s*)?$/;

/** The text in each type of delta. */
const TEXT_OF: ReadonlyMap<unknown, string> = new Map([
  ["text_delta", "text"],
  ["thinking_delta", "thinking"],
  ["input_json_delta", "partial_json"],
]);

/** The memory of an open block beside its content, counted as characters. */
const BLOCK_CHARS = 64;

/** Decodes one answer. Throws `backend_failed` for frames, blocks or arguments that the format does not allow. */
export class MessagesDecoder extends NativeDecoder {
  readonly #arguments: AnsweredArguments;
  readonly #blocks: Map<number, DecodedBlock> = new Map();
  /** The length of the answer's text so far, in bytes. */
  #textBytes = 0;
  /** The latest value of each token count. A later report with only some counts keeps the others. */
  #usage: UpstreamUsage = {};
  readonly #fallbacks: Fallback[] = [];
  /** The uses of tools whose results have come since the upstream has last counted them; undefined before the first. */
  #uses: ToolUses | undefined;
  #started = false;
  #finished = false;
  #stopped = false;

  constructor(limits?: JsonLimits) {
    super(FORMAT, limits, unsupportedInAnswer);
    this.#arguments = new AnsweredArguments(limits);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    // Some upstreams send the last frame of chat completions, or frames without data. Nothing belongs to an answer after its end.
    if (this.#stopped || (!data.startsWith("{") && NO_DATA.test(data))) return [];
    const wire = parseAnswerObject(data, this.limits);
    const type = typeof wire["type"] === "string" ? wire["type"] : (event ?? "message");
    if (type === "ping") return [];
    if (isError(wire, event)) throw decodeUpstreamError(undefined, wire);
    if (type === "message") {
      // The answer of an upstream that does not stream, or a repetition of the streamed answer.
      if (this.#started || !Array.isArray(wire["content"])) return [];
      return this.answer(data);
    }
    this.#read(type, wire, data.length);
    const frame = { event: type, data: withTypes(type, wire, data) };
    return [this.framed(frame, wire, () => unsupportedInFrame(type)(wire, this.reported))];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(
      text,
      this.limits,
      ({ usage }) => usage,
      UpstreamUsage,
      (usage) => decodeUsage(usage),
    );
  }

  protected isComplete(): boolean {
    // Some upstreams leave out `message_stop`. An answer with a stop reason is complete.
    return this.#stopped || this.#finished;
  }

  protected whole(wire: unknown): void {
    if (!isJsonObject(wire)) throw backendFailed("The model backend's answer is no JSON object.");
    if (isError(wire)) throw decodeUpstreamError(undefined, wire);
    if (!isValid(UpstreamAnswer, wire)) throw backendFailed("The model backend's answer has not the shape of one.");
    this.#start(wire);
    for (const [index, block] of wire.content.entries()) {
      this.#begin(index, block, 0);
      this.#end(index);
    }
    // The counts of the upstream are those of its bill.
    this.#learn(wire.usage);
    this.#finish(wire.stop_reason ?? "end_turn", wire.stop_sequence);
    this.#stopped = true;
  }

  protected read(wire: JsonObject): void {
    const { index, delta } = wire as unknown as UpstreamFrame<"content_block_delta">;
    this.#delta(index, delta, 0);
  }

  protected variedIn({ type, delta }: JsonObject): VariedFields | undefined {
    const field = isJsonObject(delta) ? TEXT_OF.get(delta["type"]) : undefined;
    return type === "content_block_delta" && field !== undefined ? { text: ["delta", field] } : undefined;
  }

  /** @param chars The length of the frame's data. */
  #read(type: string, wire: JsonObject, chars: number): void {
    switch (type) {
      case "message_start":
        return this.#start(this.#valid(type, wire).message);
      case "content_block_start": {
        const { index, content_block } = this.#valid(type, wire);
        return this.#begin(index, content_block, chars);
      }
      case "content_block_delta": {
        const { index, delta } = this.#valid(type, wire);
        return this.#delta(index, delta, chars);
      }
      case "content_block_stop":
        return this.#end(this.#valid(type, wire).index);
      case "message_delta": {
        const { delta, usage } = this.#valid(type, wire);
        this.#learn(delta.usage);
        this.#learn(usage);
        if (delta.stop_reason != null) return this.#finish(delta.stop_reason, delta.stop_sequence);
        return this.add({ type: "usage", usage: decodeUsage(this.#usage, this.#fallbacks) });
      }
      case "message_stop":
        this.#valid(type, wire);
        this.#stopped = true;
        if (!this.#finished) this.#finish("end_turn", undefined);
        return;
      default:
    }
  }

  #valid<Type extends UpstreamFrameType>(type: Type, wire: JsonObject): UpstreamFrame<Type> {
    if (!isValid(UPSTREAM_FRAMES[type], wire))
      throw backendFailed("The model backend sent a frame that has not the shape of one.");
    if (!this.#started && type !== "message_start")
      throw backendFailed("The model backend went on with an answer that it had not begun.");
    return wire;
  }

  #start({ id, model, usage }: UpstreamFrame<"message_start">["message"]): void {
    this.#started = true;
    this.#learn(usage);
    this.add({
      type: "start",
      ...(id != null && { id }),
      ...(model != null && { model }),
      usage: decodeUsage(this.#usage, this.#fallbacks),
    });
  }

  /** Begins a block. Text, reasoning and tool calls give events at once; any other block gives its event at the end. */
  #begin(index: number, wire: UpstreamBlock, chars: number): void {
    const block = knownBlock(wire);
    const callId = block?.type === "tool_use" ? block.id : undefined;
    const citations = block?.type === "text" ? [...(block.citations ?? [])] : [];
    this.#forget(index);
    const heldChars = BLOCK_CHARS + chars;
    this.hold(heldChars);
    this.#blocks.set(index, { wire, callId, json: "", citations, textStart: this.#textBytes, heldChars });
    switch (block?.type) {
      case "text":
        return this.#text(block.text ?? "", index);
      case "thinking":
        this.#think(block.thinking, index);
        return this.#sign(block.signature);
      case "redacted_thinking":
        if (block.data !== "") this.add({ type: "redacted-reasoning", data: block.data, maker: FORMAT });
        return;
      case "tool_use":
        return this.add({ type: "tool-call-start", id: block.id, name: block.name });
      default:
        this.#countTool(wire);
        return this.#fallBack(fallbackIn(wire));
    }
  }

  /** Counts the use of a tool whose result has come: the upstream counts the uses only at the end of the answer. A failed use is not billed. */
  #countTool({ type, content }: UpstreamBlock & { readonly content?: unknown }): void {
    const tool = BILLED_RESULT.exec(type)?.[1];
    const { type: outcome } = isJsonObject(content) ? content : {};
    if (tool === undefined || (typeof outcome === "string" && outcome.endsWith("_error"))) return;
    (this.#uses ??= new ToolUses()).add(tool);
    // An earlier count of the upstream, such as the zero of the beginning, lacks this use.
    this.#usage = { ...this.#usage, server_tool_use: undefined };
    const usage = this.#uses.report();
    if (usage) this.add({ type: "usage", usage });
  }

  #fallBack(fallback: Fallback | undefined): void {
    if (!fallback) return;
    this.#fallbacks.push(fallback);
    if (fallback.to !== undefined) this.add({ type: "usage", usage: {}, model: fallback.to });
  }

  #delta(index: number, delta: UpstreamFrame<"content_block_delta">["delta"], chars: number): void {
    const block = this.#blocks.get(index);
    if (!block) throw backendFailed("The model backend went on with a content block that it had not begun.");
    switch (delta.type ?? "text_delta") {
      case "text_delta":
        return this.#text(delta.text ?? "", index);
      case "thinking_delta":
        return this.#think(delta.thinking, index);
      case "signature_delta":
        return this.#sign(delta.signature);
      case "input_json_delta":
        if (!delta.partial_json) return;
        if (block.callId !== undefined) {
          block.json = delta.partial_json;
          return this.add({ type: "tool-call-delta", id: block.callId, json: delta.partial_json });
        }
        this.#hold(block, chars);
        block.json += delta.partial_json;
        return;
      case "citations_delta":
        if (!delta.citation) return;
        this.#hold(block, chars);
        block.citations.push(delta.citation);
        return;
      // The neutral model has no events for other types of deltas.
      default:
    }
  }

  #end(index: number): void {
    const block = this.#blocks.get(index);
    if (!block) throw backendFailed("The model backend ended a content block that it had not begun.");
    this.#forget(index);
    const { callId, wire, json, citations, textStart } = block;
    if (callId !== undefined) {
      // Some upstreams send all arguments with the start of the block, and no deltas.
      if (json === "") this.add({ type: "tool-call-delta", id: callId, json: JSON.stringify(wire["input"] || {}) });
      this.add({ type: "tool-call-end", id: callId });
    } else if (!knownBlock(wire)) {
      const value = json === "" ? wire : { ...wire, input: this.#arguments.parse(json) };
      this.add({ type: "provider", format: FORMAT, value });
    }
    if (citations.length === 0) return;
    // Each citation covers the whole text of its block.
    const cited = citations.map(({ url, source, title, document_title, cited_text: quote }) => ({
      start: textStart,
      end: this.#textBytes,
      ...given({ uri: textAmong(url, source), title: textAmong(title, document_title), quote: textAmong(quote) }),
    }));
    const native = { format: FORMAT, values: citations };
    this.add({ type: "annotation", annotation: { type: "citations", citations: cited, native } });
  }

  #text(text: string, index: number): void {
    this.#textBytes += utf8Length(text);
    if (text !== "") this.add({ type: "text-delta", text, block: String(index) });
  }

  #think(text: string | null | undefined, index: number): void {
    if (text) this.add({ type: "reasoning-delta", text, block: String(index) });
  }

  #sign(signature: string | null | undefined): void {
    if (signature) this.add({ type: "reasoning-signature", signature, maker: FORMAT });
  }

  #finish(reason: string, stopSequence: string | null | undefined): void {
    this.#finished = true;
    this.add({
      type: "finish",
      reason: decodeStopReason(reason),
      ...(stopSequence != null && { stopSequence }),
      usage: decodeUsage(this.#usage, this.#fallbacks),
    });
  }

  #learn(usage: UpstreamUsage | null | undefined): void {
    if (!usage) return;
    // Keep no other fields: an upstream may send new ones with each frame.
    const told = USAGE_FIELDS.filter((field) => usage[field] != null).map((field) => [field, usage[field]] as const);
    this.#usage = { ...this.#usage, ...Object.fromEntries(told) };
  }

  #hold(block: DecodedBlock, chars: number): void {
    this.hold(chars);
    block.heldChars += chars;
  }

  #forget(index: number): void {
    this.hold(-(this.#blocks.get(index)?.heldChars ?? 0));
    this.#blocks.delete(index);
  }
}

const USAGE_FIELDS = Object.keys(UpstreamUsage.entries) as (keyof UpstreamUsage)[];

const textAmong = (...fields: readonly unknown[]): string | undefined =>
  fields.find((field) => typeof field === "string" && field !== "") as string | undefined;

/** Adds the types of an event and of its delta where the upstream left them out (spec 6.1): clients rely on them. */
function withTypes(type: string, { type: own, delta }: JsonObject, data: string): string {
  const typed = typeof own === "string" ? data : withMember(data, ["type"], JSON.stringify(type));
  const hasText = type === "content_block_delta" && isJsonObject(delta) && delta["type"] == null;
  return hasText ? withMember(typed, ["delta", "type"], JSON.stringify("text_delta")) : typed;
}

const FINISH_REASON: ReadonlyMap<string, FinishReason> = new Map<string, FinishReason>([
  ["end_turn", "stop"],
  ["max_tokens", "length"],
  ["stop_sequence", "stop-sequence"],
  ["tool_use", "tool-calls"],
  ["pause_turn", "pause"],
  // The caller sends the paused turn back, with the summary in it.
  ["compaction", "pause"],
  ["refusal", "refusal"],
  ["model_context_window_exceeded", "context-window"],
]);

const decodeStopReason = (reason: string): FinishReason => FINISH_REASON.get(reason) ?? "other";
