/** The schemas of the document: JSON Schema made of valibot's, each under its name, those that nothing refers to left out. */

import { toJsonSchemaDefs } from "@valibot/to-json-schema";
import type { FormatPart, JsonSchema } from "./types.ts";

/** What JSON Schema cannot say: code points and base64, of which the schemas tell in metadata, and rules over several fields. */
const RULES = ["check", "raw_check", "finite"];
/** What is no rule: which fields other formats can be told of. */
const MARKS = ["unsaid", "whole"];
export const ignoreActions: string[] = [...RULES, ...MARKS];

/** The schemas of one format by their names. */
export function schemasOf({ schemas, derived }: FormatPart): Record<string, JsonSchema> {
  const converted = toJsonSchemaDefs(schemas, {
    target: "draft-2020-12",
    typeMode: "input",
    ignoreActions,
    overrideRef: ({ referenceId }) => `${PLACE}${referenceId}`,
  }) as unknown as Record<string, JsonSchema>;
  return { ...converted, ...derived?.(converted) };
}

const PLACE = "#/components/schemas/";

/** Those of the schemas that a value refers to, or that one of them refers to, in the order of their names. */
export function referredFrom(
  value: unknown,
  schemas: Readonly<Record<string, JsonSchema>>,
): Record<string, JsonSchema> {
  const names = new Set(namesIn(value));
  // A set that grows while it is walked is walked to its end.
  for (const name of names) for (const inner of namesIn(schemas[name])) names.add(inner);
  return Object.fromEntries([...names].toSorted().map((name) => [name, schemas[name] ?? {}]));
}

function* namesIn(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  const { $ref } = value as { readonly $ref?: unknown };
  if (typeof $ref === "string" && $ref.startsWith(PLACE)) yield $ref.slice(PLACE.length);
  for (const inner of Object.values(value)) yield* namesIn(inner);
}
