/** Lengths in characters. These are code points, so that an emoji counts once. */

/** Whether a text has more characters than that. A text may be a whole body: no more of it is seen than needed. */
export function isLonger(text: string, most: number): boolean {
  if (text.length <= most) return false;
  if (text.length > 2 * most) return true;
  let count = 0;
  for (let at = 0; at < text.length && count <= most; count++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return count > most;
}
