/** The demo's tokens: a word with the space before it is one, and a long word several. */

/** The most bytes of a word, and of the space around it, that one token holds. */
const MAX_BYTES = 8;

/** A text cut into its tokens, which joined make the text again. */
export const wordsOf = (text: string): readonly string[] =>
  (text.match(/\s*\S+(?:\s+$)?|^\s+$/g) ?? []).flatMap((word) =>
    Buffer.byteLength(word) <= MAX_BYTES ? [word] : cut(word),
  );

/** How many words a text has, long or short. */
export const countWords = (text: string): number => text.match(/\S+/g)?.length ?? 0;

function cut(word: string): readonly string[] {
  const [, before = "", letters = "", after = ""] = /^(\s*)(\S*)(\s*)$/.exec(word) ?? [];
  return glued(glued(chunksOf(before), chunksOf(letters)), chunksOf(after));
}

function chunksOf(text: string): readonly string[] {
  const chunks: string[] = [];
  let [chunk, bytes] = ["", 0];
  for (const character of text) {
    const size = Buffer.byteLength(character);
    if (bytes + size > MAX_BYTES) {
      chunks.push(chunk);
      [chunk, bytes] = ["", 0];
    }
    chunk += character;
    bytes += size;
  }
  if (chunk !== "") chunks.push(chunk);
  return chunks;
}

/** Two lists, the end of the one and the beginning of the other made one. */
function glued(head: readonly string[], [first, ...rest]: readonly string[]): readonly string[] {
  const last = head.at(-1);
  if (first === undefined || last === undefined) return first === undefined ? head : [first, ...rest];
  return [...head.slice(0, -1), last + first, ...rest];
}
