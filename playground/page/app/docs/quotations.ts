/** Finds the texts of errors that a query quotes: whole ones, and parts of them. */

import { STOP_WORDS } from "./stems.ts";

/** The text of an error, made ready to be looked for. */
export interface Quoted {
  /** The words between the values, with a space around each. */
  readonly parts: readonly string[];
  readonly chars: number;
  /** The runs of words that are enough for a quotation of a part of the text. Runs that follow each other overlap. */
  readonly runs: readonly string[];
  /** The words of a code such as `invalid_api_key`, as people write them. */
  readonly spoken: string | undefined;
  /** A single word that is a name, such as `ApiError`. */
  readonly isName: boolean;
  /** A single word that is none, such as "overloaded": it stands in questions as well. */
  readonly isCommon: boolean;
}

/** A query, made ready to be compared. */
export interface Quotation {
  readonly words: string;
  /** It has signs or names of the code, as a text from a log. Any other query is a question, whose words stand in errors, too. */
  readonly isPasted: boolean;
  readonly runs: ReadonlySet<string>;
  readonly spoken: string;
}

/** The fewest characters of a whole text that counts. */
const FEWEST_CHARS = 10;
/** The fewest words of a part of a text that counts, and the fewest of them that are no stop words. */
const FEWEST_WORDS = 4;
const FEWEST_TELLING = 2;
/** The fewest characters of a pasted part that stands in a text as a whole. */
const FEWEST_PASTED = 6;
/** Matches what stands in texts of errors, and hardly in questions: signs, statuses, and names of the code. */
const SIGNS = /[.:;…"'`{}()[\]=!]|\berror|\b[1-5]\d\d\b|[a-z][A-Z]|\b[A-Z]{4}|_/;
/** Matches the beginning of a sentence that asks nothing. */
const STATEMENT = /^\s*[A-Z][a-z']* [a-z].*[^?\s]\s*$/s;
/** Returns the words of a text. The signs between words differ in a log: escaped quotes, line breaks, Markdown. */
const wordsIn = (text: string): string[] =>
  text
    .replaceAll(/\\[nrt"]|\[\d+(?:;\d+)*m/g, " ")
    .split(/[^\p{L}\p{N}_]+/u)
    .filter(Boolean);

const spaced = (words: readonly string[]): string => ` ${words.join(" ")} `;

function runsOf(words: readonly string[]): string[] {
  const runs: string[] = [];
  for (let at = 0; at + FEWEST_WORDS <= words.length; at++) runs.push(words.slice(at, at + FEWEST_WORDS).join(" "));
  return runs;
}

/** Returns the words of a text in small letters, without stop words. */
const spokenOf = (text: string): string =>
  spaced(
    text
      .toLowerCase()
      .split(/[\W_]+/)
      .filter((word) => word !== "" && !STOP_WORDS.has(word)),
  );

/** Reads the text of an error, where each `…` stands for a value. */
export function quotedOf(text: string): Quoted {
  const parts = text
    .split("…")
    .map(wordsIn)
    .filter(({ length }) => length > 0);
  const runs = parts.flatMap((words) =>
    runsOf(words).map((run) =>
      run.split(" ").filter((word) => !STOP_WORDS.has(word.toLowerCase())).length < FEWEST_TELLING ? "" : run,
    ),
  );
  const isOne = parts.flat().length === 1;
  return {
    parts: parts.map(spaced),
    chars: parts.flat().join(" ").length,
    runs,
    spoken: /^[a-z]+(?:_[a-z]+)+$/.test(text) ? spokenOf(text) : undefined,
    isName: isOne && /[A-Z_]/.test(text),
    isCommon: isOne && !/[A-Z_]/.test(text),
  };
}

export function quotationIn(query: string): Quotation {
  const words = wordsIn(query);
  const isPasted = SIGNS.test(query) || STATEMENT.test(query);
  return { words: spaced(words), isPasted, runs: new Set(runsOf(words)), spoken: spokenOf(query) };
}

/** The fewest characters of a whole text that is hardly a part of another one. */
const FEWEST_OWN = 14;

/**
 * Returns how many characters of the texts of a row a query quotes, and whether it quotes one of them as a whole, which is no part of others.
 *
 * @param mayBeSpoken Takes the words of a code for the code.
 */
export function quotedBy(
  quotation: Quotation,
  texts: readonly Quoted[],
  mayBeSpoken: boolean,
): { readonly length: number; readonly isWhole: boolean } {
  let length = 0;
  let isWhole = false;
  for (const text of texts) {
    const isCode = mayBeSpoken && text.spoken !== undefined && quotation.spoken.includes(text.spoken);
    if (isCode || isWholeIn(quotation.words, text)) {
      length += text.chars;
      isWhole ||= isCode || (!text.isName && text.chars >= FEWEST_OWN);
    } else if (quotation.isPasted) length += partOf(quotation, text);
  }
  return { length, isWhole };
}

/** Returns the length of the longest part of a text that a query has, or of the query that is a part of the text. */
function partOf({ words, runs }: Quotation, text: Quoted): number {
  const isPart =
    words.length >= FEWEST_PASTED + 2 && /\w \w/.test(words) && text.parts.some((part) => part.includes(words));
  return isPart ? words.length - 2 : longestRun(runs, text.runs);
}

/** Tells whether a query has all words of a text in their order, with anything in place of the values. */
function isWholeIn(query: string, { parts, chars, isName, isCommon }: Quoted): boolean {
  if (parts.length === 0 || isCommon || (!isName && chars < FEWEST_CHARS)) return false;
  let end = 0;
  return parts.every((part) => {
    const at = query.indexOf(part, end);
    // The space at the end of a part is that at the beginning of the next word.
    end = at + part.length - 1;
    return at >= 0;
  });
}

/** Returns the length of the longest part of a text that a query has word by word; 0 for fewer than four words. */
function longestRun(query: ReadonlySet<string>, runs: readonly string[]): number {
  let longest = 0;
  let length = 0;
  for (const run of runs) {
    if (run === "" || !query.has(run)) length = 0;
    else length = length === 0 ? run.length : length + run.length - run.lastIndexOf(" ");
    longest = Math.max(longest, length);
  }
  return longest;
}
