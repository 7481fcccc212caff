/** Parses the Markdown of the docs: headings, paragraphs, flat lists, tables and code. */

export type Block =
  | { readonly type: "heading"; readonly level: number; readonly text: string; readonly id: string }
  | { readonly type: "paragraph" | "code"; readonly text: string }
  | { readonly type: "list"; readonly isOrdered: boolean; readonly items: readonly string[] }
  /** The first row is the head. */
  | { readonly type: "table"; readonly rows: readonly (readonly string[])[] };

const ITEM = /^(?:[-*]|(\d+)\.) /;

export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.replaceAll(/<!--.*?-->\n?/gs, "").split("\n");
  for (let at = 0; at < lines.length;) {
    const first = lines[at] ?? "";
    /** Takes the current line and the following lines that match. */
    const take = (goesOn: (line: string) => boolean): string[] => {
      const start = at++;
      while (at < lines.length && goesOn(lines[at] ?? "")) at++;
      return lines.slice(start, at);
    };
    const heading = /^(#{1,6}) (.*)$/.exec(first);
    if (first.trim() === "") at++;
    else if (heading) {
      const [, marks = "", text = ""] = heading;
      blocks.push({ type: "heading", level: marks.length, text, id: slugOf(text) });
      at++;
    } else if (first.startsWith("```")) {
      const [, ...code] = take((line) => !line.startsWith("```"));
      blocks.push({ type: "code", text: code.join("\n") });
      at++;
    } else if (first.startsWith("|")) {
      const [head = "", , ...rows] = take((line) => line.startsWith("|"));
      blocks.push({ type: "table", rows: [head, ...rows].map(cellsOf) });
    } else if (ITEM.test(first)) {
      const items: string[] = [];
      for (const line of take((line) => line.trim() !== "" && (ITEM.test(line) || line.startsWith("  "))))
        if (ITEM.test(line)) items.push(line.replace(ITEM, ""));
        else items.push(`${items.pop()} ${line.trim()}`);
      blocks.push({ type: "list", isOrdered: ITEM.exec(first)?.[1] !== undefined, items });
    } else {
      const text = take((line) => line.trim() !== "" && !/^(?:```|\||#{1,6} )/.test(line) && !ITEM.test(line));
      blocks.push({ type: "paragraph", text: text.join(" ") });
    }
  }
  return blocks;
}

const cellsOf = (row: string): string[] =>
  row
    .trim()
    .replaceAll(/^\||\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll(String.raw`\|`, "|"));

/** Returns the id of a heading, as links in the docs write it. */
const slugOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replaceAll(/\s/g, "-");

/**
 * Returns the id of a row or an item within its section: the texts in code at its beginning, or the name of a function. Empty without one.
 */
export function rowOf(text: string): string {
  const [, linked] = /^\[(`[^`]*`)\]/.exec(text) ?? [];
  const codes = linked ?? /^(?:`[^`]*`[, ]*)+/.exec(text)?.[0] ?? "";
  return slugOf(/^`(\w+\??)\(/.exec(codes)?.[1] ?? codes);
}

export interface Piece {
  readonly type: "text" | "code" | "strong" | "link";
  readonly text: string;
  readonly href?: string;
}

const PIECES = /`([^`]+)`|\*\*([^*]+)\*\*|!?\[((?:`[^`]*`|[^\]`])+)\]\(([^)\s]+)\)/g;

/** Returns the pieces of a line. A link or bold text may contain further pieces. */
export function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const { index, 0: whole, 1: code, 2: strong, 3: link, 4: href } of text.matchAll(PIECES)) {
    if (index > end) pieces.push({ type: "text", text: text.slice(end, index) });
    if (code !== undefined) pieces.push({ type: "code", text: code });
    else if (strong !== undefined) pieces.push({ type: "strong", text: strong });
    else pieces.push({ type: "link", text: link ?? "", href: href ?? "" });
    end = index + whole.length;
  }
  if (end < text.length) pieces.push({ type: "text", text: text.slice(end) });
  return pieces;
}

/** Returns the address in this page for a link in the docs; undefined for a file that is not served. */
export function addressOf(href: string, page: string): string | undefined {
  if (/^https?:/.test(href)) return href;
  const found = /^(?:(?:[\w.-]+\/)*([\w-]+)\.md|(?:docs\/)?examples\/([\w-]+\.(?:ts|sql)))?(?:#(.+))?$/.exec(href);
  if (!found || href === "") return undefined;
  const [, doc, example, heading] = found;
  const name = doc ?? example ?? page;
  return heading === undefined ? `#docs/${name}` : `#docs/${name}/${heading}`;
}

/** Returns the words of a line without its marks. */
export const wordsOf = (line: string): string =>
  piecesOf(line)
    .map(({ type, text }) => (type === "strong" || type === "link" ? wordsOf(text) : text))
    .join("");
