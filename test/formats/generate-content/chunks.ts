/** Reads a generate-content stream chunk by chunk, and takes nothing but the exact framing of its form. */

import { eventFraming, type Framing } from "../../drivers/frames.ts";

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

const FRAME = /^data: (\{[^\n\r\u0085\u2028\u2029]*\})$/;

/** Server-sent events: a data line and a blank one, and no other; after an error, the same once more without the line. */
export const frames: Framing<Chunk> = {
  ...eventFraming((text) => {
    const json = FRAME.exec(text)?.[1];
    if (json === undefined) throw new Error(`This is no frame: ${JSON.stringify(text)}`);
    return JSON.parse(json) as Chunk;
  }),
  end: /^(?:\{"error":[^\n]*\})?$/,
};

/** What the white space between the elements of an array is read as, where it comes by itself: a keep-alive. */
const NOTHING: Chunk = {};

/** The elements of one JSON array. */
export const elements: Framing<Chunk> = {
  take(text) {
    if (/^[ \n]+$/.test(text)) return { frame: NOTHING, rest: "" };
    const [opening] = /^\s*[[,]\s*(?=\{)/.exec(text) ?? [];
    if (opening === undefined) return undefined;
    const end = endOfObject(text, opening.length);
    if (end < 0) return undefined;
    return { frame: JSON.parse(text.slice(opening.length, end)) as Chunk, rest: text.slice(end) };
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

/** A chunk as tests write it, of an answer that the backend named and that took 7 tokens in. */
export const chunk = (parts: readonly Part[], candidate: object = {}, more: object = {}): Chunk => ({
  candidates: [{ content: { role: "model", parts }, index: 0, ...candidate }],
  usageMetadata: { promptTokenCount: 7, totalTokenCount: 7 },
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
