/** The messages stream (spec 6.1): a state machine from neutral events to frames that cannot write them in a wrong order. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent } from "../../model/event.ts";
import {
  encodeUsage,
  fenced,
  parseInput,
  STOP_REASON,
  type ContentBlock,
  type MessagesResponse,
  type MessagesUsage,
  type StopReason,
} from "./response.ts";

export type StreamFrame =
  | { type: "message_start"; message: MessagesResponse }
  | { type: "content_block_start"; index: number; content_block: ContentBlock }
  | { type: "content_block_delta"; index: number; delta: BlockDelta }
  | { type: "content_block_stop"; index: number }
  | {
      type: "message_delta";
      // The spec has the usage inside of delta, the official service beside it: clients of both are served.
      delta: {
        stop_reason: StopReason;
        stop_sequence: string | null;
        usage: Pick<MessagesUsage, "input_tokens" | "output_tokens">;
      };
      usage: MessagesUsage;
    }
  | { type: "message_stop" };

export type BlockDelta =
  | { type: "text_delta"; text: string }
  | { type: "thinking_delta"; thinking: string }
  | { type: "signature_delta"; signature: string }
  | { type: "input_json_delta"; partial_json: string };

/** A frame as it goes over the wire. JSON escapes line breaks, so the data is one line. */
export const frameText = (frame: { readonly type: string }): string =>
  `event: ${frame.type}\ndata: ${JSON.stringify(frame)}\n\n`;

export const PING: string = frameText({ type: "ping" });

/** Writes the frames of one answer, in the spec's order whatever the order of the events. */
export class StreamEncoder {
  readonly #id: string;
  readonly #blocks: BlockWriter = new BlockWriter();

  /** @param id Names an answer whose backend did not. */
  constructor(id: string) {
    this.#id = id;
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say. */
  frames(event: AnswerEvent): StreamFrame[] {
    const blocks = this.#blocks;
    // The format has one candidate.
    if ("candidate" in event && event.candidate) return [];
    switch (event.type) {
      case "start":
        return [messageStart(event, this.#id)];
      case "text-delta":
        blocks.text(event.text);
        break;
      case "reasoning-delta":
        blocks.thinking(event.text);
        break;
      case "reasoning-signature":
        blocks.sign(event.signature);
        break;
      case "redacted-reasoning":
        blocks.whole({ type: "redacted_thinking", data: event.data });
        break;
      case "tool-call":
        blocks.openTool(event.id, event.name);
        blocks.toolInput(event.id, JSON.stringify(event.input));
        blocks.endTool(event.id);
        break;
      case "tool-call-start":
        blocks.openTool(event.id, event.name);
        break;
      case "tool-call-delta":
        blocks.toolInput(event.id, event.json);
        break;
      case "tool-call-end":
        blocks.endTool(event.id);
        break;
      case "finish":
        blocks.endAll();
        return [...blocks.take(), messageDelta(event), { type: "message_stop" }];
      case "code":
        blocks.text(fenced(event.code, event.language));
        break;
      case "code-result":
        blocks.text(fenced(event.output ?? "", ""));
        break;
      // The format has no words for these.
      case "media":
      case "annotation":
      case "prompt-feedback":
        break;
      default:
        event satisfies never;
    }
    return blocks.take();
  }
}

const messageStart = (event: Extract<AnswerEvent, { type: "start" }>, id: string): StreamFrame => ({
  type: "message_start",
  message: {
    id: event.id ?? id,
    type: "message",
    role: "assistant",
    model: event.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: encodeUsage(event.usage),
  },
});

function messageDelta({
  endings: [{ reason, stopSequence }],
  usage,
}: Extract<AnswerEvent, { type: "finish" }>): StreamFrame {
  // Even an empty answer has cost a token (spec 2.7), whatever its backend says.
  const counts = encodeUsage({ ...usage, outputTokens: Math.max(1, usage.outputTokens) });
  const { input_tokens, output_tokens } = counts;
  return {
    type: "message_delta",
    delta: {
      stop_reason: STOP_REASON[reason],
      stop_sequence: stopSequence ?? null,
      usage: { input_tokens, output_tokens },
    },
    usage: counts,
  };
}

/** A block that has begun: written at once when it is first in line, kept back until then. */
interface OpenBlock {
  readonly content: ContentBlock;
  readonly kept: BlockDelta[];
  /** The JSON of a tool's arguments so far; the length of a text so far. */
  json: string;
  length: number;
  ended: boolean;
}

/** The longest text block (spec 8). A longer text goes on in the next block. */
const MAX_TEXT_LENGTH = 5_000_000;

/**
 * Writes one block at a time. Clients take a block's end as the end of the newest, so what belongs to a later block waits
 * until those before it have ended: tool calls that run in parallel are written one after the other.
 */
class BlockWriter {
  readonly #line: OpenBlock[] = [];
  readonly #tools: Map<string, OpenBlock> = new Map();
  #written: StreamFrame[] = [];
  #index = 0;

  /** The frames that were written since the last time. */
  take(): StreamFrame[] {
    const written = this.#written;
    this.#written = [];
    return written;
  }

  text(text: string): void {
    for (let rest = text; rest !== "";) {
      const block = this.#current("text", () => ({ type: "text", text: "" }));
      const piece = upTo(rest, MAX_TEXT_LENGTH - block.length);
      if (piece !== "") this.#write(block, { type: "text_delta", text: piece });
      block.length += piece.length;
      rest = rest.slice(piece.length);
      if (rest !== "") this.#end(block);
    }
  }

  thinking(thinking: string): void {
    if (thinking === "") return;
    const block = this.#current("thinking", () => ({ type: "thinking", thinking: "", signature: "" }));
    this.#write(block, { type: "thinking_delta", thinking });
  }

  sign(signature: string): void {
    const block = this.#current("thinking", () => ({ type: "thinking", thinking: "", signature: "" }));
    this.#write(block, { type: "signature_delta", signature });
    this.#end(block);
  }

  whole(content: ContentBlock): void {
    this.#end(this.#open(content));
  }

  openTool(id: string, name: string): void {
    if (this.#tools.has(id))
      throw new GatewayError("backend_failed", "The model backend began the same tool call twice.");
    this.#tools.set(id, this.#open({ type: "tool_use", id, name, input: {} }));
  }

  toolInput(id: string, json: string): void {
    const block = this.#tool(id);
    if (block.ended)
      throw new GatewayError("backend_failed", "The model backend went on with a tool call that had ended.");
    block.json += json;
    if (json !== "") this.#write(block, { type: "input_json_delta", partial_json: json });
  }

  endTool(id: string): void {
    this.#end(this.#tool(id));
  }

  endAll(): void {
    for (let first = this.#line[0]; first; first = this.#line[0]) this.#end(first);
  }

  #tool(id: string): OpenBlock {
    const block = this.#tools.get(id);
    if (!block)
      throw new GatewayError("backend_failed", "The model backend went on with a tool call that it had not begun.");
    return block;
  }

  /** The newest block when it is of this kind and still open, else a new one. */
  #current(kind: ContentBlock["type"], content: () => ContentBlock): OpenBlock {
    const newest = this.#line.at(-1);
    if (newest?.content.type === kind && !newest.ended) return newest;
    return this.#open(content());
  }

  #open(content: ContentBlock): OpenBlock {
    // Text and reasoning end when something else begins; a tool call ends by its own event, or with the answer.
    const newest = this.#line.at(-1);
    if (newest && newest.content.type !== "tool_use") this.#end(newest);
    const block: OpenBlock = { content, kept: [], json: "", length: 0, ended: false };
    this.#line.push(block);
    if (this.#line[0] === block) this.#start(block);
    return block;
  }

  #write(block: OpenBlock, delta: BlockDelta): void {
    if (this.#line[0] === block) this.#written.push({ type: "content_block_delta", index: this.#index, delta });
    else block.kept.push(delta);
  }

  #end(block: OpenBlock): void {
    if (block.content.type === "tool_use" && !block.ended) parseInput(block.json);
    block.ended = true;
    while (this.#line[0]?.ended) {
      this.#line.shift();
      this.#written.push({ type: "content_block_stop", index: this.#index++ });
      const next = this.#line[0];
      if (!next) return;
      this.#start(next);
      for (const delta of next.kept.splice(0))
        this.#written.push({ type: "content_block_delta", index: this.#index, delta });
    }
  }

  #start(block: OpenBlock): void {
    this.#written.push({ type: "content_block_start", index: this.#index, content_block: { ...block.content } });
  }
}

/** The beginning of a text, at most `length` units long, without half a surrogate pair at its end. */
function upTo(text: string, length: number): string {
  if (text.length <= length) return text;
  const cut = text.slice(0, length);
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut;
}

/** The complete answer: the same frames, collected, so that both forms always agree. */
export class AnswerCollector {
  #message: MessagesResponse | undefined;
  #fragments: string[] = [];

  add(frame: StreamFrame): void {
    if (frame.type === "message_start") this.#message = frame.message;
    const message = this.#message;
    if (!message) return;
    const block = message.content.at(-1);
    switch (frame.type) {
      case "content_block_start":
        message.content.push(frame.content_block);
        this.#fragments = [];
        break;
      case "content_block_delta":
        if (frame.delta.type === "signature_delta" && block?.type === "thinking")
          block.signature = frame.delta.signature;
        else if (frame.delta.type !== "signature_delta") this.#fragments.push(fragmentOf(frame.delta));
        break;
      case "content_block_stop":
        if (block) fill(block, this.#fragments.join(""));
        break;
      case "message_delta":
        message.stop_reason = frame.delta.stop_reason;
        message.stop_sequence = frame.delta.stop_sequence;
        message.usage = frame.usage;
        break;
      case "message_start":
      case "message_stop":
        break;
    }
  }

  get message(): MessagesResponse {
    if (!this.#message) throw new GatewayError("backend_failed", "The model backend gave no answer.");
    return this.#message;
  }
}

function fragmentOf(delta: Exclude<BlockDelta, { type: "signature_delta" }>): string {
  if (delta.type === "text_delta") return delta.text;
  return delta.type === "thinking_delta" ? delta.thinking : delta.partial_json;
}

function fill(block: ContentBlock, text: string): void {
  if (block.type === "text") block.text = text;
  else if (block.type === "thinking") block.thinking = text;
  else if (block.type === "tool_use") block.input = parseInput(text);
}
