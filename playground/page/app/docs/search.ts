/** Finds sections of the docs by words in their headings and texts, and in the questions that they answer. */

import MiniSearch, { type SearchResult } from "minisearch";
import { addressOf, type Block, blocksOf, piecesOf, rowOf } from "./markdown.ts";
import { quotationIn, type Quoted, quotedBy, quotedOf } from "./quotations.ts";
import { commonStemOf, FILLERS, STOP_WORDS } from "./stems.ts";

/** A found section, or a row of it. */
export interface Hit {
  readonly page: string;
  /** The id of the heading in its page; empty for the page as a whole. */
  readonly heading: string;
  /** The id of a row or an item in its section; empty for the section as a whole. */
  readonly row: string;
  readonly title: string;
  /** The part of the section's text or code with the most searched words. If no part has one, the beginning of the section. */
  readonly excerpt: string;
}

/** The results of a query. */
export interface Found {
  readonly hits: readonly Hit[];
  /** The words of the query that no section has, nor a longer word that begins with them. */
  readonly missing: readonly string[];
}

interface Section extends Omit<Hit, "excerpt"> {
  readonly id: string;
  readonly address: string;
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
  /** What stands for the text of a section without one: what the index says of the page, or the text of the next section. */
  readonly lead: string;
}

/** The most results of a query. */
const MOST_HITS = 12;
const EXCERPT_CHARS = 140;
/** The length of the text that stands before the first word in an excerpt from the middle. */
const LEAD_CHARS = 30;

/**
 * Returns a function that finds the best sections for a query, the best first.
 *
 * @param phrases What people search for, by the sections that have it. Each line is `page#heading: words | words`.
 */
export function searchIn(pages: Readonly<Record<string, string>>, phrases = ""): (query: string) => Found {
  const summaries = summariesIn(pages["README"] ?? "");
  const asked = askedIn(pages[QUESTIONS] ?? "", phrases);
  const sections = Object.entries(pages).flatMap(([page, markdown]) =>
    page === QUESTIONS ? [] : sectionsOf(page, blocksOf(markdown), summaries.get(page) ?? "", asked),
  );
  const byId = new Map(sections.map((section) => [section.id, section]));
  /** The stems of all words of the docs. */
  const known = new Set<string>();
  const index = new MiniSearch<Section>({
    fields: ["ownTitle", "pageTitle", "summary", "asked", "text", "code"],
    tokenize: tokensOf,
    processTerm: (word) => {
      const stem = stemOf(word);
      if (stem !== null) known.add(stem);
      return stem;
    },
    // Beginnings of short words would be found in too many others. A word that the docs do not have may be a slip.
    searchOptions: {
      tokenize: (text) => [...new Set(tokensOf(text))].slice(0, MOST_TERMS),
      boost: { ownTitle: 2, summary: 3, asked: 1.5, code: 0.6 },
      prefix: (term) => term.length > 3,
      fuzzy: (term) => term.length > 3 && !known.has(term) && 0.3,
      weights: { prefix: 0.1, fuzzy: 0.5 },
      // The search for slips takes the square of the length, in time and in memory.
      processTerm: (word) => (word.length > LONGEST_TERM ? null : stemOf(word)),
    },
  });
  index.addAll(sections.filter(isFoundByWords));
  const rows = sections.filter(({ quoted }) => quoted.length > 0);
  const runs = new Map<Section, Runs>();
  return (pasted) => {
    const query = pasted.slice(0, MOST_CHARS);
    const stems = [...new Set(stemsOf(query))].slice(0, MOST_WORDS);
    const pairs = pairsIn(query);
    const spoken = wordsIn(query);
    const preference = preferenceFor(query);
    // A log that is pasted has its errors, which are quotations, and hundreds of other words.
    const words = query.split(/\s+/, MOST_WORDS).join(" ");
    const results = index.search(words, {
      boostDocument: preference,
      ...(NAME.test(query) && { boostTerm: weightIn }),
    });
    const best = Math.max(0, ...results.map(rankOf));
    const ranked = results.flatMap(({ id, ...result }) => {
      const section = byId.get(String(id));
      if (!section) return [];
      const { title, text, asked } = kept(runs, section, runsOf);
      const weight = preference(section.id);
      // The phrases of a section are meant for it, whatever its page.
      const likeness = Math.max(
        weight * likenessOf(title, spoken, stems),
        ...asked.map((one) => likenessOf(one, spoken, stems)),
      );
      const rank = rankOf(result) + best * (likeness + weight * nearnessIn(pairs, text));
      return { ...result, section, rank };
    });
    ranked.sort((one, other) => other.rank - one.rank);
    const quoted = quotedIn(query, rows).map((section) => ({ section, terms: [], queryTerms: [] }));
    const [first] = ranked;
    // A question of the docs may have the name of an error.
    const isAsked =
      first && [first.section.ownTitle, ...first.section.asked].some((asked) => asked.includes(query.trim()));
    const found = [...(isAsked ? [first] : []), ...quoted, ...ranked];
    const hits = new Map<string, Hit>();
    for (const { section, terms, queryTerms } of found) {
      // Rows have the address of their section. The best one stands for it.
      if (hits.has(section.address)) continue;
      // Longer words that begin with a word of the query count as this word.
      const asked = new Map(terms.map((term) => [term, queryTerms.find((word) => term.startsWith(word)) ?? term]));
      hits.set(section.address, { ...section, excerpt: excerptIn(section, asked) });
      if (hits.size === MOST_HITS) break;
    }
    return { hits: [...hits.values()], missing: quoted.length > 0 ? [] : missingIn(words, known) };
  };
}

/** Returns the words of a query that are not among the known stems, nor the beginning of one. */
function missingIn(query: string, known: ReadonlySet<string>): string[] {
  const isKnown = (word: string): boolean => {
    const stem = stemOf(word);
    return stem === null || known.has(stem) || [...known].some((one) => one.startsWith(stem));
  };
  return [...new Set(query.split(/[^\p{L}\p{N}_-]+/u))].filter((word) => !tokensOf(word).some(isKnown));
}

/** Returns the words of a text. Names such as `maxJsonBytes`, `retry-after` and `count_tokens` stand whole, and their parts beside them. */
const tokensOf = (text: string): string[] =>
  text.split(/[^\p{L}\p{N}_-]+/u).flatMap((word) => {
    const parts = word.split(/[-_]|(?<=[a-z])(?=[A-Z])/);
    return parts.length > 1 ? [word, ...parts] : word;
  });

/** Matches a name of the code, such as `maxJsonBytes`. */
const NAME = /[a-z][A-Z]/;
/** The weight of a part of a name that the query has as a whole. */
const PART = 0.3;

/** Weighs a term of a query that has a name of the code: the whole name counts more than its parts. */
const weightIn = (term: string, _at: number, terms: readonly string[]): number =>
  terms.some((name) => name.length > term.length && (name.startsWith(term) || name.endsWith(term))) ? PART : 1;

/** The page with questions in the words of users, each a link to the section that answers it. Other titles of these sections, not hits. */
const QUESTIONS = "questions";

/** The pages whose tables are found row by row: a row has the text of an error, and what to do. */
const ROWS_ALONE: ReadonlySet<string> = new Set(["errors"]);

/**
 * The pages that list the texts and the names of errors. Each item begins with them, and is found by a quotation alone, because their words
 * stand in questions as well.
 */
const ITEMS_ALONE: ReadonlySet<string> = new Set(["error-messages", "errors-by-format"]);

/** Of the page with all messages, only the page as a whole is found by words. */
const isFoundByWords = ({ page, heading, kind }: Section): boolean =>
  kind !== "item" && (page !== "error-messages" || heading === "");

/** Returns the stem of a word, the same for words that mean the same; nothing for a word that says little. */
function stemOf(word: string): string | null {
  const term = word.toLowerCase();
  return term === "" || STOP_WORDS.has(term) || FILLERS.has(term) ? null : commonStemOf(term);
}

/** The most rows that stand before explanations, and the least share of the best quotation that they quote. */
const MOST_QUOTED = 4;
const LEAST_SHARE = 0.5;

/** What counts for a row with a remedy, beside the length of its text. */
const REMEDY = 1_000;

/** Returns the rows whose texts a query quotes: rows with a remedy first, and longer quotations before shorter ones. */
function quotedIn(query: string, rows: readonly Section[]): Section[] {
  const quotation = quotationIn(query);
  const found = rows.flatMap((section) => {
    const { length, isWhole } = quotedBy(quotation, section.quoted, section.kind === "row");
    const value = section.kind === "row" ? length + (isWhole ? REMEDY : 0.5) : length;
    return length > 0 ? { section, length, value } : [];
  });
  found.sort((one, other) => other.value - one.value);
  const best = Math.max(...found.map(({ length }) => length));
  const quoted = new Map<string, Section>();
  for (const { section, length, value } of found)
    if ((value >= REMEDY || length >= LEAST_SHARE * best) && !quoted.has(section.address) && quoted.size < MOST_QUOTED)
      quoted.set(section.address, section);
  return [...quoted.values()];
}

/** Ranks a section with more words of the query before sections that have fewer words more often. */
const rankOf = ({ score, queryTerms }: Pick<SearchResult, "score" | "queryTerms">): number =>
  score * queryTerms.length ** 2;

/** A phrase, made ready to be compared: all its words, also those that say little, and its stems. */
interface Phrase {
  readonly words: ReadonlySet<string>;
  readonly stems: ReadonlySet<string>;
}

/** The words of a section, made ready to be compared. */
interface Runs {
  /** The stems of the text in their order, with a space around each. */
  readonly text: string;
  readonly title: Phrase;
  readonly asked: readonly Phrase[];
}

const stemsOf = (text: string): string[] => text.split(/[^\p{L}\p{N}]+/u).flatMap((word) => stemOf(word) ?? []);

/** Returns the stems of all words, also of those that say little. */
const wordsIn = (text: string): string[] =>
  text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)
    .map(commonStemOf);

const runOf = (text: string): string => ` ${stemsOf(text).join(" ")} `;

const phraseOf = (text: string): Phrase => ({ words: new Set(wordsIn(text)), stems: new Set(stemsOf(text)) });

const runsOf = ({ ownTitle, asked, summary, text, code }: Section): Runs => ({
  text: runOf(`${summary} ${text} ${code}`),
  title: phraseOf(ownTitle),
  asked: asked.map(phraseOf),
});

function kept<Key, Value>(made: Map<Key, Value>, key: Key, make: (key: Key) => Value): Value {
  const known = made.get(key);
  if (known !== undefined) return known;
  const value = make(key);
  made.set(key, value);
  return value;
}

/** The most characters of a query that are read: enough for a line of a log. */
const MOST_CHARS = 4_000;

/** The most words of a query that are searched, the most of their parts, and the longest one: no name of the docs is longer. */
const MOST_WORDS = 32;
const MOST_TERMS = 100;
const LONGEST_TERM = 64;

/** Returns each two words of a query that follow each other. */
function pairsIn(query: string): readonly string[] {
  const stems = stemsOf(query).slice(0, MOST_WORDS);
  return stems.slice(1).map((stem, at) => ` ${stems[at]} ${stem} `);
}

/** The share of the best rank that a section gains when all words of a query follow each other in its text. */
const NEARNESS = 0.6;

/** The share of the best rank that a section gains when a phrase has the telling words of a query, and no others. */
const SAME = 2;
/** The share that a section gains when a phrase has all words of a query, such as "who can see my prompts". */
const ASKED = 1;
/** The share that a section gains when all telling words of a query are those of a phrase; fewer words gain less, and so do longer phrases. */
const SHARED = 1.6;
/** The fewest words of a query that is a question. */
const FEWEST_ASKED = 3;

/** Returns the share of the best rank that a section gains for a phrase: its heading, a question that it answers, or other words for it. */
function likenessOf(phrase: Phrase, spoken: readonly string[], stems: readonly string[]): number {
  const count = stems.filter((stem) => phrase.stems.has(stem)).length;
  const isAsked = spoken.length >= FEWEST_ASKED && spoken.every((word) => phrase.words.has(word));
  if (count > 0 && count === stems.length && count === phrase.stems.size) return isAsked ? SAME + ASKED : SAME;
  if (isAsked) return ASKED;
  return count < 2 ? 0 : SHARED * (count / stems.length) ** 2 * (count / phrase.stems.size);
}

/** Returns the share of the best rank that a section gains for the pairs that its text has. */
const nearnessIn = (pairs: readonly string[], text: string): number =>
  pairs.length === 0 ? 0 : (NEARNESS * pairs.filter((pair) => text.includes(pair)).length) / pairs.length;

/** Returns the function that weighs sections for a query, by their ids. */
function preferenceFor(query: string): (id: string) => number {
  if (/\berrors?\b|\b[45]\d\d\b/i.test(query)) return preferenceOfErrors;
  return NAME.test(query) ? preferenceOfNames : preferenceOfTexts;
}

const REFERENCE = /^(?:polygate|command-line|error-messages|errors-by-format|conversion-tables|reference|playground)/;

/**
 * Ranks explanations before the reference and the playground, both before rows of errors, and all before the index, the code of examples and
 * the changelog.
 */
function preferenceOfTexts(id: string): number {
  if (/^(?:CHANGELOG|README|[\w.-]+\.ts)\//.test(id)) return 0.01;
  return REFERENCE.test(id) || /\/row\d+$/.test(id) ? 0.2 : 1;
}

/** Ranks rows of errors like explanations, for a query about an error or with a status. */
const preferenceOfErrors = (id: string): number => (/\/row\d+$/.test(id) ? 1 : preferenceOfTexts(id));

/** Ranks the reference like explanations, for a query with a name of the code, such as `maxJsonBytes`. */
const preferenceOfNames = (id: string): number => (REFERENCE.test(id) ? 1 : preferenceOfTexts(id));

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
  })[] = [];
  const [first] = blocks;
  const pageTitle = first?.type === "heading" ? wordsOf(first.text) : page;
  const add = (heading: string, line: string, kind: Section["kind"] = "section", texts: string[] = []): void => {
    const ownTitle = wordsOf(line);
    const title = heading === "" ? ownTitle : `${pageTitle} › ${ownTitle}`;
    const quotes = kind === "section" ? [] : piecesOf(line).flatMap(({ type, text }) => (type === "code" ? text : []));
    const row = kind === "section" ? "" : rowOf(line);
    sections.push({ heading, row, title, ownTitle, kind, quoted: quotes.map(quotedOf), texts, codes: [] });
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
    } else section?.texts.push(...textsOf(block));
  }
  const leads = sections.map(({ texts }) => texts.join(" "));
  return sections.map(({ heading, row, title, ownTitle, kind, quoted, codes }, at) => ({
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
    text: leads[at] ?? "",
    code: codes.join(" "),
    lead: (heading === "" && wordsOf(/^: (.*)/.exec(summary)?.[1] ?? "")) || (leads.slice(at).find(Boolean) ?? ""),
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

/**
 * Returns the part of a section that tells why it was found: a part of its text, or of its code if only this has a word of the query.
 * `asked` has the word of the query for each term in the section.
 */
function excerptIn({ text, code, lead }: Section, asked: ReadonlyMap<string, string>): string {
  const parts = [text, code].map((part) => excerptOf(part.replaceAll(/\s+/g, " "), asked));
  return (parts.find(({ count }) => count > 0) ?? excerptOf(text || lead || code, asked)).excerpt;
}

/** Returns the part of a text with the most words of a query, and how many. */
function excerptOf(
  text: string,
  asked: ReadonlyMap<string, string>,
): { readonly excerpt: string; readonly count: number } {
  const found = Array.from(text.matchAll(/\S+/g), ({ 0: word, index }) => ({
    index,
    words: tokensOf(word).flatMap((token) => asked.get(stemOf(token) ?? "") ?? []),
  })).filter(({ words }) => words.length > 0);
  /** The number of different words in the excerpt that begins at a place. */
  const countAt = (start: number): number =>
    new Set(
      found.flatMap(({ index, words }) => (index >= start && index < start + EXCERPT_CHARS - LEAD_CHARS ? words : [])),
    ).size;
  let best = { start: 0, count: countAt(0) };
  for (const { index } of found) {
    const count = countAt(index);
    if (count > best.count) best = { start: text.lastIndexOf(" ", Math.max(0, index - LEAD_CHARS)) + 1, count };
  }
  const rest = text.slice(best.start);
  const shown = rest.length > EXCERPT_CHARS ? `${rest.slice(0, rest.lastIndexOf(" ", EXCERPT_CHARS))} …` : rest;
  return { excerpt: best.start > 0 ? `… ${shown}` : shown, count: best.count };
}
