/** The pages for users, with their code blocks and tables, for the tests of the docs. */

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
  ...globSync("docs/**/*.md", { cwd: ROOT }).toSorted(),
].map((path) => ({
  path,
  text: readFileSync(`${ROOT}${path}`, "utf8"),
}));

/** A block of code. A block of TypeScript names its file in the first line. */
export interface Block {
  readonly page: string;
  readonly language: string;
  readonly code: string;
  /** The output of the code: the `text` block right after it. */
  readonly output: string | undefined;
}

const FENCED = /^```(\w*)\n([\s\S]*?)^```\n(?:\n```text\n([\s\S]*?)^```$)?/gm;

/** The examples that fill a file of their own. */
const files: readonly Block[] = globSync("docs/examples/*.ts", { cwd: ROOT })
  .toSorted()
  .map((page) => ({ page, language: "ts", code: readFileSync(`${ROOT}${page}`, "utf8"), output: undefined }));

/** The blocks of all pages, and the examples in `docs/examples`. */
export const blocks: readonly Block[] = [
  ...pages.flatMap(({ path, text }) =>
    Array.from(text.matchAll(FENCED), ([, language = "", code = "", output]) => ({
      page: path,
      language,
      code,
      output,
    })),
  ),
  ...files,
];

/** Returns the file that an example names in its first line. */
export const fileOf = ({ code }: Block): string | undefined => /^\/\/ (\S+\.(?:ts|[cm]js))\n/.exec(code)?.[1];

/** Tells whether a block stands in the reference, whose examples come from doc comments and have no file. */
export const isOfReference = ({ page }: Block): boolean => page.startsWith("docs/reference/");

/** Tells whether a block imports the names that it uses. */
export const isWhole = ({ code }: Block): boolean => code.startsWith("import ");

/** Returns the text of a page without its code blocks. */
export const proseOf = ({ text }: Page): string => text.replaceAll(/^```[\s\S]*?^```$/gm, "");

/** Returns the tables behind a marker, such as `<!-- options: Limits -->`, by the name in the marker. */
export function markedTables(marker: string): ReadonlyMap<string, readonly (readonly string[])[]> {
  const pattern = new RegExp(`^<!-- ${marker} -->\\n\\n((?:\\|.*\\n)+)`, "gm");
  return new Map(
    pages.flatMap(({ text }) =>
      Array.from(text.matchAll(pattern), ([, name = "", table = ""]): [string, string[][]] => [name, rowsOf(table)]),
    ),
  );
}

/** Returns the cells of a table's rows, without its head. */
const rowsOf = (table: string): string[][] =>
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

/** Returns the names in a cell: the texts in backticks. */
export const namesIn = (cell = ""): string[] => Array.from(cell.matchAll(/`([^`]+)`/g), ([, name = ""]) => name);
