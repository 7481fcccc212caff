/** The pages that users read, and what the tests look for in them. */

import { globSync, readFileSync } from "node:fs";
import { ROOT } from "./entries.ts";

/** A page by its path in the repository, and its text. */
export interface Page {
  readonly path: string;
  readonly text: string;
}

/** The README, SECURITY.md and all of docs. */
export const pages: readonly Page[] = [
  "README.md",
  "SECURITY.md",
  ...globSync("docs/*.md", { cwd: ROOT }).toSorted(),
].map((path) => ({
  path,
  text: readFileSync(`${ROOT}${path}`, "utf8"),
}));

/** A block of code, such as one of TypeScript that names its file in its first line. */
export interface Block {
  readonly page: string;
  readonly language: string;
  readonly code: string;
  /** The block that follows at once in the language `text`: what the code prints. */
  readonly output: string | undefined;
}

const FENCED = /^```(\w*)\n([\s\S]*?)^```\n(?:\n```text\n([\s\S]*?)^```$)?/gm;

export const blocks: readonly Block[] = pages.flatMap(({ path, text }) =>
  Array.from(text.matchAll(FENCED), ([, language = "", code = "", output]) => ({ page: path, language, code, output })),
);

/** The file that an example names in its first line. */
export const fileOf = ({ code }: Block): string | undefined => /^\/\/ (\S+\.ts)\n/.exec(code)?.[1];

/** Prose alone: links and headings inside of code are none. */
export const proseOf = ({ text }: Page): string => text.replaceAll(/^```[\s\S]*?^```$/gm, "");

/** The tables of a page behind a marker, such as `<!-- options: Limits -->`, by what stands in it. */
export function markedTables(marker: string): ReadonlyMap<string, readonly (readonly string[])[]> {
  const pattern = new RegExp(`^<!-- ${marker} -->\\n\\n((?:\\|.*\\n)+)`, "gm");
  return new Map(
    pages.flatMap(({ text }) =>
      Array.from(text.matchAll(pattern), ([, name = "", table = ""]): [string, string[][]] => [name, rowsOf(table)]),
    ),
  );
}

/** The cells of a table's rows, its head left out. */
export const rowsOf = (table: string): string[][] =>
  table
    .trimEnd()
    .split("\n")
    .slice(2)
    .map((row) =>
      row
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim()),
    );

/** The names in a cell: what stands in backticks. */
export const namesIn = (cell = ""): string[] => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = ""]) => name);
