/** The demo's embedding model: texts with common words or parts of words get vectors that are near to each other. */

import type { CallContext, EmbeddingEvent, EmbeddingInput, EmbeddingRequest } from "../index.ts";
import { readCommands } from "./commands.ts";
import { countTokens, Loop, piecesOf } from "./words.ts";

const DIMENSIONS = 256;

/** The tokens that a file counts for. */
const FILE_TOKENS = 256;

/** The weight of a whole word. A sequence of three characters in a word has the weight 1. */
const WORD_WEIGHT = 2;

/** Yields a vector of unit length for each input, then the tokens. Throws the error of a `/fail` command at the start of the first text. */
export async function* embed(request: EmbeddingRequest, { signal }: CallContext): AsyncGenerator<EmbeddingEvent> {
  const { inputs, dimensions = DIMENSIONS, inputDimensions = [] } = request;
  const [first] = inputs;
  const { fail } = readCommands(typeof first === "string" ? first : "");
  if (fail) throw fail;
  const loop = new Loop();
  let inputTokens = 0;
  for (const [index, input] of inputs.entries()) {
    signal.throwIfAborted();
    inputTokens += await tokensIn(input);
    yield await vectorOf(input, inputDimensions[index] ?? dimensions, loop);
  }
  yield { type: "usage", usage: { inputTokens: Math.max(1, inputTokens) } };
}

async function tokensIn(input: EmbeddingInput): Promise<number> {
  if (typeof input === "string") return countTokens(input);
  if (!("parts" in input)) return input.length;
  let tokens = 0;
  for (const part of input.parts) tokens += part.type === "text" ? await countTokens(part.text) : FILE_TOKENS;
  return tokens;
}

/** Sums the features of an input, and scales the sum to unit length. The hash of a feature chooses its dimension and its sign. */
async function vectorOf(input: EmbeddingInput, dimensions: number, loop: Loop): Promise<Float32Array> {
  const sums = new Float64Array(dimensions);
  for (const [feature, weight] of featuresOf(input)) {
    const hash = hashOf(feature);
    const place = (hash >>> 1) % dimensions;
    sums[place] = (sums[place] ?? 0) + (hash & 1 ? weight : -weight);
    await loop.yield();
  }
  const length = Math.hypot(...norms(sums));
  // With few dimensions, all features may cancel each other out.
  if (length === 0) sums[0] = 1;
  return Float32Array.from(sums, (sum) => sum / (length || 1));
}

/** Yields the length of each piece of a vector: a function cannot take tens of thousands of arguments. */
function* norms(vector: Float64Array): Generator<number> {
  for (let start = 0; start < vector.length; start += 1_024) yield Math.hypot(...vector.subarray(start, start + 1_024));
}

function* featuresOf(input: EmbeddingInput): Generator<readonly [feature: string, weight: number]> {
  if (typeof input === "string") return yield* featuresOfText(input);
  if (!("parts" in input)) {
    for (const token of input) yield [`token ${token}`, 1];
    return;
  }
  for (const part of input.parts)
    if (part.type === "text") yield* featuresOfText(part.text);
    else yield [`file ${JSON.stringify(part.source)}`, WORD_WEIGHT];
}

function* featuresOfText(text: string): Generator<readonly [feature: string, weight: number]> {
  for (const piece of piecesOf(text))
    for (const [word] of piece.toLowerCase().matchAll(/[\p{L}\p{N}]+/gu)) {
      yield [word, WORD_WEIGHT];
      const marked = `^${word}$`;
      for (let at = 0; at + 3 <= marked.length; at++) yield [marked.slice(at, at + 3), 1];
    }
}

/** Returns the FNV-1a hash of a text, with a final step that spreads the low bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return (hash ^ (hash >>> 16)) >>> 0;
}
