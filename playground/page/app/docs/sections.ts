/** Reads the docs into the sections that the search finds. */

import { linesOf, type Part, sentencesOf } from "./excerpts.ts";
import { addressOf, type Block, blocksOf, piecesOf, rowOf, wordsOf } from "./markdown.ts";
import { type Quoted, quotedOf } from "./quotations.ts";

/** A section of a page, or a row of it. */
export interface Section {
  readonly id: string;
  readonly address: string;
  readonly page: string;
  /** The id of the heading in its page; empty for the page as a whole. */
  readonly heading: string;
  /** The id of a row or an item in its section; empty for the section as a whole. */
  readonly row: string;
  readonly title: string;
  /** The texts of the errors that a row explains; none for a section. */
  readonly quoted: readonly Quoted[];
  readonly kind: "section" | "row" | "item";
  readonly ownTitle: string;
  readonly pageTitle: string;
  /** The questions that the section answers, and other words for its contents, as people search for them. */
  readonly asked: readonly string[];
  /** What the index says of the page, for the page as a whole. */
  readonly summary: string;
  readonly text: string;
  readonly code: string;
  /** The sentences, items and rows of the text, and the lines of the code. */
  readonly parts: readonly Part[];
  readonly lines: readonly Part[];
  /** What stands for the text of a section without one: what the index says of the page, or the text of the next section. */
  readonly lead: readonly Part[];
}

/** The page with questions in the words of users, each a link to the section that answers it. Other titles of these sections, not hits. */
const QUESTIONS = "questions";

/** The pages whose tables are found row by row: a row has the text of an error, and what to do. */
const ROWS_ALONE: ReadonlySet<string> = new Set(["errors"]);

/**
 * The pages that list the texts and the names of errors. Each item begins with them, and is found by a quotation alone, because their words
 * stand in questions as well.
 */
const ITEMS_ALONE: ReadonlySet<string> = new Set(["error-messages", "errors-by-format"]);

/** A page, and its sections. */
export interface ReadPage {
  readonly page: string;
  readonly blocks: readonly Block[];
  readonly sections: readonly Section[];
}

/** Reads all pages, except the one with questions, which are other titles of sections. */
export function readPages(pages: Readonly<Record<string, string>>, phrases: string): ReadPage[] {
  const summaries = summariesIn(pages["README"] ?? "");
  const asked = askedIn(pages[QUESTIONS] ?? "", phrases);
  return Object.entries(pages).flatMap(([page, markdown]) => {
    if (page === QUESTIONS) return [];
    const blocks = blocksOf(markdown);
    return { page, blocks, sections: sectionsOf(page, blocks, summaries.get(page) ?? "", asked) };
  });
}

/** Returns what the index says of each page. */
const summariesIn = (index: string): ReadonlyMap<string, string> =>
  new Map(
    Array.from(index.matchAll(/^- \[[^\]]*\]\(([\w-]+)\.md\)(.*)$/gm), ([, page = "", said = ""]) => [page, said]),
  );

function sectionsOf(
  page: string,
  blocks: readonly Block[],
  summary: string,
  asked: ReadonlyMap<string, readonly string[]>,
): Section[] {
  const sections: (Pick<Section, "heading" | "row" | "title" | "ownTitle" | "kind" | "quoted"> & {
    texts: string[];
    codes: string[];
    parts: Part[];
  })[] = [];
  const [first] = blocks;
  const pageTitle = first?.type === "heading" ? wordsOf(first.text) : page;
  const add = (heading: string, line: string, kind: Section["kind"] = "section", texts: string[] = []): void => {
    const ownTitle = wordsOf(line);
    const title = heading === "" ? ownTitle : `${pageTitle} › ${ownTitle}`;
    const quotes = kind === "section" ? [] : piecesOf(line).flatMap(({ type, text }) => (type === "code" ? text : []));
    const row = kind === "section" ? "" : rowOf(line);
    const parts = texts.flatMap(sentencesOf);
    sections.push({ heading, row, title, ownTitle, kind, quoted: quotes.map(quotedOf), texts, codes: [], parts });
  };
  for (const block of blocks) {
    // A text behind the rows of a table belongs to their section.
    const section = sections.findLast(({ kind }) => kind === "section");
    if (block.type === "heading") add(block === first ? "" : block.id, block.text);
    else if (block.type === "code") section?.codes.push(block.text);
    else if (block.type === "table" && ROWS_ALONE.has(page)) {
      for (const [text = "", ...rest] of block.rows.slice(1))
        add(section?.heading ?? "", text, "row", rest.map(wordsOf));
    } else if (block.type === "list" && ITEMS_ALONE.has(page)) {
      for (const item of block.items) {
        const [quotes = ""] = /^(?:`[^`]*` ?)+/.exec(item) ?? [];
        const rest = wordsOf(item.slice(quotes.length).replace(/^→ /, ""));
        // The sentences behind the first one may say what to do.
        const [, ...behind] = piecesOf(quotes).flatMap(({ type, text }) => (type === "code" ? text : []));
        add(section?.heading ?? "", quotes.trim(), "item", [
          rest || behind.join(" ") || (section?.texts.join(" ") ?? ""),
        ]);
      }
    } else {
      section?.texts.push(...textsOf(block));
      section?.parts.push(...partsOf(block));
    }
  }
  return sections.map(({ heading, row, title, ownTitle, kind, quoted, texts, codes, parts }, at) => ({
    id: `${page}/${heading}/${kind === "section" ? "" : "row"}${at}`,
    kind,
    quoted,
    address: `${page}/${heading}`,
    page,
    heading,
    row,
    title,
    ownTitle,
    pageTitle,
    asked: (kind === "section" && asked.get(`${page}/${heading}`)) || [],
    summary: heading === "" ? summary : "",
    text: texts.join(" "),
    code: codes.join(" "),
    parts,
    lines: codes.flatMap(linesOf),
    lead:
      leadOf(heading === "" ? summary : "") ?? sections.slice(at).find(({ parts }) => parts.length > 0)?.parts ?? [],
  }));
}

/** Returns the questions and other phrases by the addresses of the sections that they lead to. */
function askedIn(questions: string, phrases: string): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  const add = (address: string, words: readonly string[]): void =>
    void found.set(address, [...(found.get(address) ?? []), ...words]);
  const items = blocksOf(questions).flatMap((block) => (block.type === "list" ? block.items : []));
  for (const { text, href = "" } of items.flatMap(piecesOf)) {
    const [, page, heading = ""] = addressOf(href, QUESTIONS)?.split("/") ?? [];
    add(`${page}/${heading}`, [text]);
  }
  for (const [, page = "", heading = "", words = ""] of phrases.matchAll(/^([\w-]+)#([\w-]*): (.*)$/gm))
    add(`${page}/${heading}`, words.split(" | "));
  return found;
}

/** Returns the words without which a section counts little, by the addresses of the sections. */
export const boundsIn = (phrases: string): ReadonlyMap<string, readonly string[]> =>
  new Map(
    Array.from(phrases.matchAll(/^only ([\w# -]+): (.*)$/gm), ([, sections = "", words = ""]) =>
      sections.split(" ").map((section) => [section.replace("#", "/"), words.split(" | ")] as const),
    ).flat(),
  );

function textsOf(block: Exclude<Block, { type: "heading" | "code" }>): string[] {
  if (block.type === "list") return block.items.map(wordsOf);
  if (block.type === "table") return block.rows.flat().map(wordsOf);
  return [wordsOf(block.text)];
}

/** Returns what the index says of a page behind its name; undefined for nothing. */
function leadOf(summary: string): readonly Part[] | undefined {
  const [, said] = /^: (.*)/.exec(summary) ?? [];
  return said === undefined ? undefined : sentencesOf(wordsOf(said));
}

/** Returns the parts of a block: sentences, items, or rows without the head. */
function partsOf(block: Exclude<Block, { type: "heading" | "code" }>): Part[] {
  if (block.type === "list") return block.items.map((item) => ({ text: wordsOf(item), goesOn: false }));
  if (block.type === "table")
    return block.rows.slice(1).map((row) => ({ text: row.map(wordsOf).filter(Boolean).join(" · "), goesOn: false }));
  return sentencesOf(wordsOf(block.text));
}
