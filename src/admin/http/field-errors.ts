/** Words the error of a field in a request to the admin: its path, what it must be, and what came. Needs no words at the schemas. */

import * as v from "valibot";
import { MOST_UNITS } from "../../model/money.ts";
import { nearest, oneLine, quoted, shownWord } from "../../options.ts";

type Schema = v.GenericSchema;

/** The parts of valibot's schemas and actions that say what a value must be. */
interface SchemaParts {
  readonly type: string;
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly item?: Schema;
  readonly value?: Schema;
  readonly wrapped?: Schema;
  readonly options?: readonly unknown[];
  /** Of a list of words: names the words that another one probably means. Default: the nearest. */
  readonly meant?: (word: string) => string | undefined;
  readonly pipe?: readonly [Schema, ...v.PipeItem<unknown, unknown, v.BaseIssue<unknown>>[]];
  readonly requirement?: unknown;
}

/** The words after "must be". */
const WORDS: Readonly<Record<string, string>> = {
  string: "a text",
  boolean: "true or false",
  number: "a number",
  record: "an object of texts",
};

/** Returns the sentence for the first thing that is wrong with a value. */
export function fieldError(schema: Schema, issue: v.BaseIssue<unknown>): string {
  const path = issue.path?.map(({ key }) => key) ?? [];
  const dotted = oneLine(v.getDotPath(issue) ?? "The body");
  // A rule with a message of its own says more than its type.
  if (!issue.message.startsWith("Invalid ")) return `${dotted}: ${issue.message}.`;
  const field = path.reduce<Schema | undefined>((inner, key) => inner && partOf(inner, key), schema);
  // A query has a list as one text, so the number of a word means nothing to its author: leave it out.
  const name = field && wordsOf(field).length > 0 ? dotted.replace(/\.\d+$/, "") : dotted;
  const must = field ? mustBe(field) : "left out";
  const { input } = issue;
  if (input === undefined) return `${name}: is missing; it must be ${must}.`;
  const { meant: meantBy = (word: string) => field && nearest(word, wordsOf(field)) } = (field ??
    {}) as Partial<SchemaParts>;
  const meant = typeof input === "string" ? meantBy(input) : undefined;
  const question = meant === undefined ? "" : ` Did you mean ${meant}?`;
  const most = typeof input === "number" && input > MOST_UNITS ? ` The most is 2^53 - 1, ${MOST_UNITS}.` : "";
  const came = input === "" ? "an empty text" : typeof input === "number" ? quoted(input) : shownWord(input);
  return `${name}: must be ${must}, not ${came}.${question}${most}`;
}

/** Returns the schema of a part of a value. */
function partOf(schema: Schema, key: unknown): Schema | undefined {
  const { entries, item, value, wrapped, pipe } = schema as unknown as SchemaParts;
  if (wrapped) return partOf(wrapped, key);
  const own = entries && Object.hasOwn(entries, String(key)) ? entries[String(key)] : (item ?? value);
  if (own) return own;
  // A list of a query is written as one text, so the list stands behind the text in the pipe.
  return pipe?.flatMap((one) => (one !== schema && one.kind === "schema" ? (partOf(one, key) ?? []) : [])).at(-1);
}

/** Lists the words that a schema takes. */
function wordsOf(schema: Schema): readonly string[] {
  const { type, wrapped, options } = schema as unknown as SchemaParts;
  if (wrapped) return wordsOf(wrapped);
  return type === "picklist" ? (options?.map(String) ?? []) : [];
}

/** Says in words what a schema takes. */
function mustBe(schema: Schema): string {
  const { type, item, wrapped, pipe } = schema as unknown as SchemaParts;
  if (wrapped) return type === "nullable" ? `${mustBe(wrapped)}, or null` : mustBe(wrapped);
  const rules = rulesOf(pipe);
  if (rules.has("min_length")) return "a text that is not empty";
  const isOfQuery = rules.has("regex") && rules.has("transform");
  if (isOfQuery || rules.has("safe_integer"))
    return `an integer${rangeOf(rules.get("min_value") ?? (isOfQuery ? 0 : undefined), rules.get("max_value"))}`;
  if (type === "picklist") return either(wordsOf(schema));
  if (item) return `a list, each of it ${mustBe(item)}`;
  return WORDS[type] ?? "a text";
}

/** Returns the requirements of the rules in a pipe, by their type. The first schema of a pipe may have a pipe of its own. */
function rulesOf([first, ...actions]: NonNullable<SchemaParts["pipe"]> | readonly [] = []): ReadonlyMap<
  string,
  unknown
> {
  if (!first) return new Map();
  const { pipe } = first as unknown as SchemaParts;
  return new Map([
    ...(pipe ? rulesOf(pipe) : []),
    ...actions.map((one): [string, unknown] => [one.type, (one as unknown as SchemaParts).requirement]),
  ]);
}

function rangeOf(least: unknown, most: unknown): string {
  if (typeof least !== "number") return "";
  return typeof most === "number" ? ` from ${least} to ${most}` : ` from ${least} up`;
}

const either = (words: readonly string[]): string =>
  [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" or ");
