/** The complete answer of the messages format (spec 2.7), collected from the frames of its stream. */

import { GatewayError } from "../../errors.ts";
import { AnsweredArguments } from "../shared/tool-calls.ts";
import type { ContentBlock, MessagesResponse } from "./response.ts";
import type { BlockDelta, StreamFrame } from "./stream.frames.ts";

/** The complete answer: the same frames, collected, so that both forms always agree. */
export class AnswerCollector {
  #message: MessagesResponse | undefined;
  #fragments: string[] = [];
  readonly #arguments = new AnsweredArguments();

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
        if (block) fill(block, this.#fragments.join(""), this.#arguments);
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

  get body(): MessagesResponse {
    if (!this.#message) throw new GatewayError("backend_failed", "The model backend gave no answer.");
    return this.#message;
  }
}

function fragmentOf(delta: Exclude<BlockDelta, { type: "signature_delta" }>): string {
  if (delta.type === "text_delta") return delta.text;
  return delta.type === "thinking_delta" ? delta.thinking : delta.partial_json;
}

function fill(block: ContentBlock, text: string, args: AnsweredArguments): void {
  if (block.type === "text") block.text = text;
  else if (block.type === "thinking") block.thinking = text;
  // One that was cut short is told without arguments that cannot be read.
  else if (block.type === "tool_use") block.input = args.find(text) ?? {};
}
