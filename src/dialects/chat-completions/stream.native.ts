/** The stream to a caller: chunks of the gateway's own, and frames of an upstream that speaks the same format, untouched. */

import type { AnswerEvent, NativeFrame } from "../../model/event.ts";
import { isJsonObject, parseJson } from "../../model/json.ts";
import { frameOf } from "../shared/frame.ts";
import { DIALECT } from "./schema.base.ts";
import { type Answering, DONE, frameText, StreamEncoder } from "./stream.ts";

export class StreamWriter {
  readonly #encoder: StreamEncoder;
  readonly #tellsUsage: boolean;

  constructor(answering: Answering) {
    this.#tellsUsage = wantsUsage(answering);
    this.#encoder = new StreamEncoder(answering, this.#tellsUsage);
  }

  /** The text that an event adds to the stream. */
  write(event: AnswerEvent): string {
    if (event.type === "native" && event.dialect === DIALECT) return this.#passed(event.frames ?? []);
    if (event.type !== "finish") return this.#chunks(event);
    const { native } = event;
    if (native?.dialect !== DIALECT || native.frames.length === 0)
      return this.#chunks(event) + dataFrame({ data: DONE });
    const shown = native.frames.filter(({ data }) => data !== DONE && (this.#tellsUsage || !isUsageAlone(data)));
    return this.#passed(shown) + dataFrame({ data: DONE });
  }

  /** An upstream's own frames. The room for counts in them, which are always asked for, is not shown to those who did not ask. */
  #passed(frames: readonly NativeFrame[]): string {
    const texts = frames.map(({ data }) =>
      dataFrame({ data: this.#tellsUsage ? data : data.replace(NO_COUNTS, "$1}") }),
    );
    return texts.join("");
  }

  #chunks(event: AnswerEvent): string {
    return this.#encoder.chunks(event).map(frameText).join("");
  }
}

/** A frame as an upstream sent it; this format has no names of events. */
const dataFrame = ({ data }: NativeFrame): string => frameOf({ data });

/** The field of a chunk that has no counts, before nothing but plain fields and the chunk's end: all else of it stays as it came. */
const NO_COUNTS = /,\s*"usage"\s*:\s*null\s*((?:,\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+)\s*)*)\}\s*$/;

/** Whether the caller has asked for the counts of a stream. */
export function wantsUsage({ request: { native } }: Pick<Answering, "request">): boolean {
  const options = native?.body["stream_options"];
  return isJsonObject(options) && options["include_usage"] === true;
}

/** Whether a frame is the extra chunk with the counts, which an upstream is always asked for. */
function isUsageAlone(data: string): boolean {
  try {
    const chunk = parseJson(data);
    if (!isJsonObject(chunk)) return false;
    const { choices, usage } = chunk;
    return isJsonObject(usage) && Array.isArray(choices) && choices.length === 0;
  } catch {
    return false;
  }
}
