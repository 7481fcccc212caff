/** JSON: its values, and the one place where a text that a stranger wrote becomes a value, within limits. */

export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Whether a parsed JSON value is an object rather than an array, a scalar or null. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Bounds of the JSON in one message: a request, a complete answer, an event of a stream, a row of a store. */
export interface JsonLimits {
  /** Largest text, in bytes. A text of more UTF-16 units than this has more bytes, too. */
  readonly maxJsonBytes: number;
  /** Deepest nesting of objects and arrays. */
  readonly maxJsonDepth: number;
  /** Most values, containers and what is in them alike; an empty object or array counts as two. */
  readonly maxJsonValues: number;
  /** Most members of one object. */
  readonly maxJsonKeys: number;
  /** Most elements of all arrays; an empty array counts as one. */
  readonly maxJsonItems: number;
}

/** The limits of a text that comes with none of its own, such as a row of a store, or was held to narrower limits before. */
export const DEFAULT_JSON_LIMITS: JsonLimits = {
  maxJsonBytes: 64 * 1024 ** 2,
  maxJsonDepth: 200,
  maxJsonValues: 1_000_000,
  maxJsonKeys: 10_000,
  maxJsonItems: 1_000_000,
};

/** A text or a value is beyond a limit. The message says what it is, such as `is nested deeper than 200 levels`. */
export class JsonLimitError extends Error {
  override readonly name = "JsonLimitError";
}

const tooLarge = ({ maxJsonBytes }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`is larger than ${maxJsonBytes} bytes`);
const tooDeep = ({ maxJsonDepth }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`is nested deeper than ${maxJsonDepth} levels`);
const tooMany = ({ maxJsonValues }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`holds more than ${maxJsonValues} values`);
const tooManyKeys = ({ maxJsonKeys }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`holds an object of more than ${maxJsonKeys} members`);

const tooManyItems = ({ maxJsonItems }: JsonLimits): JsonLimitError =>
  new JsonLimitError(`holds arrays of more than ${maxJsonItems} elements together`);

/**
 * Memory that a value takes once it is parsed, beyond the bytes that it is written in: what the dearest values take in V8, objects
 * with a single numeric key, one within another. Most take a quarter of that. A test measures it.
 */
export const VALUE_BYTES = 208;

/** Counts the values of all texts of one message: texts of JSON inside a body, such as a tool call's arguments, count with it. */
export class JsonBudget {
  readonly limits: JsonLimits;
  /** How many values were counted so far. */
  values = 0;
  /** How many UTF-16 units the texts had so far. */
  chars = 0;
  /** Books the memory of values before they are parsed; it throws where there is no room. */
  booking: { take(bytes: number): void } | undefined = undefined;
  /** How many elements of arrays were counted so far. */
  items = 0;

  constructor(limits: JsonLimits = DEFAULT_JSON_LIMITS) {
    this.limits = limits;
  }

  /** Whether one walk over the message takes milliseconds, so that each walk deserves a turn of the event loop of its own. */
  get isLarge(): boolean {
    return this.values > LARGE_VALUES || this.chars > LARGE_CHARS;
  }
}

const LARGE_VALUES = 10_000;
const LARGE_CHARS = 2 * 1024 ** 2;

/**
 * The value of a stranger's text. Throws a `JsonLimitError` for a text beyond the limits, before it is parsed, and a `SyntaxError`
 * for a text that is no JSON. A `SyntaxError` quotes the text, which may hold secrets. Where the budget books memory, what its booking
 * throws.
 *
 * @param bounds A budget, which counts the text with others of its message, or the limits of this text alone.
 */
export function parseJson(text: string, bounds: JsonBudget | JsonLimits = DEFAULT_JSON_LIMITS): unknown {
  if (bounds instanceof JsonBudget) return parseCounted(text, bounds);
  return isTooShort(text, bounds) ? JSON.parse(text) : parseCounted(text, new JsonBudget(bounds));
}

/** Whether no JSON of this length can be beyond the limits: a level takes two characters, and all else one. Most frames of a stream are. */
const isTooShort = (
  { length }: string,
  { maxJsonBytes, maxJsonDepth, maxJsonValues, maxJsonKeys, maxJsonItems }: JsonLimits,
): boolean =>
  length <= 2 * maxJsonDepth &&
  length <= maxJsonBytes &&
  length <= maxJsonValues &&
  length <= maxJsonKeys &&
  length <= maxJsonItems;

function parseCounted(text: string, budget: JsonBudget): unknown {
  const before = budget.values;
  countValues(text, budget);
  budget.chars += text.length;
  budget.booking?.take((budget.values - before) * VALUE_BYTES);
  try {
    return JSON.parse(text);
  } catch (error) {
    budget.values += VALUES_OF_AN_ERROR;
    throw error;
  }
}

/** How many values a text counts as that is no JSON: to make the error takes as long. A body may hold many such texts. */
const VALUES_OF_AN_ERROR = 200;

/** The characters that hold JSON together. */
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const ARRAY_END = 0x5d;
const OBJECT = 0x7b;
const OBJECT_END = 0x7d;

const IS_ARRAY = -1;

/** By depth, how many members each open object has, or that it is an array. Shared by all texts: nothing outlives the scan of one. */
let members = new Int32Array(256);

// Counts before the parser runs: a hostile text of ten million arrays takes seconds to become values. A text that is no JSON may be
// counted wrongly, but not before the place where the parser stops.
function countValues(text: string, budget: JsonBudget): void {
  const { limits } = budget;
  const { maxJsonBytes, maxJsonDepth, maxJsonValues, maxJsonKeys, maxJsonItems } = limits;
  if (text.length > maxJsonBytes) throw tooLarge(limits);
  if (members.length <= maxJsonDepth) members = new Int32Array(maxJsonDepth + 1);
  members[0] = 0;
  let depth = 0;
  let values = budget.values + 1;
  let { items } = budget;
  if (values > maxJsonValues) throw tooMany(limits);
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
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
        if (++(members[depth] as number) > maxJsonKeys) throw tooManyKeys(limits);
        continue;
      case ARRAY_END:
      case OBJECT_END:
        // More ends than beginnings are no JSON, and have no depth.
        if (depth > 0) depth--;
        continue;
      case COMMA:
        if (members[depth] === IS_ARRAY && ++items > maxJsonItems) throw tooManyItems(limits);
        break;
      default:
        if (at % PLAIN_CHARS === 0) at = lastPlain(text, at);
        continue;
    }
    if (++values > maxJsonValues) throw tooMany(limits);
  }
  budget.values = values;
  budget.items = items;
}

/** After how many characters the scan tries to leap over white space and digits. Rarely: most texts have little of them in a row. */
const PLAIN_CHARS = 256;

/** All that holds JSON together, and the beginnings of strings. V8 looks for them many times faster than a loop does. */
const HOLDING = /["[\]{},:]/g;

/** The index of the last of the characters from `start` on that neither hold JSON together nor begin a string. */
function lastPlain(text: string, start: number): number {
  HOLDING.lastIndex = start;
  return HOLDING.test(text) ? HOLDING.lastIndex - 2 : text.length;
}

/** The index of the quote that ends a string: the next quote with an even number of backslashes before it. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = end;
    while (text.charCodeAt(escapes - 1) === BACKSLASH) escapes--;
    if ((end - escapes) % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Holds a value that was parsed already, or that a host's function made, to the limits: it may be cyclic, or deeper than a recursion
 * may go. Throws a `JsonLimitError`; a cyclic value is nested too deep. Names and texts are counted in characters, each other value as
 * one.
 */
export function assertJsonBounds(value: unknown, limits: JsonLimits = DEFAULT_JSON_LIMITS): void {
  let values = 1;
  let chars = typeof value === "string" ? value.length : 0;
  let level: object[] = isContainer(value) ? [value] : [];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > limits.maxJsonDepth) throw tooDeep(limits);
    const next: object[] = [];
    for (const container of level) {
      const inner: readonly unknown[] = Array.isArray(container) ? container : Object.values(container);
      values += inner.length + 1;
      if (values > limits.maxJsonValues) throw tooMany(limits);
      for (const each of inner) {
        chars += typeof each === "string" ? each.length : 1;
        if (isContainer(each)) next.push(each);
      }
      if (!Array.isArray(container)) for (const name of Object.keys(container)) chars += name.length;
    }
    if (chars > limits.maxJsonBytes) throw tooLarge(limits);
    level = next;
  }
  if (chars > limits.maxJsonBytes) throw tooLarge(limits);
}

const isContainer = (value: unknown): value is object => typeof value === "object" && value !== null;
