/** Chooses the part of a section that a result of the search shows, and marks the words of the query in it. */

import { stemOf, tokensOf } from "./stems.ts";

/** A sentence, an item of a list, a row of a table, or a line of code. */
export interface Part {
  readonly text: string;
  /** The next part continues the text, as the next sentence of a paragraph does. */
  readonly goesOn: boolean;
  /** A line of code, which tells less than a sentence with as many words. */
  readonly isCode?: boolean;
}

const EXCERPT_CHARS = 160;
/** The length of the text that stands before the first word in an excerpt from the middle of a long part. */
const LEAD_CHARS = 30;

/** The worth of a line of code beside a sentence with the same words. */
const CODE = 0.6;

/** Returns the sentences of a paragraph. */
export const sentencesOf = (text: string): Part[] =>
  text.split(/(?<=[.!?]) (?=\P{Ll})/u).map((sentence, at, { length }) => ({ text: sentence, goesOn: at + 1 < length }));

/** Returns the lines of code, without the name of its file. */
export const linesOf = (code: string): Part[] =>
  code.split("\n").flatMap((line) => {
    const text = line.replaceAll(/\s+/g, " ").trim();
    return text === "" || /^\/\/ \S+\.[cm]?[jt]s$/.test(text) ? [] : { text, goesOn: false, isCode: true };
  });

/** Returns the beginning of a text: its first part, and those that continue it. */
export const beginningOf = (parts: readonly Part[]): string => cut(from(parts, 0));

/**
 * Returns the part that has the most of the words of a query, the rarest ones first; undefined if no part has enough.
 *
 * @param asked The word of the query for each term that the section has.
 * @param least The least number of words of the query.
 */
export function bestOf(parts: readonly Part[], asked: ReadonlyMap<string, string>, least: number): string | undefined {
  const found = parts.map(
    ({ text }) => new Set(tokensOf(text).flatMap((token) => asked.get(stemOf(token) ?? "") ?? [])),
  );
  const counts = new Map<string, number>();
  for (const words of found) for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const worthOf = (words: ReadonlySet<string>): number =>
    [...words].reduce((sum, word) => sum + 1 + 1 / (counts.get(word) ?? 1), 0);
  const worths = found.map((words, at) => worthOf(words) * (parts[at]?.isCode === true ? CODE : 1));
  const best = Math.max(0, ...worths);
  const at = worths.indexOf(best);
  if (best === 0 || (found[at]?.size ?? 0) < least) return undefined;
  const text = from(parts, at);
  return text.length > EXCERPT_CHARS ? windowOf(text, asked) : text;
}

/** Returns a part, and those that continue it, as far as they fit. */
function from(parts: readonly Part[], start: number): string {
  let text = "";
  for (const part of parts.slice(start)) {
    if (text !== "" && text.length + part.text.length >= EXCERPT_CHARS) return text;
    text = text === "" ? part.text : `${text} ${part.text}`;
    if (!part.goesOn) break;
  }
  return text;
}

const cut = (text: string): string =>
  text.length > EXCERPT_CHARS ? `${text.slice(0, text.lastIndexOf(" ", EXCERPT_CHARS))} …` : text;

/** Returns the piece of a long part with the most words of a query. */
function windowOf(text: string, asked: ReadonlyMap<string, string>): string {
  const found = Array.from(text.matchAll(/\S+/g), ({ 0: word, index }) => ({
    index,
    words: tokensOf(word).flatMap((token) => asked.get(stemOf(token) ?? "") ?? []),
  })).filter(({ words }) => words.length > 0);
  /** The number of different words in the excerpt that begins at a place. */
  const countAt = (start: number): number =>
    new Set(
      found.flatMap(({ index, words }) => (index >= start && index < start + EXCERPT_CHARS - LEAD_CHARS ? words : [])),
    ).size;
  let best = { start: 0, count: countAt(0) };
  for (const { index } of found) {
    const count = countAt(index);
    if (count > best.count) best = { start: text.lastIndexOf(" ", Math.max(0, index - LEAD_CHARS)) + 1, count };
  }
  return (best.start > 0 ? "… " : "") + cut(text.slice(best.start));
}

/** A piece of a text, marked if it is a word of the query. */
export interface Marked {
  readonly text: string;
  readonly isMarked: boolean;
}

/** Returns the pieces of a text. The words with the given stems are marked, also where they are parts of a name, such as `maxJsonBytes`. */
export function markedIn(text: string, stems: ReadonlySet<string>): Marked[] {
  const pieces: { text: string; isMarked: boolean }[] = [];
  const add = (piece: string, isMarked: boolean): void => {
    const last = pieces.at(-1);
    if (last?.isMarked === isMarked) last.text += piece;
    else if (piece !== "") pieces.push({ text: piece, isMarked });
  };
  const isOne = (word: string): boolean => stems.has(stemOf(word) ?? "");
  for (const word of text.split(/([\p{L}\p{N}_-]+)/u))
    if (isOne(word)) add(word, true);
    else for (const part of word.split(/(?<=[-_])|(?=[-_])|(?<=[a-z])(?=[A-Z])/)) add(part, isOne(part));
  return pieces;
}
