/** Finds sections of the docs by words in their headings and texts. */

import MiniSearch from "minisearch";
import { type Block, blocksOf, piecesOf } from "./markdown.ts";

/** A found section. */
export interface Hit {
  readonly page: string;
  /** The id of the heading in its page; empty for the page as a whole. */
  readonly heading: string;
  readonly title: string;
  /** The beginning of the section's text. */
  readonly excerpt: string;
}

interface Section extends Hit {
  readonly id: string;
  readonly text: string;
}

/** The most results of a query. */
const MOST_HITS = 12;
const EXCERPT_CHARS = 140;

/** Returns a function that finds the best sections for a query, the best first. */
export function searchIn(pages: Readonly<Record<string, string>>): (query: string) => readonly Hit[] {
  const sections = Object.entries(pages).flatMap(([page, markdown]) => sectionsOf(page, blocksOf(markdown)));
  const byId = new Map(sections.map((section) => [section.id, section]));
  const index = new MiniSearch<Section>({
    fields: ["title", "text"],
    // Keep names such as `maxJsonBytes` and `retry-after` whole, and find their parts as well.
    tokenize: (text) =>
      text.split(/[^\p{L}\p{N}_-]+/u).flatMap((word) => (word.includes("-") ? [word, ...word.split("-")] : word)),
    searchOptions: { boost: { title: 3 }, prefix: true, fuzzy: (word) => (word.length > 4 ? 0.2 : false) },
  });
  index.addAll(sections);
  return (query) => {
    const all = index.search(query, { combineWith: "AND", boostDocument: preference });
    const found = all.length > 0 ? all : index.search(query, { boostDocument: preference });
    return found.slice(0, MOST_HITS).flatMap(({ id }) => byId.get(String(id)) ?? []);
  };
}

/** Ranks explanations before the reference and the changelog. */
const preference = (id: string): number => (/^(?:polygate|CHANGELOG)/.test(id) ? 0.5 : 1);

function sectionsOf(page: string, blocks: readonly Block[]): Section[] {
  const sections: { heading: string; title: string; texts: string[]; codes: string[] }[] = [];
  const [first] = blocks;
  const pageTitle = first?.type === "heading" ? wordsOf(first.text) : page;
  for (const block of blocks) {
    if (block.type === "heading") {
      const own = wordsOf(block.text);
      const isPage = block === first;
      sections.push({
        heading: isPage ? "" : block.id,
        title: isPage ? own : `${pageTitle} › ${own}`,
        texts: [],
        codes: [],
      });
    } else if (block.type === "code") sections.at(-1)?.codes.push(block.text);
    else sections.at(-1)?.texts.push(...textsOf(block));
  }
  return sections.map(({ heading, title, texts, codes }) => ({
    id: `${page}/${heading}`,
    page,
    heading,
    title,
    text: [...texts, ...codes].join(" "),
    excerpt: excerptOf(texts.join(" ")),
  }));
}

function textsOf(block: Exclude<Block, { type: "heading" | "code" }>): string[] {
  if (block.type === "list") return block.items.map(wordsOf);
  if (block.type === "table") return block.rows.flat().map(wordsOf);
  return [wordsOf(block.text)];
}

/** Returns the words of a line without its marks. */
const wordsOf = (line: string): string =>
  piecesOf(line)
    .map(({ type, text }) => (type === "strong" || type === "link" ? wordsOf(text) : text))
    .join("");

const excerptOf = (text: string): string =>
  text.length > EXCERPT_CHARS ? `${text.slice(0, text.lastIndexOf(" ", EXCERPT_CHARS))} …` : text;
