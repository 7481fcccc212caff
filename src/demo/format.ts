/** Answers of a form that was asked for: JSON of a schema, or one of some values. */

import type { ResponseFormat } from "../index.ts";
import { Loop } from "./loop.ts";
import { satisfyAside } from "./satisfy-aside.ts";
import { piecesOf } from "./words.ts";

/** What sets the answers of several candidates apart, where their schema leaves room for it. */
const ORDINALS = ["", " Second", " Third", " Fourth", " Fifth", " Sixth", " Seventh", " Eighth"];

/** The answer to a message in a form; `reply` is what it would be without one. */
export async function formatted(
  format: ResponseFormat,
  text: string,
  reply: string,
  candidate: number,
): Promise<string> {
  if (format.type === "enum") return oneOf(format.values, text, candidate);
  if (!format.schema) return JSON.stringify({ answer: reply });
  return JSON.stringify(
    await satisfyAside(format.schema, `${text}${ORDINALS[candidate] ?? ""}`, "the response schema"),
  );
}

/** The value that the message speaks of, the first one of several, else the first; other candidates get the others in turn. */
async function oneOf(values: readonly string[], text: string, candidate: number): Promise<string> {
  const { byWords, lengths } = await indexed(values);
  let first = values.length;
  // The last words, as many as the longest value is known by.
  let window: string[] = [];
  for await (const word of wordsIn(text)) {
    window = [...window.slice(1 - MOST_WORDS), word];
    for (const length of lengths)
      if (length <= window.length) first = Math.min(first, byWords.get(window.slice(-length).join(" ")) ?? first);
  }
  return values[((first < values.length ? first : 0) + candidate) % values.length] ?? "";
}

/** By how many of its first words a value is known: enough to tell values apart, few enough to look for at each word. */
const MOST_WORDS = 8;

/** The place of each value by its words, and how many words values have. */
async function indexed(
  values: readonly string[],
): Promise<{ byWords: ReadonlyMap<string, number>; lengths: ReadonlySet<number> }> {
  const byWords = new Map<string, number>();
  const lengths = new Set<number>();
  const loop = new Loop();
  for (const [index, value] of values.entries()) {
    const words: string[] = [];
    for await (const word of wordsIn(value)) if (words.push(word) === MOST_WORDS) break;
    const known = words.join(" ");
    if (words.length > 0 && !byWords.has(known)) byWords.set(known, index);
    if (words.length > 0) lengths.add(words.length);
    await loop.yield();
  }
  return { byWords, lengths };
}

/** The words of a text, without what stands between them. */
async function* wordsIn(text: string): AsyncGenerator<string> {
  const loop = new Loop();
  for (const piece of piecesOf(text)) {
    yield* piece.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    await loop.yield();
  }
}
