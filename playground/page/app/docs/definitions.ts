/** Finds the entry of a name: of a function, a type, a field, a header, the code of an error, a column or a command. */

import { beginningOf, type Part, sentencesOf } from "./excerpts.ts";
import { type Block, piecesOf, rowOf, wordsOf } from "./markdown.ts";
import { stemOf } from "./stems.ts";

/** The place that explains a name. */
export interface Definition {
  readonly name: string;
  readonly page: string;
  readonly heading: string;
  /** The id of the row or the item in its section; empty for a section with the name as its heading. */
  readonly row: string;
  readonly title: string;
  readonly excerpt: string;
  /** The definitions of a name with a smaller rank stand first. */
  readonly rank: number;
}

/** The entries of a query, the best first. */
export interface Defined {
  readonly entries: readonly Definition[];
  /** The query is the name of something, and no word that people use. */
  readonly isName: boolean;
}

/** The pages of the reference. */
export const REFERENCE: RegExp =
  /^(?:polygate|command-line|error-messages|errors-by-format|conversion-tables|sql-tables|headers|metrics|reference$)/;

/** The page with what to do for each code of an error. */
const CODES = "errors";
/** The section of messages, which are no names. */
const TEXTS = "Messages by their text";
/** The page whose headings are commands. */
const COMMANDS = "command-line";
const HEADERS = "headers";
/** Matches pages whose items begin with names that have entries elsewhere. */
const RETOLD = /^(?:error-messages|reference|README|CHANGELOG)$/;

/** The types that hosts set first, and names of types with options. */
const MAIN = /^(?:GatewayOptions|Limits|OpenStoresOptions)$/;
const OPTIONS = /(?:Options|Limits|Timeouts)$/;

const RANKS = { code: 0, heading: 1, main: 2, option: 3, table: 4, field: 5, guide: 6 } as const;

/** Returns the definitions of a page: headings with a name, and items and rows that begin with one. */
export function definitionsIn(page: string, blocks: readonly Block[]): Definition[] {
  if (RETOLD.test(page)) return [];
  const isReference = REFERENCE.test(page);
  const found: Definition[] = [];
  const [first] = blocks;
  const pageTitle = first?.type === "heading" ? wordsOf(first.text) : page;
  let heading = "";
  let section = "";
  const add = (text: string, about: readonly Part[], rank: number): void => {
    const place = { page, heading, row: rowOf(text), excerpt: beginningOf(about), rank };
    const path = [pageTitle, ...(section === "" ? [] : [section])];
    for (const name of namesIn(text)) found.push({ ...place, name, title: [...path, name].join(" › ") });
  };
  for (const [at, block] of blocks.entries()) {
    if (block.type === "heading") {
      heading = block === first ? "" : block.id;
      section = block === first ? "" : wordsOf(block.text);
      if (isReference && (block !== first || /^`[^`]+`$/.test(block.text)))
        found.push({
          name: wordsOf(block.text).replace(/ \(type\)$/, ""),
          page,
          heading,
          row: "",
          title: section === "" ? pageTitle : `${pageTitle} › ${section}`,
          excerpt: aboutIn(blocks.slice(at + 1)),
          rank: RANKS.heading,
        });
    } else if (block.type === "list") {
      const rank = rankIn(page, section);
      for (const item of block.items) add(item, sentencesOf(wordsOf(item)), rank);
    } else if (block.type === "table") {
      const rank = page === CODES ? RANKS.code : isReference ? RANKS.table : RANKS.guide;
      if (section === TEXTS) continue;
      for (const [cell = "", ...rest] of block.rows.slice(1))
        add(cell, [{ text: rest.map(wordsOf).filter(Boolean).join(" · "), goesOn: false }], rank);
    }
  }
  return found;
}

/** Returns the rank of the items in a section. */
function rankIn(page: string, section: string): number {
  if (page === HEADERS) return RANKS.code;
  if (MAIN.test(section)) return RANKS.main;
  if (OPTIONS.test(section)) return RANKS.option;
  if (page.startsWith("polygate")) return RANKS.field;
  return REFERENCE.test(page) ? RANKS.table : RANKS.guide;
}

/** Returns the beginning of the first text of a section that is more than the type of its name. */
function aboutIn(blocks: readonly Block[]): string {
  const end = blocks.findIndex(({ type }) => type === "heading");
  const texts = (end < 0 ? blocks : blocks.slice(0, end)).flatMap((block) => {
    if (block.type === "paragraph") return [block.text];
    return block.type === "list" ? block.items : [];
  });
  const about = texts.find((text) => !/^\[?`[^`]*`(?:\]\([^)]*\))?(?: \(.*\))?$/.test(text)) ?? texts[0] ?? "";
  return beginningOf(sentencesOf(wordsOf(about)));
}

/** Returns the names with which an item or a row begins: `maxJsonBytes: number` has `maxJsonBytes`, and `-h, --help` has two. */
function namesIn(text: string): string[] {
  const [piece] = piecesOf(text);
  const linked = piece?.type === "link" ? piecesOf(piece.text)[0] : piece;
  if (linked?.type !== "code") return [];
  const rest = text.startsWith("`") ? text : linked.text;
  const codes = text.startsWith("`")
    ? Array.from((/^(?:`[^`]*`(?:, | )?)+/.exec(rest)?.[0] ?? "").matchAll(/`([^`]*)`/g), ([, code = ""]) => code)
    : [linked.text];
  return codes.flatMap((code) => code.split(/, (?=-)/).flatMap((one) => /^(?:--?)?[\w$][\w.$-]*/.exec(one)?.[0] ?? []));
}

/** Matches names that are no words: several parts, a flag, or signs. */
const SHAPED = /[a-z\d][A-Z]|[A-Z]{2}[a-z]|.[_-].|^--|\w\/\w/;

/** Matches a telling word of a question that is about a name alone, such as "what is the default of maxCallsPerKey". */
const ABOUT =
  /^(?:between|codes?|columns?|defaults?|difference|errors?|explain|fields?|flags?|functions?|headers?|mean|means|meaning|options?|purpose|returns?|says?|sent|set|stand|tells?|types?|values?|versus|vs)$/i;

/** The most words of a question with a name. A longer text is a log. */
const MOST_WORDS = 16;

/** Matches the kind of a name in a query, such as "retry-after header" or "option onCall". */
const KIND =
  /^(?:the )?(?:error code|error|header|option|function|type|field|flag|column) (?=\S+$)|(?<=^\S+) (?:error code|error|header|option|function|type|field|flag|column)s?$/i;

/** The most entries of a name that stand before other results. */
const MOST_ENTRIES = 3;

/** Returns a function that finds the entries of a name. A query of anything else has none. */
export function definitionsOf(definitions: readonly Definition[]): (query: string) => Defined {
  const byName = new Map<string, Definition[]>();
  for (const one of definitions) {
    const key = one.name.toLowerCase();
    const same = byName.get(key);
    if (same) same.push(one);
    else byName.set(key, [one]);
  }
  // The main entry of the package stands before the others.
  const isLater = ({ page }: Definition): number => (page === "polygate" ? 0 : 1);
  for (const same of byName.values()) same.sort((one, other) => one.rank - other.rank || isLater(one) - isLater(other));
  const entriesOf = (name: string): Definition[] => {
    const found = byName.get(name.toLowerCase()) ?? [];
    // `Route` is a type, and `route` is a function.
    const exact = found.filter((one) => one.name === name);
    return (exact.length > 0 ? exact : found).slice(0, MOST_ENTRIES);
  };
  /** Returns the entries of the names in a question. */
  const entriesIn = (question: string): Defined => {
    const words = question.split(/\s+/, MOST_WORDS + 1).map(bare);
    if (words.length > MOST_WORDS) return NOTHING;
    const entries = words.flatMap((word) => (SHAPED.test(word) ? entriesOf(word).slice(0, 1) : []));
    const others = words.filter((word) => !SHAPED.test(word) && stemOf(word) !== null && !ABOUT.test(word));
    return { entries: entries.slice(0, MOST_ENTRIES), isName: entries.length > 0 && others.length === 0 };
  };
  return (query) => {
    const [, command] = /^\W*(?:npx )?polygate ([a-z].*)$/.exec(query.trim()) ?? [];
    if (command !== undefined) {
      const words = command.split(/\s+/);
      for (let count = Math.min(3, words.length); count > 0; count--) {
        const entries = entriesOf(words.slice(0, count).join(" ")).filter(({ page }) => page === COMMANDS);
        if (entries.length > 0) return { entries, isName: true };
      }
      return NOTHING;
    }
    const asked = query.trim();
    const kindless = asked.replace(KIND, "");
    const name = bare(kindless);
    if (name === "" || name.length > 100) return NOTHING;
    const known = entriesOf(name);
    // `limits.deadlineMs` names a field of an option.
    const entries = known.length > 0 || !/^[\w.]+\.\w+$/.test(name) ? known : entriesOf(name.replace(/^.*\./, ""));
    const [best] = entries;
    if (!best) return entriesIn(asked);
    const isTyped = best.name === name && /^[A-Z][a-z]/.test(name) && best.rank === RANKS.heading;
    const isCommand = best.page === COMMANDS && / /.test(name);
    const isKnown = isTyped || isCommand || (!/ /.test(name) && SHAPED.test(best.name));
    return { entries, isName: isKnown || (kindless !== asked && best.rank <= RANKS.option) };
  };
}

/** Returns a word without the signs around it. */
const bare = (word: string): string => word.replaceAll(/^[`"'(]+|[`"').,:?(]+$/g, "");

const NOTHING: Defined = { entries: [], isName: false };

/** Tells whether a definition is one of the names that hosts write first: codes, functions, commands and options. */
export const isMain = ({ rank }: Definition): boolean => rank <= RANKS.option;
