/** Reads a streamed answer frame by frame, by the exact framing of its format. */

import type { AnswerReader, StreamForm, Told } from "./driver.ts";

/** How a stream is cut into frames. */
export interface Framing<Frame> {
  /** Takes the first frame off a text; undefined where it is not complete yet. Throws for what is no frame. */
  take(text: string): { readonly frame: Frame; readonly rest: string } | undefined;
  /** What a whole stream may end with. */
  readonly end: RegExp;
}

/** Server-sent events, each ended by a blank line. */
export const eventFraming = <Frame>(parse: (text: string) => Frame): Framing<Frame> => ({
  take(text) {
    const end = text.indexOf("\n\n");
    return end < 0 ? undefined : { frame: parse(text.slice(0, end)), rest: text.slice(end + 2) };
  },
  end: /^$/,
});

/** Reads one frame after the other, and no further. */
export class FrameReader<Frame> {
  readonly #reader: ReadableStreamDefaultReader<string>;
  readonly #framing: Framing<Frame>;
  #text = "";

  constructor(response: Response, framing: Framing<Frame>) {
    if (!response.body) throw new Error("The response has no body.");
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    this.#framing = framing;
  }

  /** The next frame, or undefined at the end of the stream. */
  async next(): Promise<Frame | undefined> {
    for (;;) {
      const taken = this.#framing.take(this.#text);
      if (taken) {
        this.#text = taken.rest;
        return taken.frame;
      }
      const { done, value } = await this.#reader.read();
      if (done && this.#framing.end.test(this.#text)) return undefined;
      if (done) throw new Error(`The stream ends with ${JSON.stringify(this.#text)}`);
      this.#text += value;
    }
  }

  /** Hangs up. */
  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }
}

/** The frames of a whole stream; its last one must be complete. */
export async function framesOf<Frame>(response: Response, framing: Framing<Frame>): Promise<Frame[]> {
  const reader = new FrameReader(response, framing);
  const frames: Frame[] = [];
  for (let frame = await reader.next(); frame !== undefined; frame = await reader.next()) frames.push(frame);
  return frames;
}

/** Reads what frames tell, past those that tell nothing. */
function tellingReader<Frame>(
  response: Response,
  framing: Framing<Frame>,
  tell: (frame: Frame) => Told | undefined,
): AnswerReader {
  const reader = new FrameReader(response, framing);
  return {
    async next() {
      for (let frame = await reader.next(); frame !== undefined; frame = await reader.next()) {
        const told = tell(frame);
        if (told) return told;
      }
      return undefined;
    },
    cancel: () => reader.cancel(),
  };
}

/** The pieces of a whole stream. */
async function textTold(reader: AnswerReader): Promise<string> {
  let text = "";
  for (let told = await reader.next(); told; told = await reader.next()) if (told.type === "piece") text += told.text;
  return text;
}

/** The form of a stream, by how it is framed and what its frames tell. */
export function streamed<Frame>(
  framing: Framing<Frame>,
  tell: (frame: Frame) => Told | undefined,
): Pick<StreamForm, "stream" | "read" | "textOf"> {
  const read = (response: Response): AnswerReader => tellingReader(response, framing, tell);
  return { stream: true, read, textOf: (response) => textTold(read(response)) };
}
