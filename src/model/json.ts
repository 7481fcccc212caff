/** JSON values, and the only parser for texts of callers and upstreams, with limits. */

import { bytesInWords } from "../options.ts";

/** Any JSON value. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Tells whether a parsed value is a JSON object, not an array, a scalar or null. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns the value at a path; undefined for a path that leads nowhere. */
export function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  let value = root;
  for (const key of path) value = isContainer(value) ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
  return value;
}

/** The limits of the JSON in one message: a request, a complete answer, an event of a stream, a row of a store. */
export interface JsonLimits {
  /** Largest text, in bytes. */
  readonly maxJsonBytes: number;
  /** Deepest nesting of objects and arrays. */
  readonly maxJsonDepth: number;
  /** The most values, containers included; an empty object or array counts as two. */
  readonly maxJsonValues: number;
  /** The most members of one object. */
  readonly maxJsonKeys: number;
  /** The most elements of all arrays together; an empty array counts as one. */
  readonly maxJsonItems: number;
}

/** The default limits, for a row of a store, or for a text that was already checked against narrower limits. */
export const DEFAULT_JSON_LIMITS: JsonLimits = {
  maxJsonBytes: 64 * 1024 ** 2,
  maxJsonDepth: 200,
  maxJsonValues: 1_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 1_000_000,
};

/** The limits of a text that was parsed within the limits of its sender before: those of a host's relay may be wider than the default ones. */
export const PARSED_BEFORE: JsonLimits = {
  maxJsonBytes: Number.POSITIVE_INFINITY,
  maxJsonDepth: Number.POSITIVE_INFINITY,
  maxJsonValues: Number.POSITIVE_INFINITY,
  maxJsonKeys: Number.POSITIVE_INFINITY,
  maxJsonItems: Number.POSITIVE_INFINITY,
};

/** Thrown for a text or a value that exceeds a limit. The message is the end of a sentence: `is nested deeper than 200 levels`. */
export class JsonLimitError extends Error {
  override readonly name = "JsonLimitError";
}

const tooLarge = ({ maxJsonBytes }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`is larger than ${bytesInWords(maxJsonBytes)}`);
const tooDeep = ({ maxJsonDepth }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`is nested deeper than ${maxJsonDepth} levels`);
const tooMany = ({ maxJsonValues }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`holds more than ${maxJsonValues} values`);
const tooManyKeys = ({ maxJsonKeys }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`holds an object of more than ${maxJsonKeys} members`);
const tooManyItems = ({ maxJsonItems }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`holds arrays of more than ${maxJsonItems} elements together`);

/**
 * The memory of one parsed value beside its text, in bytes. This is the highest cost in V8, for nested objects with a single numeric key.
 * Usual values take a quarter. A test measures the number.
 */
export const VALUE_BYTES = 208;

/** A message with more values or characters than this is large: one walk over it takes milliseconds. */
const LARGE_VALUES = 10_000;
const LARGE_CHARS = 2 * 1024 ** 2;

/** Counts the values of all texts of one message. Texts inside a body, such as a tool call's arguments, count with the body. */
export class JsonBudget {
  readonly limits: JsonLimits;
  /** The values counted so far. */
  values = 0;
  /** The array elements counted so far. */
  items = 0;
  /** The UTF-16 units of the texts so far. */
  chars = 0;
  /** True for a large message. Let the event loop serve other work before each further walk over it. */
  isLarge = false;
  /** The members of the objects counted so far. */
  names = 0;
  /** Books memory for values before they are parsed; throws when there is no room. */
  booking: { take(bytes: number): void } | undefined = undefined;
  /** The values whose memory is booked. */
  booked = 0;

  constructor(limits: JsonLimits = DEFAULT_JSON_LIMITS) {
    this.limits = limits;
  }

  /** Books the memory of the values that were counted since. Values that are counted again are booked once. */
  book(): void {
    this.isLarge = this.values > LARGE_VALUES || this.chars > LARGE_CHARS;
    if (this.values <= this.booked) return;
    this.booking?.take((this.values - this.booked) * VALUE_BYTES);
    this.booked = this.values;
  }
}

/**
 * Parses a text of a caller, an upstream or a store.
 *
 * Throws a `JsonLimitError` for a text beyond the limits, before the text is parsed. Throws a `SyntaxError` for a text that is not JSON;
 * its message quotes the text, which may contain secrets. Also throws the errors of the budget's booking.
 *
 * @param bounds A budget, which counts the text with other texts of its message, or the limits of this text alone.
 */
export function parseJson(text: string, bounds: JsonBudget | JsonLimits = DEFAULT_JSON_LIMITS): unknown {
  if (!(bounds instanceof JsonBudget)) {
    if (isWithin(text.length, bounds)) return JSON.parse(text);
    return parseJson(text, new JsonBudget(bounds));
  }
  if (text.length > bounds.limits.maxJsonBytes) throw tooLarge(bounds.limits);
  count(bounds, ONE_VALUE);
  scanJson(text, 0, 0, bounds);
  bounds.chars += text.length;
  return parseCounted(text, bounds);
}

/** The counts of a part of a text. */
export type JsonCounts = Pick<JsonBudget, "values" | "items" | "names">;

const ONE_VALUE: JsonCounts = { values: 1, items: 0, names: 0 };

/** Adds counts to a budget, and books their memory. Throws a `JsonLimitError` beyond its limits. */
export function count(budget: JsonBudget, { values, items, names }: JsonCounts): void {
  budget.names += names;
  if ((budget.values += values) > budget.limits.maxJsonValues) throw tooMany(budget.limits);
  if ((budget.items += items) > budget.limits.maxJsonItems) throw tooManyItems(budget.limits);
  budget.book();
}

/** Parses a text that was scanned. Books its memory first. Throws as `parseJson` does. */
export function parseCounted(text: string, budget: JsonBudget): unknown {
  budget.book();
  try {
    return JSON.parse(text);
  } catch (error) {
    budget.values += VALUES_OF_AN_ERROR;
    budget.booked += VALUES_OF_AN_ERROR;
    throw error;
  }
}

/** The number of values that a text counts as if it is not JSON: creating the error takes as long. A body may hold many such texts. */
const VALUES_OF_AN_ERROR = 200;

/**
 * Tells whether a text is too short to break any limit: a level takes two characters, everything else one. Most frames of streams are this
 * short.
 */
const isWithin = (length: number, limits: JsonLimits): boolean =>
  length <= 2 * limits.maxJsonDepth &&
  length <= limits.maxJsonBytes &&
  length <= limits.maxJsonValues &&
  length <= limits.maxJsonKeys &&
  length <= limits.maxJsonItems;

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const ARRAY = 0x5b;
const BACKSLASH = 0x5c;
export const ARRAY_END = 0x5d;
export const OBJECT = 0x7b;
export const OBJECT_END = 0x7d;

const IS_ARRAY = -1;

/** The number of members of each open object by depth, or IS_ARRAY. Shared by all texts, because a scan never pauses. */
let members = new Int32Array(256);

/**
 * At multiples of this index, the scan skips white space and digits with `STRUCTURE`. Most texts have few of them in a row, so more tries
 * cost time.
 */
const PLAIN_CHARS = 256;

/** Matches the structure of JSON and the beginnings of strings. In V8, this is many times faster than a loop. */
const STRUCTURE = /["[\]{},:]/g;

/**
 * Counts the values inside a value before the parser runs, because a hostile text of ten million arrays takes seconds to become values. The
 * count of a text that is not JSON is right up to the place where the parser stops. Returns the index of the comma or bracket behind the
 * value; the length of the text if it ends before.
 *
 * @param depth The number of objects and arrays around the value.
 */
export function scanJson(text: string, from: number, depth: number, budget: JsonBudget): number {
  const { limits } = budget;
  const { maxJsonDepth, maxJsonValues, maxJsonKeys, maxJsonItems } = limits;
  if (members.length <= maxJsonDepth) members = new Int32Array(maxJsonDepth + 1);
  const outside = depth;
  members[outside] = 0;
  let { values, items, names } = budget;
  let at = from;
  scan: for (; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = text.indexOf('"', at + 1);
        if (at < 0) at = text.length;
        else if (text.charCodeAt(at - 1) === BACKSLASH) at = endOfEscaped(text, at);
        continue;
      case ARRAY:
        if (++depth > maxJsonDepth) throw tooDeep(limits);
        if (++items > maxJsonItems) throw tooManyItems(limits);
        members[depth] = IS_ARRAY;
        break;
      case OBJECT:
        if (++depth > maxJsonDepth) throw tooDeep(limits);
        members[depth] = 0;
        break;
      case COLON:
        names++;
        if (++(members[depth] as number) > maxJsonKeys) throw tooManyKeys(limits);
        continue;
      case ARRAY_END:
      case OBJECT_END:
        if (depth === outside) break scan;
        depth--;
        continue;
      case COMMA:
        if (depth === outside) break scan;
        if (members[depth] === IS_ARRAY && ++items > maxJsonItems) throw tooManyItems(limits);
        break;
      default:
        if (at % PLAIN_CHARS === 0) {
          STRUCTURE.lastIndex = at;
          at = STRUCTURE.test(text) ? STRUCTURE.lastIndex - 2 : text.length;
        }
        continue;
    }
    if (++values > maxJsonValues) throw tooMany(limits);
  }
  budget.values = values;
  budget.items = items;
  budget.names = names;
  return Math.min(at, text.length);
}

/** The white space that is skipped one by one. For more, an expression is many times faster. */
const FEW_SPACES = 64;
const NO_SPACE = /[^ \n\r\t]/g;

/** Returns the index of the first character from `from` on that is no white space. */
export function afterSpace(text: string, from: number): number {
  for (let at = from; at < from + FEW_SPACES; at++) {
    const unit = text.charCodeAt(at);
    if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return at;
  }
  NO_SPACE.lastIndex = from + FEW_SPACES;
  return NO_SPACE.test(text) ? NO_SPACE.lastIndex - 1 : text.length;
}

/** Matches a value without parts, from its first character on. The end of the text may cut it off. */
const SCALAR =
  /-?(?:(?:0|[1-9]\d*)(?:\.(?:\d+|$))?(?:[eE][+-]?(?:\d+|$))?|$)|t(?:r(?:u(?:e|$)|$)|$)|f(?:a(?:l(?:s(?:e|$)|$)|$)|$)|n(?:u(?:l(?:l|$)|$)|$)/y;
/** Matches a quote, a control character, and an escape, which the end may cut off; a backslash alone where no escape follows it. */
// oxlint-disable-next-line no-control-regex -- these are meant
const STRING_STOP = /["\u0000-\u001f]|\\(?!$)(?:["\\/bfnrt]|u(?:[\da-fA-F]{4}|[\da-fA-F]{0,3}$))?/g;

/**
 * Returns the index of the first character by which a text is not JSON; its length for a text that ends too early. The runtimes name this
 * place in different words, if at all.
 */
export function jsonFaultIn(text: string): number {
  const closers: number[] = [];
  let next: "value" | "first" | "name" | "colon" | "comma" = "value";
  for (let at = afterSpace(text, 0); ; at = afterSpace(text, at + 1)) {
    const unit = text.charCodeAt(at);
    const closer = closers.at(-1);
    const isName: boolean = next === "name" || (next === "first" && closer === OBJECT_END);
    if (unit === closer && (next === "first" || next === "comma")) {
      closers.pop();
      next = "comma";
    } else if (next === "comma") {
      if (unit !== COMMA || closer === undefined) return at;
      next = closer === OBJECT_END ? "name" : "value";
    } else if (next === "colon") {
      if (unit !== COLON) return at;
      next = "value";
    } else if (unit === QUOTE) {
      at = stringStop(text, at + 1);
      if (text.charCodeAt(at) !== QUOTE) return at;
      next = isName ? "colon" : "comma";
    } else if (isName) {
      return at;
    } else if (unit === OBJECT || unit === ARRAY) {
      closers.push(unit === OBJECT ? OBJECT_END : ARRAY_END);
      next = "first";
    } else {
      SCALAR.lastIndex = at;
      if (!SCALAR.test(text)) return at;
      at = SCALAR.lastIndex - 1;
      next = "comma";
    }
  }
}

/** Returns the index of the quote that ends a string, or of the first character that may not stand in it; else the length of the text. */
function stringStop(text: string, from: number): number {
  STRING_STOP.lastIndex = from;
  for (let stop = STRING_STOP.exec(text); stop; stop = STRING_STOP.exec(text))
    if (stop[0].length === 1) return stop.index;
  return text.length;
}

/** Returns the index of the quote that ends a string: the first one from `end` on with an even number of backslashes before it. */
function endOfEscaped(text: string, end: number): number {
  for (; end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = end;
    while (text.charCodeAt(escapes - 1) === BACKSLASH) escapes--;
    if ((end - escapes) % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Checks a parsed value, or a value that a host's function made, against the limits. Throws a `JsonLimitError`, also for a cyclic value,
 * which is nested too deep. Names and strings count with their characters, every other value as one character. Walks level by level,
 * because recursion could overflow the stack.
 */
export function assertJsonBounds(value: unknown, limits: JsonLimits = DEFAULT_JSON_LIMITS): void {
  let values = 1;
  let chars = typeof value === "string" ? value.length : 0;
  let level: object[] = isContainer(value) ? [value] : [];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > limits.maxJsonDepth) throw tooDeep(limits);
    const next: object[] = [];
    for (const container of level) {
      const names = Array.isArray(container) ? undefined : Object.keys(container);
      const inner = container as Readonly<Record<string, unknown>>;
      const { length } = names ?? (container as readonly unknown[]);
      // Counted as in a text: an empty object or array counts as two.
      values += Math.max(1, length);
      // Check before the walk: an array of a host may be sparse and very long.
      if (values > limits.maxJsonValues) throw tooMany(limits);
      for (let index = 0; index < length; index++) {
        const name = names?.[index];
        const each = inner[name ?? index];
        chars += (name?.length ?? 0) + (typeof each === "string" ? each.length : 1);
        if (isContainer(each)) next.push(each);
      }
    }
    if (chars > limits.maxJsonBytes) throw tooLarge(limits);
    level = next;
  }
  if (chars > limits.maxJsonBytes) throw tooLarge(limits);
}

export const isContainer = (value: unknown): value is object => typeof value === "object" && value !== null;

const { Buffer } = globalThis as { Buffer?: { byteLength(text: string): number } };

/** Returns a copy of a part of a text. The part itself would keep the whole text in memory. */
export const copyOf = (part: string): string => JSON.parse(JSON.stringify(part)) as string;

/** Tells whether a UTF-16 unit is the first half of a character. Both halves must stay together. */
export const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;

/** Returns the length of a text in UTF-8, in bytes. Does not encode the text, because a prompt may be megabytes long. */
export const utf8Length = (text: string): number => (Buffer ? Buffer.byteLength(text) : countUtf8(text));

/** Counts bytes where the runtime has no `Buffer`. */
function countUtf8(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) continue;
    // A surrogate is half of a four-byte character: two bytes for each half.
    bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

/** Tells whether a text has more code points than `most`, so that an emoji counts once. Looks at no more of the text than needed. */
export function isLonger(text: string, most: number): boolean {
  if (text.length <= most) return false;
  if (text.length > 2 * most) return true;
  let count = 0;
  for (let at = 0; at < text.length && count <= most; count++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return count > most;
}

type Given<T> = { [K in keyof T]?: NonNullable<T[K]> };

/** Returns the fields that have a value. Null is left out, too: the formats that have it take it for an absent field. */
export function given<T extends object>(fields: T): Given<T> {
  const kept: Given<T> = {};
  for (const key in fields) {
    const value = fields[key];
    if (value != null) kept[key] = value;
  }
  return kept;
}

/** The characters at which some client ends a line. */
export const LINE_ENDS: RegExp = /[\n\r\u0085\u2028\u2029]/;

/** Escapes U+0085, U+2028 and U+2029 in JSON, which may have them unescaped: some clients end a line there. */
export const escapedLine = (json: string): string =>
  json.replaceAll("\u0085", "\\u0085").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

export const jsonLine = (value: object): string => escapedLine(JSON.stringify(value));
