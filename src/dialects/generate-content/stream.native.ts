/** The text of a streamed generate-content answer: an upstream's own chunks pass as they came, all else is encoded (spec 6.2). */

import type { AnswerEvent, NativeAnswerEvent } from "../../model/event.ts";
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
      if (event.frame) return this.#framer.raw(event.frame.data);
      this.#ending.push(event);
      return "";
    }
    if (event.type !== "finish") return this.#encode(event);
    const frames = event.native?.dialect === DIALECT ? event.native.frames : [];
    const own = frames.length > 0 ? [] : [...this.#ending, event];
    const texts = [...frames.map(({ data }) => this.#framer.raw(data)), ...own.map((one) => this.#encode(one))];
    return texts.join("") + this.#framer.end();
  }

  #encode(event: AnswerEvent): string {
    return this.#encoder
      .chunks(event)
      .map((chunk) => this.#framer.chunk(chunk))
      .join("");
  }
}
