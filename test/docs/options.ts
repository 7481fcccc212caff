/**
 * Writes the pages in `docs/reference`: functions, classes, constants, options and records from their doc comments, and the tables of
 * `tables.ts`.
 */

import { readFileSync } from "node:fs";
import {
  type Comment,
  type DeclarationReflection,
  type ProjectReflection,
  ReferenceReflection,
  ReferenceType,
  Reflection,
  ReflectionKind,
  type SomeType,
} from "typedoc";
import { DEFAULT_LIMITS } from "../../src/limits.ts";
import { DEFAULT_AI_SDK_LIMITS, DEFAULT_AI_SDK_TIMEOUTS } from "../../src/upstreams/ai-sdk/index.ts";
import { DEFAULT_RELAY_LIMITS, DEFAULT_RELAY_TIMEOUTS } from "../../src/upstreams/relay/index.ts";
import { DEFAULT_BREAKER, DEFAULT_RETRY } from "../../src/upstreams/route/index.ts";
import { adminRoutesPage } from "./admin-routes.ts";
import { commandsPage } from "./commands.ts";
import { entries, ROOT } from "./entries.ts";
import { headersPage } from "./headers.ts";
import { messagesPage } from "./messages.ts";
import { metricsPage } from "./metrics.ts";
import type { Member, Shape } from "./shapes.ts";
import { sqlPage } from "./sql.ts";
import { table, tablePages } from "./tables.ts";
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
  "CoreGatewayOptions",
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
  "PriceRows",
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
  "ServedGateway",
  "ShadowAnswer",
  "SignRequest",
  "SignableRequest",
  "SqlDatabase",
  "SqlStoreOptions",
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

/** The types that functions return. Their entries have their own fields alone, and name the types that they extend. */
const RETURNED: readonly string[] = [
  "AdminHandler",
  "AdminPage",
  "Affinity",
  "AuditLog",
  "BorrowingQuotaStore",
  "CallAdmin",
  "CallReader",
  "CloudUpstream",
  "DurableQuotaStore",
  "ExpressHandler",
  "KoaMiddleware",
  "LedgerDifference",
  "ManualClock",
  "MemoryImageStore",
  "MemoryQuotaStore",
  "MemoryReplayStore",
  "MemoryResponseStore",
  "NodeHandler",
  "PrefixMemory",
  "PromptCacheFacts",
  "RelayBackend",
  "RouteBackend",
  "ScriptedBackend",
  "SqlCallLog",
  "TablePrices",
  "Turn",
  "UpgradeHandler",
  "UsageReport",
];

/**
 * The types that the reference tells of in their comment alone: objects of other products, of which the types list what polygate uses, and
 * values that go from one function of the package to the next.
 */
const OPAQUE: ReadonlySet<string> = new Set([
  "AiSdkChatModel",
  "AiSdkEmbeddingModel",
  "AiSdkImageModel",
  "AzureCredential",
  "BunServer",
  "BunWebSocketHandler",
  "ChatVerbs",
  "CoreRoutes",
  "DuringCode",
  "EmbeddingVerbs",
  "Format",
  "FormatModule",
  "GatewayFeature",
  "GatewayFormat",
  "GoogleClient",
  "ImageStorage",
  "ImageVerbs",
  "KindModule",
  "KoaContext",
  "NodePostgresPool",
  "OpenApiDocument",
  "RedisClient",
  "RelayFeature",
  "ResponseStorage",
  "SocketHandler",
  "UpstreamFormat",
]);

/** The source files whose types are all described: the requests that backends get, and their events. */
const MODEL = /\/src\/model\/[^/]+$/;

/** A page of the entry `polygate`. */
interface Part {
  readonly name: string;
  readonly title: string;
  readonly purpose: string;
  /** The source files of its names. */
  readonly sources: RegExp;
}

/** The pages of the entry `polygate`. A name that matches none stands on the page of the entry. */
const PARTS: readonly Part[] = [
  {
    name: "requests and events",
    title: "Requests and events of `polygate`",
    purpose: "The requests that backends and hooks get, and the events of their answers.",
    sources: MODEL,
  },
  {
    name: "backends and hooks",
    title: "Backends and hooks of `polygate`",
    purpose: "The functions that a backend, a hook or a runner of code has, and the calls that they get.",
    sources: /\/src\/ports\/(?:model-backend|hook|code-runner|call-info)\.ts$/,
  },
  {
    name: "records and observers",
    title: "Records, failures and observers of `polygate`",
    purpose: "The records of finished calls, the errors and failures, the state of the gateway, and its observers.",
    sources: /\/src\/(?:ports\/observer|pipeline\/health|errors)\.ts$/,
  },
  {
    name: "keys and limits",
    title: "Keys, budgets and limits of `polygate`",
    purpose: "API keys with their quotas and budgets, the store that counts them, and the limiter of rates.",
    sources: /\/src\/(?:ports\/(?:quota-store|rate-limiter)|stores\/(?:budgets|durable|ledger|rate-limits))\.ts$/,
  },
  {
    name: "storage",
    title: "Storage of `polygate`",
    purpose:
      "The stores in memory and in unstorage, and the stores of images, responses and replays that hosts implement.",
    sources: /\/src\/(?:ports\/\w+-store|stores\/[^/]+|encryption)\.ts$/,
  },
];

/** The names that most hosts need. They stand before the others of their page, and in its line of the index. */
const FIRST: readonly string[] = [
  "createGateway",
  "GatewayOptions",
  "Limits",
  "ChatRequest",
  "ChatEvent",
  "ContentEvent",
  "ModelBackend",
  "Hook",
  "HookCall",
  "CallRecord",
  "Failure",
  "GatewayError",
  "ApiKey",
  "ApiKeyOptions",
  "QuotaStore",
  "memoryQuotaStore",
  "memoryImageStore",
  "memoryReplayStore",
  "openStores",
  "OpenStoresOptions",
  "OpenedStores",
  "nodePostgresDialect",
  "sqlQuotaStore",
  "sqlCallLog",
  "redisQuotaStore",
  "route",
  "RouteOptions",
  "RouteUpstream",
  "keyAdmin",
  "testGateway",
  "scriptedBackend",
  "reply",
];

/** A function for the shapes of an entry's names. */
export type ShapesOf = (entry: string, isDescribed: (name: string) => boolean) => (name: string) => Shape;

/**
 * Returns the pages by their names: one or more for each entry, such as `polygate-backends-relay.md`, the tables, and
 * `reference.md`, which leads to all of them.
 */
export async function referencePages(
  { children = [] }: ProjectReflection,
  shapesOf: ShapesOf,
): Promise<ReadonlyMap<string, string>> {
  const reached = reachedFrom(children, shapesOf);
  const described = children
    .toSorted(byName)
    .flatMap((entry) => groupsOf(entry, shapesOf, reached))
    .filter(({ values, types, others }) => values.length + types.length + others.length > 0);
  const places = new Map(
    described.flatMap(({ values, own }) => values.map((value) => [value, own.get(value.name)] as const)),
  );
  const addresses = described.flatMap(({ own }) => [...own].filter(([, address]) => address !== undefined));
  // Two entries may have different types of one name.
  const pages = described.map((group): [string, string] => [
    group.file,
    pageOf(group, new Map([...addresses, ...group.own]), places),
  ]);
  if (undocumented.length > 0) throw new Error(`These fields have no doc comment: ${undocumented.join(", ")}.`);
  return new Map([
    ...pages,
    ...tablePages(),
    ["error-messages.md", messagesPage()],
    ["command-line.md", await commandsPage()],
    ["headers.md", headersPage()],
    ["metrics.md", metricsPage()],
    ["admin-routes.md", adminRoutesPage()],
    ["sql-tables.md", sqlPage()],
    ["reference.md", indexOf(described)],
  ]);
}

const undocumented: string[] = [];

/** The addresses of names; undefined for a type without an entry in the reference. */
type Addresses = ReadonlyMap<string, string | undefined>;

/** The described names of a page. */
interface Group {
  readonly entry: string;
  readonly file: string;
  readonly title: string;
  /** The page's name in the index. */
  readonly label: string;
  readonly purpose: string;
  /** The functions, the classes and the constants. */
  readonly values: readonly DeclarationReflection[];
  /** The functions, classes and constants that stand on pages of other entries. */
  readonly others: readonly DeclarationReflection[];
  readonly types: readonly DeclarationReflection[];
  readonly shapeOf: (name: string) => Shape;
  /** The addresses of the names that the entry has itself. */
  readonly own: Addresses;
  /** The described values and types of all entries. */
  readonly reached: ReadonlySet<Reflection>;
}

/** The kinds of values, in the order of a page. */
const KINDS = [
  ["Functions", ReflectionKind.Function],
  ["Classes", ReflectionKind.Class],
  ["Constants", ReflectionKind.Variable],
] as const;

const VALUES = ReflectionKind.Function | ReflectionKind.Class | ReflectionKind.Variable;

const TYPES = ReflectionKind.Interface | ReflectionKind.TypeAlias;

/** Returns the values and the types that the reference describes: the types above, and those that stand in a described name. */
function reachedFrom(entries: readonly DeclarationReflection[], shapesOf: ShapesOf): ReadonlySet<Reflection> {
  const described = entries.flatMap(({ name: entry, children = [] }) => {
    const bare = shapesOf(entry, () => false);
    return children.filter(
      (one) => one.kind & VALUES || isDescribed(one) || (entry === "polygate" && MODEL.test(bare(one.name).file)),
    );
  });
  const exported = new Set<Reflection>(
    entries.flatMap(({ children = [] }) => children.filter(({ kind }) => kind & TYPES)),
  );
  const reached = new Set<Reflection>(described);
  // A set goes on with what is added to it.
  for (const one of reached) {
    for (const type of typesBehind(one, shapesOf)) if (exported.has(type)) reached.add(type);
  }
  return reached;
}

/** Returns the types in the signatures and the fields of a name; none for a name that has only a comment. */
function typesBehind(one: Reflection, shapesOf: ShapesOf): Reflection[] {
  if (OPAQUE.has(one.name)) return [];
  const references = referencesIn(one);
  // TypeDoc writes some types without their names. These are found in the lines of code.
  const unnamed = namesIn(one, shapesOf).flatMap((name) =>
    references.some((other) => other.name === name) ? [] : (one.parent?.getChildByName([name]) ?? []),
  );
  return [...references.flatMap(({ reflection }) => reflection ?? []), ...unnamed].map(targetOf);
}

/**
 * Ranks the names of an entry: functions before classes and constants, then options and limits before records. Of these, the types in a
 * signature stand first, then those of their fields, and so on; names of the same rank are in the order of the alphabet.
 */
function byUse(names: readonly DeclarationReflection[], shapesOf: ShapesOf) {
  const own = new Set<Reflection>(names);
  const steps = new Map<Reflection, number>(names.filter(({ kind }) => kind & VALUES).map((value) => [value, 0]));
  // A map goes on with what is added to it.
  for (const [one, step] of steps)
    for (const type of typesBehind(one, shapesOf)) if (own.has(type) && !steps.has(type)) steps.set(type, step + 1);
  const stepsTo = (one: DeclarationReflection): number => steps.get(one) ?? steps.size;
  return (one: DeclarationReflection, other: DeclarationReflection): number =>
    useOf(one) - useOf(other) || stepsTo(one) - stepsTo(other) || byName(one, other);
}

const targetOf = (one: Reflection): Reflection =>
  one instanceof ReferenceReflection ? one.getTargetReflectionDeep() : one;

/** Returns the names in the lines of code of a name. */
function namesIn({ name, parent }: Reflection, shapesOf: ShapesOf): string[] {
  const { signatures, fields, alias = "", members } = shapesOf(parent?.name ?? "", () => false)(name);
  const codes = [
    ...signatures,
    ...fields.values(),
    alias,
    ...members.flatMap((one) => one.fields.map(({ code }) => code)),
  ];
  return codes.flatMap(typesIn);
}

/** Returns the names of types in a line of code. */
const typesIn = (code: string): string[] => code.replaceAll(/"[^"]*"/g, "").match(/(?<![.\w])[A-Z]\w*/g) ?? [];

/** The members of TypeDoc's objects that lead out of a name. */
const OUTWARD = new Set([
  "parent",
  "project",
  "_project",
  "comment",
  "extendedBy",
  "implementedBy",
  "implementedTypes",
  "implementationOf",
  "inheritedFrom",
  "overwrites",
]);

/** Returns the names of types that stand in a name: in its signatures, its fields and what it extends. */
function referencesIn(value: unknown): readonly ReferenceType[] {
  if (Array.isArray(value)) return value.flatMap(referencesIn);
  if (typeof value !== "object" || value === null) return [];
  const inner = Object.entries(value).flatMap(([name, one]) => (OUTWARD.has(name) ? [] : referencesIn(one)));
  return value instanceof ReferenceType ? [value, ...inner] : inner;
}

/** Returns the groups of an entry's names: those of each part, and the others. */
function groupsOf(
  { name: entry, children = [] }: DeclarationReflection,
  shapesOf: ShapesOf,
  reached: ReadonlySet<Reflection>,
): readonly Group[] {
  const file = entry.replaceAll("/", "-");
  const ordered = byUse(children, shapesOf);
  const types = children.filter(({ kind }) => kind & TYPES).toSorted(ordered);
  const values = children.filter(({ kind }) => kind & VALUES).toSorted(ordered);
  const others = children
    .flatMap((child) => (child.isReference() ? (child.getTargetReflectionDeep() as DeclarationReflection) : []))
    .filter(({ kind }) => kind & VALUES)
    .toSorted(ordered);
  const bare = shapesOf(entry, () => false);
  const described = types.filter((type) => reached.has(type));
  const partOf = ({ name }: DeclarationReflection) =>
    entry === "polygate" ? PARTS.find(({ sources }) => sources.test(bare(name).file)) : undefined;
  const pages = [undefined, ...PARTS].map((part) => ({
    entry,
    file: part ? `${file}-${part.name.replaceAll(" ", "-")}.md` : `${file}.md`,
    title: part?.title ?? `\`${entry}\``,
    label: `\`${entry}\`${part ? `, ${part.name}` : ""}`,
    purpose: part?.purpose ?? purposeOf(entry),
    values: values.filter((value) => partOf(value) === part),
    others: part ? [] : others,
    types: described.filter((type) => partOf(type) === part),
  }));
  const own = new Map<string, string | undefined>([
    ...types.map(({ name }) => [name, undefined] as const),
    ...pages.flatMap((page) =>
      [...page.values, ...page.types].map((one) => [one.name, `${page.file}#${slugOf(headingOf(one, page))}`] as const),
    ),
  ]);
  const shapeOf = shapesOf(entry, (name) => own.get(name) !== undefined);
  return pages.map((page) => ({ ...page, shapeOf, own, reached }));
}

/** The pages that are no entries of the package. */
const TABLES = `- [The command \`polygate\`](command-line.md): All commands, with their options and examples.
- [Headers](headers.md): The headers of requests and answers.
- [Routes of the admin](admin-routes.md): Each route, with the fields of its body, query and answer.
- [Errors by format](errors-by-format.md): The status and the name of each error, and the classes of SDKs.
- [Messages of errors](error-messages.md): The text of every error, and what to do.
- [Conversions of fields](conversion-tables.md): Each field that another format cannot express.
- [Metrics](metrics.md): What each metric measures, and its labels.
- [SQL tables](sql-tables.md): The columns that you may query.`;

/** The groups of entries in the index, in its order. */
const AREAS: readonly (readonly [name: string, entries: RegExp])[] = [
  ["The gateway", /^polygate(?:\/core)?$/],
  ["Servers and runtimes", /^polygate\/(?:node|express|koa|bun|deno|edge|websocket|serve)$/],
  ["Models", /^polygate\/(?:backends|clouds|hooks|redactor)(?:\/|$)/],
  ["Stores", /^polygate\/stores(?:\/|$)/],
  ["Keys, money and operation", /^polygate\/(?:admin|prices|telemetry|openapi|testing)(?:\/|$)/],
  ["Formats", /^polygate\/formats\//],
];

/** The names of a page that its line in the index has. */
const MOST_NAMES = 3;

/** Returns the index: the pages by area, with the first names of each, and then all names by the alphabet. */
function indexOf(groups: readonly Group[]): string {
  const lost = groups.filter(({ entry }) => !AREAS.some(([, entries]) => entries.test(entry)));
  if (lost.length > 0)
    throw new Error(`These entries belong to no area: ${lost.map(({ entry }) => entry).join(", ")}.`);
  const areas = AREAS.map(([name, entries]) => {
    const lines = groups
      .filter(({ entry }) => entries.test(entry))
      .map(({ file, label, purpose, values, types, others }) => {
        const names = [...values, ...types, ...others].toSorted(byPlace).map((one) => `\`${one.name}\``);
        const rest = names.length - MOST_NAMES;
        const told = rest > 1 ? [...names.slice(0, MOST_NAMES), `${rest} more`] : names;
        return wrapped(`- [${label}](${file}): ${purpose} ${LIST.format(told)}.`, "  ");
      });
    return `## ${name}\n\n${lines.join("\n")}`;
  });
  const names = groups
    .flatMap(({ values, types, own }) => [...values, ...types].map((one) => ({ one, address: own.get(one.name) })))
    .toSorted(({ one }, { one: other }) => one.name.localeCompare(other.name, "en"));
  const letters = Map.groupBy(names, ({ one }) => one.name[0]?.toUpperCase() ?? "");
  const tables = Array.from(letters, ([letter, all]) => {
    const links = all.map(({ one, address }) => `[\`${one.name}\`](${address})`);
    const room = MOST_COLUMNS - Math.max(...links.map(({ length }) => length)) - "|  |  |".length;
    const rows = all.map(({ one }, at) => [links[at] ?? "", summaryOf(one, room)]);
    return `### ${letter}\n\n${table(["Name", "Meaning"], rows)}`;
  });
  return [
    "# Reference",
    "The pages by area, and [all names](#names) by the alphabet.",
    "## Commands, errors and tables",
    TABLES,
    ...areas,
    "## Names",
    ...tables,
    "",
  ]
    .join("\n\n")
    .trimEnd()
    .concat("\n");
}

/** Ranks the names that most hosts need first. */
const byPlace = (one: DeclarationReflection, other: DeclarationReflection): number => placeOf(one) - placeOf(other);

function placeOf({ name }: DeclarationReflection): number {
  const first = FIRST.indexOf(name);
  return first < 0 ? FIRST.length : first;
}

/** The columns of the longest line of a table. */
const MOST_COLUMNS = 140;

/** Returns the first sentence of a name's comment, as far as it fits. */
function summaryOf({ comment, signatures, type, children = [] }: DeclarationReflection, room: number): string {
  const declared = type?.type === "reflection" ? type.declaration.signatures?.[0]?.comment : undefined;
  const made = children.find(({ kind }) => kind === ReflectionKind.Constructor)?.signatures?.[0]?.comment;
  const text = textIn(comment ?? signatures?.[0]?.comment ?? declared ?? made)
    .replaceAll(/\s+/g, " ")
    .trim();
  const [sentence = ""] = text.split(/(?<=\.) (?=[A-Z`-])/);
  const bare = sentence
    .replace(/\.$/, "")
    .replace(/ \(spec [^)]*\)/, "")
    .replaceAll("|", String.raw`\|`);
  if (bare.length <= room) return bare;
  const cut = bare.slice(0, bare.lastIndexOf(" ", room - 2)).replace(/[,:;]$/, "");
  // A cut name in code needs its end.
  const marks = cut.split("`").length % 2 === 0 ? cut.slice(0, cut.lastIndexOf("`")).trimEnd() : cut;
  return `${marks} …`;
}

const isDescribed = ({ kind, name }: DeclarationReflection): boolean =>
  isListed(name) && (kind === ReflectionKind.Interface || !OPTIONS.test(name) || RECORDS.includes(name));

const isListed = (name: string): boolean => RECORDS.includes(name) || RETURNED.includes(name) || OPTIONS.test(name);

const OPTIONS = /(?:Options|Limits|Timeouts)$/;

/** Writes a list without a comma before `and`. */
const LIST = new Intl.ListFormat("en-GB");

/** Returns the purpose of an entry in a sentence: the first one of its source file, without the name of the entry. */
function purposeOf(entry: string): string {
  const [, comment = ""] = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(`${ROOT}${entries().get(entry)}`, "utf8")) ?? [];
  const text = comment.replaceAll(/\s*\n \*\s*|\s+/g, " ").trim();
  const [sentence] = text.replace(/^(?:The exports of )?["`]?polygate[\w/-]*["`]?: /, "").split(/(?<=\.) /);
  if (!sentence) throw new Error(`${entry} has no comment on top of its source file.`);
  return sentence[0]?.toUpperCase() + sentence.slice(1);
}

/** Returns the heading of an entry. A type, such as `Route`, may differ from a function of its page in case alone. */
const headingOf = ({ name, kind }: DeclarationReflection, { values }: Pick<Group, "values">): string =>
  !(kind & VALUES) && values.some((value) => value.name.toLowerCase() === name.toLowerCase()) ? `${name} (type)` : name;

const slugOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w ]/g, "")
    .replaceAll(" ", "-");

function useOf(one: DeclarationReflection): number {
  const { name, kind } = one;
  const first = placeOf(one);
  if (first < FIRST.length) return first;
  if (kind & VALUES) return FIRST.length + KINDS.findIndex(([, one]) => kind === one);
  return FIRST.length + (/(?:Options|Limits|Timeouts)$/.test(name) ? 0 : 1);
}

const byName = (one: DeclarationReflection, other: DeclarationReflection): number => (one.name < other.name ? -1 : 1);

function pageOf(
  group: Group,
  addresses: Addresses,
  places: ReadonlyMap<DeclarationReflection, string | undefined>,
): string {
  const { file, title, purpose, values, others, types, shapeOf, reached } = group;
  const note = "A field or a parameter with a `?` may be left out. The types are written without `readonly`.";
  const functions = values.flatMap((value) =>
    valueOf(value, shapeOf(value.name), linker(file, value, addresses, reached)),
  );
  const sections = types.flatMap((type) => {
    const shape = shapeOf(type.name);
    const linked = linker(file, type, addresses, reached);
    // A type that a function returns has its own fields alone, and so does one that only stands in other types.
    const extended = (type.extendedTypes ?? []).filter(
      (one) =>
        RETURNED.includes(type.name) ||
        (!isListed(type.name) && one instanceof ReferenceType && one.reflection && reached.has(one.reflection)),
    );
    const inherited = new Set(extended.map((one) => withoutArguments(one.toString())));
    // A method such as `[Symbol.asyncDispose]` is called by the language.
    const children = (type.children ?? []).filter(
      ({ name, inheritedFrom }) =>
        !name.startsWith("[") &&
        !(inheritedFrom && (RETURNED.includes(type.name) || inherited.has(ownerOf(inheritedFrom)))),
    );
    const parents = (type.extendedTypes ?? []).map((one) => withoutArguments(one.toString()));
    // The fields that a parent inherits from another file are for fewer readers than its own.
    const files = new Map((type.extendedTypes ?? []).map((one) => [withoutArguments(one.toString()), sourceOf(one)]));
    const isDeep = (one: DeclarationReflection): boolean => {
      const parent = one.inheritedFrom && files.get(ownerOf(one.inheritedFrom));
      return parent?.includes("/src/") === true && parent !== sourceOf(one);
    };
    const isMember = children.some(({ name }) => name === "type");
    const fields = children.toSorted(
      (one, other) =>
        (isMember ? byRank(one, other) : 0) ||
        needOf(one, parents) - needOf(other, parents) ||
        Number(isDeep(one)) - Number(isDeep(other)),
    );
    const comment = blocksOf(type.comment);
    const described = [`## ${headingOf(type, group)}`, comment, examplesOf(type.comment)];
    if (OPAQUE.has(type.name)) return described;
    return [
      ...described,
      inherited.size > 0 ? wrapped(`Has all of ${LIST.format(Array.from(inherited, linked))}.`) : "",
      fields
        .map((field) => fieldOf(type.name, field, shape, linked))
        .join("\n")
        .trimEnd(),
      aliasOf(shape, comment, linked),
      localsOf(shape, linked),
    ];
  });
  const also = others.map((other) => `[\`${other.name}\`](${places.get(other)})`);
  const end = also.length > 0 ? ["## Exported as well", wrapped(`${also.join(", ")}.`)] : [];
  const texts = [`# ${title}`, purpose, note, ...functions, ...sections, ...end].filter((text) => text !== "");
  return `${texts.join("\n\n")}\n`;
}

/** Writes a function, a class or a constant: its signatures, its comment, its parameters, its fields, and the errors that it throws. */
function valueOf(value: DeclarationReflection, shape: Shape, linked: Linked): string[] {
  const { name, kind, comment, children = [], type } = value;
  const constructors = children.flatMap((child) =>
    child.kind === ReflectionKind.Constructor ? (child.signatures ?? []) : [],
  );
  const declared = type?.type === "reflection" ? type.declaration.signatures : undefined;
  const signatures = value.signatures ?? declared ?? constructors;
  const comments = [comment, ...signatures.map((one) => one.comment)].filter((one) => one !== undefined);
  const parameters = signatures.flatMap((one) => one.parameters ?? []).filter((one) => one.comment);
  const fields = children.filter(
    (child) =>
      kind === ReflectionKind.Class &&
      child.kind !== ReflectionKind.Constructor &&
      !child.inheritedFrom &&
      !child.overwrites &&
      !child.flags.isStatic &&
      !child.name.startsWith("["),
  );
  const told = (tag: string): string[] =>
    comments
      .flatMap((one) => one.getTags(`@${tag}`))
      .map(({ content }) => textOf(content).replaceAll(/\s+/g, " ").trim());
  const returned = told("returns").map((text) => `Returns ${text[0]?.toLowerCase()}${text.slice(1)}`);
  return [
    `## ${name}`,
    shape.signatures.map(linked).join("\n\n"),
    ...comments.flatMap((one) => [blocksOf(one), examplesOf(one)]),
    parameters.map((one) => wrapped(`- \`${one.name}\`: ${paragraphsOf(one.comment).join(" ")}`, "  ")).join("\n"),
    fields.map((field) => fieldOf(name, field, shape, linked)).join("\n"),
    wrapped([...returned, ...told("throws").map((text) => `Throws ${text}`)].join(" ")),
    localsOf(shape, linked),
  ];
}

/** Returns a type without its arguments, such as the host's context, unless they contain texts. */
const withoutArguments = (type: string): string => type.replace(/<[^<>"]*>$/, "");

/** Ranks the `type` of a member of a union first, and the fields of many members last. */
const byRank = (one: DeclarationReflection, other: DeclarationReflection): number => rankOf(one) - rankOf(other);

const rankOf = ({ name, inheritedFrom }: DeclarationReflection): number =>
  name === "type" ? 0 : inheritedFrom ? 2 : 1;

/** Returns the name of the type that a field is inherited from. */
const ownerOf = ({ name }: ReferenceType): string => name.split(".")[0] ?? "";

/** Returns the source file of a name or of a type. */
function sourceOf(one: Reflection | SomeType): string | undefined {
  if (one instanceof ReferenceType) return one.symbolId?.fileName ?? (one.reflection && sourceOf(one.reflection));
  return one instanceof Reflection ? one.project.getSymbolIdFromReflection(one)?.fileName : undefined;
}

/** Ranks required fields before others, and then those of the first parent before those of the next. */
function needOf({ flags, inheritedFrom }: DeclarationReflection, parents: readonly string[]): number {
  const parent = parents.indexOf(inheritedFrom ? ownerOf(inheritedFrom) : "");
  return (flags.isOptional ? parents.length + 1 : 0) + parent + 1;
}

/** A function that writes code with links to the entries of the types in it. */
interface Linked {
  (code: string): string;
  /** The names of types without an entry in the code so far. */
  readonly unlinked: ReadonlySet<string>;
}

/** Returns a function that writes code with links to the entries of the other types in it. */
function linker(
  file: string,
  owner: DeclarationReflection,
  addresses: Addresses,
  reached: ReadonlySet<Reflection>,
): Linked {
  // A name that means another type here, such as the `Server` of Node.
  const foreign = new Set(
    referencesIn(owner).flatMap(({ name, reflection }) =>
      reflection && reached.has(targetOf(reflection)) ? [] : name,
    ),
  );
  const unlinked = new Set<string>();
  const linked = (code: string): string => {
    const names = [...new Set(typesIn(code))].filter((name) => name !== owner.name);
    const found = names.flatMap((name) => {
      const address = foreign.has(name) ? undefined : addresses.get(name)?.replace(file, "");
      if (address === undefined) unlinked.add(name);
      return address === undefined ? [] : [[name, address] as const];
    });
    if (found.length === 1) return `[\`${code}\`](${found[0]?.[1]})`;
    const links = found.map(([name, address]) => `[${name}](${address})`).join(", ");
    return links === "" ? `\`${code}\`` : `\`${code}\` (${links})`;
  };
  return Object.assign(linked, { unlinked });
}

/** Tells of the types in a section that no entry exports. */
function localsOf({ local }: Shape, linked: Linked): string {
  const told: string[] = [];
  // The code of such a type may name others, with which the set goes on.
  for (const name of linked.unlinked) {
    const { comment = "", code } = local(name) ?? {};
    const text = [comment, code === undefined ? "" : linked(code)].filter((one) => one !== "").join(" ");
    if (text !== "") told.push(wrapped(`\`${name}\`: ${text}`));
  }
  return told.join("\n\n");
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
  // The names and types of the model say most, and the comment of a class tells of its fields.
  const isTold = field.parent?.kind === ReflectionKind.Class || MODEL.test(file) || !isListed(owner);
  if (begin === "" && !(isTold && code !== bare)) undocumented.push(`${owner}.${name}`);
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
  const [only] = members;
  // The fields of an object that is made from another type.
  if (only && members.length === 1 && only.names.length === 0 && !only.isShared)
    return only.fields
      .map((field) => wrapped(`- ${linked(field.code)}${field.comment && `: ${field.comment}`}`, "  "))
      .join("\n");
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
  return wrapped(`- ${head}${head && codes && ": "}${codes}${text && (codes ? ". " : ": ")}${text}`, "  ");
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

/** Returns the examples of a comment, each a block of code. */
const examplesOf = (comment: Comment | undefined): string =>
  (comment?.getTags("@example") ?? []).map(({ content }) => textOf(content).trim()).join("\n\n");

const textIn = (comment: Comment | undefined): string => textOf(comment?.summary ?? []);

/** Returns a text without the sections of the specification, which users of the package do not have. */
const textOf = (parts: Comment["summary"]): string =>
  parts
    .map(({ text }) => text)
    .join("")
    .replaceAll(/\s\(spec \d[\d.]*\)|,\sspec \d[\d.]*(?=\))/g, "");

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
