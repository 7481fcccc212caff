/** Code in the words of a format that has no part for it. */

/** Code or its output in a text, between fences longer than any in it. */
export function fenced(text: string, language: string): string {
  let longest = 2;
  for (const [ticks] of text.matchAll(/^`+/gm)) longest = Math.max(longest, ticks.length);
  const fence = "`".repeat(longest + 1);
  return `\n${fence}${language === "unspecified" ? "" : language}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
}
