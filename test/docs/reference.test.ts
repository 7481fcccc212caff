/**
 * Compares the public names with the docs. Each name has a doc comment, each entry, function and error code stands on a page, the reference
 * of options is that of the types, and no table lists an option that is gone.
 */

import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { Kysely } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GATEWAY_ERROR_CODES } from "../../src/errors.ts";
import { anthropicRateHeaders, openaiRateHeaders } from "../../src/formats/shared/errors.ts";
import { corsOf } from "../../src/http/cors.ts";
import { createGateway } from "../../src/index.ts";
import { openApiDocument } from "../../src/openapi/index.ts";
import { memoryQuotaStore } from "../../src/stores/memory.ts";
import { migrate, nodeSqliteDialect } from "../../src/stores/sql/index.ts";
import { entries, ROOT } from "./entries.ts";
import { markedTables, namesIn, pages } from "./pages.ts";

/** TypeDoc's description of a name, as far as these tests read it. */
interface Reflection {
  readonly id: number;
  readonly name: string;
  /** A bit of https://typedoc.org/api/enums/Models.ReflectionKind.html. */
  readonly kind: number;
  readonly children?: readonly Reflection[];
  readonly signatures?: readonly Reflection[];
  readonly type?: { readonly declaration?: Reflection };
  readonly comment?: { readonly summary: readonly unknown[] };
}

const FOLDER = "docs/reference/";
/** A class. */
const CLASS = 128;
/** A name that another entry exports as well. */
const REFERENCE = 4_194_304;

/** The types of TypeScript's library, of Node and of other packages. Node has others of the library itself. */
const FOREIGN = [
  "AsyncIterable AsyncIterableIterator Iterable PromiseLike ReadonlyMap RequestInit",
  "Exclude NonNullable Omit Partial Pick Readonly Record",
  "DatabaseSync Duplex IncomingMessage ServerResponse",
  "Attributes GoogleAuth Meter MeterProvider TextMapPropagator TracerProvider",
  "Kysely Migration PostgresDialect RawBuilder SqliteDialect",
].join(" ");
/** The parameters of types. */
const PARAMETERS = "Backend Context Count Ctx Format Has Info Model Needs Platform Req Result Row Upstream";
/** The types of fields that only the package itself reads. */
const INNER = "BalancedOrder CanaryOrder Hedger ShadowCopies";

let folder: string;
let modules: ReadonlyMap<string, readonly Reflection[]>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "polygate-reference-"));
  const json = join(folder, "reference.json");
  const made = promisify(execFile)(process.execPath, [
    `${ROOT}test/docs/typedoc.ts`,
    join(folder, "pages"),
    json,
    join(folder, "options"),
  ]);
  // TypeDoc's warnings, such as a dead link in a comment, are errors here.
  await made.catch(({ stdout, stderr }: { stdout: string; stderr: string }) => {
    throw new Error(`The reference cannot be made.\n${stdout}${stderr}`);
  });
  const { children } = JSON.parse(await readFile(json, "utf8")) as { children: readonly Reflection[] };
  modules = new Map(children.map(({ name, children: names = [] }) => [name, names]));
}, 240_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

const all = (): Reflection[] => [...modules.values()].flat().filter(({ kind }) => kind !== REFERENCE);

const fieldsOf = ({ children = [] }: Reflection): string[] => children.map(({ name }) => name);

describe("the public names", () => {
  it("the pages name each entry", () => {
    const missing = [...entries().keys()].filter((entry) => !pages.some(({ text }) => text.includes(`\`${entry}\``)));
    expect(missing).toEqual([]);
  });

  it("the pages name each function and constant", () => {
    const values = all().filter(({ name, kind }) => kind === 32 || kind === 64 || name === "GatewayError");
    expect(values.length).toBeGreaterThan(40);
    const missing = values.filter(({ name }) => !pages.some(({ text }) => new RegExp(`\\b${name}\\b`).test(text)));
    expect(missing.map(({ name }) => name)).toEqual([]);
  });

  it("each has a doc comment", () => {
    const bare = all().filter(
      ({ comment, signatures, type }) =>
        !comment &&
        !signatures?.some((one) => one.comment) &&
        !type?.declaration?.signatures?.some((one) => one.comment),
    );
    expect(bare.map(({ name }) => name)).toEqual([]);
  });
});

it("the pages in docs/reference are those of the types: npm run docs:options writes them", async () => {
  const written = pages.filter(({ path }) => path.startsWith(FOLDER));
  const made = await readdir(join(folder, "options"));
  const texts = await Promise.all(made.map((name) => readFile(join(folder, "options", name), "utf8")));
  expect(made.length).toBeGreaterThan(20);
  expect(Object.fromEntries(written.map(({ path, text }) => [path.slice(FOLDER.length), text]))).toEqual(
    Object.fromEntries(made.map((name, index) => [name, texts[index]])),
  );
});

describe("the entries of docs/reference", () => {
  const texts = pages
    .filter(({ path }) => path.startsWith(`${FOLDER}polygate`))
    .flatMap(({ text }) => text.split(/^## /m).slice(1));
  const sections = new Map(texts.map((text) => [/^\w+/.exec(text)?.[0] ?? "", text.replaceAll(/\s+/g, " ")]));

  it("are there for each type that a host's backend, hook, store or limiter needs", () => {
    const types = new Map(all().map((type) => [type.id, type]));
    const reached = new Set<Reflection>();
    const reach = (value: unknown): void => {
      if (Array.isArray(value)) for (const one of value) reach(one);
      else if (typeof value === "object" && value !== null)
        for (const [name, one] of Object.entries(value)) {
          const type = name === "target" ? types.get(one as number) : undefined;
          if (type && !reached.has(type)) {
            reached.add(type);
            reach(type);
          }
          // Implementations of a type are not needed to implement it.
          if (!["comment", "extendedBy", "implementedBy"].includes(name)) reach(one);
        }
    };
    reach(all().filter(({ name }) => ["ModelBackend", "Hook", "QuotaStore", "RateLimiter"].includes(name)));
    // A class has no options, and the fields of `DuringCode` are for the gateway alone.
    const needed = Array.from(reached, ({ name, kind }) =>
      kind === CLASS || name === "DuringCode" ? [] : name,
    ).flat();
    expect(needed.length).toBeGreaterThan(90);
    expect(needed.filter((name) => !sections.has(name))).toEqual([]);
  });

  it("describe each type that stands in them, here or on another page", () => {
    const described = new Set(sections.keys());
    const known = new Set([FOREIGN, PARAMETERS, INNER].flatMap((names) => names.split(" ")));
    const missing = texts.flatMap((text) => {
      const [, name = ""] = /^(\w+)/.exec(text) ?? [];
      const codes = Array.from(text.matchAll(/^(?:- )?\[?`([^`]+)`/gm), ([, code = ""]) =>
        code.replaceAll(/"[^"]*"/g, ""),
      );
      const told = new Set(Array.from(text.matchAll(/^`(\w+)`:/gm), ([, one]) => one));
      return codes
        .flatMap((code) => code.match(/(?<![.\w])[A-Z]\w*[a-z]\w*/g) ?? [])
        .filter((one) => !described.has(one) && !told.has(one) && !known.has(one) && !(one in globalThis))
        .map((one) => `${name}: ${one}`);
    });
    expect(described.size).toBeGreaterThan(300);
    expect([...new Set(missing)]).toEqual([]);
  });

  it("are there for each function, class and constant", () => {
    // 32 is a constant, and 64 a function.
    const values = all().filter(({ kind }) => [32, 64, CLASS].includes(kind));
    expect(values.map(({ name }) => name).filter((name) => !sections.has(name))).toEqual([]);
  });

  it.each([
    ["ApiKey", "- `paused?: boolean`: True for"],
    ["MessagesOptions", '- `errors?: "spec" | "vendor"`: The statuses'],
    ["ModelBackend", "- [`hangUp?: HangUp | ((model: string) => HangUp)`](#hangup): The end"],
    [
      "ModelBackend",
      "- `chat?(request: ChatRequest, call: CallContext): AsyncIterable<ChatEvent | string>` ([ChatRequest](",
    ],
    ["Hook", "- [`before?(request, call): HookRequest | undefined | void | Promise<"],
    ["FlexibleRateLimiterOptions", "- [`tierOf?: (key: ApiKey) => string | undefined`](#apikey): Returns"],
    ["ChatRequest", "- [`messages: ChatMessage[]`](#chatmessage): The turns"],
    ["ChatEvent", "- [`StartEvent`](#startevent)"],
    ["ChatEvent", "- `usage`: [`usage: Partial<Usage>`](#usage), `model?: string`. The counts so far."],
    ["ContentEvent", "- `tool-call-delta`: `id: string`, `json: string`"],
    ["HookEvent", "- [`ContentEvent`](polygate-requests-and-events.md#contentevent)"],
    ["ToolChoice", "- `auto` or `required`: `parallel: boolean`, `names?: string[]`"],
    ["HangUp", '`"cancel" | { drainMs: number }`'],
    ["NamePolicy", '`"pass" | "none" | string[]`'],
    ["Price", "`(usage: Usage, model: string, kind: ModelKind, upstream?: UpstreamModel) => number`"],
    ["Clock", "- `now(): number`: Milliseconds"],
    [
      "createGateway",
      "`createGateway(options: GatewayOptions): Gateway` ([GatewayOptions](#gatewayoptions), [Gateway](",
    ],
    ["createGateway", "Throws RangeError for a limit that is not a positive integer"],
    ["toExpressHandler", "`toExpressHandler(gateway: Mountable, options?: NodeHandlerOptions): ExpressHandler` ("],
    ["GatewayError", "`new GatewayError(code: GatewayErrorCode, message: string, details?: GatewayErrorDetails)`"],
    ["GatewayError", "- `retryAfterMs: number | undefined`"],
    ["manualClock", "- `start`: Its first moment"],
    ["hashApiKey", "`hashApiKey(apiKey: string): string`"],
    ["budgetMetrics", "Returns a function that removes the gauges."],
    ["tokenPrice", "[`tokenPrice: Price`](#price)"],
    ["refusal", "`refusal(text?: string, options?: ReplyOptions): Turn` ("],
    ["GatewayErrorCode", '`"invalid_request"`, `"malformed_body"`'],
    ["UsageQuery", "- [`by?: UsageColumn[]`](#usagecolumn): The columns"],
    ["UsageRow", "Has all of [`UsageSums`](#usagesums). - `budget?: string`"],
    ["AskedRequest", "- `chat`: `number: number`, `model: string`, `prompt: string`, [`request: ChatRequest`]("],
    ["ReplyUsage", "- `inputTokens?: number`"],
    ["wrongAddress", "`RequestHeaders`: The headers of a request, of Fetch or of Node. `Headers | Record<"],
    ["UpgradeHandler", "`(this: Server | void, req: IncomingMessage, socket: Duplex, head: Buffer) => void`"],
  ])("of %s has the types", (name, line) => {
    expect(sections.get(name)).toContain(line);
  });
});

// The options of a function stand before those in their fields, and what a function returns before its parts.
it.each([
  ["polygate-serve", "ServerOptions ServerAdminOptions ServedGateway"],
  ["polygate-admin-http", "AdminHandlerOptions AdminHandler AdminGateway AdminPageFile"],
  ["polygate-prices", "CatalogueOptions TablePrices ModelPrice LongerRates"],
  ["polygate", "GatewayOptions Limits CorsOptions CompactionOptions Gateway CoreGateway"],
])("the page %s has its types in the order in which readers meet them", async (page, names) => {
  const text = await readFile(`${ROOT}${FOLDER}${page}.md`, "utf8");
  const headings = Array.from(text.matchAll(/^## (\w+)/gm), ([, name = ""]) => name);
  expect(headings.filter((name) => names.split(" ").includes(name)).join(" ")).toBe(names);
});

it("a table of options has a row for each field of its type, and no other", () => {
  const tables = Array.from(markedTables("options: (\\w+)"), ([name, rows]): [string, string[]] => [
    name,
    rows.flatMap(([cell]) => namesIn(cell)).toSorted(),
  ]);
  const types = new Map(all().map((type) => [type.name, fieldsOf(type).toSorted()]));
  expect(Object.fromEntries(tables)).toEqual(Object.fromEntries(tables.map(([name]) => [name, types.get(name)])));
});

it("lists the headers that the OpenAPI document has, and those that the gateway makes of its own", () => {
  const backend = { models: () => [], async *chat() {} };
  const { components, paths } = openApiDocument(createGateway({ backend, quotas: memoryQuotaStore([]) }));
  const parameters = [
    ...JSON.stringify([components, paths]).matchAll(/"name":"([\w-]+)","in":"header"|"in":"header","name":"([\w-]+)"/g),
  ];
  const names = [...Object.keys(components.headers ?? {}), ...parameters.map(([, one, other]) => one ?? other ?? "")];
  expect(names.length).toBeGreaterThan(10);
  const page = pages.find(({ path }) => path === `${FOLDER}headers.md`)?.text ?? "";
  const listed = namesIn(page.match(/^- .*(?:\n {2}.*)*/gm)?.join("\n"));
  expect(names.filter((name) => !listed.includes(name.toLowerCase()))).toEqual([]);
  const made = ["polygate-dropped", "polygate-approximated", "polygate-output-limit", "polygate-replayed"];
  const rates = { kind: "requests", limit: 1, remaining: 1, resetMs: 1 } as const;
  const limited = [rates, { ...rates, kind: "tokens" } as const];
  made.push(...Object.keys(openaiRateHeaders(limited)), ...Object.keys(anthropicRateHeaders(limited, 0)));
  const preflight = { "access-control-request-method": "POST", "access-control-request-headers": "x-api-key" };
  const request = { origin: "https://app.example", ...preflight };
  const cors = corsOf({ origin: [request.origin], credentials: true, exposeHeaders: ["request-id"], maxAge: "60" });
  for (const method of ["OPTIONS", "POST"])
    made.push(...Object.keys(cors(new Request("http://host", { method, headers: request })).headers));
  expect(made).toContain("access-control-max-age");
  expect(made.filter((name) => !listed.includes(name))).toEqual([]);
});

it("has the required fields of a type before all others", () => {
  const sections = pages
    .filter(({ path }) => path.startsWith(`${FOLDER}polygate`))
    .flatMap(({ text }) => text.split(/^## /m));
  const mixed = sections.filter((text) => {
    const needs = Array.from(text.matchAll(/^- \[?`\w+(\??)[:(]/gm), ([, mark]) => mark);
    return needs.join("") !== "" && needs.indexOf("?") < needs.lastIndexOf("") && !text.includes("- `type");
  });
  expect(mixed.map((text) => text.split("\n")[0])).toEqual([]);
});

it("leads from the index to each name of the reference, with its meaning", () => {
  const page = pages.find(({ path }) => path === `${FOLDER}reference.md`)?.text ?? "";
  const rows = Array.from(page.matchAll(/^\| \[`(\w+)`\]\(([^)]+)\) +\| (\S.*?) +\|$/gm), ([, name = ""]) => name);
  const values = all().filter(({ kind }) => [32, 64, CLASS].includes(kind));
  expect(values.map(({ name }) => name).filter((name) => !rows.includes(name))).toEqual([]);
  expect(rows).toEqual(expect.arrayContaining(["GatewayOptions", "CallRecord", "Limits", "ChatEvent"]));
  expect(rows.length).toBe(page.match(/^\| \[/gm)?.length);
});

it("tells of every code of an error", () => {
  const rows = [...markedTables("(codes)").values()].flat();
  expect(rows.flatMap(([cell]) => namesIn(cell)).toSorted()).toEqual(GATEWAY_ERROR_CODES.toSorted());
});

it.each(["calls", "usage_days", "audit"])("lists the columns of %s that the migrations make", async (table) => {
  const database = new DatabaseSync(":memory:");
  const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
  await migrate(db, { dialect: "sqlite" });
  const columns = database.prepare(`PRAGMA table_info(polygate_${table})`).all() as Record<string, unknown>[];
  const made = columns.map(({ name, type, notnull, pk }) => {
    const kind = /int/i.test(String(type)) ? "bigint" : "text";
    return `${String(name)} (${kind}${notnull === 1 || pk === 1 ? "" : " or null"})`;
  });
  const page = pages.find(({ path }) => path === `${FOLDER}sql-tables.md`)?.text ?? "";
  const [, section = ""] = page.split(`## polygate_${table}\n`);
  const listed = Array.from(
    section.split("\n## ")[0]?.matchAll(/^- `(\w+)` (\(.*?\)):/gm) ?? [],
    ([, name, kind]) => `${name} ${kind}`,
  );
  expect(listed.toSorted()).toEqual(made.toSorted());
  await db.destroy();
});
