/** The content blocks of a messages stream on their way out: one at a time, each begun, filled and ended (spec 6.1). */

import type { FinishReason } from "../../model/event.ts";
import { AnsweredArguments, CUT_SHORT, ToolCalls } from "../shared/tool-calls.ts";
import type { ContentBlock } from "./response.ts";
import type { BlockDelta, StreamFrame } from "./stream.frames.ts";

/** A block that has begun: written at once when it is first in line, kept back until then. */
interface OpenBlock {
  readonly content: ContentBlock;
  /** The backend's own name of it, by which it tells blocks apart that follow one another. */
  readonly name: string | undefined;
  readonly kept: BlockDelta[];
  /** The JSON of a tool's arguments so far; the length of a text so far. */
  json: string;
  length: number;
  /** Whether the signature of its reasoning has been told. */
  signed: boolean;
  ended: boolean;
}

/** The longest text block (spec 8). A longer text goes on in the next block. */
const MAX_TEXT_LENGTH = 5_000_000;

/**
 * Writes one block at a time. Clients take a block's end as the end of the newest, so what belongs to a later block waits
 * until those before it have ended: tool calls that run in parallel are written one after the other.
 */
export class BlockWriter {
  readonly #line: OpenBlock[] = [];
  readonly #tools: ToolCalls<OpenBlock> = new ToolCalls();
  readonly #arguments = new AnsweredArguments();
  #written: StreamFrame[] = [];
  #index = 0;

  /** The frames that were written since the last time. */
  take(): StreamFrame[] {
    const written = this.#written;
    this.#written = [];
    return written;
  }

  text(text: string, name?: string): void {
    for (let rest = text; rest !== "";) {
      const block = this.#current("text", () => ({ type: "text", text: "" }), name);
      const piece = upTo(rest, MAX_TEXT_LENGTH - block.length);
      if (piece !== "") this.#write(block, { type: "text_delta", text: piece });
      block.length += piece.length;
      rest = rest.slice(piece.length);
      if (rest !== "") this.#end(block);
    }
  }

  thinking(thinking: string, name?: string): void {
    if (thinking === "") return;
    const block = this.#current("thinking", () => ({ type: "thinking", thinking: "", signature: "" }), name);
    this.#write(block, { type: "thinking_delta", thinking });
  }

  sign(signature: string): void {
    const block = this.#current("thinking", () => ({ type: "thinking", thinking: "", signature: "" }));
    this.#sign(block, signature);
    this.#end(block);
  }

  whole(content: ContentBlock): void {
    this.#end(this.#open(content));
  }

  openTool(id: string, name: string): void {
    this.#tools.begin(id, this.#open({ type: "tool_use", id, name, input: {} }));
  }

  toolInput(id: string, json: string): void {
    const block = this.#tools.open(id);
    block.json += json;
    if (json !== "") this.#write(block, { type: "input_json_delta", partial_json: json });
  }

  endTool(id: string): void {
    this.#end(this.#tools.get(id));
  }

  /** @param reason Why the answer ends: one that was cut short may leave a tool call half said. */
  endAll(reason: FinishReason): void {
    for (let first = this.#line[0]; first; first = this.#line[0]) this.#end(first, CUT_SHORT.has(reason));
  }

  /** The newest block when it is of this kind and still open, else a new one. */
  #current(kind: ContentBlock["type"], content: () => ContentBlock, name?: string): OpenBlock {
    const newest = this.#line.at(-1);
    const isSame = name === undefined || newest?.name === undefined || newest.name === name;
    if (newest?.content.type === kind && !newest.ended && isSame) return newest;
    return this.#open(content(), name);
  }

  #open(content: ContentBlock, name?: string): OpenBlock {
    // Text and reasoning end when something else begins; a tool call ends by its own event, or with the answer.
    const newest = this.#line.at(-1);
    if (newest && newest.content.type !== "tool_use") this.#end(newest);
    const block: OpenBlock = { content, name, kept: [], json: "", length: 0, signed: false, ended: false };
    this.#line.push(block);
    if (this.#line[0] === block) this.#start(block);
    return block;
  }

  #write(block: OpenBlock, delta: BlockDelta): void {
    if (this.#line[0] === block) this.#written.push({ type: "content_block_delta", index: this.#index, delta });
    else block.kept.push(delta);
  }

  #sign(block: OpenBlock, signature: string): void {
    this.#write(block, { type: "signature_delta", signature });
    block.signed = true;
  }

  #end(block: OpenBlock, cutShort = false): void {
    // Some clients keep the signature of this event alone, and send the block back without one where none has come.
    if (block.content.type === "thinking" && !block.signed) this.#sign(block, "");
    if (block.content.type === "tool_use" && !block.ended && !cutShort) this.#arguments.parse(block.json);
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
