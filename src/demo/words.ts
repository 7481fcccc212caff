/**
 * Splits texts into the demo's tokens: a word with the space before it, or several tokens for a long word. Works lazily for large texts, and
 * lets the event loop do other work between the pieces.
 */

import { setImmediate as nextTurn } from "node:timers/promises";

/** The most bytes of a token, without the space before a word or at the end. */
const MAX_BYTES = 8;

/** Yields the tokens of a text. Joined, they are the text again. */
export function* tokensOf(text: string): Generator<string> {
  for (const [word] of text.matchAll(/\s*\S+(?:\s+$)?|^\s+$/g))
    if (word.length <= MAX_BYTES && Buffer.byteLength(word) <= MAX_BYTES && !/\s\s/.test(word)) yield word;
    else yield* tokensOfLongWord(word);
}

/** Counts the tokens of a text, and yields to the event loop. */
export const countTokens = (text: string): Promise<number> => count(tokensOf(text));

/** Counts the words of a text, and yields to the event loop. */
export const countWords = (text: string): Promise<number> => count(text.matchAll(/\S+/g));

/** The items between two looks at the clock: a look costs more than an item. */
const ITEMS_PER_LOOK = 1_000;

async function count(items: Iterable<unknown>): Promise<number> {
  const loop = new Loop();
  const iterator = items[Symbol.iterator]();
  let counted = 0;
  while (!iterator.next().done) if (++counted % ITEMS_PER_LOOK === 0) await loop.yield();
  return counted;
}

const PIECE_CHARS = 16_384;

/** Yields a text in pieces that take a few milliseconds each. Cuts between words, unless a word is longer than a piece. */
export function* piecesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const space = text.slice(start + PIECE_CHARS, start + 2 * PIECE_CHARS).search(/\s/);
    const end = start + PIECE_CHARS + (space < 0 ? PIECE_CHARS : space);
    yield text.slice(start, end);
    start = end;
  }
}

/** Splits a long word, or a word with several spaces around it, into tokens. */
function* tokensOfLongWord(word: string): Generator<string> {
  const letters = word.trim();
  const before = word.slice(0, word.length - word.trimStart().length);
  const after = word.slice(before.length + letters.length);
  yield* chunksOf(before.slice(0, -1));
  let last = before.slice(-1);
  let isFirst = true;
  for (const chunk of chunksOf(letters)) {
    if (!isFirst) yield last;
    last = isFirst ? last + chunk : chunk;
    isFirst = false;
  }
  yield last + after.slice(0, 1);
  yield* chunksOf(after.slice(1));
}

function* chunksOf(text: string): Generator<string> {
  let [chunk, bytes] = ["", 0];
  for (const character of text) {
    const size = Buffer.byteLength(character);
    if (bytes + size > MAX_BYTES) {
      yield chunk;
      [chunk, bytes] = ["", 0];
    }
    chunk += character;
    bytes += size;
  }
  if (chunk !== "") yield chunk;
}

/** The time that work may block the event loop, in milliseconds. */
const TURN_MS = 10;

/** A long piece of work that yields to the event loop at intervals. */
export class Loop {
  #since = performance.now();

  /** Lets other work run after `TURN_MS`. Before that, returns at once, so that frequent calls are cheap. */
  async yield(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await nextTurn();
    this.#since = performance.now();
  }
}
