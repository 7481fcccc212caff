/** The length of texts as their readers count it. */

/** Tells whether a text has more code points than `most`, so that an emoji counts once. Looks at no more of the text than needed. */
export function isLonger(text: string, most: number): boolean {
  if (text.length <= most) return false;
  if (text.length > 2 * most) return true;
  let count = 0;
  for (let at = 0; at < text.length && count <= most; count++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return count > most;
}
