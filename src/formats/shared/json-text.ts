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
    found = text[start] === "{" ? memberOf(text, start, name) : undefined;
    if (!found) return undefined;
    ({ start } = found);
  }
  return found ?? { start, end: endOfValue(text, start) };
}

/** Finds the values of the members of a JSON object, by their names. */
export const membersOf = (text: string): ReadonlyMap<string, Span> => new Map(membersIn(text, skipSpace(text, 0)));

/** Returns the JSON of a value in the text of a valid JSON object; an empty text without the value. */
export function jsonAt(text: string, path: readonly string[]): string {
  const { start, end } = spanAt(text, path) ?? { start: 0, end: 0 };
  return text.slice(start, end);
}

/**
 * Returns the text of a JSON object with other elements in an array. Returns the text unchanged without the array.
 *
 * @param change Returns the elements that replace an element. Both are JSON.
 */
export function withElements(
  text: string,
  path: readonly string[],
  change: (json: string) => string | readonly string[],
): string {
  const array = spanAt(text, path);
  if (!array || text[array.start] !== "[") return text;
  const elements: string[] = [];
  for (let at = skipSpace(text, array.start + 1); at < array.end - 1;) {
    const end = endOfValue(text, at);
    elements.push(text.slice(at, end));
    // Skip the comma.
    at = skipSpace(text, skipSpace(text, end) + 1);
  }
  const changed = elements.flatMap(change);
  const isSame = changed.length === elements.length && changed.every((json, index) => json === elements[index]);
  return isSame ? text : `${text.slice(0, array.start)}[${changed.join(",")}]${text.slice(array.end)}`;
}

function memberOf(text: string, object: number, name: string): Span | undefined {
  let found: Span | undefined;
  for (const [present, span] of membersIn(text, object)) if (present === name) found = span;
  return found;
}

/** Yields the members of the object that begins here: the name, and the position of the value. */
function* membersIn(text: string, object: number): Generator<readonly [name: string, value: Span]> {
  let at = skipSpace(text, object + 1);
  while (text[at] === '"') {
    const endOfName = endOfString(text, at);
    // Skip the colon.
    const start = skipSpace(text, skipSpace(text, endOfName) + 1);
    const end = endOfValue(text, start);
    yield [nameIn(text.slice(at + 1, endOfName - 1)), { start, end }];
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
}

/** Reads a name, which is given without its quotes. Most names have no escapes, and are not parsed. */
const nameIn = (text: string): string => (text.includes("\\") ? (parseJson(`"${text}"`) as string) : text);

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === " " || text[at] === "\n" || text[at] === "\r" || text[at] === "\t") at++;
  return at;
}

/** Matches what follows a number, a boolean or null. */
const END_OF_WORD = /[\s,\]}]/g;

/** Returns the position behind the value that begins here. */
function endOfValue(text: string, start: number): number {
  const first = text[start];
  if (first === '"') return endOfString(text, start);
  if (first !== "{" && first !== "[") {
    END_OF_WORD.lastIndex = start;
    return END_OF_WORD.test(text) ? END_OF_WORD.lastIndex - 1 : text.length;
  }
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (char === '"') at = endOfString(text, at) - 1;
    else if (char === "{" || char === "[") depth++;
    else if ((char === "}" || char === "]") && --depth === 0) return at + 1;
  }
  return text.length;
}

/** Returns the position behind the string that begins here. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end > 0; end = text.indexOf('"', end + 1)) {
    let first = end;
    while (text[first - 1] === "\\") first--;
    // Behind an odd number of backslashes, a quote belongs to the string.
    if ((end - first) % 2 === 0) return end + 1;
  }
  return text.length;
}
