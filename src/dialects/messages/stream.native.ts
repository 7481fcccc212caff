/** The text of a streamed messages answer: an upstream's own frames pass as they came, all else is encoded (spec 6.1). */

import { GatewayError } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../model/event.ts";
import type { AnswerContext } from "../dialect.ts";
import { frameOf } from "../shared/frame.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { DIALECT } from "./request.ts";
import { frameText, type StreamFrame } from "./stream.frames.ts";
import { closingFrames, StreamEncoder } from "./stream.ts";

type Start = Extract<AnswerEvent, { type: "start" }>;
type Finish = Extract<AnswerEvent, { type: "finish" }>;

export class StreamWriter {
  readonly #encoder: StreamEncoder;
  /** Whose frames the content is made of; undefined before the first. */
  #content: "own" | "native" | undefined;
  /** A start that waits to see whether an upstream's own frame says it. */
  #held: Start | undefined;
  /** The types of an upstream's frames that can come once, and have. */
  readonly #passed: Set<string> = new Set();
  /** The blocks of an upstream's that have begun and not ended. */
  readonly #open: Set<number> = new Set();

  constructor(answer: AnswerContext) {
    this.#encoder = new StreamEncoder(answer);
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say at this place. */
  write(event: AnswerEvent): string {
    switch (event.type) {
      case "start":
        if (event.native !== DIALECT) return this.#encode(event);
        this.#held = event;
        return "";
      case "native":
        if (event.dialect !== DIALECT || this.#content === "own") return this.#writeOwn(event);
        if (event.frames) return this.#passAll(event.frames);
        // The frames themselves come with the finish, unless the answer is complete and has none.
        return this.#content === "native" ? "" : this.#writeOwn(event);
      case "finish":
        return this.#endsNatively(event) ? this.#endNative(event) : this.#writeOwn(event);
      default:
        return this.#writeOwn(event);
    }
  }

  #endsNatively({ native }: Finish): boolean {
    if (this.#content !== undefined) return this.#content === "native";
    return native?.dialect === DIALECT && native.frames.length > 0;
  }

  #writeOwn(event: AnswerEvent): string {
    if (this.#content === "native")
      throw new GatewayError("backend_failed", "The model backend mixed an upstream's frames with others.");
    if (event.type !== "native" || event.means.length > 0) this.#content = "own";
    return this.#begin() + this.#encode(event);
  }

  /** The start that was held back, if it still is. */
  #begin(): string {
    const held = this.#held;
    this.#held = undefined;
    return held ? this.#encode(held) : "";
  }

  #encode(event: AnswerEvent): string {
    if (event.type === "start") this.#passed.add("message_start");
    return this.#encoder.frames(event).map(frameText).join("");
  }

  #passAll(frames: readonly NativeFrame[]): string {
    let text = "";
    for (const frame of frames) text += this.#pass(frame);
    return text;
  }

  #pass(frame: NativeFrame): string {
    const type = frame.event ?? "";
    // The stream was begun while the upstream was quiet.
    if (type === "message_start" && this.#passed.has(type)) return "";
    if (this.#passed.has("message_stop")) return "";
    const before = type === "message_start" ? "" : this.#begin();
    if (type === "message_start") this.#held = undefined;
    else this.#content = "native";
    this.#note(type, frame.data);
    return before + frameOf(frame);
  }

  #note(type: string, data: string): void {
    if (type === "message_start" || type === "message_delta" || type === "message_stop") this.#passed.add(type);
    if (type !== "content_block_start" && type !== "content_block_stop") return;
    const { index } = parseAnswerObject(data);
    if (type === "content_block_start") this.#open.add(Number(index));
    else this.#open.delete(Number(index));
  }

  /** The upstream's own end; what of it is missing, because the answer was cut, is made up for. */
  #endNative(event: Finish): string {
    const frames = event.native?.dialect === DIALECT ? event.native.frames : [];
    const own = this.#passAll(frames);
    const stops = Array.from(this.#open, (index): StreamFrame => ({ type: "content_block_stop", index }));
    const closing = [...stops, ...closingFrames(event, true)].filter(({ type }) => !this.#passed.has(type));
    return own + closing.map(frameText).join("");
  }
}
