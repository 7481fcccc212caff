/** Writes the pages in `docs/reference`: options and records from the doc comments of their types, and the tables of `tables.ts`. */

import { type Comment, type DeclarationReflection, type ProjectReflection, ReflectionKind } from "typedoc";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { DEFAULT_AI_SDK_LIMITS, DEFAULT_AI_SDK_TIMEOUTS } from "../../src/upstreams/ai-sdk/index.ts";
import { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../src/upstreams/relay/index.ts";
import { DEFAULT_BREAKER, DEFAULT_RETRY } from "../../src/upstreams/route/index.ts";
import { messagesPage } from "./messages.ts";
import type { Member, Shape } from "./shapes.ts";
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
  "ApiKeySource",
  "AskedUpstream",
  "AwsCredentialProvider",
  "AwsCredentials",
  "Balance",
  "BegunCall",
  "BreakerGauge",
  "BreakerState",
  "BudgetChanges",
  "BudgetDirectory",
  "BudgetEvent",
  "BudgetPeriod",
  "BudgetReport",
  "CallContext",
  "CallDemand",
  "CallInfo",
  "CallObserver",
  "CallOutcome",
  "CallRecord",
  "Cancel",
  "Catalogue",
  "Clock",
  "CodeCall",
  "CodeResult",
  "CodeRunner",
  "CodeToRun",
  "ContextTokens",
  "CountTokens",
  "DocumentPage",
  "DocumentUpdate",
  "EmbeddingBatches",
  "EncryptionKey",
  "FailedUpstream",
  "Failure",
  "Fetch",
  "FileProfile",
  "Gateway",
  "GatewayErrorCode",
  "GatewayErrorDetails",
  "GatewayGauges",
  "GatewayHealth",
  "GoogleTokens",
  "HangUp",
  "HoldChange",
  "HoldRequest",
  "Hook",
  "HookAnswer",
  "HookCall",
  "HookDecision",
  "HookEvent",
  "HookRequest",
  "HookStep",
  "HookToolCall",
  "ImageBooking",
  "ImagePrice",
  "ImageProfile",
  "ImageStore",
  "KeptDocument",
  "KeyAdmin",
  "KeyChanges",
  "KeyDirectory",
  "KeyPage",
  "KeyReport",
  "LedgerDriver",
  "LiveCall",
  "ModelBackend",
  "ModelInfo",
  "ModelKind",
  "ModelPrice",
  "Mountable",
  "Mounted",
  "MovedOn",
  "NamePolicy",
  "NewDocument",
  "Observer",
  "OnBudget",
  "OnCall",
  "OnFailure",
  "OpenedStores",
  "OperationProfile",
  "Outcome",
  "Port",
  "Price",
  "QuotaRecalls",
  "QuotaStore",
  "RateDecision",
  "RateKind",
  "RateLimit",
  "RateLimiter",
  "RateRefusal",
  "RateTier",
  "RateVerdict",
  "RecordedAnswer",
  "RecordedKey",
  "Refusal",
  "RefusedBy",
  "RelayCheck",
  "RelayModels",
  "Renewal",
  "ReplayClaim",
  "ReplayHolder",
  "ReplayRecord",
  "ReplayState",
  "ReplayStore",
  "Reservation",
  "ResponseStore",
  "Route",
  "RouteUpstream",
  "ShadowAnswer",
  "SignRequest",
  "SignableRequest",
  "StoreHealth",
  "StoredImage",
  "TelemetryNames",
  "TestGateway",
  "TightestBudget",
  "TokenDemand",
  "UnsettledCharge",
  "UpstreamAttempt",
  "UpstreamErrors",
  "UpstreamFailure",
  "UpstreamModel",
  "UpstreamObserver",
  "UpstreamOutcome",
  "UpstreamStatus",
  "VendorReason",
  "WantedRoom",
];

/** The source files whose types are all described: the requests that backends get, and their events. */
const MODEL = /\/src\/model\/[^/]+$/;

/** The pages of the entry `polygate`, by the source files of their types. A type that matches none stands on the page of the options. */
const PARTS: readonly { readonly name: string; readonly title: string; readonly sources: RegExp }[] = [
  { name: "requests and events", title: "Requests and events of `polygate`", sources: MODEL },
  {
    name: "backends and hooks",
    title: "Backends and hooks of `polygate`",
    sources: /\/src\/ports\/(?:model-backend|hook|code-runner|call-info)\.ts$/,
  },
  {
    name: "records and observers",
    title: "Records, failures and observers of `polygate`",
    sources: /\/src\/(?:ports\/observer|pipeline\/health|errors)\.ts$/,
  },
  {
    name: "keys and limits",
    title: "Keys, budgets and limits of `polygate`",
    sources: /\/src\/(?:ports\/(?:quota-store|rate-limiter)|stores\/(?:budgets|durable|ledger|rate-limits))\.ts$/,
  },
  {
    name: "storage",
    title: "Storage of `polygate`",
    sources: /\/src\/(?:ports\/\w+-store|stores\/[^/]+|encryption)\.ts$/,
  },
];

/** A function for the shapes of an entry's types. */
export type ShapesOf = (entry: string, isDescribed: (name: string) => boolean) => (name: string) => Shape;

/**
 * Returns the pages by their names: one for each entry that has such types, such as `polygate-backends-relay.md`, the tables, and
 * `reference.md`, which leads to all of them.
 */
export function referencePages({ children = [] }: ProjectReflection, shapesOf: ShapesOf): ReadonlyMap<string, string> {
  const described = children
    .toSorted(byName)
    .flatMap((entry) => groupsOf(entry, shapesOf))
    .filter(({ types }) => types.length > 0);
  const addresses = described.flatMap(({ own }) => [...own].filter(([, address]) => address !== undefined));
  // Two entries may have different types of one name.
  const pages = described.map((group): [string, string] => [
    group.file,
    pageOf(group, new Map([...addresses, ...group.own])),
  ]);
  if (undocumented.length > 0) throw new Error(`These fields have no doc comment: ${undocumented.join(", ")}.`);
  return new Map([
    ...pages,
    ...tablePages(),
    ["error-messages.md", messagesPage()],
    ["sql-tables.md", sqlPage()],
    ["reference.md", indexOf(described)],
  ]);
}

const undocumented: string[] = [];

/** The addresses of types by their names; undefined for a type without an entry in the reference. */
type Addresses = ReadonlyMap<string, string | undefined>;

/** The described types of a page. */
interface Group {
  readonly file: string;
  readonly title: string;
  /** The page's name in the index. */
  readonly label: string;
  readonly types: readonly DeclarationReflection[];
  readonly shapeOf: (name: string) => Shape;
  /** The addresses of the types that the entry has itself. */
  readonly own: Addresses;
}

/** Returns the groups of an entry's types: those of each part, and the others. */
function groupsOf({ name: entry, children = [] }: DeclarationReflection, shapesOf: ShapesOf): readonly Group[] {
  const file = entry.replaceAll("/", "-");
  const kinds = ReflectionKind.Interface | ReflectionKind.TypeAlias;
  const types = children.filter(({ kind }) => kind & kinds).toSorted(byName);
  const bare = shapesOf(entry, () => false);
  const described = types.filter(
    (type) => isDescribed(type) || (entry === "polygate" && MODEL.test(bare(type.name).file)),
  );
  const partOf = ({ name }: DeclarationReflection) =>
    entry === "polygate" ? PARTS.find(({ sources }) => sources.test(bare(name).file)) : undefined;
  const pages = [undefined, ...PARTS].map((part) => ({
    file: part ? `${file}-${part.name.replaceAll(" ", "-")}.md` : `${file}.md`,
    title: part?.title ?? `Options of \`${entry}\``,
    label: `\`${entry}\`${part ? `, ${part.name}` : ""}`,
    types: described.filter((type) => partOf(type) === part),
  }));
  const own = new Map<string, string | undefined>([
    ...types.map(({ name }) => [name, undefined] as const),
    ...pages.flatMap((page) => page.types.map(({ name }) => [name, `${page.file}#${name.toLowerCase()}`] as const)),
  ]);
  const shapeOf = shapesOf(entry, (name) => own.get(name) !== undefined);
  return pages.map((page) => ({ ...page, shapeOf, own }));
}

function indexOf(groups: readonly Group[]): string {
  const lines = groups.map(({ file, label, types }) => {
    const links = types.map((type) => `[${type.name}](${file}#${type.name.toLowerCase()})`);
    return wrapped(`- [${label}](${file}): ${links.join(", ")}`, "  ");
  });
  const tables = wrapped(
    "The [conversions of fields](conversion-tables.md), the [errors by format](errors-by-format.md), the [messages of all errors](error-messages.md), and the [columns of SQL tables](sql-tables.md).",
  );
  return `# Reference\n\n${tables}\n\n## Options and records\n\n${lines.join("\n")}\n`;
}

const isDescribed = ({ kind, name }: DeclarationReflection): boolean =>
  RECORDS.includes(name) || (kind === ReflectionKind.Interface && /(?:Options|Limits|Timeouts)$/.test(name));

const byName = (one: DeclarationReflection, other: DeclarationReflection): number => (one.name < other.name ? -1 : 1);

function pageOf({ file, title, types, shapeOf }: Group, addresses: Addresses): string {
  const note = "A field with a `?` may be left out. The types are written without `readonly`.";
  const sections = types.flatMap((type) => {
    const shape = shapeOf(type.name);
    const linked = linker(file, type.name, addresses);
    // A method such as `[Symbol.asyncDispose]` is called by the language.
    const children = (type.children ?? []).filter(({ name }) => !name.startsWith("["));
    const fields = children.some(({ name }) => name === "type") ? children.toSorted(byRank) : children;
    const comment = blocksOf(type.comment);
    return [
      `## ${type.name}`,
      comment,
      fields
        .map((field) => fieldOf(type.name, field, shape, linked))
        .join("\n")
        .trimEnd(),
      aliasOf(shape, comment, linked),
    ];
  });
  const texts = [`# ${title}`, note, ...sections].filter((text) => text !== "");
  return `${texts.join("\n\n")}\n`;
}

/** Ranks the `type` of a member of a union first, and the fields of many members last. */
const byRank = (one: DeclarationReflection, other: DeclarationReflection): number => rankOf(one) - rankOf(other);

const rankOf = ({ name, inheritedFrom }: DeclarationReflection): number =>
  name === "type" ? 0 : inheritedFrom ? 2 : 1;

/** Returns a function that writes code with links to the entries of the other types in it. */
function linker(file: string, owner: string, addresses: Addresses): (code: string) => string {
  return (code) => {
    const names = new Set(code.replaceAll(/"[^"]*"/g, "").match(/\b[A-Z]\w*/g));
    const found = Array.from(names, (name) => [name, addresses.get(name)?.replace(file, "")] as const).filter(
      ([name, address]) => name !== owner && address !== undefined,
    );
    if (found.length === 1) return `[\`${code}\`](${found[0]?.[1]})`;
    const links = found.map(([name, address]) => `[${name}](${address})`).join(", ");
    return links === "" ? `\`${code}\`` : `\`${code}\` (${links})`;
  };
}

function fieldOf(
  owner: string,
  field: DeclarationReflection,
  { file, fields }: Shape,
  linked: (code: string) => string,
): string {
  const { name, type, signatures, flags } = field;
  const declared = type?.type === "reflection" ? type.declaration.signatures?.[0]?.comment : undefined;
  const [begin = "", ...rest] = paragraphsOf(field.comment ?? signatures?.[0]?.comment ?? declared);
  const [text, more] = begin.startsWith("- ") ? ["", [begin, ...rest]] : [begin, rest];
  const bare = `${name}${flags.isOptional ? "?" : ""}`;
  const code = fields.get(name) ?? bare;
  // The names and types of the model say most.
  if (begin === "" && !(MODEL.test(file) && code !== bare)) undocumented.push(`${owner}.${name}`);
  const amount = (DEFAULTS[owner] as Readonly<Record<string, unknown>> | undefined)?.[name];
  const ending = typeof amount === "number" && !/\bDefault: /.test(text) ? ` Default: ${amountOf(name, amount)}.` : "";
  const first = wrapped(`- ${linked(code)}${begin && ":"} ${text}${ending}`.trim(), "  ");
  const blocks = more.map((block) =>
    block.startsWith("- ") ? `\n  ${wrapped(block, "    ")}` : `\n\n  ${wrapped(block, "  ")}`,
  );
  // A blank line ends an item of several paragraphs, as the formatter writes it.
  const end = blocks.some((block) => block.startsWith("\n\n")) ? "\n" : "";
  return `${first}${blocks.join("")}${end}`;
}

/** Writes the type behind an alias, or the members of its union, except words that the comment lists. */
function aliasOf({ alias, members }: Shape, comment: string, linked: (code: string) => string): string {
  const words =
    members.length > 0
      ? members.flatMap(({ names }) => names)
      : Array.from(alias?.matchAll(/"([^"]+)"/g) ?? [], ([, word = ""]) => word);
  const isOfWords = members.every(({ fields }) => fields.length === 0);
  const hasOthers = alias !== undefined && /[^|\s]/.test(alias.replaceAll(/"[^"]*"/g, ""));
  if (isOfWords && !hasOthers && words.length > 0 && words.every((word) => comment.includes(`\`${word}\``))) return "";
  if (alias !== undefined) return wrapped(linked(alias));
  if (isOfWords && words.every((word) => word.startsWith('"'))) return wrapped(words.map(linked).join(", "));
  const told = new Set<string>();
  return members.map((member) => memberOf(member, linked, told)).join("\n");
}

/** Writes a member of a union. A comment of a field that several members have is written once. */
function memberOf(
  { names, fields, comment, isShared }: Member,
  linked: (code: string) => string,
  told: Set<string>,
): string {
  const codes = fields.map(({ code }) => linked(code)).join(", ");
  const notes = fields
    .flatMap((field) => (field.comment ? `\`${/^\w+/.exec(field.code)?.[0]}\`: ${field.comment}` : []))
    .filter((note) => !told.has(note));
  for (const note of notes) told.add(note);
  const head = isShared ? "each member" : names.map(linked).join(" or ");
  const text = [...(comment ? [comment] : []), ...notes].join(" ");
  return wrapped(`- ${head}${codes && ": "}${codes}${text && (codes ? ". " : ": ")}${text}`, "  ");
}

/** Returns the paragraphs of a comment and the items of its lists, each in one line, without its examples. */
const paragraphsOf = (comment: Comment | undefined): string[] =>
  textIn(comment)
    .trim()
    .split(/\n\s*\n|\n(?=- )/)
    .map((text) => text.replaceAll(/\s+/g, " "));

/** Returns the paragraphs and the lists of a comment, without its examples. An empty line parts a list from the text before it. */
const blocksOf = (comment: Comment | undefined): string =>
  textIn(comment)
    .trim()
    .split(/\n(?=- )|\n\n/)
    .map((text, index, { [index - 1]: before = "" }) => {
      const isItem = text.startsWith("- ");
      const line = text.replaceAll(/\s+/g, " ");
      return `${isItem && before.startsWith("- ") ? "\n" : "\n\n"}${wrapped(line, isItem ? "  " : "")}`;
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
