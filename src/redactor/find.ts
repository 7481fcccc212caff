/** Finds what a redactor replaces, and gives each value its replacement. */

import { addToTrie, BACKSLASH, escapedAt, newTrie, restoredIn, type TrieNode } from "./restore.ts";

/** A piece of a text that must not reach a provider, as indices of UTF-16 units. */
export interface RedactorMatch {
  readonly start: number;
  /** The index after the last unit. */
  readonly end: number;
  /** The kind of the value, such as `email`: 1 to 32 letters, digits, `_` and `-`. */
  readonly kind: string;
}

/** Finds the values in one text that are to be replaced. */
export type RedactorFind = (text: string) => Iterable<RedactorMatch> | Promise<Iterable<RedactorMatch>>;

/** The values to find, by their kinds: an expression, or a list of words, which are found anywhere in a text. */
export type RedactorPatterns = Readonly<Record<string, RegExp | readonly string[]>>;

/** A value that was found, and its number among those of its kind. */
export interface RedactorValue {
  readonly kind: string;
  readonly value: string;
  /** Counts from 1, in the order in which the values of a request appear: tools, then instructions, then turns. */
  readonly number: number;
}

const KIND = /^[\w-]{1,32}$/;

/** The longest replacement, in UTF-16 units: so much of an answer may wait for the rest of a replacement. */
const MAX_REPLACEMENT = 256;

/** The texts that are searched at once by a function that is asynchronous. */
const AT_ONCE = 16;

/** Returns the function that finds by patterns. Throws a TypeError for a pattern that is none. */
export function finderOf(path: string, patterns: RedactorPatterns): RedactorFind {
  const expressions = Object.entries(patterns).map(([kind, pattern]): [string, RegExp] => {
    if (!KIND.test(kind))
      throw new TypeError(`${path}: the kind ${JSON.stringify(kind)} must have 1 to 32 letters, digits, _ and -.`);
    return [kind, expressionOf(`${path}.${kind}`, pattern)];
  });
  return function* find(text) {
    for (const [kind, expression] of expressions)
      for (const { 0: value, index } of text.matchAll(expression))
        if (value !== "") yield { start: index, end: index + value.length, kind };
  };
}

function expressionOf(path: string, pattern: unknown): RegExp {
  if (pattern instanceof RegExp) return new RegExp(pattern.source, `${pattern.flags.replaceAll(/[gy]/g, "")}g`);
  const areWords =
    Array.isArray(pattern) && pattern.length > 0 && pattern.every((word) => typeof word === "string" && word !== "");
  if (!areWords) throw new TypeError(`${path} must be a RegExp, or a list of words.`);
  // The longest word first: an expression takes the first alternative that fits.
  const words = (pattern as string[]).toSorted((one, other) => other.length - one.length);
  return new RegExp(words.map((word) => word.replaceAll(/[$()*+./?[\\\]^{|}-]/g, String.raw`\$&`)).join("|"), "g");
}

/** A piece of a text to replace, and its value. */
interface RedactorPiece extends RedactorMatch {
  /** The value: without the escapes of JSON where it was found behind them. */
  readonly value: string;
}

/** The pieces to replace by their texts, in order and without overlaps. Texts without pieces are absent. */
export type Matches = ReadonlyMap<string, readonly RedactorPiece[]>;

/** Searches texts. Throws a TypeError for a host's function that returns anything but matches. */
export async function matchesIn(texts: readonly string[], find: RedactorFind): Promise<Matches> {
  const matches = new Map<string, readonly RedactorPiece[]>();
  for (let from = 0; from < texts.length; from += AT_ONCE) {
    const found = await Promise.all(texts.slice(from, from + AT_ONCE).map((text) => piecesIn(text, find)));
    for (const [index, pieces] of found.entries())
      if (pieces.length > 0) matches.set(texts[from + index] ?? "", pieces);
  }
  return matches;
}

/** JSON in a text is read so many levels deep: a tool's result may be JSON that has JSON in it. */
const MAX_LEVELS = 3;

/** Searches a text as it is, and as a reader of JSON reads it: tools often return JSON, in which any sign can be escaped. */
async function piecesIn(text: string, find: RedactorFind, levels: number = MAX_LEVELS): Promise<RedactorPiece[]> {
  const unescaped = levels > 0 && text.includes("\\") ? unescapedText(text) : undefined;
  const [found, inner] = await Promise.all([find(text), unescaped && piecesIn(unescaped.text, find, levels - 1)]);
  const matches = matchesOf(text, found);
  const placeOf = (at: number): number => unescaped?.places[at] ?? text.length;
  const escaped = (inner ?? []).map((piece) => ({ ...piece, start: placeOf(piece.start), end: placeOf(piece.end) }));
  const starts = new Set(escaped.map(({ start }) => start));
  const raw = matches.map(({ start, end, kind }): RedactorPiece => {
    const own = escaped.length > 0 ? startBehind(text, start, starts) : start;
    const from = own < end ? own : start;
    return { start: from, end, kind, value: text.slice(from, end) };
  });
  return joined(text, [...raw, ...escaped]);
}

/** Returns the start of the value behind an escape in which a match begins: `nada@` in `\nada@` begins with the letter of the escape. */
function startBehind(text: string, start: number, starts: ReadonlySet<number>): number {
  for (let at = start - 1; at >= Math.max(0, start - 5); at--) {
    if (text.charCodeAt(at) !== BACKSLASH) continue;
    // An escape has two units, or six.
    for (const end of [at + 2, at + 6]) if (end > start && starts.has(end)) return end;
  }
  return start;
}

/** Returns a text without the escapes of JSON, and the index in the text of each of its units, and of its end. */
function unescapedText(text: string): { readonly text: string; readonly places: Uint32Array } {
  const places = new Uint32Array(text.length + 1);
  let [written, copied, length] = ["", 0, 0];
  for (let at = 0; at < text.length; length++) {
    places[length] = at;
    const unit = text.charCodeAt(at) === BACKSLASH ? escapedAt(text, at) : undefined;
    // An escape may be cut, or have no code.
    if (unit && !Number.isNaN(unit.code)) {
      written += text.slice(copied, at) + String.fromCharCode(unit.code);
      copied = at = unit.end;
    } else at++;
  }
  places[length] = text.length;
  return { text: written + text.slice(copied), places };
}

/** Returns what a function has found. A function that returns no list has not searched: its error refuses the request. */
function matchesOf(text: string, found: Iterable<RedactorMatch>): RedactorMatch[] {
  const matches: RedactorMatch[] = [];
  for (const match of found) {
    assertMatch(match, text);
    // More matches than units cannot all be different. A function may never end.
    if (matches.push(match) > text.length + 1)
      throw new TypeError("redactor: find returns more matches than its text has units.");
  }
  return matches;
}

/** Returns pieces in order. Joins those that overlap, so that no part of either is left. */
function joined(text: string, pieces: readonly RedactorPiece[]): RedactorPiece[] {
  const sorted = pieces.toSorted((one, other) => one.start - other.start || other.end - one.end);
  const all: RedactorPiece[] = [];
  for (const piece of sorted) {
    const last = all.at(-1);
    if (!last || piece.start >= last.end) all.push(piece);
    else if (piece.end > last.end)
      all[all.length - 1] = { ...last, end: piece.end, value: text.slice(last.start, piece.end) };
  }
  return all;
}

function assertMatch(match: unknown, text: string): asserts match is RedactorMatch {
  const { start, end, kind } = Object(match) as Partial<RedactorMatch>;
  const isRange =
    Number.isInteger(start) &&
    Number.isInteger(end) &&
    Number(start) >= 0 &&
    Number(start) < Number(end) &&
    Number(end) <= text.length;
  if (!isRange) throw new TypeError("redactor: find must return matches with a start and an end in the text.");
  if (typeof kind !== "string" || !KIND.test(kind))
    throw new TypeError("redactor: the kind of a match must have 1 to 32 letters, digits, _ and -.");
}

/** The replacements of one request, in both directions. */
export interface Replacements {
  /** The request's texts that change, with their replacements in place. */
  readonly texts: ReadonlyMap<string, string>;
  /** The replacements, with what each is restored to. */
  readonly trie: TrieNode;
  /** Returns the replacement of a value of the request. */
  readonly replacementOf: (value: string) => string;
}

/** The rules of a redactor for replacing and restoring values. */
export interface Rules {
  readonly replace: (found: RedactorValue) => string;
  /** Undefined if the redactor restores nothing. */
  readonly restore: ((value: string, found: RedactorValue & { readonly replacement: string }) => string) | undefined;
}

/** The first numbers of the rounds after a round whose replacements stand in the request already. */
const NEXT_NUMBERS: readonly (() => number)[] = [
  () => 0,
  () => 1_000_000,
  // No text can have foreseen this one.
  () => crypto.getRandomValues(new Uint32Array(1))[0] ?? 0,
];

/**
 * Gives each value its replacement. Holds that each text can be restored: where a replacement stands in the request itself, other numbers are
 * taken.
 *
 * @param all The texts that must stay as they are when they are restored. Those without a match may have a replacement in them, too.
 */
export function replacementsOf(matches: Matches, all: ReadonlySet<string>, { replace, restore }: Rules): Replacements {
  for (const firstNumber of NEXT_NUMBERS) {
    const numbers = new Map<string, number>();
    const first = firstNumber();
    const replacements = new Map<string, string>();
    const [exact, restored] = [newTrie(), newTrie()];
    const replacementOf = (kind: string, value: string): string => {
      let replacement = replacements.get(value);
      if (replacement !== undefined) return replacement;
      const number = (numbers.get(kind) ?? first) + 1;
      numbers.set(kind, number);
      const found = { kind, value, number };
      replacement = assertReplacement(replace(found));
      replacements.set(value, replacement);
      if (!restore) return replacement;
      if (!addToTrie(exact, replacement, value))
        throw new TypeError(
          "redactor: replace must return another text for each value. To restore nothing, set restore to false.",
        );
      const shown = restore(value, { ...found, replacement });
      if (typeof shown !== "string") throw new TypeError("redactor: restore must return a text.");
      addToTrie(restored, replacement, shown);
      return replacement;
    };
    const texts = new Map<string, string>();
    for (const [text, found] of matches) texts.set(text, replaced(text, found, replacementOf));
    const isRestored = (text: string): boolean =>
      restoredIn(texts.get(text) ?? text, exact) === replaced(text, matches.get(text) ?? [], (_kind, value) => value);
    if (!restore || Array.from(all).every(isRestored))
      return { texts, trie: restored, replacementOf: (value) => replacements.get(value) ?? value };
  }
  throw new TypeError(
    "redactor: the replacements stand in the request already, and replace returns no others for other numbers.",
  );
}

function assertReplacement(replacement: unknown): string {
  if (typeof replacement === "string" && replacement !== "" && replacement.length <= MAX_REPLACEMENT)
    return replacement;
  throw new TypeError(`redactor: replace must return a text of 1 to ${MAX_REPLACEMENT} characters.`);
}

function replaced(
  text: string,
  pieces: readonly RedactorPiece[],
  replacementOf: (kind: string, value: string) => string,
): string {
  let [written, at] = ["", 0];
  for (const { start, end, kind, value } of pieces) {
    written += text.slice(at, start) + replacementOf(kind, value);
    at = end;
  }
  return written + text.slice(at);
}
