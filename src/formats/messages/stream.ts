/** The messages stream (spec 6.1). Events may come in any order; the frames are written in the order of the format. */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../kinds/chat/event.ts";
import type { AnswerContext, AnswerStream } from "../format.ts";
import { frameOf } from "../shared/answer.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { deltaWithCounts, startWithCounts } from "./answer.native.ts";
import { type AnswerBlock, type AnswerEnd, MessagesAnswerCollector, UNKNOWN } from "./answer.ts";
import { encodeError } from "./errors.ts";
import type { ContentDelta, MessagesStreamEvent } from "./schema.answer.ts";
import { FORMAT } from "./schema.ts";

type Finish = Extract<AnswerEvent, { type: "finish" }>;

/** Writes one frame. Its data is one line, because JSON escapes line breaks. */
const frameText = (frame: MessagesStreamEvent): string => `event: ${frame.type}\ndata: ${JSON.stringify(frame)}\n\n`;

const PING = frameText({ type: "ping" });

/**
 * Writes one answer. Frames of an upstream of this format pass unchanged, and the gateway adds only the missing frames. For all other
 * events, the gateway writes the frames. One answer cannot mix both.
 */
export class MessagesStreamEncoder implements AnswerStream<AnswerEvent> {
  readonly contentType: string = "text/event-stream; charset=utf-8";
  readonly keepAlive: string = PING;
  readonly #requestId: string;
  readonly #answer: MessagesAnswerCollector;
  /** The source of the content's frames; undefined before the first frame. */
  #writer: "gateway" | "upstream" | undefined;
  /** The index of the block that is being written. */
  #index = 0;
  /** The types in `ONCE` whose frame is already written. */
  readonly #written: Set<string> = new Set();
  /** The indices of the upstream's blocks that have begun and not ended. */
  readonly #openBlocks: Set<number> = new Set();

  constructor(context: AnswerContext) {
    this.#requestId = context.requestId;
    this.#answer = new MessagesAnswerCollector(context);
  }

  encode(event: AnswerEvent): string {
    if (event.type === "start") {
      this.#answer.add(event);
      // Write no start yet: the upstream's own first frame follows.
      return event.native === FORMAT ? "" : this.#start();
    }
    if (event.type === "native" && event.format === FORMAT && this.#writer !== "gateway") {
      // A stop in front of the finish belongs to an answer that fails behind it.
      if (event.frames) return this.#pass(event.frames.filter((frame) => frame.event !== "message_stop"));
      // The last frames come with `finish`. A complete answer has no frames, so the gateway writes them below.
      if (this.#writer === "upstream") return "";
    }
    if (event.type === "finish") {
      const frames = event.native?.format === FORMAT ? event.native.frames : [];
      const isUpstreams = this.#writer === "upstream" || (this.#writer === undefined && frames.length > 0);
      if (isUpstreams) return this.#finish(event, frames);
    }
    return this.#write(event);
  }

  error(error: GatewayError): string {
    return frameText(encodeError(error, this.#requestId));
  }

  /** Writes an event as frames of the gateway's own. */
  #write(event: Exclude<AnswerEvent, { type: "start" }>): string {
    if (this.#writer === "upstream")
      throw new GatewayError("backend_failed", "The model backend mixed an upstream's frames with others.");
    if (event.type !== "native" || event.events.length > 0) this.#writer = "gateway";
    const start = this.#start();
    if (event.type === "finish") {
      const ended = this.#answer.end(event);
      return start + this.#blocks() + messageDelta(ended) + MESSAGE_STOP;
    }
    if (event.type === "native") for (const meant of event.events) this.#answer.add(meant);
    else this.#answer.add(event);
    return start + this.#blocks();
  }

  /** Writes the start, unless the gateway or the upstream has already written one. */
  #start(): string {
    const { started } = this.#answer;
    if (!started || this.#written.has("message_start")) return "";
    this.#written.add("message_start");
    return frameText({ type: "message_start", message: started });
  }

  /**
   * Writes the blocks as far as they are known. Clients expect that a block ends before the next one begins. Therefore a block waits until
   * all earlier blocks have ended, and parallel tool calls are written one after the other.
   */
  #blocks(): string {
    const { blocks } = this.#answer;
    let text = "";
    for (let block = blocks[0]; block; block = blocks[0]) {
      const index = this.#index;
      if (!block.isWritten) text += frameText({ type: "content_block_start", index, content_block: block.begun });
      block.isWritten = true;
      for (const piece of block.pieces)
        text += frameText({ type: "content_block_delta", index, delta: deltaOf(block.kind, piece) });
      block.pieces.length = 0;
      if (!block.ended) return text;
      // Write this frame even for an empty signature: some clients read the signature only here.
      if (block.kind === "thinking") {
        const delta = { type: "signature_delta", signature: block.signature } as const;
        text += frameText({ type: "content_block_delta", index, delta });
      }
      text += frameText({ type: "content_block_stop", index });
      this.#index++;
      blocks.shift();
    }
    return text;
  }

  /** Passes an upstream's frames on. Skips a second start. */
  #pass(frames: readonly NativeFrame[]): string {
    let text = "";
    const { started } = this.#answer;
    for (const frame of frames) {
      const type = frame.event ?? "";
      if (type === "message_start" && this.#written.has(type)) continue;
      if (type !== "message_start") {
        text += this.#start();
        this.#writer = "upstream";
      }
      if (type === "content_block_start") this.#openBlocks.add(indexOf(frame));
      else if (type === "content_block_stop") this.#openBlocks.delete(indexOf(frame));
      else if (ONCE.has(type)) this.#written.add(type);
      text += frameOf(type === "message_start" && started ? startWithCounts(frame, started.usage) : frame);
    }
    return text;
  }

  /** Passes an upstream's last frames on. Adds the missing counts, and the missing frames if the answer was cut. */
  #finish(event: Finish, frames: readonly NativeFrame[]): string {
    const ended = this.#answer.end(event, true);
    const stop = frames.find((frame) => frame.event === "message_stop");
    const before = stop ? frames.slice(0, frames.indexOf(stop)) : frames;
    const delta = before.findLast((frame) => frame.event === "message_delta");
    let text = this.#pass(before.map((frame) => (frame === delta ? deltaWithCounts(frame, ended.usage) : frame)));
    for (const index of this.#openBlocks) text += frameText({ type: "content_block_stop", index });
    if (!this.#written.has("message_delta")) text += messageDelta(ended);
    return text + (stop ? frameOf(stop) : MESSAGE_STOP);
  }
}

/** The types of frames that come only once in a stream. */
const ONCE: ReadonlySet<string> = new Set(["message_start", "message_delta"]);

const MESSAGE_STOP = frameText({ type: "message_stop" });

function deltaOf(kind: AnswerBlock["kind"], piece: string): ContentDelta {
  if (kind === "text") return { type: "text_delta", text: piece };
  if (kind === "thinking") return { type: "thinking_delta", thinking: piece };
  return { type: "input_json_delta", partial_json: piece };
}

function messageDelta({ stop_reason, stop_sequence, usage }: AnswerEnd): string {
  const { input_tokens, output_tokens } = usage;
  const delta = { stop_reason, stop_sequence, ...UNKNOWN, usage: { input_tokens, output_tokens } };
  return frameText({ type: "message_delta", delta, usage });
}

const indexOf = ({ data }: NativeFrame): number => Number(parseAnswerObject(data)["index"]);
