/**
 * The texts of parsed objects. A changed copy of an object is written from this text: unchanged members keep their text, and only the others
 * are written anew.
 */

import { derived, listedIn } from "./derived.ts";
import { isContainer, type JsonBudget, type JsonObject, utf8Length } from "./json.ts";

interface KeptText {
  readonly text: string;
  /** The place of the object's beginning, and for each member the places of its colon and its end. */
  readonly marks: readonly number[];
  /** The members of all objects in the text. */
  readonly names: number;
  /** True when a parser can read nothing else in the text than the parsed values. Undefined until somebody asks. */
  isPlain: boolean | undefined;
}

const TEXTS = new WeakMap<object, KeptText>();

/** The most members of an object whose text is kept. */
const MOST_MEMBERS = 256;

/**
 * Keeps the text of an object until `forgetText`.
 *
 * @param marks The place of the object's beginning, and for each member the places of its colon and its end: a comma, or the end of the object.
 * @param names The members of all objects in the text.
 */
export function keepText(object: object, text: string, marks: readonly number[], names: number): void {
  // In UTF-8, half of a character would become another one.
  if (marks.length > 1 + 2 * MOST_MEMBERS || !text.isWellFormed()) return;
  TEXTS.set(object, { text, marks, names, isPlain: undefined });
}

/**
 * Books the memory of the text of an object. Lets go of the text when there is no room for it. Call it when all other memory of the request is
 * booked, because the request can be answered without the text.
 */
export function bookText(object: object, { booking }: JsonBudget): void {
  const { text } = TEXTS.get(object) ?? {};
  if (text === undefined) return;
  try {
    // V8 takes two bytes for each character of a text with a character beyond Latin-1.
    booking?.take(utf8Length(text) === text.length ? text.length : 2 * text.length);
  } catch {
    forgetText(object);
  }
}

export const forgetText = (object: object): boolean => TEXTS.delete(object);

/**
 * Writes an object as JSON.
 *
 * @param from The object that it was made from by changing, adding or removing members. Its other members must be the same values, and nothing
 * inside them may have changed since the text was parsed.
 */
export function writeJson(object: JsonObject, from?: object): string {
  const kept = from && TEXTS.get(from);
  return (kept && spliced(object, from as JsonObject, kept)) ?? JSON.stringify(object);
}

/** Returns undefined for a text in which another parser could read other values. */
function spliced(object: JsonObject, from: JsonObject, kept: KeptText): string | undefined {
  const { text, marks, names } = kept;
  if (!(kept.isPlain ??= isPlain(from, names))) return undefined;
  if (isSame(object, from)) return text.slice(marks[0], (marks.at(-1) ?? text.length) + 1);
  const members: string[] = [];
  for (let at = 0; at + 2 < marks.length; at += 2) {
    const [begin = 0, colon = 0, end = 0] = marks.slice(at, at + 3);
    const quoted = text.slice(begin + 1, colon).trim();
    if (quoted.includes("\\")) return undefined;
    const name = quoted.slice(1, -1);
    if (!Object.hasOwn(object, name)) continue;
    if (object[name] === from[name]) members.push(text.slice(begin + 1, end));
    else addMember(members, quoted, object[name]);
  }
  for (const name of Object.keys(object))
    if (!Object.hasOwn(from, name)) addMember(members, JSON.stringify(name), object[name]);
  return `{${members.join(",")}}`;
}

/** Tells whether two objects have the same members, in any order. */
function isSame(object: JsonObject, from: JsonObject): boolean {
  const names = Object.keys(object);
  if (names.length !== Object.keys(from).length) return false;
  return names.every((name) => Object.hasOwn(from, name) && object[name] === from[name]);
}

function addMember(members: string[], quoted: string, value: unknown): void {
  const json: string | undefined = JSON.stringify(value);
  if (json !== undefined) members.push(`${quoted}:${json}`);
}

/**
 * Tells whether any parser reads the same values in a text. Of two equal names in an object, another parser might read the first. It might
 * refuse a number beyond the doubles. V8 itself reads some escaped names wrongly, always as a name with a backslash: behind `{"a\\":1}`, it may
 * read `{"a\u0062":1}` as `{"a\\":1}` (nodejs/node#63785).
 *
 * @param names The members in the text. A name that came twice is one member of the value.
 */
function isPlain(value: JsonObject, names: number): boolean {
  let plain = 0;
  for (const name in value) {
    const member = value[name];
    plain += name.includes("\\") ? Number.NaN : 1;
    // Later bodies share the elements of lists in a body.
    const listed = Array.isArray(member) ? listedIn(member) : undefined;
    if (!listed) plain += plainNames(member);
    else for (let at = 0; at < listed.length; at++) plain += plainNamesIn((member as unknown[])[at], listed[at]);
  }
  return plain === names;
}

/** Counts the members of all objects in a value; NaN for a value that is not plain. */
function plainNames(value: unknown): number {
  if (!isContainer(value)) return typeof value !== "number" || Number.isFinite(value) ? 0 : Number.NaN;
  let names = 0;
  const open: object[] = [value];
  for (let container = open.pop(); container; container = open.pop()) {
    if (Array.isArray(container)) {
      for (const inner of container as readonly unknown[]) if (!take(inner, open)) return Number.NaN;
      continue;
    }
    for (const name in container) {
      names++;
      if (name.includes("\\")) return Number.NaN;
      if (!take((container as Readonly<Record<string, unknown>>)[name], open)) return Number.NaN;
    }
  }
  return names;
}

const plainNamesIn = derived(plainNames);

/** Adds an object or array to those that are open. Returns false for a number beyond the doubles. */
function take(value: unknown, open: object[]): boolean {
  if (typeof value === "object") {
    if (value !== null) open.push(value);
    return true;
  }
  return typeof value !== "number" || Number.isFinite(value);
}
