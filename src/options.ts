/** Checks the options of the library's factories when something is made, also for hosts that write JavaScript. */

/** A kind of value. `positive` and `fromZero` are integers; an `amount` may be a fraction. */
type Kind = AnyKind | NumberKind;
type AnyKind = "string" | "number" | "boolean" | "function" | "object" | "list" | "any";
type NumberKind = "positive" | "fromZero" | "amount" | "timerMs" | "deadlineMs";

/** Throws a TypeError or a RangeError for a wrong value. `path` names the value in messages, such as `createGateway: cors`. */
export type Check = (path: string, value: unknown) => void;

/** A rule for a number. */
export interface NumberRule {
  /** The words after "must be" in the error. */
  readonly words: string;
  allows(value: number): boolean;
}

/**
 * The expected value of an option: its kind, the words of which it must be one, the rule of its number, or its check. `any` is checked
 * elsewhere, or not at all.
 */
type Shape = PlainShape | Check;
type PlainShape = Kind | readonly string[] | NumberRule;

/** The shape of each option. An option that may be missing has a kind with a question mark, or a shape in an object. */
export type Shapes<Options> = {
  readonly [Name in keyof Options]-?: Partial<Pick<Options, Name>> extends Pick<Options, Name>
    ? `${Kind}?` | { readonly optional: Shape }
    : Shape;
};

/** The shape of any option. */
export type AnyShape = Shape | `${Kind}?` | { readonly optional: Shape };

const WORDS: Readonly<Record<AnyKind, string>> = {
  string: "a text",
  number: "a number",
  boolean: "true or false",
  function: "a function",
  object: "an object",
  list: "a list",
  any: "given",
};

/** The longest wait of a timer, in milliseconds. Runtimes fire a timer at once when it is set for longer. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** Allows the integers of a range, with both ends. */
export const integer = (least: number, most: number = Number.MAX_SAFE_INTEGER): NumberRule => ({
  words: `an integer from ${least} ${most === Number.MAX_SAFE_INTEGER ? "up" : `to ${most}`}`,
  allows: (value) => Number.isSafeInteger(value) && value >= least && value <= most,
});

export const POSITIVE: NumberRule = { ...integer(1), words: "a positive integer" };
export const FROM_ZERO: NumberRule = integer(0);
/** Allows fractions. */
export const AMOUNT: NumberRule = {
  words: "a number from 0 up",
  allows: (value) => Number.isFinite(value) && value >= 0,
};

const NUMBERS: Readonly<Record<NumberKind, NumberRule>> = {
  positive: POSITIVE,
  fromZero: FROM_ZERO,
  amount: AMOUNT,
  timerMs: integer(1, MAX_TIMER_MS),
  // A deadline may be longer than a timer waits.
  deadlineMs: { words: "milliseconds from 0 up", allows: (value) => value >= 0 },
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
  const required = all.flatMap(([name, shape]) => (isOptional(shape) ? [] : name));
  const expects = `${where}: expects an object of options${required.length > 0 ? ` with ${required.join(" and ")}` : ""}`;
  if (typeof options !== "object" || options === null || Array.isArray(options) || isPromise(options))
    throw new TypeError(`${expects}, not ${shown(options)}.`);
  const given = options as Readonly<Record<string, unknown>>;
  // An object of a host's own class may have fields of its own.
  const own = isPlain(options) ? Object.keys(given) : [];
  for (const name of own)
    if (!names.includes(name)) {
      // The stores of `openStores` have the options in a field of their own.
      const stores = hasPorts(given[name]) ? name : hasPorts(given) ? "stores" : undefined;
      const isMeant = (required.length > 0 ? required : names).some((known) => known in given);
      const made = stores || isMeant ? undefined : givenInstead(given);
      if (made !== undefined) throw new TypeError(`${expects}, not ${made}.`);
      const fault = stores
        ? `${name} does not exist; write ...${stores}.ports.`
        : (holdingOptions(name, given[name], names) ?? unknownName(name, names));
      throw new TypeError(`${where}: ${fault}`);
    }
  for (const [name, shape] of all) {
    const value = given[name];
    if (value === undefined && isOptional(shape)) continue;
    const expected = shapeOf(shape);
    if (value === undefined && expected !== "any" && typeof expected !== "function")
      throw new TypeError(`${where}: ${name} is missing; it must be ${wordsOf(expected)}.`);
    assertShape(`${where}: ${name}`, value, expected);
  }
}

/** Throws a TypeError for a value that has not the expected shape, and a RangeError for a number that breaks its rule. */
function assertShape(path: string, value: unknown, expected: Shape): void {
  if (typeof expected === "function") return expected(path, value);
  if (expected === "any" || isOf(expected, value)) return;
  const isFunction = expected === "object" && typeof value === "function";
  const hint = isFunction ? ": its result is probably meant" : areStores(value) ? partFor(path.split(": ")) : "";
  const message = `${path} must be ${wordsOf(expected)}, not ${shownAs(expected, value)}${hint}.`;
  throw ruleOf(expected) && typeof value === "number" ? new RangeError(message) : new TypeError(message);
}

/** Returns the rule of a number; undefined for other shapes. */
function ruleOf(expected: PlainShape): NumberRule | undefined {
  if (typeof expected !== "string") return "allows" in expected ? expected : undefined;
  return Object.hasOwn(NUMBERS, expected) ? NUMBERS[expected as NumberKind] : undefined;
}

function wordsOf(expected: PlainShape): string {
  const rule = ruleOf(expected);
  if (rule) return rule.words;
  if (typeof expected === "string") return WORDS[expected as AnyKind];
  return `one of ${(expected as readonly string[]).map((word) => JSON.stringify(word)).join(", ")}`;
}

function shownAs(expected: PlainShape, value: unknown): string {
  const isNumeric = typeof value === "number" || (typeof value === "string" && /^[\d.e+-]{1,20}$/i.test(value));
  if (ruleOf(expected)) return isNumeric ? quoted(value) : shown(value);
  return typeof expected === "string" ? shown(value) : shownWord(value);
}

/** Checks one value. */
export const checkOf =
  (expected: Shape): Check =>
  (path, value) =>
    assertShape(path, value, expected);

/** Throws a TypeError for a value that is no text. */
export const assertText: Check = checkOf("string");

/** Checks an object of options inside of options. */
export const fieldsOf =
  <Options extends object>(shapes: Shapes<Options>): Check =>
  (path, value) =>
    assertOptions<Options>(path, value, shapes);

/** Checks each entry of a list. */
export const listOf =
  (entry: Shape): Check =>
  (path, value) => {
    assertShape(path, value, "list");
    for (const [index, one] of (value as readonly unknown[]).entries()) assertShape(`${path}[${index}]`, one, entry);
  };

/** Checks each value of an object whose names the host chooses, such as models. */
export const mapOf =
  (entry: Shape): Check =>
  (path, value) => {
    assertShape(path, value, "object");
    for (const [name, one] of Object.entries(value as object))
      assertShape(`${path}[${JSON.stringify(name)}]`, one, entry);
  };

/** Checks an object with methods, such as a store. `what` names it with its article. */
export const portOf =
  (methods: readonly string[], what: string): Check =>
  (path, value) => {
    const missing = methods.find((method) => !hasMethod(value, method));
    if (missing !== undefined) throw new TypeError(`${path} must be ${what}, ${lacking(value, [missing], methods)}.`);
  };

/** Says that a field of an unknown name holds options, as `prices: priceTable({…})` does. Undefined if it does not. */
function holdingOptions(name: string, value: unknown, names: readonly string[]): string | undefined {
  const held = typeof value === "object" && value !== null ? Object.keys(value) : [];
  if (held.length === 0 || !held.every((field) => names.includes(field))) return undefined;
  return `${name} does not exist; its value has the options ${held.join(" and ")}: write ...value in place of ${name}: value.`;
}

/** The words for a gateway in the errors of all that takes one. */
export const A_GATEWAY = "a gateway of createGateway";

/** Throws a TypeError for a first argument that has no endpoints. */
export function assertEndpoints(factory: string, gateway: unknown): void {
  if (!Array.isArray((gateway as { readonly endpoints?: unknown } | null | undefined)?.endpoints))
    throw new TypeError(
      `${factory}: the first argument must be ${A_GATEWAY}, not ${givenInstead(gateway) ?? shown(gateway)}.`,
    );
}

/** The shape of an option for a clock. */
export const CLOCK: { readonly optional: Check } = { optional: portOf(["now", "after", "every"], "a Clock") };

export const isCurrencyCode = (text: unknown): text is string => typeof text === "string" && /^[a-z]{3}$/i.test(text);

/** Checks an option for the code of a currency. */
export const CURRENCY: Check = (path, code) => {
  if (!isCurrencyCode(code))
    throw new TypeError(`${path} must be a code of three letters, such as usd, not ${quoted(code)}`);
};

/** Throws a TypeError for a port that lacks one of its methods, and says what was probably given instead. */
export const assertMethods = (
  where: string,
  name: string,
  port: unknown,
  methods: readonly string[],
  what: string,
): void => portOf(methods, what)(`${where}: ${name}`, port);

/** True for an object or a function with a method of this name. */
export const hasMethod = (port: unknown, method: string): boolean =>
  // A text and a list have methods of their own, such as `at`.
  typeof port !== "string" &&
  !Array.isArray(port) &&
  typeof (port as Readonly<Record<string, unknown>> | null | undefined)?.[method] === "function";

/**
 * Says what a value is that should have one of some methods, in the words after "must be …,".
 *
 * @param wanted The methods of the port, by which a part of `openStores` is known.
 */
export function lacking(port: unknown, methods: readonly string[], wanted: readonly string[] = methods): string {
  const instead = givenInstead(port, wanted);
  if (instead !== undefined) return `not ${instead}`;
  const part = port === undefined ? partOf(wanted) : undefined;
  if (part !== undefined) return `not undefined. If ${part} is meant, openStores must be awaited`;
  if (typeof port !== "object" || port === null || Array.isArray(port)) return `not ${shown(port)}`;
  const none = `and has no ${methods.map((method) => `${method}()`).join(" or ")}`;
  // A port that was spread and given a further method, or only some of its own.
  const isSpread = isPlain(port) && Object.values(port).some((one) => typeof one === "function");
  return isSpread ? `${none}. An instance of a class that is spread loses its methods` : none;
}

/**
 * The things that the library makes, which hosts pass in the wrong place. `is` knows each by its methods. `hints` name its right part, by the
 * method that is wanted.
 */
const MADE: readonly {
  readonly what: string;
  readonly is: (value: unknown) => boolean;
  readonly hints?: Readonly<Record<string, string>>;
}[] = [
  { what: "a gateway", is: (value) => hasMethod(value, "at") && hasMethod(value, "liveCalls") },
  {
    what: "a store in memory",
    is: (value) =>
      hasMethod(value, "reserve") && hasMethod((value as { readonly keys?: unknown }).keys, "rotateSecret"),
    hints: { rotateSecret: ": pass its keys, as in memoryQuotaStore([]).keys" },
  },
  {
    what: "the keys of a store",
    is: (value) => hasMethod(value, "rotateSecret") && !hasMethod(value, "reserve"),
    hints: { reserve: ": pass the store itself", find: ": pass the store itself" },
  },
  { what: "a backend", is: (value) => ["chat", "image", "embed"].some((verb) => hasMethod(value, verb)) },
];

/**
 * Names what was given in place of a port or of options: a function, a promise, or what the library makes. Undefined for anything else.
 *
 * @param wanted The methods of the port, by which the right part of a store is known.
 */
export function givenInstead(value: unknown, wanted: readonly string[] = []): string | undefined {
  if (typeof value === "function")
    return /^class\b/.test(Function.prototype.toString.call(value))
      ? "a class: write new before it"
      : "a function: its result is probably meant";
  if (isPromise(value)) return shown(value);
  if (areStores(value)) return `${STORES}${partFor(wanted)}`;
  const made = MADE.find(({ is }) => is(value));
  return made && made.what + (wanted.map((method) => made.hints?.[method]).find(Boolean) ?? "");
}

/** True for a promise, also of another realm. */
const isPromise = (value: unknown): boolean => Object.prototype.toString.call(value) === "[object Promise]";

/** True for an object that was written as a literal, also in another realm. */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Says that there is no option of a name, which names there are, and which one was probably meant. */
export function unknownName(
  name: string,
  known: readonly string[],
  meant: string | undefined = namesMeant(name, known),
): string {
  const suggestion = meant === undefined ? "" : `did you mean ${meant}? `;
  return `${name} does not exist; ${suggestion}${suggestion ? "There" : "there"} are ${known.join(", ")}`;
}

/** Returns the options that were probably meant. If several contain the word, returns all of them, but none of more than three. */
function namesMeant(name: string, known: readonly string[]): string | undefined {
  const lower = name.toLowerCase();
  const alike = known.filter((one) => one.toLowerCase().includes(lower));
  const begun = alike.filter((one) => one.toLowerCase().startsWith(lower));
  const isOnlyStart = begun.length === 1;
  // The names of others are often shorter: `in` for `input`.
  const best = nearest(name, known) ?? (isOnlyStart && name.length > 1 ? begun[0] : undefined);
  if (alike.length < 2 || isOnlyStart || best === undefined || best.length === name.length) return best;
  return alike.length > MOST_ALIKE ? undefined : alike.join(" or ");
}

/** The most names with the same word that an error suggests. */
const MOST_ALIKE = 3;

/** True for the result of `openStores`. */
const hasPorts = (value: unknown): boolean =>
  arePorts((value as { readonly ports?: unknown } | null | undefined)?.ports);

/** True for the `ports` of the result of `openStores`, but not for the options of a gateway. */
const arePorts = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "quotas" in value && "replayStore" in value && !("backend" in value);

const areStores = (value: unknown): boolean => hasPorts(value) || arePorts(value);

const STORES = "all the stores of openStores";

/** The parts of the stores of `openStores`, by a method that only this port has, or by the name of the option. */
const PARTS: Readonly<Record<string, string>> = {
  balance: "stores.ports.quotas",
  add: "stores.ports.quotas",
  report: "stores.ports.quotas",
  listBudgets: "stores.ports.quotas",
  claim: "stores.ports.replayStore",
  create: "stores.ports.responseStore",
  usage: "stores.calls",
  list: "stores.auditLog",
  consume: "stores.counter(points, seconds)",
  withoutPlugins: "stores.db",
  onCall: "stores.recorder()",
};

const partOf = (names: readonly string[]): string | undefined =>
  names.map((name) => (Object.hasOwn(PARTS, name) ? PARTS[name] : undefined)).find(Boolean);

/** Says which part of the stores of `openStores` was meant; empty for an option that no part fits. */
function partFor(names: readonly string[]): string {
  const part = partOf(names);
  return part === undefined ? "" : `: pass ${part}`;
}

const isOptional = (shape: AnyShape): boolean =>
  typeof shape === "string" ? shape.endsWith("?") : "optional" in shape;

function shapeOf(shape: AnyShape): Shape {
  if (typeof shape === "string") return shape.replace("?", "") as Kind;
  return "optional" in shape ? shape.optional : shape;
}

function isOf(kind: PlainShape, value: unknown): boolean {
  const rule = ruleOf(kind);
  if (rule) return typeof value === "number" && rule.allows(value);
  if (typeof kind !== "string") return typeof value === "string" && (kind as readonly string[]).includes(value);
  if (kind === "list") return Array.isArray(value);
  if (kind === "object")
    return typeof value === "object" && value !== null && !Array.isArray(value) && !isPromise(value);
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

/** The units in which people tell sizes, the one to prefer first. */
const SIZES = [
  [2 ** 20, "MiB"],
  [1e6, "MB"],
  [2 ** 10, "KiB"],
] as const;

/** Returns a size in bytes, and in a larger unit where this is exact: `33554432 bytes (32 MiB)`. */
export function bytesInWords(bytes: number): string {
  const [unit, name] = SIZES.find(([size]) => bytes >= size && bytes % size === 0) ?? [];
  return `${bytes} bytes${unit === undefined ? "" : ` (${bytes / unit} ${name})`}`;
}

/** Returns the path of a mount without the version of an API at its end; undefined for a path that ends in none. */
export const aboveVersion = (path: string): string | undefined => /^(.*)\/v1(?:beta)?\/*$/s.exec(path)?.[1];

/** Names the kind of a value, because the value itself may be a secret. */
export function shown(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return "a list";
  if (isPromise(value)) return "a Promise: await it first";
  if (areStores(value)) return STORES;
  if (typeof value === "boolean") return String(value);
  return (
    { string: "a text", function: "a function", object: "an object" }[typeof value as string] ?? `a ${typeof value}`
  );
}

/** Shows a wrong word, but no text that may be a secret. */
export const shownWord = (value: unknown): string =>
  typeof value === "string" && /^[\w.-]{1,20}$/.test(value) ? JSON.stringify(value) : shown(value);

/** Longer names are not compared. A known name may have the prefixes of a provider. */
const MAX_COMPARED = 64;
const MAX_KNOWN = 256;

/** Returns the known name that was probably meant; undefined when none is near. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  if (name.length > MAX_COMPARED) return undefined;
  const lower = name.toLowerCase();
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    if (candidate.length > MAX_KNOWN) continue;
    const other = candidate.toLowerCase();
    // A name of one letter, or of none, is a part of any other.
    const isPart = lower.length >= 3 && (other.includes(lower) || (other.length > 1 && lower.includes(other)));
    // A name that is cut short, or that goes on, is nearer than one with other letters.
    const isCut = isPart && other.length >= 3 && (other.startsWith(lower) || lower.startsWith(other));
    const most = Math.max(1, Math.floor(Math.min(lower.length, other.length) / 3));
    // Names of very different lengths need no comparison of their letters.
    if (!isPart && Math.abs(lower.length - other.length) > most) continue;
    const distance = distanceOf(lower, other, isPart ? Infinity : most) / (isCut ? MAX_COMPARED : 1);
    const isNear = isPart || distance <= most;
    if (isNear && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) best = { name: candidate, distance };
  }
  return best?.name;
}

/** The most names that a caller's name is compared with: a caller who is refused must cost little. */
export const MOST_COMPARED = 500;

/** Asks a caller for the name that was probably meant, behind a sentence. Empty when none is near. */
export function meantHint(name: string, known: readonly string[]): string {
  const meant = nearest(name, known.slice(0, MOST_COMPARED));
  // A model of another kind may have the very name.
  return meant === undefined || meant === name ? "" : ` Did you mean "${meant}"?`;
}

/**
 * Tells a caller which model was probably meant, or else which models its key may use, behind a sentence.
 *
 * @param hasUnlisted True when the key may use others, which no list has.
 */
export function modelHint(name: string, known: readonly string[], hasUnlisted = false): string {
  const hint = meantHint(name, known);
  const first = hint === "" && !known.includes(name) ? firstOf(known, hasUnlisted) : undefined;
  return first === undefined ? hint : ` This API key may use ${first}.`;
}

/** The most names that an error lists, and the longest name. */
const MOST_NAMED = 8;
const LONGEST_NAMED = 64;

/**
 * Lists the first of some names: `"a", "b" and 3 more`. Undefined when these are too long.
 *
 * @param hasOthers True when there are names beside these: `"a", "b" and others`.
 */
export function firstOf(names: readonly string[], hasOthers = false): string | undefined {
  const named = names.slice(0, MOST_NAMED).filter(({ length }) => length <= LONGEST_NAMED);
  const more = names.length - named.length;
  const all = named.map((name) => JSON.stringify(name));
  if (more > 0 && named.length > 0) all.push(`${names.length < MOST_COMPARED ? more : "many"} more`);
  if (hasOthers && all.length > 0) all.push("others");
  return all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : all[0];
}

/**
 * Counts the letters to add, remove, replace or swap with the next one to make one text from the other.
 *
 * @param most Gives up as soon as more letters differ, and returns Infinity: a caller who is refused must cost little.
 */
function distanceOf(one: string, other: string, most: number): number {
  let before = new Uint16Array(other.length + 1);
  let row = Uint16Array.from(before, (_, at) => at);
  let next = new Uint16Array(other.length + 1);
  for (let i = 1; i <= one.length; i++) {
    let least = (next[0] = i);
    const [letter, last] = [one.charCodeAt(i - 1), one.charCodeAt(i - 2)];
    for (let j = 1; j <= other.length; j++) {
      const compared = other.charCodeAt(j - 1);
      const replaced = (row[j - 1] ?? 0) + (letter === compared ? 0 : 1);
      const isSwap = letter === other.charCodeAt(j - 2) && last === compared;
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : replaced;
      const fewest = Math.min(replaced, swapped, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1);
      next[j] = fewest;
      if (fewest < least) least = fewest;
    }
    if (least > most) return Infinity;
    [before, row, next] = [row, next, before];
  }
  return row[other.length] ?? 0;
}

/**
 * Returns the defaults with a host's overrides. An undefined override counts as absent.
 *
 * @param option The name of the option in errors, such as `limits`.
 * @param rules The rule of each number, by name. Default: a positive integer.
 * @throws RangeError that names a number which breaks its rule or is longer than a timer can wait; TypeError for an override that is no number
 *   or does not exist.
 */
export function overridden<Numbers extends Readonly<Record<keyof Numbers, number>>>(
  option: string,
  defaults: Numbers,
  overrides: Partial<Numbers> = {},
  rules: Partial<Readonly<Record<keyof Numbers, NumberRule>>> = {},
  otherNames: Readonly<Record<string, keyof Numbers & string>> = {},
): Numbers {
  if (typeof overrides !== "object" || overrides === null || Array.isArray(overrides))
    throw new TypeError(`${option} must be an object of numbers.`);
  const result: Numbers = { ...defaults };
  for (const [key, value] of Object.entries<number | undefined>(overrides)) {
    const name = `${option}.${key}`;
    if (!isKeyOf(defaults, key)) {
      const other = Object.hasOwn(otherNames, key) ? otherNames[key] : undefined;
      throw new TypeError(`${option}.${unknownName(key, Object.keys(defaults), other)}`);
    }
    if (value === undefined) continue;
    const rule = rules[key] ?? POSITIVE;
    if (typeof value !== "number") throw new TypeError(`${name} must be ${rule.words}, not ${quoted(value)}`);
    if (!rule.allows(value)) throw new RangeError(`${name} must be ${rule.words}, not ${value}`);
    if (key.endsWith("Ms") && value > MAX_TIMER_MS)
      throw new RangeError(`${name} must be at most ${MAX_TIMER_MS} ms, the longest that a timer waits, not ${value}`);
    Object.assign(result, { [key]: value });
  }
  return result;
}

const isKeyOf = <Value extends object>(value: Value, key: PropertyKey): key is keyof Value & string =>
  Object.hasOwn(value, key);

/** Handles the rejection of a host's function that is async by mistake: its promise is no result, and an unhandled rejection ends the process. */
export function abandon(returned: unknown): void {
  if (returned instanceof Promise) returned.catch(() => {});
}

/** Tells a function of the host. Waits for no promise of the function, and drops its errors. */
export function tellHost<Told>(listener: (told: Told) => unknown, told: Told): void {
  // The promise catches an error that is thrown at once, and a rejection.
  void new Promise((resolve) => resolve(listener(told))).catch(() => {});
}

/** The weight of a line of JSON. */
type Level = "info" | "warn" | "error";

/** True once a server prints its lines as JSON. */
let printsJson = false;

/** Lets `printInfo` and `printError` print JSON from now on, in the whole process. */
export function printAsJson(): void {
  printsJson = true;
}

const lineOf = (level: Level, message: string, fields: object = {}): string =>
  printsJson ? manyLines(JSON.stringify({ level, at: new Date().toISOString(), message, ...fields })) : message;

/** Prints a line about the course of a server. */
export const printInfo = (message: string): void => console.log(lineOf("info", message));

/**
 * Prints an error or a note that no function of the host hears of.
 *
 * @param fields The fields of the JSON that programs read, beside the message.
 */
export const printError = (message: string, fields?: object, level: Level = "error"): void =>
  console.error(lineOf(level, message, fields));

/** The options of a `close`. */
interface CloseOptions {
  readonly deadlineMs?: number;
}

/**
 * Returns the checked options of a `close`. A text or a number counts as missing: a `close` that listens to a signal gets the signal's name
 * and number.
 */
export function closeOptionsOf(given: unknown = {}): CloseOptions {
  if (typeof given === "string" || typeof given === "number") return {};
  assertOptions<CloseOptions>("close", given, { deadlineMs: "deadlineMs?" });
  return given as CloseOptions;
}
