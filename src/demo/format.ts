/** Answers in the response format of the request: JSON that satisfies a schema, or a value of an enum. */

import type { ResponseFormat } from "../index.ts";
import { satisfyAside } from "./satisfy-aside.ts";
import { Loop, piecesOf } from "./words.ts";

/** Words after the message that make candidates differ, if the schema leaves room for them. */
const ORDINALS = ["", " Second", " Third", " Fourth", " Fifth", " Sixth", " Seventh", " Eighth"];

/** Returns the answer to a message in the given format. `reply` is the answer without a format. */
export async function formatted(
  format: ResponseFormat,
  text: string,
  reply: string,
  candidate: number,
): Promise<string> {
  if (format.type === "enum") return chooseValue(format.values, text, candidate);
  if (!format.schema) return JSON.stringify({ answer: reply });
  return JSON.stringify(
    await satisfyAside(format.schema, `${text}${ORDINALS[candidate] ?? ""}`, "the response schema"),
  );
}

/** Returns the first value that the message names, or else the first value. Each further candidate gets the next value. */
async function chooseValue(values: readonly string[], text: string, candidate: number): Promise<string> {
  const { byWords, lengths } = await indexed(values);
  let first = values.length;
  // The last words of the message so far, up to the words that identify a value.
  let window: string[] = [];
  for await (const word of wordsIn(text)) {
    window = [...window.slice(1 - MAX_KEY_WORDS), word];
    for (const length of lengths)
      if (length <= window.length) first = Math.min(first, byWords.get(window.slice(-length).join(" ")) ?? first);
  }
  return values[((first < values.length ? first : 0) + candidate) % values.length] ?? "";
}

/** The number of first words that identify a value: enough to distinguish values, and few enough to compare at each word. */
const MAX_KEY_WORDS = 8;

/** Returns the index of each value by its first words, and all numbers of words to compare. */
async function indexed(
  values: readonly string[],
): Promise<{ byWords: ReadonlyMap<string, number>; lengths: ReadonlySet<number> }> {
  const byWords = new Map<string, number>();
  const lengths = new Set<number>();
  const loop = new Loop();
  for (const [index, value] of values.entries()) {
    const words: string[] = [];
    for await (const word of wordsIn(value)) if (words.push(word) === MAX_KEY_WORDS) break;
    const key = words.join(" ");
    if (words.length > 0 && !byWords.has(key)) byWords.set(key, index);
    if (words.length > 0) lengths.add(words.length);
    await loop.yield();
  }
  return { byWords, lengths };
}

/** Yields the words of a text in lower case. */
async function* wordsIn(text: string): AsyncGenerator<string> {
  const loop = new Loop();
  for (const piece of piecesOf(text)) {
    yield* piece.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    await loop.yield();
  }
}
