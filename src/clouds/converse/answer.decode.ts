/** Decodes the answers of Converse, complete or as the frames of a stream, into native events with neutral events inside. */

import { backendFailed } from "../../errors.ts";
import { decodeUpstreamError } from "../../formats/shared/errors.decode.ts";
import type { VariedFields } from "../../formats/shared/frame-shape.ts";
import { MAX_UNSUPPORTED } from "../../formats/shared/schema.ts";
import { lostUsage, NativeDecoder, parseAnswerObject } from "../../formats/shared/upstream.ts";
import { answeredTier, ToolUses } from "../../formats/shared/usage.decode.ts";
import { concatenated } from "../../http/body.ts";
import { isValid } from "../../http/validation.ts";
import { fromBase64, isBase64, toBase64 } from "../../media/base64.ts";
import type { ChatEvent, FinishReason } from "../../model/chat-event.ts";
import { given, isJsonObject, type JsonLimits, type JsonObject, utf8Length } from "../../model/json.ts";
import type { Usage as NeutralUsage } from "../../model/usage.ts";
import { FORMAT, makerOf } from "./models.ts";
import {
  ConverseAnswer,
  type AnswerBlock,
  type Citation,
  type Event,
  type EventName,
  EVENTS,
  isOfServer,
  type ModelFields,
  unsupportedInAnswer,
  unsupportedInEvent,
  Usage,
} from "./schema.ts";

/** A content block that has begun and not ended. Texts begin without a start. */
interface OpenBlock {
  /** The id of a tool call; undefined for any other block. */
  readonly callId: string | undefined;
  /** The start of a picture, or of a tool that Bedrock runs. */
  readonly start: JsonObject | undefined;
  /** The arguments so far of a tool that Bedrock runs. For the caller's tools, the last piece. */
  json: string;
  /** The pieces of encrypted reasoning or of a picture, in base64. */
  readonly pieces: string[];
  readonly results: JsonObject[];
  readonly citations: Citation[];
  /** The position of the block's text in the whole text of the answer, in bytes. */
  readonly textStart: number;
  heldChars: number;
}

/** The memory of an open block beside its content, counted as characters. */
const BLOCK_CHARS = 64;

/** Tells whether a value is an object with one member. */
const isAlone = (value: unknown): value is JsonObject => isJsonObject(value) && Object.keys(value).length === 1;

const isEventName = (name: string | undefined): name is EventName => name !== undefined && Object.hasOwn(EVENTS, name);

/** Decodes one answer. Throws `backend_failed` for frames, blocks or arguments that Converse does not have. */
export class ConverseDecoder extends NativeDecoder {
  readonly #maker: string;
  readonly #blocks: Map<number, OpenBlock> = new Map();
  /** The length of the answer's text so far, in bytes. */
  #textBytes = 0;
  /** The uses of tools that Bedrock runs; undefined before the first use. */
  #uses: ToolUses | undefined;
  #isStarted = false;
  #isFinished = false;

  /** @param model The upstream's name of the model. */
  constructor(limits: JsonLimits | undefined, model: string) {
    super(FORMAT, limits, unsupportedInAnswer);
    this.#maker = makerOf(model);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    const wire = parseAnswerObject(data, this.limits);
    if (event === "error") throw decodeUpstreamError(undefined, wire);
    const frame = { event: event ?? "", data };
    if (!isEventName(event)) return [this.framed(frame, wire, () => this.#reportedOnce(frame.event))];
    this.#read(event, wire, data.length);
    return [this.framed(frame, wire, () => unsupportedInEvent(event)(wire, this.reported))];
  }

  /** Returns the name of an unknown event, which is told as a whole. */
  #reportedOnce(name: string): readonly string[] {
    if (this.reported.has(name) || this.reported.size >= MAX_UNSUPPORTED) return [];
    this.reported.add(name);
    return [name];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.limits, ({ usage }) => usage, Usage, decodeUsage);
  }

  protected isComplete(): boolean {
    return this.#isFinished;
  }

  protected whole(wire: unknown): void {
    if (!isValid(ConverseAnswer, wire)) throw backendFailed("The model backend's answer has not the shape of one.");
    const { output, stopReason, usage, serviceTier, additionalModelResponseFields } = wire;
    this.#start();
    for (const [index, block] of output.message.content.entries()) this.#block(String(index), block);
    this.#finish(stopReason, additionalModelResponseFields);
    this.#learn(usage, serviceTier);
  }

  protected read(wire: JsonObject): void {
    this.#delta(wire as unknown as Event<"contentBlockDelta">, 0);
  }

  protected variedIn({ delta }: JsonObject): VariedFields | undefined {
    // Anything beside the text would be held for each frame.
    if (!isAlone(delta)) return undefined;
    const { text, toolUse, reasoningContent } = delta;
    const ignored = [["p"]] as const;
    if (typeof text === "string") return { text: ["delta", "text"], ignored };
    if (isJsonObject(toolUse)) return { text: ["delta", "toolUse", "input"], ignored };
    return isAlone(reasoningContent) ? { text: ["delta", "reasoningContent", "text"], ignored } : undefined;
  }

  /** @param chars The length of the frame's data. */
  #read(name: EventName, wire: JsonObject, chars: number): void {
    this.#start();
    switch (name) {
      case "messageStart":
        return;
      case "contentBlockStart":
        return this.#begin(valid(name, wire), chars);
      case "contentBlockDelta":
        return this.#delta(valid(name, wire), chars);
      case "contentBlockStop":
        return this.#end(valid(name, wire).contentBlockIndex);
      case "messageStop": {
        const { stopReason, additionalModelResponseFields } = valid(name, wire);
        // Close the blocks, because not all models do.
        for (const index of this.#blocks.keys()) this.#end(index);
        return this.#finish(stopReason, additionalModelResponseFields);
      }
      case "metadata": {
        const { usage, serviceTier } = valid(name, wire);
        return this.#learn(usage, serviceTier);
      }
      default:
        name satisfies never;
    }
  }

  #start(): void {
    if (!this.#isStarted) this.add({ type: "start" });
    this.#isStarted = true;
  }

  /** Adds the events of a whole block. */
  #block(block: string, wire: object): void {
    const { text, toolUse, reasoningContent, citationsContent, image } = wire as AnswerBlock;
    if (typeof text === "string") this.#text(text, block);
    else if (toolUse && !isOfServer(toolUse))
      this.add({ type: "tool-call", id: toolUse.toolUseId, name: toolUse.name, input: toolUse.input ?? {} });
    else if (reasoningContent) {
      const { reasoningText, redactedContent } = reasoningContent;
      this.#think(reasoningText?.text, block);
      this.#sign(reasoningText?.signature);
      this.#redact(redactedContent);
    } else if (citationsContent) {
      const textStart = this.#textBytes;
      for (const piece of citationsContent.content ?? []) this.#text(piece.text, block);
      this.#cite(citationsContent.citations ?? [], textStart);
    } else if (image?.source?.bytes) this.#picture(image.format, image.source.bytes);
    else if (Object.keys(wire).length > 0) {
      this.add({ type: "provider", format: FORMAT, value: wire as JsonObject });
      if (toolUse) this.#countTool(toolUse.name);
    }
  }

  #begin({ contentBlockIndex: index, start }: Event<"contentBlockStart">, chars: number): void {
    const toolUse = start?.toolUse;
    if (toolUse && !isOfServer(toolUse)) {
      this.#open(index, toolUse.toolUseId, undefined, chars);
      return this.add({ type: "tool-call-start", id: toolUse.toolUseId, name: toolUse.name });
    }
    const isHeld = start != null && Object.values(start).some((member) => member != null);
    this.#open(index, undefined, isHeld ? (start as JsonObject) : undefined, chars);
  }

  #open(index: number, callId: string | undefined, start: JsonObject | undefined, chars: number): OpenBlock {
    this.#forget(index);
    const heldChars = BLOCK_CHARS + chars;
    this.hold(heldChars);
    const block = {
      callId,
      start,
      json: "",
      pieces: [],
      results: [],
      citations: [],
      textStart: this.#textBytes,
      heldChars,
    };
    this.#blocks.set(index, block);
    return block;
  }

  #delta({ contentBlockIndex: index, delta }: Event<"contentBlockDelta">, chars: number): void {
    const block = this.#blocks.get(index) ?? this.#open(index, undefined, undefined, 0);
    const { text, toolUse, reasoningContent, citation, image, toolResult } = delta;
    if (text) this.#text(text, String(index));
    if (toolUse?.input) this.#input(block, toolUse.input);
    if (reasoningContent) {
      this.#think(reasoningContent.text, String(index));
      this.#sign(reasoningContent.signature);
    }
    const piece = reasoningContent?.redactedContent ?? image?.source?.bytes;
    if (!piece && !citation && !toolResult) return;
    this.#hold(block, chars);
    if (piece) block.pieces.push(piece);
    if (citation) block.citations.push(citation);
    for (const result of toolResult ?? []) block.results.push(result);
  }

  #input(block: OpenBlock, json: string): void {
    if (block.callId !== undefined) {
      block.json = json;
      return this.add({ type: "tool-call-delta", id: block.callId, json });
    }
    if (!block.start) throw backendFailed("The model backend went on with a tool call that it had not begun.");
    this.#hold(block, json.length);
    block.json += json;
  }

  #end(index: number): void {
    const block = this.#blocks.get(index);
    // An empty block has neither a start nor a delta.
    if (!block) return;
    this.#forget(index);
    const { callId, start, json, pieces, results, citations, textStart } = block;
    if (callId !== undefined) {
      if (json === "") this.add({ type: "tool-call-delta", id: callId, json: "{}" });
      return this.add({ type: "tool-call-end", id: callId });
    }
    const { image, toolUse, toolResult } = start ?? {};
    if (isJsonObject(image)) {
      const { format } = image;
      if (pieces.length > 0 && typeof format === "string") this.#picture(format, joined(pieces));
    } else if (isJsonObject(toolUse)) {
      const input = json === "" ? {} : parseAnswerObject(json, this.limits);
      this.add({ type: "provider", format: FORMAT, value: { toolUse: { ...toolUse, input } } });
      this.#countTool(toolUse["name"]);
    } else if (isJsonObject(toolResult))
      this.add({ type: "provider", format: FORMAT, value: { toolResult: { ...toolResult, content: results } } });
    else if (pieces.length > 0) this.#redact(joined(pieces));
    this.#cite(citations, textStart);
  }

  /** Counts the use of a tool that Bedrock runs. */
  #countTool(name: unknown): void {
    if (typeof name !== "string") return;
    this.#uses ??= new ToolUses();
    this.#uses.add(TOOL_NAMES.get(name) ?? name);
    const usage = this.#uses.report();
    if (usage) this.add({ type: "usage", usage });
  }

  #text(text: string | null | undefined, block: string): void {
    if (!text) return;
    this.#textBytes += utf8Length(text);
    this.add({ type: "text-delta", text, block });
  }

  #think(text: string | null | undefined, block: string): void {
    if (text) this.add({ type: "reasoning-delta", text, block });
  }

  #sign(signature: string | null | undefined): void {
    if (signature) this.add({ type: "reasoning-signature", signature, maker: this.#maker });
  }

  #redact(data: string | null | undefined): void {
    if (data) this.add({ type: "redacted-reasoning", data, maker: this.#maker });
  }

  #picture(format: string, data: string): void {
    this.add({ type: "media", mediaType: `image/${format}`, data });
  }

  /** Each citation covers the whole text of its block. */
  #cite(citations: readonly Citation[], start: number): void {
    if (citations.length === 0) return;
    const cited = citations.map(({ location, source, title, sourceContent }) => {
      const quote = sourceContent?.map(({ text }) => text ?? "").join("");
      const uri = location?.web?.url ?? source;
      return { start, end: this.#textBytes, ...given({ uri, title: title || undefined, quote: quote || undefined }) };
    });
    const native = { format: FORMAT, values: citations };
    this.add({ type: "annotation", annotation: { type: "citations", citations: cited, native } });
  }

  #finish(stopReason: string | null | undefined, fields: ModelFields): void {
    this.#isFinished = true;
    const stopSequence = fields?.stop_sequence ?? fields?.delta?.stop_sequence;
    const reason = FINISH_REASON.get(stopReason ?? "") ?? "other";
    this.add({ type: "finish", reason, ...(stopSequence != null && { stopSequence }) });
  }

  #learn(
    usage: Usage | null | undefined,
    tier: { readonly type?: string | null | undefined } | null | undefined,
  ): void {
    const counts = decodeUsage(usage ?? {}, tier?.type);
    if (Object.keys(counts).length > 0) this.add({ type: "usage", usage: counts });
  }

  #hold(block: OpenBlock, chars: number): void {
    this.hold(chars);
    block.heldChars += chars;
  }

  #forget(index: number): void {
    this.hold(-(this.#blocks.get(index)?.heldChars ?? 0));
    this.#blocks.delete(index);
  }
}

function valid<Name extends EventName>(name: Name, wire: JsonObject): Event<Name> {
  if (isValid(EVENTS[name], wire)) return wire;
  throw backendFailed("The model backend sent a frame that has not the shape of one.");
}

/** Joins pieces of base64. Each has padding of its own. */
function joined(pieces: readonly string[]): string {
  const [first = ""] = pieces;
  if (pieces.length === 1) return first;
  if (!pieces.every(isBase64)) throw backendFailed("The model backend sent bytes that are not base64.");
  return toBase64(concatenated(pieces.map(fromBase64)));
}

/** The names of Bedrock's tools among those of all vendors. */
const TOOL_NAMES: ReadonlyMap<string, string> = new Map([
  ["nova_grounding", "web_search"],
  ["nova_code_interpreter", "code_interpreter"],
]);

const FINISH_REASON: ReadonlyMap<string, FinishReason> = new Map<string, FinishReason>([
  ["end_turn", "stop"],
  ["tool_use", "tool-calls"],
  ["max_tokens", "length"],
  ["stop_sequence", "stop-sequence"],
  ["guardrail_intervened", "content-filter"],
  ["content_filtered", "content-filter"],
  ["malformed_tool_use", "malformed-tool-call"],
  ["malformed_model_output", "other"],
  ["model_context_window_exceeded", "context-window"],
  ["refusal", "refusal"],
]);

/** Decodes token counts. The upstream's input does not include what was read from the prompt cache or written to it. */
function decodeUsage(usage: Usage, named?: string | null): Partial<NeutralUsage> {
  const tier = answeredTier(named);
  const { inputTokens, outputTokens, cacheReadInputTokens, cacheWriteInputTokens, cacheDetails } = usage;
  const [read, written] = [cacheReadInputTokens ?? 0, cacheWriteInputTokens ?? 0];
  const byTtl = (cacheDetails ?? []).flatMap(({ ttl, inputTokens: count }) =>
    ttl != null && count != null && count > 0 ? [[ttl, count] as const] : [],
  );
  return {
    ...(inputTokens != null && { inputTokens: inputTokens + read + written }),
    ...(outputTokens != null && { outputTokens }),
    ...(cacheReadInputTokens != null && { cacheReadTokens: read }),
    ...(cacheWriteInputTokens != null && { cacheWriteTokens: written }),
    ...(byTtl.length > 0 && { cacheWritesByTtl: Object.fromEntries(byTtl) }),
    ...(tier !== undefined && { serviceTier: tier }),
  };
}
