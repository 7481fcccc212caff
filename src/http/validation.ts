/** Validates a body against its schema, and turns the first thing that is wrong into an error that names the field. */

import * as v from "valibot";
import { GatewayError } from "../errors.ts";

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

const MAX_QUOTED = 60;

// Our own messages are written at the schema; valibot's are put into the same form, and never quote a value at length.
function describe(issue: v.BaseIssue<unknown>): string {
  if (!issue.message.startsWith("Invalid ")) return issue.message;
  if (issue.received === "undefined") return "is required";
  const received = issue.received.length > MAX_QUOTED ? `${issue.received.slice(0, MAX_QUOTED)}…` : issue.received;
  return `must be ${NAMES[issue.expected ?? issue.type] ?? issue.expected}, not ${received}`;
}

const NAMES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  boolean: "true or false",
  Object: "an object",
  Array: "an array",
  integer: "an integer",
};
