/** Reads a generate-content stream chunk by chunk, and takes nothing but the exact framing of its form. */

export interface Chunk {
  readonly candidates?: readonly Candidate[];
  readonly [field: string]: unknown;
}

export interface Candidate {
  readonly content?: { readonly role: string; readonly parts: readonly Part[] };
  readonly index?: number;
  readonly finishReason?: string;
  readonly [field: string]: unknown;
}

export interface Part {
  readonly text?: string;
}

/** Takes the first chunk off a text, and knows what a stream may end with. */
export interface Framing {
  /** Undefined where the first chunk is not complete yet. */
  take(text: string): { readonly json: string; readonly rest: string } | undefined;
  readonly end: RegExp;
}

const FRAME = /^data: (\{[^\n\r\u2028\u2029]*\})$/;

/** Server-sent events: a data line and a blank one, and no other. */
export const frames: Framing = {
  take(text) {
    const end = text.indexOf("\n\n");
    if (end < 0) return undefined;
    const json = FRAME.exec(text.slice(0, end))?.[1];
    if (json === undefined) throw new Error(`This is no frame: ${JSON.stringify(text.slice(0, end))}`);
    return { json, rest: text.slice(end + 2) };
  },
  end: /^$/,
};

/** The elements of one JSON array. */
export const elements: Framing = {
  take(text) {
    const [opening] = /^\s*[[,]\s*(?=\{)/.exec(text) ?? [];
    if (opening === undefined) return undefined;
    const end = endOfObject(text, opening.length);
    return end < 0 ? undefined : { json: text.slice(opening.length, end), rest: text.slice(end) };
  },
  end: /^\s*\]\s*$/,
};

/** Where the object that begins at `from` ends, or -1 where it does not. */
function endOfObject(text: string, from: number): number {
  const tokens = /"(?:[^"\\]|\\.)*"|[{}]/gs;
  tokens.lastIndex = from;
  let depth = 0;
  for (let token = tokens.exec(text); token; token = tokens.exec(text)) {
    if (token[0] === "{") depth++;
    else if (token[0] === "}" && --depth === 0) return tokens.lastIndex;
  }
  return -1;
}

/** Reads one chunk after the other, and no further. */
export class ChunkReader {
  readonly #reader: ReadableStreamDefaultReader<string>;
  readonly #framing: Framing;
  #text = "";

  constructor(response: Response, framing: Framing = frames) {
    if (!response.body) throw new Error("The response has no body.");
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    this.#framing = framing;
  }

  /** The next chunk, or undefined at the end of the stream. */
  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const taken = this.#framing.take(this.#text);
      if (taken) {
        this.#text = taken.rest;
        return JSON.parse(taken.json) as Chunk;
      }
      const text = await this.#read();
      if (text === undefined) {
        if (this.#framing.end.test(this.#text)) return undefined;
        throw new Error(`The stream ends with ${JSON.stringify(this.#text)}`);
      }
    }
  }

  /** The next text that comes, whatever it is, once all before it was taken; undefined at the end of the stream. */
  async nextText(): Promise<string | undefined> {
    if (this.#text === "" || this.#framing.end.test(this.#text)) await this.#read();
    const text = this.#text;
    this.#text = "";
    return text === "" ? undefined : text;
  }

  async #read(): Promise<string | undefined> {
    const { done, value } = await this.#reader.read();
    if (done) return undefined;
    this.#text += value;
    return value;
  }

  /** Hangs up. */
  async cancel(): Promise<void> {
    await this.#reader.cancel();
  }
}

/** A chunk as tests write it, of an answer that the backend named. */
export const chunk = (parts: readonly Part[], candidate: object = {}, more: object = {}): Chunk => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...candidate }],
  modelVersion: "model-a",
  responseId: "resp_1",
  ...more,
});

export const textChunk = (text: string): Chunk => chunk([{ text }]);

/** The last chunk, of an answer that took 7 tokens in and `output` out. */
export const lastChunk = (finishReason: string, output: number): Chunk =>
  chunk(
    [{ text: "" }],
    { finishReason },
    { usageMetadata: { promptTokenCount: 7, candidatesTokenCount: output, totalTokenCount: 7 + output } },
  );
