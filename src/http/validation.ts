/**
 * Schemas of bodies on valibot, and the error that names the first wrong field. The object, record, array and variant of this file
 * replace valibot's own in three points: they stop at the first breach, copy nothing, and take no array for an object. A compiled
 * second interpreter was measured and dropped: it saved 0.4 µs of a small body, and nothing of a large one.
 */

import * as v from "valibot";
import { type FieldPath, GatewayError } from "../errors.ts";
import { listedIn } from "../model/derived.ts";
import { type JsonObject, isJsonObject } from "../model/json.ts";
import { MOST_COMPARED, nearest } from "../options.ts";

/** The parts of a schema, for code that walks over schemas. */
export interface Shape {
  readonly type: string;
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  /** The schema of a record's names, or the field that tells the kind of a variant. */
  readonly key?: v.GenericSchema | string;
  readonly value?: v.GenericSchema;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
  readonly options?: readonly v.GenericSchema[];
  readonly getter?: (input: unknown) => v.GenericSchema;
  /** Returns the option that a value is held to. */
  readonly "~choose"?: (input: unknown) => v.GenericSchema;
}

type Piped = Shape & { readonly pipe?: readonly [v.GenericSchema, ...unknown[]] };

/** Returns a schema without the rules that a pipe adds. */
export function shapeOf(schema: v.GenericSchema): Shape {
  const { pipe } = schema as Piped;
  return pipe ? shapeOf(pipe[0]) : schema;
}

/** Names a field that breaks a rule over several fields, and says what the field must be. */
export interface RuleBreach {
  readonly path: FieldPath;
  readonly message: string;
}

const CONFIG = { abortEarly: true } as const;

/** Tells whether a value holds to a schema. Makes no copy. */
export const isValid = <Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
): value is v.InferOutput<Schema> => schema["~run"]({ value }, CONFIG).issues === undefined;

/** The treatment of unknown types and words while a body is validated. It is `met` once one has passed. */
let unknowns: "refused" | "allowed" | "met" = "refused";

/** The schemas of the valid bodies that hold an unknown type or word. */
const WITH_UNKNOWN: WeakMap<object, v.GenericSchema> = new WeakMap();

/** Returns true where an unknown type or word passes. */
export function passesUnknown(): boolean {
  if (unknowns === "refused") return false;
  unknowns = "met";
  return true;
}

/**
 * Holds a body to its schema. Throws `invalid_request` with the path of the first field that breaks a rule. Returns nothing: the body
 * itself stays in use, because valibot's copy would lack keys that it deems unsafe. Types and words that an open schema does not know pass.
 */
export function assertValid<Schema extends v.GenericSchema>(
  schema: Schema,
  body: unknown,
): asserts body is v.InferOutput<Schema> {
  unknowns = "allowed";
  try {
    assertHolds(schema, body);
    if ((unknowns as string) === "met") WITH_UNKNOWN.set(body as object, schema);
  } finally {
    unknowns = "refused";
  }
}

/**
 * Returns a function that throws `invalid_request` for the first unknown type or word of a valid body; undefined for a body without any.
 * The function validates the body again.
 */
export function unknownIn(body: object): (() => void) | undefined {
  const schema = WITH_UNKNOWN.get(body);
  return schema && (() => assertHolds(schema, body));
}

/**
 * Throws `invalid_request` for the first unknown type or word in a value. Takes a value that breaks another rule: it is not the caller's.
 *
 * @param at The path of the value.
 */
export function assertKnown(schema: v.GenericSchema, value: unknown, at: FieldPath): void {
  unknowns = "allowed";
  try {
    if (schema["~run"]({ value }, CONFIG).issues || (unknowns as string) !== "met") return;
  } finally {
    unknowns = "refused";
  }
  assertHolds(schema, value, at);
}

function assertHolds(schema: v.GenericSchema, body: unknown, at: FieldPath = []): void {
  const [issue] = schema["~run"]({ value: body }, CONFIG).issues ?? [];
  if (!issue) return;
  const path = [...at, ...(issue.path ?? []).map((item) => item.key as string | number)];
  const message = describe(issue);
  throw new GatewayError("invalid_request", path.length > 0 ? `${path.join(".")}: ${message}` : `The body ${message}`, {
    path,
  });
}

type Run = v.GenericSchema["~run"];

const anyText = v.string();

const running = <Schema extends v.GenericSchema>(schema: Schema, run: Run): Schema =>
  Object.assign(schema, { "~run": run });

/**
 * Makes a schema of valibot's shape with a run of its own. valibot's functions would bring runs that are never used, and that a small Worker
 * would carry.
 */
const schemaOf = <Schema extends v.GenericSchema>(shape: Shape & Pick<Schema, "type">, run: Run): Schema =>
  // The cast is safe: valibot reads the shape and the run of a schema, and the rest of its type only tells what the run accepts.
  ({ kind: "schema", async: false, ...shape, "~run": run }) as unknown as Schema;

const notAnArray = ({ input }: { readonly input: unknown }): string => `must be an array, not ${shown(input)}`;

const notAnObject = ({ input }: { readonly input: unknown }): string => `must be an object, not ${shown(input)}`;

/** Returns the failure of an object or array, with the wrong element's key in front of the issue's path. */
function breachAt(
  input: object,
  key: string | number,
  value: unknown,
  [issue]: readonly [v.BaseIssue<unknown>, ...unknown[]],
): v.FailureDataset<v.BaseIssue<unknown>> {
  const item = { type: "unknown", origin: "value", input, key, value } as const;
  return { typed: false, value: input, issues: [{ ...issue, path: [item, ...(issue.path ?? [])] }] };
}

/** Marks a dataset as valid, as valibot does in its own schemas. A new object for each part of a large body would cost more. */
function valid(dataset: v.UnknownDataset): v.SuccessDataset<unknown> {
  const marked = dataset as { typed?: boolean; value: unknown } as v.SuccessDataset<unknown>;
  (marked as { typed: boolean }).typed = true;
  return marked;
}

/** Tells whether a field may be missing and has no default, so that a missing one needs no look. */
const mayBeAbsent = (schema: v.GenericSchema): boolean =>
  !("pipe" in schema) &&
  (schema.reference === v.nullish || schema.reference === v.optional) &&
  (schema as { readonly default?: unknown }).default === undefined;

/** The values of these schemas, by their `typeof`. A schema with a pipe has further rules. */
const PRIMITIVES: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [v.string, "string"],
  [v.boolean, "boolean"],
]);

/** A field, prepared so that most values pass without a run of its schema: schemas run for each frame of a stream. */
interface KnownField {
  readonly key: string;
  /** The place of the field in the schema: of several wrong fields, the first is told. */
  readonly index: number;
  /** The schema of a value that is there. */
  readonly schema: v.GenericSchema;
  readonly mayBeAbsent: boolean;
  readonly mayBeNull: boolean;
  readonly primitive: string | undefined;
  /** The only value, or undefined. */
  readonly literal: unknown;
  readonly isText: boolean;
}

/** Returns a schema without the metadata that a pipe adds, which change nothing for a value. */
function unmarked(schema: v.GenericSchema): v.GenericSchema {
  const [inner, ...marks] = (schema as Piped).pipe ?? [];
  return inner && marks.every((mark) => (mark as { kind: string }).kind === "metadata") ? unmarked(inner) : schema;
}

function fieldOf([key, given]: [string, v.GenericSchema], index: number): KnownField {
  const field = unmarked(given);
  const isWrapped = mayBeAbsent(field);
  const schema = isWrapped ? unmarked(shapeOf(field).wrapped ?? field) : field;
  return {
    key,
    index,
    schema,
    mayBeAbsent: isWrapped || isValid(field, undefined),
    mayBeNull: isWrapped && field.reference === v.nullish,
    primitive: "pipe" in schema ? undefined : PRIMITIVES.get(schema.reference),
    literal: "pipe" in schema ? undefined : (schema as { readonly literal?: unknown }).literal,
    isText: isAnyText(schema),
  };
}

/** Tells whether a schema takes every text that is not empty, and nothing else. */
function isAnyText(schema: v.GenericSchema): boolean {
  const [inner, rule, ...others] = (schema as Piped).pipe ?? [];
  const { reference, requirement } = (rule ?? {}) as { readonly reference?: unknown; readonly requirement?: unknown };
  return inner?.reference === v.string && reference === v.minLength && requirement === 1 && others.length === 0;
}

/** The fields of an object that have a rule. */
interface PreparedFields {
  readonly byKey: ReadonlyMap<string, KnownField>;
  readonly required: readonly KnownField[];
}

function fieldsOf(entries: v.ObjectEntries): PreparedFields {
  const fields = Object.entries(entries)
    .map(fieldOf)
    .filter(({ schema, mayBeAbsent }) => !mayBeAbsent || "pipe" in schema || schema.reference !== v.unknown);
  const byKey = new Map(fields.map((field) => [field.key, field]));
  return { byKey, required: fields.filter((field) => !field.mayBeAbsent) };
}

/** A field that breaks a rule. */
interface Wrong {
  readonly field: KnownField;
  readonly issues: v.FailureDataset<v.BaseIssue<unknown>>["issues"];
}

/** Returns the wrong field that stands first in the schema. */
const firstOf = (wrong: Wrong | undefined, found: Wrong): Wrong =>
  wrong && wrong.field.index < found.field.index ? wrong : found;

/** An object whose known fields hold. Other fields are left as they are. */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
  message: v.ErrorMessage<v.CustomIssue> = notAnObject,
): v.LooseObjectSchema<Entries, undefined> {
  // Prepare the fields with the first value, because the schema of a field may refer to a later schema.
  let prepared: PreparedFields | undefined;
  const anyObject = v.custom<JsonObject>(isJsonObject, message);
  return schemaOf({ type: "loose_object", entries }, (dataset, config) => {
    const input = dataset.value;
    if (!isJsonObject(input)) return anyObject["~run"](dataset, config);
    const { byKey, required } = (prepared ??= fieldsOf(entries));
    let missing = required.length;
    let wrong: Wrong | undefined;
    // Look at the keys that are there: most objects have few of the fields that they may have.
    for (const key in input) {
      const field = byKey.get(key);
      if (!field) continue;
      const value = input[key];
      if (!field.mayBeAbsent && value !== undefined) missing--;
      if (typeof value === field.primitive || (field.isText && typeof value === "string" && value !== "")) continue;
      if (value === undefined || (value === null && field.mayBeNull) || value === field.literal) continue;
      const { issues } = field.schema["~run"]({ value }, config);
      if (issues) wrong = firstOf(wrong, { field, issues });
    }
    if (missing > 0)
      for (const field of required) {
        if (input[field.key] !== undefined) continue;
        const { issues } = field.schema["~run"]({ value: undefined }, config);
        if (issues) wrong = firstOf(wrong, { field, issues });
      }
    if (wrong) return breachAt(input, wrong.field.key, input[wrong.field.key], wrong.issues);
    return valid(dataset);
  });
}

/** An object with keys of the caller's choice, whose values all hold to one schema. */
export function record<const Value extends v.GenericSchema>(
  value: Value,
): v.RecordSchema<v.StringSchema<undefined>, Value, undefined> {
  const anyObject = v.custom<JsonObject>(isJsonObject, notAnObject);
  return schemaOf({ type: "record", key: anyText, value }, (dataset, config) => {
    const input = dataset.value;
    if (!isJsonObject(input)) return anyObject["~run"](dataset, config);
    for (const [key, inner] of Object.entries(input)) {
      const { issues } = value["~run"]({ value: inner }, config);
      if (issues) return breachAt(input, key, inner, issues);
    }
    return valid(dataset);
  });
}

/** An array whose elements all hold to one schema. */
export function array<const Item extends v.GenericSchema>(
  item: Item,
  message: v.ErrorMessage<v.CustomIssue> = notAnArray,
): v.ArraySchema<Item, undefined> {
  const anyArray = v.custom<unknown[]>(Array.isArray, message);
  return schemaOf({ type: "array", item }, (dataset, config) => {
    const input = dataset.value;
    if (!Array.isArray(input)) return anyArray["~run"](dataset, config);
    const values = Object.isFrozen(input) ? listedIn(input) : undefined;
    for (let index = 0; index < input.length; index++) {
      const value: unknown = input[index];
      const listed = values?.[index];
      if (listed?.holdsTo === item) continue;
      const { issues } = item["~run"]({ value }, config);
      if (issues) return breachAt(input, index, value, issues);
      if (listed && unknowns !== "met") listed.holdsTo = item;
    }
    return valid(dataset);
  });
}

/** A list of at most `most` elements. A longer list is refused before its elements are checked, which may be most of the work. */
export function upTo<Schema extends v.GenericSchema<unknown[], unknown[]>>(
  schema: Schema,
  most: number,
  message: string,
): v.GenericSchema<v.InferInput<Schema>, v.InferOutput<Schema>> {
  const limit = v.maxLength<unknown[], number, string>(most, message);
  const bounded = v.pipe(schema as v.GenericSchema<unknown[], unknown[]>, limit);
  const whole = bounded["~run"];
  return running(bounded, (dataset, config) => {
    const { value } = dataset;
    if (!Array.isArray(value) || value.length <= most) return whole.call(bounded, dataset, config);
    return limit["~run"]({ typed: true, value }, config);
  });
}

/** Picks the schema that a value is held to, by looking at the value. */
type Choose = (input: unknown) => v.GenericSchema;

/** Makes a schema whose `choose` picks one option for each value. Code that walks over schemas uses `~choose` too. */
const choosing = <Options extends readonly v.GenericSchema[]>(
  shape: Shape & { readonly options: Options },
  choose: Choose,
): v.GenericSchema<unknown, v.InferOutput<Options[number]>> =>
  schemaOf({ ...shape, "~choose": choose }, (dataset, config) => choose(dataset.value)["~run"](dataset, config));

/** Accepts one of several schemas. `choose` picks a single one, so that an error names the field inside; a plain union cannot. */
export const choice = <const Options extends readonly v.GenericSchema[]>(
  options: Options,
  choose: Choose,
): v.GenericSchema<unknown, v.InferOutput<Options[number]>> => choosing({ type: "union", options }, choose);

/** A text, or another value that is held to a schema. */
export const textOr = <const Schema extends v.GenericSchema>(
  schema: Schema,
  text: v.GenericSchema<string> = anyText,
): v.GenericSchema<unknown, string | v.InferOutput<Schema>> =>
  choice([text, schema], (input) => (typeof input === "string" ? text : schema));

/** An object schema with a field `type`, for `variant`. */
interface VariantOption extends v.GenericSchema<unknown, object> {
  readonly type: "loose_object";
  readonly entries: { readonly type: v.GenericSchema };
}

/**
 * Accepts one of several object schemas, found by the object's `type`. A schema whose `type` may be missing takes objects without a type. A
 * schema whose `type` is any string takes the types that no other schema has.
 */
export const variant = <const Kinds extends readonly VariantOption[]>(
  kinds: Kinds,
): v.GenericSchema<unknown, v.InferOutput<Kinds[number]>> => variantOf(kinds, false);

function variantOf<const Kinds extends readonly VariantOption[]>(
  kinds: Kinds,
  isOpen: boolean,
): v.GenericSchema<unknown, v.InferOutput<Kinds[number]>> {
  const byType = new Map<unknown, VariantOption>();
  let other: VariantOption | undefined;
  for (const kind of kinds) {
    const words = wordsOf(kind.entries.type);
    if (words) for (const word of words) byType.set(word, kind);
    else other = kind;
  }
  const words = [...byType.keys()].filter((word) => typeof word === "string");
  const rest = other ?? object({ type: v.picklist(words) });
  const unknown = isOpen && unknownObject(rest);
  return choosing({ type: "variant", key: "type", options: kinds }, (input) => {
    if (!isJsonObject(input)) return rest;
    const { type } = input;
    return byType.get(type) ?? (unknown && typeof type === "string" && type !== "" ? unknown : rest);
  });
}

/** An object of a type that only its vendor knows. The literal stands for every text that is no known type. */
export interface UnknownObject {
  readonly type: "(unknown)";
  readonly [field: string]: unknown;
}

/** Tells whether an object has a type that is not known. */
export const isUnknown = (
  value: { readonly type?: string | null | undefined },
  known: ReadonlySet<string>,
): value is UnknownObject => value.type != null && !known.has(value.type);

/**
 * The schema of objects of unknown types, because the types of vendors grow. Only a body that `assertValid` validates may hold them.
 *
 * @param known Tells in its error which types are known.
 */
export const unknownObject = (known: v.GenericSchema): v.GenericSchema<unknown, UnknownObject> =>
  running(v.custom<UnknownObject>(isJsonObject), (dataset, config) =>
    passesUnknown() ? valid(dataset) : known["~run"](dataset, config),
  );

/** As `variant`, for types of a vendor that grow: takes objects of all other types, too. */
export const openVariant = <const Kinds extends readonly VariantOption[]>(
  kinds: Kinds,
): v.GenericSchema<unknown, v.InferOutput<Kinds[number]> | UnknownObject> => variantOf(kinds, true);

/** A text that `known` takes, or any other, because the vendor's words grow. Only a body that `assertValid` validates may hold another. */
export function openWords(known: v.GenericSchema<string>): v.GenericSchema<unknown, string> {
  const knows = known["~run"];
  return running({ ...known }, (dataset, config) => {
    const { value } = dataset;
    const told = knows.call(known, { value }, config);
    return told.issues && typeof value === "string" && value !== "" && passesUnknown() ? valid(dataset) : told;
  });
}

/** Returns the values that a `type` can have; undefined for any string. */
function wordsOf(type: v.GenericSchema): unknown[] | undefined {
  if ("pipe" in type) return undefined;
  const { wrapped, literal, options } = type as { wrapped?: v.GenericSchema; literal?: unknown; options?: unknown[] };
  if (wrapped) return [null, undefined, ...(wordsOf(wrapped) ?? [])];
  return options ?? (literal === undefined ? undefined : [literal]);
}

/** A schema action for rules over several fields. Reports the first breach. */
export const crossCheck = <Input>(breachesOf: (input: Input) => Iterable<RuleBreach>): v.RawCheckAction<Input> =>
  v.rawCheck<Input>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    for (const { path, message } of breachesOf(dataset.value))
      return addIssue({ message, path: issuePath(dataset.value, path) });
  });

function issuePath(root: unknown, path: FieldPath): [v.IssuePathItem, ...v.IssuePathItem[]] {
  let input = root;
  const items = path.map((key): v.IssuePathItem => {
    const value = (input as Record<string | number, unknown> | undefined)?.[key];
    const item = { type: "unknown", origin: "value", input, key, value } as const;
    input = value;
    return item;
  });
  return items as [v.IssuePathItem, ...v.IssuePathItem[]];
}

/** Words an issue. Messages of our own stand at the schema; those of valibot get the same form. */
function describe(issue: v.BaseIssue<unknown>): string {
  if (issue.input === undefined) return `is required${misnamed(issue.path?.at(-1))}`;
  if (!issue.message.startsWith("Invalid ")) return issue.message;
  return `must be ${NAMES[issue.expected ?? issue.type] ?? oneOf(issue.expected ?? issue.type)}, not ${shown(issue.input)}`;
}

/** Fields of the same meaning that each format names otherwise. */
const SAME: readonly RegExp[] = [
  /^(?:messages|input|contents|prompt)$/,
  /^(?:parameters|input_?schema)$/i,
  /^max_?(?:completion_?|output_?)?tokens$/i,
];

/** Says which field was probably meant to be a missing one, behind a sentence. Empty when there is none. */
function misnamed({ input, key }: Partial<v.IssuePathItem> = {}): string {
  // Any short name is near to another.
  if (!isJsonObject(input) || typeof key !== "string" || key.length < 4) return "";
  const names = Object.keys(input).slice(0, MOST_COMPARED);
  const isSame = (name: string): boolean => SAME.some((words) => words.test(name) && words.test(key));
  const found = names.find(isSame) ?? nearest(key, names);
  return found === undefined ? "" : `. Did you mean "${key}" instead of ${shown(found)}?`;
}

const NAMES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  boolean: "true or false",
  Array: "an array",
  integer: "an integer",
};

const MAX_CHOICES = 8;

/** Puts valibot's `("a" | "b" | "c")` into words, and cuts a long list. */
function oneOf(expected: string): string {
  const words = expected.replaceAll(/[()]/g, "").split(" | ");
  if (words.length > MAX_CHOICES) return `one of ${words.slice(0, MAX_CHOICES).join(", ")}, …`;
  return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" or ");
}

const MAX_SHOWN = 60;

/** Returns a value of a body for an error message: short, and on one line. */
export function shown(value: unknown): string {
  if (typeof value === "string")
    return JSON.stringify(value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value);
  if (Array.isArray(value)) return "an array";
  return isJsonObject(value) ? "an object" : String(value);
}
