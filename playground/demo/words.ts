/** The demo's tokens: a word with the space before it is one, and a long word several. */

/** The most bytes that a token holds, the one space before a word or at the end apart. */
const MAX_BYTES = 8;

/** A text cut into its tokens, which joined make the text again. */
export const wordsOf = (text: string): readonly string[] =>
  (text.match(/\s*\S+(?:\s+$)?|^\s+$/g) ?? []).flatMap((word) =>
    Buffer.byteLength(word) <= MAX_BYTES && !/\s\s/.test(word) ? [word] : cut(word),
  );

/** How many words a text has, long or short. */
export const countWords = (text: string): number => text.match(/\S+/g)?.length ?? 0;

/** Space of more than one character is tokens of its own. */
function cut(word: string): readonly string[] {
  const letters = word.trim();
  const before = word.slice(0, word.length - word.trimStart().length);
  const after = word.slice(before.length + letters.length);
  const [first = "", ...others] = chunksOf(letters);
  const tokens = [...chunksOf(before.slice(0, -1)), before.slice(-1) + first, ...others];
  const last = (tokens.pop() ?? "") + after.slice(0, 1);
  return [...tokens, last, ...chunksOf(after.slice(1))];
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
