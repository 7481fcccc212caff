/** The text of a streamed generate-content answer: an upstream's own chunks pass as they came, all else is encoded (spec 6.2). */

import type { AnswerEvent, NativeAnswerEvent, NativeFrame } from "../../model/event.ts";
import type { AnswerContext } from "../dialect.ts";
import { DIALECT } from "./schema.base.ts";
import type { Framer } from "./stream.framing.ts";
import { StreamEncoder } from "./stream.ts";

export class StreamWriter {
  readonly #encoder: StreamEncoder;
  readonly #framer: Framer;
  /** The end's own chunks, of which it is not known yet whether they come with the finish. */
  readonly #ending: NativeAnswerEvent[] = [];

  constructor(answer: AnswerContext, framer: Framer) {
    this.#encoder = new StreamEncoder(answer);
    this.#framer = framer;
  }

  /** What an event adds. Throws `backend_failed` for one that the format cannot say. */
  write(event: AnswerEvent): string {
    if (event.type === "native" && event.dialect === DIALECT) {
      if (event.frames) return this.#raw(event.frames);
      this.#ending.push(event);
      return "";
    }
    if (event.type !== "finish") return this.#encode(event);
    const frames = event.native?.dialect === DIALECT ? event.native.frames : [];
    const own = frames.length > 0 ? [] : [...this.#ending, event];
    return [this.#raw(frames), ...own.map((one) => this.#encode(one)), this.#framer.end()].join("");
  }

  #raw(frames: readonly NativeFrame[]): string {
    return frames.map(({ data }) => this.#framer.raw(data)).join("");
  }

  #encode(event: AnswerEvent): string {
    return this.#encoder
      .chunks(event)
      .map((chunk) => this.#framer.chunk(chunk))
      .join("");
  }
}
