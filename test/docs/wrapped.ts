/** Breaks texts of the generated pages into lines. */

/** Breaks a text into lines of at most 120 columns; `indent` stands before all lines but the first. */
export function wrapped(text: string, indent = ""): string {
  const lines: string[] = [];
  let line = "";
  // A text in backticks stays in one line.
  for (const word of text.match(/(?:`[^`]*`|[^\s`])+/g) ?? []) {
    // A line that begins with such a word would be read as the item of a list.
    const isMark = /^(?:[-+*#>]|\d+\.)$/.test(word);
    if (line !== "" && line !== "-" && line.length + 1 + word.length > 120 && !isMark) {
      lines.push(line);
      line = indent + word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join("\n");
}
