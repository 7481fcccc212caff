/** Finds sections of the docs by words in their headings and texts, and in the questions that they answer. */

import MiniSearch, { type SearchResult } from "minisearch";
import { definitionsIn, definitionsOf, isMain, REFERENCE } from "./definitions.ts";
import { beginningOf, bestOf } from "./excerpts.ts";
import { quotationIn, quotedBy } from "./quotations.ts";
import { boundsIn, readPages, type Section } from "./sections.ts";
import { commonStemOf, stemOf, tokensOf } from "./stems.ts";

/** A found section, or a row of it. */
export interface Hit extends Pick<Section, "page" | "heading" | "row" | "title"> {
  /** The sentence, item, row or line of the section with the most searched words. If none has one, the beginning of the section. */
  readonly excerpt: string;
  /** The stems of the words in the title and the excerpt for which the section was found. */
  readonly stems: ReadonlySet<string>;
}

/** The results of a query. */
export interface Found {
  readonly hits: readonly Hit[];
  /** The words of the query that no section has, nor a longer word that begins with them. */
  readonly missing: readonly string[];
}

/** The most results of a query. */
const MOST_HITS = 12;

/**
 * Returns a function that finds the best sections for a query, the best first.
 *
 * @param phrases What people search for, by the sections that have it. Each line is `page#heading: words | words`. A line that begins with
 * `only` names words without which its sections count little.
 */
export function searchIn(pages: Readonly<Record<string, string>>, phrases = ""): (query: string) => Found {
  const read = readPages(pages, phrases);
  const sections = read.flatMap((page) => page.sections);
  const bounds = boundsIn(phrases);
  const defined = definitionsOf(read.flatMap(({ page, blocks }) => definitionsIn(page, blocks)));
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
      boost: { ownTitle: 1.4, summary: 2, asked: 3, code: 0.6 },
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
    // A log that is pasted has its errors, which are quotations, and hundreds of other words.
    const words = query.split(/\s+/, MOST_WORDS).join(" ");
    const given = new Set(
      tokensOf(words)
        .flatMap((token) => stemOf(token) ?? [])
        .filter((stem) => known.has(stem)),
    );
    const said = query.toLowerCase();
    /** Lowers the sections about other products, unless the query names one of these. */
    const boundIn = ({ address }: Pick<Section, "address">): number => {
      const names = bounds.get(address);
      return names === undefined || names.some((name) => said.includes(name)) ? 1 : UNNAMED;
    };
    const { entries, isName } = defined(query);
    // Names of products, such as LiteLLM, look like names of the code.
    const hasName = NAME.test(query) && entries.length > 0;
    const preferred = preferenceFor(query, hasName);
    const preference = (id: string): number => {
      const section = byId.get(id);
      return preferred(id) * (section ? boundIn(section) : 1);
    };
    const results = index.search(words, {
      boostDocument: preference,
      ...(hasName && { boostTerm: weightIn }),
    });
    const best = Math.max(0, ...results.map(rankOf));
    const ranked = results.flatMap(({ id, ...result }) => {
      const section = byId.get(String(id));
      if (!section) return [];
      const { title, text, asked } = kept(runs, section, runsOf);
      const weight = preference(section.id);
      // The phrases of a section are meant for it, whatever its page. A part of a phrase is not, where the section is about another product.
      const bound = boundIn(section);
      const likeness = Math.max(
        weight * likenessOf(title, spoken, stems),
        ...asked.map((one) => {
          const like = likenessOf(one, spoken, stems);
          return like < SAME ? bound * like : like;
        }),
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
    const addEntries = (): void => {
      if (!isName && !entries.some(isMain)) return;
      for (const { page, heading, row, title, excerpt } of entries) {
        const address = `${page}/${heading}`;
        // The entry takes the place of its section.
        if (!hits.get(address)?.row) hits.set(address, { page, heading, row, title, excerpt, stems: given });
      }
    };
    // A word that no explanation is about, such as `authorize`, is the name of an option rather than a question.
    const isAbout = ({ section }: { readonly section: Section }): boolean => {
      const { title, asked } = kept(runs, section, runsOf);
      return (
        !isLookedUp(section.id) && [title, ...asked].some((phrase) => stems.some((stem) => phrase.stems.has(stem)))
      );
    };
    if (isName || !ranked.some(isAbout)) addEntries();
    for (const { section, terms, queryTerms } of found) {
      // Rows have the address of their section. The best one stands for it.
      if (hits.has(section.address)) continue;
      // Longer words that begin with a word of the query count as this word.
      const asked = new Map(terms.map((term) => [term, queryTerms.find((word) => term.startsWith(word)) ?? term]));
      const { page, heading, row, title } = section;
      const excerpt = excerptIn(section, asked, given.size);
      hits.set(section.address, { page, heading, row, title, excerpt, stems: new Set([...given, ...terms]) });
      // A word of a question may be the name of an option as well.
      if (hits.size === EXPLAINED) addEntries();
      if (hits.size >= MOST_HITS) break;
    }
    addEntries();
    const missing = quoted.length > 0 || isName ? [] : missingIn(words, known);
    return { hits: [...hits.values()].slice(0, MOST_HITS), missing };
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

/** The explanations that stand before an option whose name is a word, such as `cors`. */
const EXPLAINED = 2;

/** The weight of a section about another product for a query that does not name the product. */
const UNNAMED = 0.3;

/** Matches a name of the code, such as `maxJsonBytes`. */
const NAME = /[a-z][A-Z]/;
/** The weight of a part of a name that the query has as a whole. */
const PART = 0.3;

/** Weighs a term of a query that has a name of the code: the whole name counts more than its parts. */
const weightIn = (term: string, _at: number, terms: readonly string[]): number =>
  terms.some((name) => name.length > term.length && (name.startsWith(term) || name.endsWith(term))) ? PART : 1;

/** Of the pages with all messages and all names, only the page as a whole is found by words. */
const isFoundByWords = ({ page, heading, kind }: Section): boolean =>
  kind !== "item" && (!LISTS.has(page) || heading === "");

const LISTS: ReadonlySet<string> = new Set(["error-messages", "reference"]);

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
function preferenceFor(query: string, hasName: boolean): (id: string) => number {
  if (/\berrors?\b|\b[45]\d\d\b/i.test(query)) return preferenceOfErrors;
  return hasName ? preferenceOfNames : preferenceOfTexts;
}

/**
 * Ranks explanations before the reference and the playground, both before rows of errors, and all before the index, the code of examples and
 * the changelog.
 */
function preferenceOfTexts(id: string): number {
  if (/^(?:CHANGELOG|README|[\w.-]+\.(?:ts|sql))\//.test(id)) return 0.01;
  return isLookedUp(id) || /\/row\d+$/.test(id) ? 0.2 : 1;
}

/** Ranks rows of errors like explanations, for a query about an error or with a status. */
const preferenceOfErrors = (id: string): number => (/\/row\d+$/.test(id) ? 1 : preferenceOfTexts(id));

/** Ranks the reference like explanations, for a query with a name of the code, such as `maxJsonBytes`. */
const preferenceOfNames = (id: string): number => (isLookedUp(id) ? 1 : preferenceOfTexts(id));

/** Tells whether a section is one that people look up by a name. */
const isLookedUp = (id: string): boolean =>
  REFERENCE.test(id.split("/")[0] ?? "") ? !id.startsWith("sql-tables/") : id.startsWith("playground/");

/** The least share of the words of a query that an excerpt from the middle of a section has. */
const LEAST_SHOWN = 0.5;

/**
 * Returns the part of a section that tells why it was found: a part of its text, or of its code if this has more words of the query.
 * A part with few of the words tells less than the beginning. `asked` has the word of the query for each term in the section.
 */
const excerptIn = ({ parts, lines, lead }: Section, asked: ReadonlyMap<string, string>, count: number): string =>
  bestOf([...parts, ...lines], asked, count * LEAST_SHOWN) ??
  beginningOf([parts, lead, lines].find(({ length }) => length > 0) ?? []);
