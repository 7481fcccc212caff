/** Decodes an upstream's answer in this format (spec 2.7, 6.1), complete or in frames, into native events with neutral events inside. */

import { isValid } from "../../http/validation.ts";
import type { ChatEvent, ContentEvent, NativeEvent } from "../../kinds/chat/event.ts";
import { type JsonLimits, type JsonObject, utf8Length } from "../../model/json.ts";
import type { AnswerDecoder } from "../format.ts";
import { decodeUpstreamError, isError } from "../shared/errors.decode.ts";
import { AnsweredArguments } from "../shared/tools.ts";
import { collected, HeldBack, lostUsage, parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { decodeStopReason, decodeUsage } from "./answer.ts";
import { FORMAT } from "./schema.ts";
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

type NeutralEvent = NativeEvent["events"][number];

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

const NO_DATA = /^\s*(?:\[DONE\]\s*)?$/;

/** The memory of an open block beside its content, counted as characters. */
const BLOCK_CHARS = 64;

/** Decodes one answer. Throws `backend_failed` for frames, blocks or arguments that the format does not allow. */
export class MessagesAnswerDecoder implements AnswerDecoder {
  readonly #limits: JsonLimits | undefined;
  readonly #arguments: AnsweredArguments;
  readonly #blocks: Map<number, DecodedBlock> = new Map();
  readonly #heldBack = new HeldBack();
  /** The length of the answer's text so far, in bytes. */
  #textBytes = 0;
  /** The latest value of each token count. A later report with only some counts keeps the others. */
  #usage: UpstreamUsage = {};
  /** The unsupported fields that were already reported. */
  readonly #unsupported: Set<string> = new Set();
  #started = false;
  #finished = false;
  #stopped = false;

  constructor(limits?: JsonLimits) {
    this.#limits = limits;
    this.#arguments = new AnsweredArguments(limits);
  }

  frame(event: string | undefined, data: string): ChatEvent[] {
    // Some upstreams send the last frame of chat completions, or frames without data. Nothing belongs to an answer after its end.
    if (this.#stopped || (!data.startsWith("{") && NO_DATA.test(data))) return [];
    const wire = parseAnswerObject(data, this.#limits);
    const type = typeof wire["type"] === "string" ? wire["type"] : (event ?? "message");
    if (type === "ping") return [];
    if (isError(wire, event)) throw decodeUpstreamError(undefined, wire);
    if (type === "message") return this.#whole(wire, data);
    // Add the event's name if the upstream left it out: clients rely on it.
    const frames = [{ event: event ?? type, data }];
    const events = this.#read(type, wire, data.length);
    const unsupported = (): string[] => unsupportedInFrame(type)(wire, this.#unsupported);
    return [{ type: "native", format: FORMAT, frames, events, unsupported }];
  }

  /** Reads a whole message in a stream: the answer of an upstream that does not stream, or a repetition of what was streamed. */
  #whole(wire: JsonObject, data: string): ChatEvent[] {
    if (this.#started || !Array.isArray(wire["content"])) return [];
    this.#stopped = true;
    return this.answer(data);
  }

  end(): void {
    // Some upstreams leave out `message_stop`. An answer with a stop reason is complete.
    if (!this.#stopped && !this.#finished) throw upstreamFailed("The model backend's answer broke off.");
  }

  answer(body: string): ChatEvent[] {
    const wire = parseAnswerObject(body, this.#limits);
    if (isError(wire)) throw decodeUpstreamError(undefined, wire);
    if (!isValid(UpstreamAnswer, wire)) throw upstreamFailed("The model backend's answer has not the shape of one.");
    const events = collected(this.#complete(wire));
    const unsupported = (): string[] => unsupportedInAnswer(wire, this.#unsupported);
    return [{ type: "native", format: FORMAT, body, events, unsupported }];
  }

  lost(text: string): ChatEvent[] {
    return lostUsage(text, this.#limits, ({ usage }) => usage, UpstreamUsage, decodeUsage);
  }

  *#complete({ content, stop_reason, stop_sequence, ...begun }: UpstreamAnswer): Generator<NeutralEvent> {
    yield this.#start(begun);
    for (const [index, block] of content.entries()) {
      yield* this.#begin(index, block, 0);
      yield* this.#end(index);
    }
    yield this.#finish(stop_reason ?? "end_turn", stop_sequence);
  }

  /** @param chars The length of the frame's data. */
  #read(type: string, wire: JsonObject, chars: number): NeutralEvent[] {
    switch (type) {
      case "message_start":
        return [this.#start(this.#valid(type, wire).message)];
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
        if (delta.stop_reason != null) return [this.#finish(delta.stop_reason, delta.stop_sequence)];
        return [{ type: "usage", usage: decodeUsage(this.#usage) }];
      }
      case "message_stop":
        this.#valid(type, wire);
        this.#stopped = true;
        return this.#finished ? [] : [this.#finish("end_turn", undefined)];
      default:
        return [];
    }
  }

  #valid<Type extends UpstreamFrameType>(type: Type, wire: JsonObject): UpstreamFrame<Type> {
    if (!isValid(UPSTREAM_FRAMES[type], wire))
      throw upstreamFailed("The model backend sent a frame that has not the shape of one.");
    if (!this.#started && type !== "message_start")
      throw upstreamFailed("The model backend went on with an answer that it had not begun.");
    return wire;
  }

  #start({ id, model, usage }: UpstreamFrame<"message_start">["message"]): NeutralEvent {
    this.#started = true;
    this.#learn(usage);
    return {
      type: "start",
      ...(id != null && { id }),
      ...(model != null && { model }),
      usage: decodeUsage(this.#usage),
    };
  }

  /** Begins a block. Text, reasoning and tool calls give events at once; any other block gives its event at the end. */
  #begin(index: number, wire: UpstreamBlock, chars: number): ContentEvent[] {
    const block = knownBlock(wire);
    const callId = block?.type === "tool_use" ? block.id : undefined;
    const citations = block?.type === "text" ? [...(block.citations ?? [])] : [];
    this.#forget(index);
    const heldChars = BLOCK_CHARS + chars;
    this.#heldBack.take(heldChars);
    this.#blocks.set(index, { wire, callId, json: "", citations, textStart: this.#textBytes, heldChars });
    switch (block?.type) {
      case "text":
        return this.#text(block.text, index);
      case "thinking":
        return [
          ...(block.thinking === "" ? [] : [reasoning(block.thinking, index)]),
          ...(block.signature ? [sealOf(block.signature)] : []),
        ];
      case "redacted_thinking":
        return block.data === "" ? [] : [{ type: "redacted-reasoning", data: block.data, maker: FORMAT }];
      case "tool_use":
        return [{ type: "tool-call-start", id: block.id, name: block.name }];
      default:
        return [];
    }
  }

  #delta(index: number, delta: UpstreamFrame<"content_block_delta">["delta"], chars: number): ContentEvent[] {
    const block = this.#blocks.get(index);
    if (!block) throw upstreamFailed("The model backend went on with a content block that it had not begun.");
    switch (delta.type) {
      case "text_delta":
        return this.#text(delta.text ?? "", index);
      case "thinking_delta":
        return delta.thinking ? [reasoning(delta.thinking, index)] : [];
      case "signature_delta":
        return delta.signature ? [sealOf(delta.signature)] : [];
      case "input_json_delta":
        if (!delta.partial_json) return [];
        if (block.callId !== undefined) {
          block.json = delta.partial_json;
          return [{ type: "tool-call-delta", id: block.callId, json: delta.partial_json }];
        }
        this.#hold(block, chars);
        block.json += delta.partial_json;
        return [];
      case "citations_delta":
        if (!delta.citation) return [];
        this.#hold(block, chars);
        block.citations.push(delta.citation);
        return [];
      // The neutral model has no events for other types of deltas.
      default:
        return [];
    }
  }

  #end(index: number): ContentEvent[] {
    const block = this.#blocks.get(index);
    if (!block) throw upstreamFailed("The model backend ended a content block that it had not begun.");
    this.#forget(index);
    const { callId, wire, json, citations, textStart } = block;
    const events: ContentEvent[] = [];
    if (callId !== undefined) {
      // Some upstreams send all arguments with the start of the block, and no deltas.
      if (json === "") events.push({ type: "tool-call-delta", id: callId, json: JSON.stringify(wire["input"] ?? {}) });
      events.push({ type: "tool-call-end", id: callId });
    } else if (!knownBlock(wire)) {
      const value = json === "" ? wire : { ...wire, input: this.#arguments.parse(json) };
      events.push({ type: "provider", format: FORMAT, value });
    }
    if (citations.length > 0) {
      // Each citation covers the whole text of its block.
      const cited = citations.map(({ url, source }) => {
        const uri = [url, source].find((field) => typeof field === "string");
        return { start: textStart, end: this.#textBytes, ...(uri !== undefined && { uri }) };
      });
      events.push({ type: "annotation", annotation: { type: "citations", citations: cited } });
    }
    return events;
  }

  #text(text: string, index: number): ContentEvent[] {
    this.#textBytes += utf8Length(text);
    return text === "" ? [] : [{ type: "text-delta", text, block: String(index) }];
  }

  #finish(reason: string, stopSequence: string | null | undefined): NeutralEvent {
    this.#finished = true;
    return {
      type: "finish",
      reason: decodeStopReason(reason),
      ...(stopSequence != null && { stopSequence }),
      usage: decodeUsage(this.#usage),
    };
  }

  #learn(usage: UpstreamUsage | null | undefined): void {
    const counts = Object.entries(usage ?? {}).filter(([, count]) => count != null);
    this.#usage = { ...this.#usage, ...Object.fromEntries(counts) };
  }

  #hold(block: DecodedBlock, chars: number): void {
    this.#heldBack.take(chars);
    block.heldChars += chars;
  }

  #forget(index: number): void {
    this.#heldBack.letGo(this.#blocks.get(index)?.heldChars ?? 0);
    this.#blocks.delete(index);
  }
}

const reasoning = (text: string, index: number): ContentEvent => ({
  type: "reasoning-delta",
  text,
  block: String(index),
});

const sealOf = (signature: string): ContentEvent => ({ type: "reasoning-signature", signature, maker: FORMAT });
