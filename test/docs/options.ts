/** Writes the pages in `docs/reference`: options and records from the doc comments of their types, and the tables of `tables.ts`. */

import { type Comment, type DeclarationReflection, type ProjectReflection, ReflectionKind } from "typedoc";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { DEFAULT_AI_SDK_LIMITS, DEFAULT_AI_SDK_TIMEOUTS } from "../../src/upstreams/ai-sdk/index.ts";
import { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../src/upstreams/relay/index.ts";
import { DEFAULT_BREAKER, DEFAULT_RETRY } from "../../src/upstreams/route/index.ts";
import { messagesPage } from "./messages.ts";
import { sqlPage } from "./sql.ts";
import { tablePages } from "./tables.ts";
import { wrapped } from "./wrapped.ts";

/** The types whose every field has a default, with these defaults. */
const DEFAULTS: Readonly<Record<string, object>> = {
  Limits: DEFAULT_LIMITS,
  AiSdkLimits: DEFAULT_AI_SDK_LIMITS,
  AiSdkTimeouts: DEFAULT_AI_SDK_TIMEOUTS,
  RelayLimits: DEFAULT_RELAY_LIMITS,
  RelayTimeouts: DEFAULT_RELAY_TIMEOUTS,
  RetryOptions: DEFAULT_RETRY,
  BreakerOptions: DEFAULT_BREAKER,
};

/**
 * The types that hosts read, write or implement, beside those whose names end with Options, Limits or Timeouts; and the types of fields
 * whose comments list the values.
 */
const RECORDS: readonly string[] = [
  "ApiKey",
  "AwsCredentials",
  "BudgetDirectory",
  "CallContext",
  "CallOutcome",
  "CallRecord",
  "Catalogue",
  "EmbeddingBatches",
  "EmbeddingRequest",
  "Failure",
  "FileProfile",
  "GatewayHealth",
  "HoldRequest",
  "Hook",
  "HookAnswer",
  "HookCall",
  "HookStep",
  "ImageProfile",
  "KeyAdmin",
  "KeyUsage",
  "LedgerDriver",
  "ModelInfo",
  "ModelPrice",
  "Mounted",
  "MovedOn",
  "OpenedStores",
  "OperationProfile",
  "Outcome",
  "QuotaRecalls",
  "QuotaStore",
  "RateLimiter",
  "RateRefusal",
  "RateVerdict",
  "RefusedBy",
  "RelayCheck",
  "Renewal",
  "Route",
  "RouteUpstream",
  "ShadowAnswer",
  "SignableRequest",
  "TestGateway",
  "UpstreamAttempt",
  "UpstreamStatus",
];

/**
 * Returns the pages by their names: one for each entry that has such types, such as `polygate-backends-relay.md`, the tables, and
 * `reference.md`, which leads to all of them.
 */
export function referencePages({ children = [] }: ProjectReflection): ReadonlyMap<string, string> {
  const entries = children
    .map((entry) => ({ name: entry.name, types: (entry.children ?? []).filter(isDescribed).toSorted(byName) }))
    .filter(({ types }) => types.length > 0)
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const pages = entries.map(({ name, types }): [string, string] => [fileOf(name), pageOf(name, types)]);
  if (undocumented.length > 0) throw new Error(`These fields have no doc comment: ${undocumented.join(", ")}.`);
  return new Map([
    ...pages,
    ...tablePages(),
    ["error-messages.md", messagesPage()],
    ["sql-tables.md", sqlPage()],
    ["reference.md", indexOf(entries)],
  ]);
}

const undocumented: string[] = [];

const fileOf = (entry: string): string => `${entry.replaceAll("/", "-")}.md`;

interface Entry {
  readonly name: string;
  readonly types: readonly DeclarationReflection[];
}

function indexOf(entries: readonly Entry[]): string {
  const lines = entries.map(({ name, types }) => {
    const links = types.map((type) => `[${type.name}](${fileOf(name)}#${type.name.toLowerCase()})`);
    return wrapped(`- [\`${name}\`](${fileOf(name)}): ${links.join(", ")}`, "  ");
  });
  const tables = wrapped(
    "The [conversions of fields](conversion-tables.md), the [errors by format](errors-by-format.md), the [messages of all errors](error-messages.md), and the [columns of SQL tables](sql-tables.md).",
  );
  return `# Reference\n\n${tables}\n\n## Options and records\n\n${lines.join("\n")}\n`;
}

const isDescribed = ({ kind, name }: DeclarationReflection): boolean =>
  RECORDS.includes(name)
    ? kind === ReflectionKind.Interface || kind === ReflectionKind.TypeAlias
    : kind === ReflectionKind.Interface && /(?:Options|Limits|Timeouts)$/.test(name);

const byName = (one: DeclarationReflection, other: DeclarationReflection): number => (one.name < other.name ? -1 : 1);

function pageOf(entry: string, types: readonly DeclarationReflection[]): string {
  const note = "A field with a `?` may be left out.";
  const sections = types.flatMap((type) => [
    `## ${type.name}`,
    blocksOf(type.comment),
    // A method such as `[Symbol.asyncDispose]` is called by the language.
    (type.children ?? [])
      .filter(({ name }) => !name.startsWith("["))
      .map((field) => fieldOf(type.name, field))
      .join("\n"),
  ]);
  // A type of values has no fields.
  const texts = [`# Options of \`${entry}\``, note, ...sections].filter((text) => text !== "");
  return `${texts.join("\n\n")}\n`;
}

function fieldOf(owner: string, field: DeclarationReflection): string {
  const { name, type, signatures, flags } = field;
  const declared = type?.type === "reflection" ? type.declaration.signatures?.[0]?.comment : undefined;
  const text = textOf(field.comment ?? signatures?.[0]?.comment ?? declared);
  if (text === "") undocumented.push(`${owner}.${name}`);
  const amount = (DEFAULTS[owner] as Readonly<Record<string, unknown>> | undefined)?.[name];
  const ending = typeof amount === "number" && !/\bDefault: /.test(text) ? ` Default: ${amountOf(name, amount)}.` : "";
  return wrapped(`- \`${name}${flags.isOptional ? "?" : ""}\`: ${text}${ending}`, "  ");
}

/** Returns the text of a comment in one line, without its examples. */
const textOf = (comment: Comment | undefined): string => textIn(comment).replaceAll(/\s+/g, " ").trim();

/** Returns the paragraphs and the lists of a comment, without its examples. An empty line parts a list from the text before it. */
const blocksOf = (comment: Comment | undefined): string =>
  textIn(comment)
    .trim()
    .split(/\n(?=- )|\n\n/)
    .map((text, index, { [index - 1]: before = "" }) => {
      const isItem = text.startsWith("- ");
      return `${isItem && before.startsWith("- ") ? "\n" : "\n\n"}${wrapped(text, isItem ? "  " : "")}`;
    })
    .join("")
    .trim();

const textIn = (comment: Comment | undefined): string => (comment?.summary ?? []).map(({ text }) => text).join("");

/** Writes an amount as people read it: `32 MiB`, `10 minutes`, `1,000,000`. */
function amountOf(name: string, amount: number): string {
  const units: readonly (readonly [string, number])[] = name.endsWith("Ms")
    ? [
        ["hours", 3_600_000],
        ["minutes", 60_000],
        ["seconds", 1_000],
        ["milliseconds", 1],
      ]
    : /Bytes/.test(name)
      ? [
          ["MiB", 1024 ** 2],
          ["KiB", 1024],
        ]
      : /(?:Chars|Pixels)$/.test(name)
        ? [["Mi", 1024 ** 2]]
        : [];
  const [unit, size] = units.find(([, size]) => amount >= size && amount % size === 0) ?? ["", 1];
  const count = (amount / size).toLocaleString("en-US");
  return unit === "" ? count : `${count} ${count === "1" ? unit.replace(/s$/, "") : unit}`;
}
