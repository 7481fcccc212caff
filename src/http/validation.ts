/** Validates a body against its schema, and turns the first thing that is wrong into an error that names the field. */

import * as v from "valibot";
import { GatewayError } from "../errors.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";

/** Keys from the body's root to a field. */
export type FieldPath = readonly (string | number)[];

/** What a rule over several fields found: where, and what the field must be. */
export interface RuleBreach {
  readonly path: FieldPath;
  readonly message: string;
}

/**
 * Holds a body against its schema; throws `invalid_request` with the path of the first field that breaks a rule. The body
 * stays what it is, keys and all: a copy of valibot's would lack those that it deems unsafe.
 */
export function assertValid<Schema extends v.GenericSchema>(
  schema: Schema,
  body: unknown,
): asserts body is v.InferOutput<Schema> {
  const result = v.safeParse(schema, body, { abortEarly: true });
  if (result.success) return;
  const [issue] = result.issues;
  const path = (issue.path ?? []).map((item) => item.key as string | number);
  const message = describe(issue);
  throw new GatewayError("invalid_request", path.length > 0 ? `${path.join(".")}: ${message}` : `The body ${message}`, {
    path,
  });
}

const anyObject = v.custom<JsonObject>(isJsonObject, ({ input }) => `must be an object, not ${shown(input)}`);

/**
 * An object whose known fields hold, whatever comes beside them; it stops at the first that does not. Unlike valibot's own it
 * takes no array for an object, and makes no copy: of a body with many unknown fields, that would take longer than all else.
 */
export function object<const Entries extends v.ObjectEntries>(
  entries: Entries,
): v.LooseObjectSchema<Entries, undefined> {
  const fields = Object.entries(entries);
  const run: v.GenericSchema["~run"] = (dataset, config) => {
    const input = dataset.value;
    if (!isJsonObject(input)) return anyObject["~run"](dataset, config);
    for (const [key, field] of fields) {
      const value = input[key];
      const { issues } = field["~run"]({ value }, config);
      if (!issues) continue;
      const [{ path = [], ...issue }] = issues;
      const item = { type: "object", origin: "value", input, key, value } as const;
      return { typed: false, value: input, issues: [{ ...issue, path: [item, ...path] }] };
    }
    return { typed: true, value: input };
  };
  return Object.assign(v.looseObject(entries), { "~run": run });
}

/** An object that says by its `type`, one word or several, which one it is. */
interface Kind extends v.GenericSchema<unknown, object> {
  readonly entries: { readonly type: { readonly literal: string } | { readonly options: readonly string[] } };
}

/** One of several kinds of object. The one that its `type` names is looked up, and no other tried. */
export function variant<const Kinds extends readonly Kind[]>(
  kinds: Kinds,
): v.GenericSchema<unknown, v.InferOutput<Kinds[number]>> {
  const byType = new Map<unknown, Kind>();
  for (const kind of kinds) {
    const { type } = kind.entries;
    for (const word of "literal" in type ? [type.literal] : type.options) byType.set(word, kind);
  }
  const noKind = object({ type: v.picklist(Array.from(byType.keys(), String)) });
  return v.lazy((input): v.GenericSchema<unknown, object> => {
    const kind = isJsonObject(input) && byType.get(input["type"]);
    return kind || noKind;
  });
}

/** A schema action for the rules that look at several fields at once. */
export function crossCheck<Input>(breachesOf: (input: Input) => Iterable<RuleBreach>): v.RawCheckAction<Input> {
  return v.rawCheck<Input>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    for (const { path, message } of breachesOf(dataset.value))
      addIssue({ message, path: issuePath(dataset.value, path) });
  });
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
  return `must be ${NAMES[issue.expected ?? issue.type] ?? choice(issue.expected ?? issue.type)}, not ${shown(issue.input)}`;
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
function choice(expected: string): string {
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
