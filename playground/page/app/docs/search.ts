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
  readonly ownTitle: string;
  readonly pageTitle: string;
  /** What the index says of the page, for the page as a whole. */
  readonly summary: string;
  readonly text: string;
}

/** The most results of a query. */
const MOST_HITS = 12;
const EXCERPT_CHARS = 140;

/** Returns a function that finds the best sections for a query, the best first. */
export function searchIn(pages: Readonly<Record<string, string>>): (query: string) => readonly Hit[] {
  const summaries = summariesIn(pages["README"] ?? "");
  const sections = Object.entries(pages).flatMap(([page, markdown]) =>
    sectionsOf(page, blocksOf(markdown), summaries.get(page) ?? ""),
  );
  const byId = new Map(sections.map((section) => [section.id, section]));
  const index = new MiniSearch<Section>({
    fields: ["ownTitle", "pageTitle", "summary", "text"],
    // Keep names such as `maxJsonBytes` and `retry-after` whole, and find their parts as well.
    tokenize: (text) =>
      text.split(/[^\p{L}\p{N}_-]+/u).flatMap((word) => (word.includes("-") ? [word, ...word.split("-")] : word)),
    processTerm: stemOf,
    // Beginnings and slips of short words would be found in too many others.
    searchOptions: {
      boost: { ownTitle: 4, pageTitle: 2, summary: 3 },
      prefix: (term) => term.length > 3,
      fuzzy: (term) => term.length > 5 && 0.2,
      weights: { prefix: 0.3, fuzzy: 0.2 },
      boostDocument: preference,
    },
  });
  index.addAll(sections);
  return (query) => {
    const all = index.search(query, { combineWith: "AND" });
    // Sections with only some of the words come behind.
    const ids = new Set([...all, ...(all.length < MOST_HITS ? index.search(query) : [])].map(({ id }) => String(id)));
    return [...ids].slice(0, MOST_HITS).flatMap((id) => byId.get(id) ?? []);
  };
}

/** Words of questions that stand in every section. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  "a about an and are as at be behind by can do does for from had has have how i if in into is it its me my of on or our should so that the their them then there this to two was we were what when where which who why will with you your".split(
    " ",
  ),
);

/** Returns the stem of a word, so that "refuse", "refused" and "refusing" are one; nothing for a stop word. */
function stemOf(word: string): string | null {
  const term = word.toLowerCase();
  if (term === "" || STOP_WORDS.has(term)) return null;
  // Shorter words, and names with signs or digits, have no endings. No English word is longer.
  if (!/^[a-z]{4,30}$/.test(term)) return term;
  const stem = term
    .replace(/ies$/, "y")
    .replace(/(?<![su])s$/, "")
    .replace(/ations?$/, "ate")
    .replace(/(?<=[aeiouy].*[^aeiou])(?:ing|ed)$/, "")
    .replace(/([bdgmnprt])\1$/, "$1")
    .replace(/(?<=....)e$/, "");
  return ALIKE.get(stem) ?? stem;
}

/** Stems that mean the same. */
const ALIKE: ReadonlyMap<string, string> = new Map([
  ["cost", "pric"],
  ["remov", "delet"],
  ["away", "down"],
  ["outag", "down"],
]);

/** Ranks explanations before the reference and the changelog. */
const preference = (id: string): number =>
  id.startsWith("CHANGELOG") ? 0.01 : /^(?:polygate|errors-by-format)/.test(id) ? 0.3 : 1;

/** Returns what the index says of each page. */
const summariesIn = (index: string): ReadonlyMap<string, string> =>
  new Map(
    Array.from(index.matchAll(/^- \[[^\]]*\]\(([\w-]+)\.md\)(.*)$/gm), ([, page = "", said = ""]) => [page, said]),
  );

function sectionsOf(page: string, blocks: readonly Block[], summary: string): Section[] {
  const sections: { heading: string; title: string; ownTitle: string; texts: string[]; codes: string[] }[] = [];
  const [first] = blocks;
  const pageTitle = first?.type === "heading" ? wordsOf(first.text) : page;
  for (const block of blocks) {
    if (block.type === "heading") {
      const own = wordsOf(block.text);
      const isPage = block === first;
      sections.push({
        heading: isPage ? "" : block.id,
        title: isPage ? own : `${pageTitle} › ${own}`,
        ownTitle: own,
        texts: [],
        codes: [],
      });
    } else if (block.type === "code") sections.at(-1)?.codes.push(block.text);
    else sections.at(-1)?.texts.push(...textsOf(block));
  }
  return sections.map(({ heading, title, ownTitle, texts, codes }) => ({
    id: `${page}/${heading}`,
    page,
    heading,
    title,
    ownTitle,
    pageTitle,
    summary: heading === "" ? summary : "",
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
