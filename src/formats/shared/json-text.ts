/** Changes single values in a JSON text. All other bytes stay, with unknown fields and the spelling of numbers. */

import { parseJson } from "../../model/json.ts";

/**
 * Returns the text of a JSON object with another value at a path. A member that is missing is added to its object. Returns the text
 * unchanged if this object is missing.
 *
 * @param mayReplace Tells whether a value, given as JSON, is replaced. Default: always.
 */
export function withMember(
  text: string,
  path: readonly string[],
  json: string,
  mayReplace: (current: string) => boolean = () => true,
): string {
  const span = spanAt(text, path);
  if (span)
    return mayReplace(text.slice(span.start, span.end))
      ? text.slice(0, span.start) + json + text.slice(span.end)
      : text;
  const parent = spanAt(text, path.slice(0, -1));
  if (!parent || text[parent.start] !== "{") return text;
  const [end, first] = [parent.end - 1, skipSpace(text, parent.start + 1)];
  return `${text.slice(0, end)}${first === end ? "" : ","}${JSON.stringify(path.at(-1))}:${json}${text.slice(end)}`;
}

/** The position of a value: from its first character to the one behind its last. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Finds a value in the text of a valid JSON object. Of members with one name, the last counts, as in `JSON.parse`. */
export function spanAt(text: string, path: readonly string[]): Span | undefined {
  let start = skipSpace(text, 0);
  let found: Span | undefined;
  for (const name of path) {
    found = membersOf(text, start).get(name);
    if (!found) return undefined;
    ({ start } = found);
  }
  return found ?? { start, end: endOfValue(text, start) };
}

const NOWHERE: Span = { start: 0, end: 0 };

/** Returns the JSON of a value in the text of a valid JSON object; an empty text without the value. */
export function jsonAt(text: string, path: readonly string[]): string {
  const { start, end } = spanAt(text, path) ?? NOWHERE;
  return text.slice(start, end);
}

/** The text of a valid JSON object, whose members are read and replaced in one pass. Any other text has no members, and stays as it is. */
export class ObjectText {
  readonly #text: string;
  readonly #members: ReadonlyMap<string, Span>;
  /** The members that were replaced or added. */
  #changes: Map<string, string> | undefined;

  constructor(text: string) {
    this.#text = text;
    this.#members = membersOf(text, skipSpace(text, 0));
  }

  /** Returns the JSON of a member; an empty text without the member. */
  get(name: string): string {
    const changed = this.#changes?.get(name);
    if (changed !== undefined) return changed;
    const { start, end } = this.#members.get(name) ?? NOWHERE;
    return this.#text.slice(start, end);
  }

  /** Replaces the JSON of a member, or adds the member. */
  set(name: string, json: string): void {
    if (json === this.get(name)) return;
    this.#changes ??= new Map();
    this.#changes.set(name, json);
  }

  /** The text with the changes. */
  get text(): string {
    let text = this.#text;
    for (const [name, json] of this.#changes ?? []) text = withMember(text, [name], json);
    return text;
  }
}

/**
 * Returns the text of a JSON array with other elements. Returns any other text unchanged.
 *
 * @param change Returns the elements that replace an element. Both are JSON.
 */
export function withElements(text: string, change: (json: string) => string | readonly string[]): string {
  const changed: string[] = [];
  let isSame = true;
  for (const element of elementsIn(text)) {
    const elements = change(element);
    isSame &&= elements === element;
    if (typeof elements === "string") changed.push(elements);
    else changed.push(...elements);
  }
  return isSame ? text : `[${changed.join(",")}]`;
}

/** Yields the elements of a JSON array, each as JSON; nothing for any other text. Of an array that breaks off, the last may be a part. */
export function* elementsIn(text: string): Generator<string, undefined> {
  if (text[0] !== "[") return;
  for (let at = skipSpace(text, 1); at < text.length - 1;) {
    const end = endOfValue(text, at);
    yield text.slice(at, end);
    // Skip the comma.
    at = skipSpace(text, skipSpace(text, end) + 1);
  }
}

/** Finds the members of a value, by their names: none if no object begins here. Of members with one name, the last counts. */
function membersOf(text: string, object: number): ReadonlyMap<string, Span> {
  const members = new Map<string, Span>();
  if (text.charCodeAt(object) !== OPEN_OBJECT) return members;
  let at = skipSpace(text, object + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const endOfName = endOfString(text, at);
    // Skip the colon.
    const start = skipSpace(text, skipSpace(text, endOfName) + 1);
    const end = endOfValue(text, start);
    members.set(nameIn(text.slice(at + 1, endOfName - 1)), { start, end });
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return members;
}

/** Reads a name, which is given without its quotes. Most names have no escapes, and are not parsed. */
const nameIn = (text: string): string => (text.includes("\\") ? (parseJson(`"${text}"`) as string) : text);

function skipSpace(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code <= SPACE; code = text.charCodeAt(at)) at++;
  return at;
}

// Codes of characters: to compare them is much faster than to compare texts of one character.
const [SPACE, QUOTE, BACKSLASH, COMMA] = [0x20, 0x22, 0x5c, 0x2c];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Returns the position behind the value that begins here. */
function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return endOfString(text, start);
  const isNested = first === OPEN_OBJECT || first === OPEN_ARRAY;
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth++;
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      // A number, a boolean or null ends in front of its container's end.
      if (!isNested) return at;
      if (--depth === 0) return at + 1;
    } else if (!isNested && (code === COMMA || code <= SPACE)) return at;
  }
  return text.length;
}

/** Returns the position behind the string that begins here. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end > 0; end = text.indexOf('"', end + 1)) {
    let first = end;
    while (text.charCodeAt(first - 1) === BACKSLASH) first--;
    // Behind an odd number of backslashes, a quote belongs to the string.
    if ((end - first) % 2 === 0) return end + 1;
  }
  return text.length;
}
