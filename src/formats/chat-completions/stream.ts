/** The answer to a caller of chat completions, as a stream: built of neutral events, or the bytes of an upstream of this format. */

import type { GatewayError } from "../../errors.ts";
import type { AnswerEvent, NativeFrame } from "../../model/chat-event.ts";
import { isJsonObject, jsonLine, PARSED_BEFORE, parseJson } from "../../model/json.ts";
import type { AnswerContext } from "../format.ts";
import { type AnswerFinish, frameOf, StreamedAnswer } from "../shared/answer.ts";
import { encodeError } from "../shared/errors.ts";
import { parseAnswerObject } from "../shared/upstream.ts";
import { CompletionBuilder, FINISH_REASON } from "./answer.ts";
import { asksForFunctions, passedToFunctions } from "./functions.ts";
import { FORMAT } from "./routes.ts";
import { DONE } from "./schema.ts";
import { PassedChunks } from "./stream.passed.ts";

const frameText = (value: object): string => `data: ${jsonLine(value)}\n\n`;
const DONE_FRAME = `data: ${DONE}\n\n`;

export class CompletionStream extends StreamedAnswer {
  protected readonly builder: CompletionBuilder;
  readonly #showsUsage: boolean;
  readonly #hasFunctions: boolean;
  /** The first chunk of an upstream of this format. */
  #first: string | undefined;
  readonly #chunks: PassedChunks;

  /** @param created Unix time in seconds. */
  constructor(answer: AnswerContext, created: number) {
    super(FORMAT);
    const options = answer.request.native?.body["stream_options"];
    this.#showsUsage = isJsonObject(options) && options["include_usage"] === true;
    this.#hasFunctions = asksForFunctions(answer.request);
    this.#chunks = new PassedChunks(answer.request.candidateCount ?? 1);
    this.builder = new CompletionBuilder(answer, created, this.#showsUsage, (chunk) => {
      this.text += frameText(chunk);
    });
  }

  override encode(event: AnswerEvent): string {
    if (event.type === "native" && event.format === FORMAT && event.frames && !this.isBuilt)
      this.builder.passed(event.events);
    return super.encode(event);
  }

  protected override write(event: AnswerEvent): string {
    if (this.#first !== undefined) {
      // The upstream of the frames has broken off, and another goes on.
      this.builder.goOn(Number(parseAnswerObject(this.#first, PARSED_BEFORE)["created"]));
      this.#first = undefined;
      this.isBuilt = true;
    }
    return super.write(event);
  }

  error(error: GatewayError): string {
    return frameText(encodeError(error));
  }

  /** Leaves out the mark of the end, and token counts that the caller did not ask for. */
  #withoutEnd(frames: readonly NativeFrame[]): readonly NativeFrame[] {
    return frames.filter(({ data }) => data !== DONE && (this.#showsUsage || !isUsageChunk(data)));
  }

  /**
   * Writes the frames as the upstream sent them. Each chunk may have `"usage": null`, because the gateway always asks the upstream for
   * token counts. If the caller did not ask for counts, this field is removed.
   */
  protected pass(frames: readonly NativeFrame[], isEmpty: boolean): string {
    let text = "";
    if (!this.isBuilt) this.#first ??= frames[0]?.data;
    // Without a meaning, these may be the last frames of an answer that fails behind them.
    for (const frame of isEmpty ? this.#withoutEnd(frames) : frames) {
      const whole = this.#chunks.whole(frame.data);
      const data = this.#hasFunctions ? passedToFunctions(whole) : whole;
      text += frameOf({ data: this.#showsUsage ? data : data.replace(NO_USAGE, "$1}") });
    }
    return text;
  }

  protected passRun(text: string, frames: readonly NativeFrame[]): string {
    if (!this.#chunks.isWhole(frames[0]?.data ?? "")) return this.pass(frames, false);
    if (this.#showsUsage || !text.includes('"usage"')) return text;
    // Frames of one shape mostly end alike. Blank lines stand only behind frames.
    const end = NO_USAGE.exec(frames[0]?.data ?? "")?.[0];
    if (end === undefined || !frames.every(({ data }) => data.endsWith(end))) return this.pass(frames, false);
    const written = `${end.replace(NO_USAGE, "$1}")}\n\n`;
    return text.replaceAll(`${end}\n\n`, () => written);
  }

  protected finish(event: AnswerFinish, frames: readonly NativeFrame[]): string {
    if (frames.length === 0) return this.write(event) + DONE_FRAME;
    const text = this.pass(frames, true);
    return text + (this.#chunks.isFinished ? "" : this.#finishChunk(event)) + DONE_FRAME;
  }

  /** Returns the chunk with the finish reasons, which the upstream has left out. */
  #finishChunk({ endings }: AnswerFinish): string {
    const { usage: _usage, ...chunk } = this.#first === undefined ? {} : parseAnswerObject(this.#first, PARSED_BEFORE);
    const choices = endings.map(({ candidate, reason }) => ({
      index: candidate,
      delta: {},
      finish_reason: FINISH_REASON[reason],
    }));
    return frameText({ ...chunk, choices });
  }
}

/**
 * Matches `"usage": null` if only simple fields follow it in the chunk. To cut it out of the text keeps all other bytes. No field of this name
 * may follow: of thousands in an object, each would be compared with all behind it.
 */
const NO_USAGE = /,\s*"usage"\s*:\s*null\s*((?:,\s*"(?!usage")[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+)\s*)*)\}\s*$/;

/** Tells whether a frame is the extra chunk with only the token counts. */
function isUsageChunk(data: string): boolean {
  try {
    const chunk = parseJson(data, PARSED_BEFORE);
    if (!isJsonObject(chunk)) return false;
    const { choices, usage } = chunk;
    return isJsonObject(usage) && (choices == null || (Array.isArray(choices) && choices.length === 0));
  } catch {
    return false;
  }
}
