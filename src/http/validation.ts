/** Validates a body against its schema, and turns the first thing that is wrong into an error that names the field. */

import * as v from "valibot";
import { GatewayError } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";
import { mayBeAbsent, type Predicate, type Predicated, predicateOf } from "./validation.predicate.ts";

/** Keys from the body's root to a field. */
export type FieldPath = readonly (string | number)[];

/** What a rule over several fields found: where, and what the field must be. */
export interface RuleBreach {
  readonly path: FieldPath;
  readonly message: string;
}

/**
 * Holds a body against its schema; throws `invalid_request` with the path of the first field that breaks a rule. The body
 * stays what it is, keys and all: a copy of valibot's would lack those that it deems unsafe. The schema's predicate judges;
 * valibot is asked only to explain a breach.
 */
export function assertValid<Schema extends v.GenericSchema>(
  schema: Schema,
  body: unknown,
): asserts body is v.InferOutput<Schema> {
  if (predicateOf(schema)(body)) return;
  const result = v.safeParse(schema, body, { abortEarly: true });
  if (result.success) return;
  const [issue] = result.issues;
  const path = (issue.path ?? []).map((item) => item.key as string | number);
  const message = describe(issue);
  throw new GatewayError("invalid_request", path.length > 0 ? `${path.join(".")}: ${message}` : `The body ${message}`, {
    path,
  });
}

type Run = v.GenericSchema["~run"];

/** The schema with a faster way to run it, which comes to the same, and the predicate for the same. */
const running = <Schema extends v.GenericSchema>(
  schema: Schema,
  run: Run,
  predicate: Predicated["~predicate"],
): Schema => Object.assign(schema, { "~run": run, "~predicate": predicate });

const notAnObject = ({ input }: { readonly input: unknown }): string => `must be an object, not ${shown(input)}`;

/** The result for an object or a list whose field breaks a rule. */
function breachAt(
  input: object,
  key: string | number,
  value: unknown,
  [issue]: readonly [v.BaseIssue<unknown>, ...unknown[]],
): v.FailureDataset<v.BaseIssue<unknown>> {
  const item = { type: "unknown", origin: "value", input, key, value } as const;
  return { typed: false, value: input, issues: [{ ...issue, path: [item, ...(issue.path ?? [])] }] };
}

/**
 * An object whose known fields hold, whatever comes beside them; it stops at the first that does not. Unlike valibot's own it
 * takes no array for an object, and makes no copy: of a body with many unknown fields, that would take longer than all else.
 */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
  message: v.ErrorMessage<v.CustomIssue> = notAnObject,
): v.LooseObjectSchema<Entries, undefined> {
  const fields = Object.entries(entries);
  const anyObject = v.custom<JsonObject>(isJsonObject, message);
  const run: Run = (dataset, config) => {
    const input = dataset.value;
    if (!isJsonObject(input)) return anyObject["~run"](dataset, config);
    for (const [key, field] of fields) {
      const value = input[key];
      const { issues } = field["~run"]({ value }, config);
      if (issues) return breachAt(input, key, value, issues);
    }
    return { typed: true, value: input };
  };
  return running(v.looseObject(entries), run, (of) => {
    const tests = fields.map(([key, field]) => ({ key, holds: of(field), optional: mayBeAbsent(field) }));
    return (input) => {
      if (!isJsonObject(input)) return false;
      for (const { key, holds, optional } of tests) {
        const value = input[key];
        // Most fields of most objects are absent: to see that takes no call.
        if (value === undefined ? !optional && !holds(value) : !holds(value)) return false;
      }
      return true;
    };
  });
}

/** An object whose keys are the user's, and whose values are all held to one schema. It makes no copy either. */
export function record<const Value extends v.GenericSchema>(
  value: Value,
): v.RecordSchema<v.StringSchema<undefined>, Value, undefined> {
  const anyObject = v.custom<JsonObject>(isJsonObject, notAnObject);
  const run: Run = (dataset, config) => {
    const input = dataset.value;
    if (!isJsonObject(input)) return anyObject["~run"](dataset, config);
    for (const [key, inner] of Object.entries(input)) {
      const { issues } = value["~run"]({ value: inner }, config);
      if (issues) return breachAt(input, key, inner, issues);
    }
    return { typed: true, value: input };
  };
  return running(v.record(v.string(), value), run, (of) => {
    const holds = of(value);
    return (input) => isJsonObject(input) && Object.values(input).every((inner) => holds(inner));
  });
}

/**
 * An array of values that are all held to one schema. It makes no copy, and runs the schema on the first wrong element alone: an array
 * of a body may be long, and to explain each element as valibot does takes many times longer than to judge it.
 */
export function array<const Item extends v.GenericSchema>(
  item: Item,
  message?: v.ErrorMessage<v.ArrayIssue>,
): v.ArraySchema<Item, v.ErrorMessage<v.ArrayIssue> | undefined> {
  const schema = v.array(item, message);
  const ofValibot = schema["~run"];
  const run: Run = (dataset, config) => {
    const input = dataset.value;
    if (!Array.isArray(input)) return ofValibot.call(schema, dataset, config);
    const holds = predicateOf(item);
    for (let index = 0; index < input.length; index++) {
      const value: unknown = input[index];
      const issues = holds(value) ? undefined : item["~run"]({ value }, config).issues;
      if (issues) return breachAt(input, index, value, issues);
    }
    return { typed: true, value: input };
  };
  return Object.assign(schema, { "~run": run });
}

/** Picks the schema that a value is held to, by what it is. */
type Choose = (input: unknown) => v.GenericSchema;

/** The schema, where one of its options is picked for each value. Walks over a value pick it too. */
const choosing = <Schema extends v.GenericSchema>(
  schema: Schema,
  choose: Choose,
  predicate: Predicated["~predicate"],
): Schema =>
  Object.assign(
    running(schema, (dataset, config) => choose(dataset.value)["~run"](dataset, config), predicate),
    { "~choose": choose },
  );

/**
 * One of several schemas. What came decides which one it is held to, and no other is tried: so an error names the field inside,
 * which a plain union cannot.
 */
export const choice = <const Options extends readonly v.GenericSchema[]>(
  options: Options,
  choose: Choose,
): v.GenericSchema<unknown, v.InferOutput<Options[number]>> =>
  choosing(
    v.union(options) as v.GenericSchema<unknown, v.InferOutput<Options[number]>>,
    choose,
    (of) => (input) => of(choose(input))(input),
  );

const anyText = v.string();

/** A text, or anything else that is held to a schema. */
export const textOr = <const Schema extends v.GenericSchema>(
  schema: Schema,
  text: v.GenericSchema<string> = anyText,
): v.GenericSchema<unknown, string | v.InferOutput<Schema>> =>
  choice([text, schema], (input) => (typeof input === "string" ? text : schema));

/** An object that says by its `type` which one it is. */
interface Kind extends v.GenericSchema<unknown, object> {
  readonly type: "loose_object";
  readonly entries: { readonly type: v.GenericSchema };
}

/**
 * One of several kinds of object. The one that its `type` names is looked up, and no other tried. A kind whose type may be
 * left out is meant where none is given; one whose type is no fixed word is meant by all the words that no other has.
 */
export function variant<const Kinds extends readonly Kind[]>(
  kinds: Kinds,
): v.GenericSchema<unknown, v.InferOutput<Kinds[number]>> {
  const byType = new Map<unknown, Kind>();
  let other: Kind | undefined;
  for (const kind of kinds) {
    const words = wordsOf(kind.entries.type);
    if (words) for (const word of words) byType.set(word, kind);
    else other = kind;
  }
  const words = [...byType.keys()].filter((word) => typeof word === "string");
  const rest = other ?? object({ type: v.picklist(words) });
  const choose: Choose = (input) => (isJsonObject(input) && byType.get(input["type"])) || rest;
  return choosing(
    // Typed as what it gives alone: all that valibot knows of a variant is more than the compiler can unfold.
    v.variant("type", kinds as readonly v.GenericSchema[] as v.VariantOptions<"type">) as v.GenericSchema<
      unknown,
      v.InferOutput<Kinds[number]>
    >,
    choose,
    (of) => {
      const predicates = new Map(Array.from(byType, ([word, kind]) => [word, of(kind)]));
      const otherwise = of(rest);
      return (input) => isJsonObject(input) && (predicates.get(input["type"]) ?? otherwise)(input);
    },
  );
}

/** The values that a `type` can have, or undefined where it is no fixed word. */
function wordsOf(type: v.GenericSchema): unknown[] | undefined {
  if ("pipe" in type) return undefined;
  const { wrapped, literal, options } = type as { wrapped?: v.GenericSchema; literal?: unknown; options?: unknown[] };
  if (wrapped) return [null, undefined, ...(wordsOf(wrapped) ?? [])];
  return options ?? (literal === undefined ? undefined : [literal]);
}

/** A schema action for the rules that look at several fields at once. */
export function crossCheck<Input>(breachesOf: (input: Input) => Iterable<RuleBreach>): v.RawCheckAction<Input> {
  const action = v.rawCheck<Input>(({ dataset, addIssue, config }) => {
    if (!dataset.typed) return;
    for (const { path, message } of breachesOf(dataset.value)) {
      addIssue({ message, path: issuePath(dataset.value, path) });
      if (config.abortEarly) return;
    }
  });
  const holds: Predicate = (input) => {
    for (const _ of breachesOf(input as Input)) return false;
    return true;
  };
  return Object.assign(action, { "~predicate": () => holds });
}

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

// Our own messages are written at the schema; valibot's are put into the same form.
function describe(issue: v.BaseIssue<unknown>): string {
  if (issue.input === undefined) return "is required";
  if (!issue.message.startsWith("Invalid ")) return issue.message;
  return `must be ${NAMES[issue.expected ?? issue.type] ?? oneOf(issue.expected ?? issue.type)}, not ${shown(issue.input)}`;
}

const NAMES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  boolean: "true or false",
  Array: "an array",
  integer: "an integer",
};

const MAX_CHOICES = 8;

/** Valibot's `("a" | "b" | "c")` in words, cut where it is long. */
function oneOf(expected: string): string {
  const words = expected.replaceAll(/[()]/g, "").split(" | ");
  if (words.length > MAX_CHOICES) return `one of ${words.slice(0, MAX_CHOICES).join(", ")}, …`;
  return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" or ");
}

const MAX_SHOWN = 60;

/** A value from a body as an error message may show it: short, and on one line. */
export function shown(value: unknown): string {
  if (typeof value === "string")
    return JSON.stringify(value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value);
  if (Array.isArray(value)) return "an array";
  return isJsonObject(value) ? "an object" : String(value);
}
