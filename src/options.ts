/** Checks the options of the library's factories when something is made, also for hosts that write JavaScript. */

type Kind = "string" | "number" | "boolean" | "function" | "object" | "list" | "any";

/** The expected value of a required option: its kind, or the words of which it must be one. `any` is checked elsewhere, or not at all. */
type Shape = Kind | readonly string[];

/** The shape of each option. An option that may be missing has a shape with a question mark, or words in an object. */
export type Shapes<Options> = {
  readonly [Name in keyof Options]-?: Partial<Pick<Options, Name>> extends Pick<Options, Name>
    ? `${Kind}?` | { readonly optional: readonly string[] }
    : Shape;
};

/** The shape of any option. */
export type AnyShape = Shape | `${Kind}?` | { readonly optional: readonly string[] };

const WORDS: Readonly<Record<Kind, string>> = {
  string: "a text",
  number: "a number",
  boolean: "true or false",
  function: "a function",
  object: "an object",
  list: "a list",
  any: "given",
};

/**
 * Throws a TypeError for options that are no object, for an unknown option of an object that is written as a literal, and for an option
 * that is missing or has the wrong shape. The message names the option and what it may be, but not its value, which may be a secret. It
 * shows only a short text where one of some words was expected.
 *
 * @param where The factory in messages, such as `relay` or `route: routes["fast"]`.
 * @param shapes The shape of each option. The compiler holds the table to the interface of the options.
 */
export function assertOptions<Options extends object>(where: string, options: unknown, shapes: Shapes<Options>): void {
  const all = Object.entries<AnyShape>(shapes);
  const names = all.map(([name]) => name);
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    const required = all.flatMap(([name, shape]) => (isOptional(shape) ? [] : name));
    const example = required.length > 0 ? ` with ${required.join(" and ")}` : "";
    throw new TypeError(`${where}: expects an object of options${example}, not ${shown(options)}.`);
  }
  const given = options as Readonly<Record<string, unknown>>;
  // An object of a host's own class may have fields of its own.
  const own = isPlain(options) ? Object.keys(given) : [];
  for (const name of own) if (!names.includes(name)) throw new TypeError(`${where}: ${unknownName(name, names)}`);
  for (const [name, shape] of all) {
    const value = given[name];
    if (value === undefined && isOptional(shape)) continue;
    const kind = kindOf(shape);
    if (kind === "any" || isOf(kind, value)) continue;
    const words = typeof kind === "string" ? WORDS[kind] : `one of ${kind.map((word) => `"${word}"`).join(", ")}`;
    throw new TypeError(
      value === undefined
        ? `${where}: ${name} is missing; it must be ${words}.`
        : `${where}: ${name} must be ${words}, not ${typeof kind === "string" ? shown(value) : shownWord(value)}.`,
    );
  }
}

/** Throws a TypeError for a value that is no list. */
export function assertList(where: string, name: string, value: unknown, example: string): void {
  if (!Array.isArray(value)) throw new TypeError(wrong(where, name, `a list, such as ${example}`, value));
}

/** Throws a TypeError for a port that lacks one of its methods, and says what was probably given instead. */
export function assertMethods(
  where: string,
  name: string,
  port: unknown,
  methods: readonly string[],
  what: string,
): void {
  for (const method of methods)
    if (!hasMethod(port, method)) throw new TypeError(`${where}: ${name} must be ${what}, ${lacking(port, [method])}.`);
}

/** True for an object or a function with a method of this name. */
export const hasMethod = (port: unknown, method: string): boolean =>
  typeof (port as Readonly<Record<string, unknown>> | null | undefined)?.[method] === "function";

/** Says what a value is that should have one of some methods, in the words after "must be …,". */
export function lacking(port: unknown, methods: readonly string[]): string {
  if (typeof port === "function") return "not a function: its result is probably meant";
  if (typeof port !== "object" || port === null || Array.isArray(port) || isPromise(port)) return `not ${shown(port)}`;
  const none = `and has no ${methods.map((method) => `${method}()`).join(" or ")}`;
  return isPlain(port) ? `${none}. An instance of a class that is spread loses its methods` : none;
}

/** Also true for a promise of another realm. */
const isPromise = (value: unknown): boolean => Object.prototype.toString.call(value) === "[object Promise]";

/** True for an object that was written as a literal, also in another realm. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

const wrong = (where: string, name: string, words: string, value: unknown): string =>
  `${where}: ${name} must be ${words}, not ${shown(value)}.`;

/** Says that there is no option of a name, which names there are, and which one was probably meant. */
export function unknownName(name: string, known: readonly string[]): string {
  const meant = nearest(name, known);
  const suggestion = meant === undefined ? "" : `did you mean ${meant}? `;
  return `${name} does not exist; ${suggestion}${suggestion ? "There" : "there"} are ${known.join(", ")}`;
}

const isOptional = (shape: AnyShape): boolean =>
  typeof shape === "string" ? shape.endsWith("?") : "optional" in shape;

function kindOf(shape: AnyShape): Kind | readonly string[] {
  if (typeof shape === "string") return shape.replace("?", "") as Kind;
  return "optional" in shape ? shape.optional : shape;
}

function isOf(kind: Kind | readonly string[], value: unknown): boolean {
  if (typeof kind !== "string") return typeof value === "string" && kind.includes(value);
  if (kind === "list") return Array.isArray(value);
  // Some ports are functions with methods.
  if (kind === "object")
    return (
      (typeof value === "object" && value !== null && !Array.isArray(value) && !isPromise(value)) ||
      typeof value === "function"
    );
  return typeof value === kind;
}

/** Writes a wrong value that cannot be a secret, such as a number: a text in quotes. */
export const quoted = (value: unknown): string => {
  if (typeof value === "string") return JSON.stringify(value);
  return typeof value === "object" && value !== null ? shown(value) : String(value);
};

/** Characters that move a terminal's cursor, change its state, or turn the direction of text. */
// oxlint-disable-next-line no-control-regex -- these are meant
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Writes a stranger's text for one line of a terminal or a log: control characters as JSON escapes them. */
export const oneLine = (text: string): string =>
  text.replaceAll(CONTROLS, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** Like `oneLine`, but for text of several lines, which may have tabs. */
export const manyLines = (text: string): string =>
  text.replaceAll(CONTROLS, (char) => (char === "\n" || char === "\t" ? char : oneLine(char)));

/** Names the kind of a value, because the value itself may be a secret. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return "a list";
  if (isPromise(value)) return "a Promise: await it first";
  if (typeof value === "boolean") return String(value);
  return (
    { string: "a text", function: "a function", object: "an object" }[typeof value as string] ?? `a ${typeof value}`
  );
}

/** Shows a wrong word, but no text that may be a secret. */
export const shownWord = (value: unknown): string =>
  typeof value === "string" && /^[\w.-]{1,20}$/.test(value) ? JSON.stringify(value) : shown(value);

/** Longer names are not compared. */
const MAX_COMPARED = 64;

/** Returns the known name that was probably meant; undefined when none is near. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_COMPARED) return undefined;
  const lower = name.toLowerCase();
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    const other = candidate.toLowerCase();
    const isPart = lower.length >= 3 && (other.includes(lower) || lower.includes(other));
    // A name that is cut short, or that goes on, is nearer than one with other letters.
    const isCut = isPart && other.length >= 3 && (other.startsWith(lower) || lower.startsWith(other));
    const distance = distanceOf(lower, other) / (isCut ? MAX_COMPARED : 1);
    const isNear = isPart || distance <= Math.max(1, Math.floor(Math.min(lower.length, other.length) / 3));
    if (isNear && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) best = { name: candidate, distance };
  }
  return best?.name;
}

/** Counts the letters to add, remove or replace to make one text from the other. */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}

/** The longest wait of a timer, in milliseconds. Runtimes fire a timer at once when it is set for longer. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** Throws a RangeError for a time in milliseconds that a timer cannot wait. */
export function assertTimerMs(name: string, ms: number): void {
  if (!Number.isSafeInteger(ms) || ms < 1 || ms > MAX_TIMER_MS)
    throw new RangeError(`${name} must be an integer from 1 to ${MAX_TIMER_MS}, not ${quoted(ms)}`);
}
