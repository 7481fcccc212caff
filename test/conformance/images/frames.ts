/** Reads an image stream frame by frame, and takes nothing but the exact framing: an event and a data line, or a comment. */

export interface Frame {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** What a keep-alive is read as. */
export const COMMENT: Frame = { event: "", data: {} };

const FRAME = /^event: ([a-z_.]+)\ndata: (\{[^\n\r]*\})$/;

function parseFrame(text: string): Frame {
  if (/^:[^\n\r]*$/.test(text)) return COMMENT;
  const [, event, json] = FRAME.exec(text) ?? [];
  if (event === undefined || json === undefined) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
  const data = JSON.parse(json) as Frame["data"];
  if (event !== "error" && data["type"] !== event)
    throw new Error(`The event line says ${event}, the data ${String(data["type"])}.`);
  return { event, data };
}

/** The frames of a whole stream but for its comments; the last one must be complete. */
export async function framesOf(response: Response): Promise<Frame[]> {
  const reader = new FrameReader(response);
  const frames: Frame[] = [];
  for (let frame = await reader.next(); frame; frame = await reader.next()) if (frame !== COMMENT) frames.push(frame);
  return frames;
}

/** Reads one frame after the other, and no further. */
export class FrameReader {
  readonly #reader: ReadableStreamDefaultReader<string>;
  #text = "";

  constructor(response: Response) {
    if (!response.body) throw new Error("The response has no body.");
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** The next frame, or undefined at the end of the stream. */
  async next(): Promise<Frame | undefined> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const text = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return parseFrame(text);
      }
      const { done, value } = await this.#reader.read();
      if (done && this.#text !== "") throw new Error(`The stream ends within a frame: ${JSON.stringify(this.#text)}`);
      if (done) return undefined;
      this.#text += value;
    }
  }

  /** Hangs up. */
  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }
}
