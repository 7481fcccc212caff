/** The demo's tokens: a word with the space before it is one, and a long word several. Texts may be large: all of it is lazy. */

import { Loop } from "./loop.ts";

/** The most bytes that a token holds, the one space before a word or at the end apart. */
const MAX_BYTES = 8;

/** The tokens of a text, which joined make the text again. */
export function* tokensOf(text: string): Generator<string> {
  for (const [word] of text.matchAll(/\s*\S+(?:\s+$)?|^\s+$/g))
    if (word.length <= MAX_BYTES && Buffer.byteLength(word) <= MAX_BYTES && !/\s\s/.test(word)) yield word;
    else yield* cut(word);
}

/** How many tokens a text has, counted in turns with what else the event loop has to do. */
export const countTokens = (text: string): Promise<number> => count(tokensOf(text));

/** How many words a text has, long or short. */
export const countWords = (text: string): Promise<number> => count(text.matchAll(/\S+/g));

/** A look at the clock after each item would cost more than the item. */
const ITEMS_A_LOOK = 1_000;

async function count(items: Iterable<unknown>): Promise<number> {
  const loop = new Loop();
  const iterator = items[Symbol.iterator]();
  let counted = 0;
  while (!iterator.next().done) if (++counted % ITEMS_A_LOOK === 0) await loop.yield();
  return counted;
}

const PIECE = 16_384;

/** A text in pieces that take a few milliseconds each, cut between words where they are no longer than a piece. */
export function* piecesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const space = text.slice(start + PIECE, start + 2 * PIECE).search(/\s/);
    const end = start + PIECE + (space < 0 ? PIECE : space);
    yield text.slice(start, end);
    start = end;
  }
}

/** Space of more than one character is tokens of its own. */
function* cut(word: string): Generator<string> {
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
