/**
 * Parses JSON bodies piece by piece. An agent sends its tools and its first turns again with each call: pieces that an earlier body of the
 * same key had at the same place are compared with it, which is ten times as fast as to parse them.
 */

import { frozen, listed, type ListedValue, noResults } from "../model/derived.ts";
import {
  afterSpace,
  ARRAY,
  ARRAY_END,
  COLON,
  COMMA,
  count,
  type JsonBudget,
  type JsonCounts,
  type JsonObject,
  OBJECT,
  OBJECT_END,
  parseCounted,
  parseJson,
  QUOTE,
  scanJson,
  VALUE_BYTES,
} from "../model/json.ts";
import { keepText } from "../model/kept-text.ts";

/** A value of a body: a member of the outermost object, or an element of an array there. */
interface KnownPiece extends JsonCounts, ListedValue {
  /** The characters in the text, from the comma or bracket before the piece to the one behind it. */
  readonly length: number;
  readonly value: unknown;
}

/** A member of the outermost object, with its name. */
interface Member extends KnownPiece {
  /** The place of the colon in the piece. */
  readonly colon: number;
  /** The place of the first element, and the elements; undefined for other values, and in a small body. */
  readonly elements: { readonly at: number; readonly pieces: readonly KnownPiece[] } | undefined;
}

/** A body that was parsed. */
interface KnownBody {
  readonly keyId: string;
  readonly text: string;
  /** The members by name, with their places in the text. */
  readonly members: ReadonlyMap<string, { readonly at: number; readonly member: Member }>;
  /** The memory of the text and its values, at most. */
  readonly bytes: number;
}

/** A smaller body is parsed faster than it is looked up, in characters. */
const LEAST_CHARS = 8_192;
/** The most bodies of one key. */
const MOST_BODIES = 64;
/** The most members of a body, and elements of an array in it, that are parsed one by one: each costs as much as many small values. */
const MOST_MEMBERS = 256;
const MOST_ELEMENTS = 4_096;
/** The first elements of an array, and the characters that they have together at least: shorter ones are parsed faster than compared. */
const FIRST_ELEMENTS = 64;
const FIRST_CHARS = FIRST_ELEMENTS * 16;
/** The memory of a member, or of an element of an array there, beside its values and with what is derived from it, at most. */
const PIECE_BYTES = 512;
/** The places at which a body is compared with earlier ones to find its own beginning, and the characters that are compared there. */
const PLACES = 8;
const PLACE_CHARS = 32;

/** The last bodies of each key, within a bounded memory. The oldest go first: a conversation that goes on is always among the last. */
export class KnownBodies {
  readonly #maxBytes: number;
  /** The bodies of each key; the last comes last. */
  readonly #byKey = new Map<string, { readonly bodies: Set<KnownBody>; bytes: number }>();
  /** All bodies; the last comes last. */
  readonly #bodies = new Set<KnownBody>();
  #bytes = 0;

  /** @param maxBytes The most memory of all bodies; 0 keeps none. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Parses a body of a key. Throws as `parseJson` does. */
  parse(keyId: string, text: string, budget: JsonBudget): unknown {
    const isKept = this.#maxBytes > 0 && text.length >= LEAST_CHARS;
    const known = isKept ? this.#nearest(keyId, text) : undefined;
    const parsed = parseObject(text, budget, isKept, known);
    if (!parsed) return parseJson(text, budget);
    keepText(parsed.value, text, parsed.marks, budget.names);
    if (isKept) {
      const { members } = parsed;
      let pieces = members.size;
      for (const { member } of members.values()) pieces += member.elements?.pieces.length ?? 0;
      this.#keep({ keyId, text, members, bytes: bytesOf(text, budget) + pieces * PIECE_BYTES }, known);
    }
    return parsed.value;
  }

  /** Lets go of all bodies. */
  clear(): void {
    this.#byKey.clear();
    this.#bodies.clear();
    this.#bytes = 0;
  }

  /** Returns the body of the key that shares the longest beginning with a text, as far as a few places tell. */
  #nearest(keyId: string, text: string): KnownBody | undefined {
    let nearest: KnownBody | undefined;
    let most = 0;
    for (const body of this.#byKey.get(keyId)?.bodies ?? []) {
      const same = samePlaces(body.text, text);
      if (same >= most) [nearest, most] = [body, same];
    }
    return nearest;
  }

  /** Keeps a body. It stands for the body that it continues. */
  #keep(body: KnownBody, known: KnownBody | undefined): void {
    if (known && isContinued(known, body)) this.#remove(known);
    if (body.bytes > this.#maxBytes) return;
    let ofKey = this.#byKey.get(body.keyId);
    if (!ofKey) this.#byKey.set(body.keyId, (ofKey = { bodies: new Set(), bytes: 0 }));
    ofKey.bodies.add(body);
    ofKey.bytes += body.bytes;
    this.#bodies.add(body);
    this.#bytes += body.bytes;
    if (ofKey.bodies.size > MOST_BODIES) this.#remove(oldestOf(ofKey.bodies));
    // A key with more than half of the memory pushes out none but its own bodies.
    while (this.#bytes > this.#maxBytes)
      this.#remove(oldestOf(ofKey.bytes > this.#maxBytes / 2 ? ofKey.bodies : this.#bodies));
  }

  #remove(body: KnownBody | undefined): void {
    if (!body || !this.#bodies.delete(body)) return;
    this.#bytes -= body.bytes;
    const ofKey = this.#byKey.get(body.keyId);
    if (!ofKey) return;
    ofKey.bodies.delete(body);
    ofKey.bytes -= body.bytes;
    if (ofKey.bodies.size === 0) this.#byKey.delete(body.keyId);
  }
}

const oldestOf = ([oldest]: Iterable<KnownBody>): KnownBody | undefined => oldest;

const BEYOND_LATIN_1 = /[^\0-\u00FF]/;

/**
 * Returns the most memory of a text and its values. The values hold the characters again, and what is derived from them may do so once more. V8
 * takes two bytes for each character of a text with a character beyond Latin-1.
 */
const bytesOf = (text: string, { values }: JsonBudget): number =>
  (BEYOND_LATIN_1.test(text) ? 6 : 3) * text.length + values * VALUE_BYTES;

/** Counts the places from the beginning on at which two texts are the same. */
function samePlaces(one: string, other: string): number {
  const step = Math.floor((Math.min(one.length, other.length) - PLACE_CHARS) / PLACES);
  let place = 0;
  for (let at = 0; place <= PLACES; at += step, place++)
    if (one.slice(at, at + PLACE_CHARS) !== other.slice(at, at + PLACE_CHARS)) break;
  return place;
}

/** Tells whether most of a body stands in its successor. */
const isContinued = (body: KnownBody, next: KnownBody): boolean => samePlaces(body.text, next.text) > PLACES / 2;

interface ParsedBody {
  readonly value: JsonObject;
  readonly members: KnownBody["members"];
  /** The place of the object's beginning, and for each member the places of its colon and its end. */
  readonly marks: readonly number[];
}

/** A name whose text is its value. `__proto__` would set the prototype. */
const PLAIN_NAME = /^(?!__proto__$)[^\\\p{Cc}]*$/u;

/**
 * Parses an object member by member. Returns undefined for another text, and for an object that is empty or has many members or unusual names:
 * the counts of the budget are then as before. Throws as `parseJson` does.
 *
 * @param isKept True to parse arrays element by element, and to freeze all pieces, because later bodies will share them.
 * @param known An earlier body.
 */
function parseObject(
  text: string,
  budget: JsonBudget,
  isKept: boolean,
  known: KnownBody | undefined,
): ParsedBody | undefined {
  const { values, items, names, chars, limits } = budget;
  const begin = afterSpace(text, 0);
  if (text.charCodeAt(begin) !== OBJECT || text.length > limits.maxJsonBytes || limits.maxJsonDepth < 3)
    return undefined;
  const value: JsonObject = {};
  const members = new Map<string, { at: number; member: Member }>();
  const marks = [begin];
  const parsing: Parsing = { text, budget, isKept, knownText: known?.text ?? "" };
  // A name that comes twice counts twice.
  const mostMarks = 2 * Math.min(limits.maxJsonKeys, MOST_MEMBERS);
  budget.chars += text.length;
  count(budget, { values: 2, items: 0, names: 0 });
  for (let at = begin + 1; ; at++) {
    const quote = afterSpace(text, at);
    const close = text.charCodeAt(quote) === QUOTE ? text.indexOf('"', quote + 1) : -1;
    const name = text.slice(quote + 1, close);
    const colon = afterSpace(text, close + 1);
    if (close < 0 || text.charCodeAt(colon) !== COLON || !PLAIN_NAME.test(name) || marks.length > mostMarks) break;
    const member = memberAt(parsing, at, colon, known?.members.get(name));
    value[name] = member.value as JsonObject[string];
    members.set(name, { at, member });
    at += member.length;
    marks.push(at - member.length + member.colon, at);
    const next = text.charCodeAt(at);
    if (next === OBJECT_END && afterSpace(text, at + 1) === text.length) return { value, members, marks };
    if (next !== COMMA) break;
    count(budget, { values: 1, items: 0, names: 0 });
  }
  Object.assign(budget, { values, items, names, chars });
  return undefined;
}

/** A body that is being parsed. */
interface Parsing {
  readonly text: string;
  readonly budget: JsonBudget;
  /** True to parse arrays element by element, and to freeze all pieces, because later bodies will share them. */
  readonly isKept: boolean;
  /** The text of an earlier body; empty without one. */
  readonly knownText: string;
}

/** Parses the member that begins at `at`, or takes it from the known body. */
function memberAt(
  parsing: Parsing,
  at: number,
  colon: number,
  known: { at: number; member: Member } | undefined,
): Member {
  const { text, budget, isKept } = parsing;
  if (known && isSame(parsing, at, known.member, known.at, OBJECT_END)) return taken(known.member, budget);
  // Only later bodies need the counts of a piece.
  const before = isKept ? countsOf(budget) : undefined;
  budget.names++;
  const open = afterSpace(text, colon + 1);
  const list = isKept && text.charCodeAt(open) === ARRAY ? listAt(parsing, open + 1, known) : undefined;
  const { end, value } = list ?? valueAt(parsing, colon + 1, 1);
  return {
    ...(before ? since(before, budget) : NO_COUNTS),
    length: end - at,
    colon: colon - at,
    value,
    elements: list && { at: open + 1 - at, pieces: list.pieces },
    holdsTo: undefined,
    results: undefined,
  };
}

/**
 * Parses the elements of an array, and returns the array with the end of its member. Returns undefined for an empty array, and for one of many
 * or short elements: the counts of the budget are then as before.
 */
function listAt(
  parsing: Parsing,
  begin: number,
  known: { at: number; member: Member } | undefined,
): { readonly pieces: readonly KnownPiece[]; readonly value: unknown; readonly end: number } | undefined {
  const { text, budget } = parsing;
  if (text.charCodeAt(afterSpace(text, begin)) === ARRAY_END) return undefined;
  const outside = countsOf(budget);
  const pieces: KnownPiece[] = [];
  const knownPieces = known?.member.elements?.pieces ?? [];
  let knownAt = (known?.at ?? 0) + (known?.member.elements?.at ?? 0);
  for (let at = begin; ; at++) {
    const isShort = pieces.length === FIRST_ELEMENTS && at - begin < FIRST_CHARS;
    if (isShort || pieces.length === MOST_ELEMENTS) {
      Object.assign(budget, outside);
      return undefined;
    }
    count(budget, { values: 1, items: 1, names: 0 });
    const before = countsOf(budget);
    const knownPiece = knownPieces[pieces.length];
    if (knownPiece && isSame(parsing, at, knownPiece, knownAt, ARRAY_END)) pieces.push(taken(knownPiece, budget));
    else {
      const { end, value } = valueAt(parsing, at, 2);
      pieces.push({ ...since(before, budget), length: end - at, value, holdsTo: undefined, results: undefined });
    }
    knownAt += (knownPiece?.length ?? 0) + 1;
    at += pieces.at(-1)?.length ?? 0;
    const next = text.charCodeAt(at);
    if (next === ARRAY_END) {
      const values = pieces.map((piece) => piece.value);
      const value = listed(values, pieces);
      return { pieces, value, end: afterSpace(text, at + 1) };
    }
    // A text that ends within an array is no JSON.
    if (next !== COMMA) throw new SyntaxError("The array does not end.");
  }
}

function valueAt(
  { text, budget, isKept }: Parsing,
  at: number,
  depth: number,
): { readonly end: number; readonly value: unknown } {
  const end = scanJson(text, at, depth, budget);
  const value = parseCounted(text.slice(at, end), budget);
  return { end, value: isKept ? frozen(value) : value };
}

/** Tells whether a piece stands at a place: a comma or the closing bracket must follow, because `1` is also the beginning of `12`. */
function isSame(
  { text, knownText }: Parsing,
  at: number,
  { length }: KnownPiece,
  knownAt: number,
  close: number,
): boolean {
  const next = text.charCodeAt(at + length);
  if (next !== COMMA && next !== close) return false;
  return text.slice(at, at + length) === knownText.slice(knownAt, knownAt + length);
}

function taken<Known extends KnownPiece>(piece: Known, budget: JsonBudget): Known {
  count(budget, piece);
  share(piece);
  return piece;
}

/** Lets results for a piece and its elements be kept: a piece that has come again may do so many times. */
function share(piece: KnownPiece & Partial<Member>): void {
  if (piece.results) return;
  piece.results = noResults();
  for (const element of piece.elements?.pieces ?? []) share(element);
}

const countsOf = ({ values, items, names }: JsonCounts): JsonCounts => ({ values, items, names });

const NO_COUNTS: JsonCounts = { values: 0, items: 0, names: 0 };

const since = (before: JsonCounts, { values, items, names }: JsonCounts): JsonCounts => ({
  values: values - before.values,
  items: items - before.items,
  names: names - before.names,
});
