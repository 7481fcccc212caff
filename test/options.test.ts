/** Every factory says in a sentence what is wrong with its options, also where no compiler has checked them. */

import { inspect } from "node:util";
import type { Kysely } from "kysely";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { createClient, createCluster } from "redis";
import { afterAll, describe, expect, it } from "vitest";
import { toExpressHandler } from "../adapters/express.ts";
import { toKoaMiddleware } from "../adapters/koa.ts";
import { toNodeHandler } from "../adapters/node.ts";
import { adminHandler } from "../src/admin/http/index.ts";
import { callAdmin, keyAdmin } from "../src/admin/index.ts";
import { createGateway as createCoreGateway, withCors, withHooks } from "../src/core.ts";
import { messages, messagesUpstream } from "../src/formats/messages/module.ts";
import {
  createGateway,
  flexibleRateLimiter,
  memoryQuotaStore,
  memoryResponseStore,
  unstorageImageStore,
  wrongAddress,
} from "../src/index.ts";
import { openApiDocument } from "../src/openapi/index.ts";
import { nearest } from "../src/options.ts";
import { priceTable } from "../src/prices/index.ts";
import { openStores } from "../src/stores/open/index.ts";
import { redisQuotaStore, redisReplayStore } from "../src/stores/redis/index.ts";
import { migrate, sqlCallReader, sqlQuotaStore, verifyLedger } from "../src/stores/sql/index.ts";
import { openTelemetry } from "../src/telemetry/index.ts";
import { relay } from "../src/upstreams/relay/index.ts";
import { route } from "../src/upstreams/route/index.ts";
import { entries, ROOT } from "./docs/entries.ts";
import { type OptionsObject, optionsObjects, type Step } from "./options.types.ts";

/** A factory as JavaScript calls it. */
type Factory = (...args: never[]) => unknown;

const backend = { async *chat() {} };
class Own {
  readonly chat = (): AsyncGenerator => backend.chat();
}
const quotas = memoryQuotaStore([]);
const gateway = createGateway({ backend, quotas });
const stores = await openStores("sqlite::memory:", { sweepMs: 0 });
afterAll(() => stores.close());
const storage = Object.fromEntries(
  ["getItem", "getItemRaw", "setItemRaw", "setItem", "removeItem", "getKeys"].map((name) => [name, () => {}]),
);
const meter = { createObservableGauge() {}, addBatchObservableCallback() {} };
const db: object = { withoutPlugins: () => db, withPlugin: () => db };
const pool = { connect() {}, on() {} };
const recalling = Object.fromEntries(
  ["find", "balance", "reserve", "renew", "settle", "recall", "recalled"].map((name) => [name, () => {}]),
);

const awsKeys = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret" };

/** An object with the methods of a driver. */
const ledgerDriver = Object.fromEntries(
  ["change", "read", "find", "ownerOf", "listKeys", "listBudgets", "listPeriods", "keysWith", "recall", "recalled"].map(
    (name) => [name, () => {}],
  ),
);

/** Right arguments for each function of the package that takes options, and for the functions that return objects with such methods. */
const ARGUMENTS: Readonly<Record<string, readonly unknown[]>> = {
  "polygate createGateway": [{ backend, quotas }],
  "polygate borrowingQuotaStore": [recalling],
  "polygate memoryQuotaStore": [[]],
  "polygate memoryImageStore": [],
  "polygate memoryReplayStore": [],
  "polygate encryptedResponseStore": [memoryResponseStore(), { keys: [{ name: "one", secret: new Uint8Array(32) }] }],
  "polygate memoryResponseStore": [],
  "polygate flexibleRateLimiter": [],
  "polygate unstorageImageStore": [storage],
  "polygate unstorageResponseStore": [storage],
  "polygate/admin callAdmin": [sqlCallReader({ db: db as Kysely<unknown>, dialect: "sqlite" })],
  "polygate/admin keyAdmin": [quotas.keys],
  "polygate/admin usageCsv": [{ by: [], rows: [], total: {} }],
  "polygate/admin/http adminHandler": [quotas.keys, { authorize: () => undefined }],
  "polygate/admin/http memoryAuditLog": [],
  "polygate/admin/page adminPage": [],
  "polygate/backends/affinity promptCache": [],
  "polygate/backends/ai-sdk aiSdk": [{ chat: () => undefined }],
  "polygate/backends/relay relay": [{ format: "messages", baseUrl: "https://example.com" }],
  "polygate/backends/route balance": [{ by: "latency" }],
  "polygate/backends/route canary": [{ upstreams: ["next"] }],
  "polygate/backends/route hedge": [{}],
  "polygate/backends/route shadow": [{ upstream: { backend }, share: 1, onAnswer() {} }],
  "polygate/backends/route route": [{ routes: { other: backend } }],
  "polygate/bun toBunHandler": [gateway],
  "polygate/clouds/aws bedrockConverse": [{ region: "us-east-1", credentials: awsKeys }],
  "polygate/clouds/aws bedrockMessages": [{ region: "us-east-1", credentials: awsKeys }],
  "polygate/clouds/aws signAws": [{ region: "us-east-1", service: "bedrock", credentials: awsKeys }],
  "polygate/clouds/azure azureChatCompletions": [{ endpoint: "https://example.com", apiKey: "key" }],
  "polygate/clouds/azure azureResponses": [{ endpoint: "https://example.com", apiKey: "key" }],
  "polygate/clouds/google vertexGenerateContent": [{ project: "one", location: "global" }],
  "polygate/clouds/google vertexMessages": [{ project: "one", location: "global" }],
  "polygate/core toEdgeHandler": [gateway],
  "polygate/core createGateway": [{ backend, quotas, formats: [messages()], features: [withCors, withHooks] }],
  "polygate/core relay": [{ format: messagesUpstream, baseUrl: "https://example.com" }],
  "polygate/core checkRelay": [{ format: messagesUpstream, baseUrl: "https://example.com" }],
  "polygate/deno toDenoHandler": [gateway],
  "polygate/express toExpressHandler": [gateway],
  "polygate/formats/images images": [],
  "polygate/formats/messages messages": [],
  "polygate/formats/responses responses": [],
  "polygate/koa toKoaMiddleware": [gateway],
  "polygate/node toNodeHandler": [gateway],
  "polygate/openapi openApiDocument": [gateway],
  "polygate/prices priceCatalogue": [{}, { date: "2026-11-01" }],
  "polygate/prices priceTable": [{ fast: { input: 1, output: 1 } }],
  "polygate/redactor redactor": [{ find: { word: ["one"] } }],
  "polygate/serve defineServer": [{ gateway: () => ({ backend }) }],
  "polygate/stores ledgerQuotaStore": [ledgerDriver],
  "polygate/stores openStores": ["sqlite::memory:"],
  "polygate/stores/redis redisPrefixMemory": [{ client: { call() {} } }],
  "polygate/stores/redis redisReplayStore": [{ client: { call() {} } }],
  "polygate/stores/redis redisQuotaStore": [{ client: { call() {} } }],
  "polygate/stores/sql schemaVersion": [db],
  "polygate/stores/sql sqlAuditLog": [{ db, dialect: "sqlite" }],
  "polygate/stores/sql sqlCallLog": [{ db, dialect: "sqlite" }],
  "polygate/stores/sql sqlCallReader": [{ db, dialect: "sqlite" }],
  "polygate/stores/sql migrate": [db, { dialect: "sqlite" }],
  "polygate/stores/sql migrations": [{ dialect: "sqlite" }],
  "polygate/stores/sql nodePostgresDialect": [pool],
  "polygate/stores/sql sqlReplayStore": [{ db, dialect: "sqlite" }],
  "polygate/stores/sql sqlResponseStore": [{ db, dialect: "sqlite" }],
  "polygate/stores/sql sqlQuotaStore": [{ db, dialect: "sqlite" }],
  "polygate/stores/sql verifyLedger": [db, { dialect: "sqlite" }],
  "polygate/telemetry budgetMetrics": [meter, quotas],
  "polygate/telemetry openTelemetry": [],
  "polygate/testing embedding": [[]],
  "polygate/testing image": [[]],
  "polygate/testing refusal": ["No."],
  "polygate/testing reply": ["Hi"],
  "polygate/testing scriptedBackend": ["Hi"],
  "polygate/testing testGateway": [],
  "polygate/testing toolCall": ["weather", {}],
  "polygate/websocket toUpgradeHandler": [gateway],
};

/** The arguments before the options of a method, where the method has some. */
const BEFORE: Readonly<Record<string, readonly unknown[]>> = {
  update: ["one"],
  updateBudget: ["one"],
  budgetPeriods: ["one"],
  rotate: ["one"],
  addSecret: ["one"],
};

const ENTRIES = entries();

const make = (factory: Factory, ...args: unknown[]): unknown => factory(...(args as never[]));

/** The message of the TypeError that a factory throws. */
function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    throw error;
  }
  throw new Error("Nothing was thrown.");
}

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Puts an object of options into arguments, at the end of some steps. */
function withObject(base: unknown, [step, ...rest]: readonly Step[], object: unknown, sample: object): unknown {
  if (step === undefined) return isRecord(object) ? { ...sample, ...(base as object), ...object } : object;
  if (step === "entry") return [withObject(Array.isArray(base) ? base[0] : undefined, rest, object, sample)];
  if (step === "value")
    return { fast: withObject((base as { fast?: unknown } | undefined)?.fast, rest, object, sample) };
  const own = base as Readonly<Record<string, unknown>> | undefined;
  return { ...step.of, ...own, [step.field]: withObject(own?.[step.field], rest, object, sample) };
}

/** Calls a function of the package with an object of options, and returns the error. */
async function refused({ factory, method, argument, steps, sample }: OptionsObject, object: unknown): Promise<Error> {
  const [entry = "", name = ""] = factory.split(" ");
  const module = (await import(`${ROOT}${ENTRIES.get(entry)}`)) as Readonly<Record<string, Factory>>;
  const base = ARGUMENTS[factory] ?? [];
  const called = (act: Factory | undefined, args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve) =>
      resolve(act?.(...([...args.slice(0, argument), withObject(args[argument], steps, object, sample)] as never[]))),
    );
  const [last = "", ...path] = (method ?? "").split(".").toReversed();
  const made = method === undefined ? undefined : make(module[name] as Factory, ...base);
  const opened = await made;
  try {
    if (method === undefined) await called(module[name], base);
    else {
      const on = path.reduce((from, part) => (from as Record<string, unknown>)[part], opened) as Record<
        string,
        Factory
      >;
      await called(on[last]?.bind(on), BEFORE[last] ?? []);
    }
  } catch (error) {
    return error as Error;
  } finally {
    if (made instanceof Promise) await (opened as { close(): Promise<void> }).close();
  }
  return new Error("Nothing was thrown.");
}

const nameOf = ({ factory, method = "", argument, steps }: OptionsObject): string =>
  [factory, method, argument, ...steps.map((step) => (typeof step === "string" ? step : step.field))].join(" ");

describe("the options of the whole package", () => {
  const all = [...optionsObjects()];
  it("are tried for each function", () => {
    expect([...new Set(all.map(({ factory }) => factory))].toSorted()).toEqual(Object.keys(ARGUMENTS).toSorted());
    expect(all.length).toBeGreaterThan(100);
  });

  it("are refused under a misspelt name, at every depth, with the name that was meant", async () => {
    const faults: string[] = [];
    for (const object of all)
      for (const { name } of object.fields) {
        const error = await refused(object, { [`${name}x`]: "sk-secret" });
        const isRight = error.message.includes(`${name}x does not exist; did you mean ${name}?`);
        if (!isRight || error.message.includes("sk-secret"))
          faults.push(`${nameOf(object)}: ${name}x: ${String(error)}`);
      }
    expect(faults).toEqual([]);
  });

  it("are refused when they are no object", async () => {
    const faults: string[] = [];
    for (const object of all.filter(({ steps }) => steps.length === 0))
      for (const wrong of [null, "text", ["list"]]) {
        // A `close` may listen to a signal, whose name comes first.
        if (typeof wrong === "string" && object.method === "close") continue;
        const error = await refused(object, wrong);
        if (!error.message.includes("expects an object"))
          faults.push(`${nameOf(object)}: ${inspect(wrong)}: ${String(error)}`);
      }
    expect(faults).toEqual([]);
  });

  it("are refused by their name where their value is of a wrong kind", async () => {
    const faults: string[] = [];
    for (const object of all)
      for (const { name, wrong } of object.fields)
        for (const value of wrong) {
          const error = await refused(object, { [name]: value });
          // The rows of stores and queries are data as well: over HTTP, a RangeError is a 400.
          const mayBeRange = typeof value === "number" || ["period", "by"].includes(name);
          const isRight = error instanceof TypeError || (mayBeRange && error instanceof RangeError);
          if (!isRight || !new RegExp(`\\b${name}\\b`).test(error.message))
            faults.push(`${nameOf(object)}: ${name} = ${inspect(value)}: ${String(error)}`);
        }
    expect(faults).toEqual([]);
  });
});

describe("a suggestion", () => {
  it.each([
    ["apikey", "apiKey"],
    ["key", "apiKey"],
    ["api_key", "apiKey"],
    ["baseURL", "baseUrl"],
    ["headres", "headers"],
    ["timeout", "timeouts"],
  ])("for %s is %s", (misspelt, meant) => {
    expect(refusal(() => make(relay, { format: "messages", baseUrl: "https://x.example", [misspelt]: 1 }))).toContain(
      `relay: ${misspelt} does not exist; did you mean ${meant}? There are `,
    );
  });

  it.each([
    ["onFail", "onFailure"],
    ["onCalls", "onCall"],
    ["hook", "hooks"],
    ["prices", "price"],
  ])("for a name that is cut short or goes on, %s, is %s", (misspelt, meant) => {
    expect(refusal(() => make(createGateway, { backend, quotas, [misspelt]: 1 }))).toContain(`did you mean ${meant}? `);
  });

  it.each([
    ["openai", "chat-completions"],
    ["anthropic", "messages"],
    ["gemini", "generate-content"],
    ["Google", "generate-content"],
    ["response", "responses"],
  ])("for the format %s is %s", (format, meant) => {
    const message = refusal(() => make(relay, { format, baseUrl: "https://x.example" }));
    expect(message).toMatch(new RegExp(`, not "${format}"\\. Did you mean "${meant}"\\?$`));
  });

  it("is not made for a format that is near to none", () => {
    const message = refusal(() => make(relay, { format: "carrier-pigeon", baseUrl: "https://x.example" }));
    expect(message).toMatch(/, not "carrier-pigeon"\.$/);
  });

  it.each(["colour", "x".repeat(100_000), "__proto__x"])("is not made for %s", (unknown) => {
    const message = refusal(() => make(relay, { format: "messages", baseUrl: "https://x.example", [unknown]: 1 }));
    expect(message).toContain("does not exist; there are ");
  });
});

describe("a wrong shape gets a sentence", () => {
  const upstream = { format: "messages", baseUrl: "https://x.example" };

  it.each<[string, () => unknown, string]>([
    [
      "createGateway()",
      () => make(createGateway),
      "createGateway: expects an object of options with backend and quotas, not undefined.",
    ],
    [
      "createGateway({})",
      () => make(createGateway, {}),
      "createGateway: backend must be a ModelBackend, such as relay({…}), not undefined.",
    ],
    [
      "a class",
      () => make(createGateway, { backend: Own, quotas }),
      "createGateway: backend must be a ModelBackend, such as relay({…}), not a class: write new before it.",
    ],
    [
      "prices as an object",
      () => make(createGateway, { backend, quotas, price: { m: { input: 1, output: 2 } } }),
      "createGateway: price must be a function: write ...priceTable({…}) for prices.",
    ],
    [
      "prices of images as an object",
      () => make(createGateway, { backend, quotas, imagePrice: { m: 7 } }),
      "createGateway: imagePrice must be a function: write ...priceTable({…}) for prices.",
    ],
    ...(["price", "imagePrice"] as const).flatMap((name) =>
      (
        [
          ["models", "m", "must be a list, not a text."],
          ["models", [7], "[0] must be a text, not a number."],
          ["currency", "dollars", 'must be a code of three letters, such as usd, not "dollars"'],
          ["hasFreeModels", "no", "must be true or false, not a text."],
        ] as const
      ).map(([field, value, words]): [string, () => unknown, string] => [
        `${field} of ${name} as ${JSON.stringify(value)}`,
        () => make(createGateway, { backend, quotas, [name]: Object.assign(() => 1, { [field]: value }) }),
        `createGateway: ${name}: ${field}${words.startsWith("[") ? "" : " "}${words}`,
      ]),
    ),
    [
      "models outside of routes",
      () => make(route, { "gpt-*": backend }),
      "route: the models must be in routes: write route({ routes: { … } }).",
    ],
    [
      "a model that is no list",
      () => make(relay, { ...upstream, models: "m" }),
      'relay: models must be a list, such as ["a-model"], or an object.',
    ],
    ...(
      [
        ["sk-secret\n", "ends with a line break."],
        ["sk-secret\r\n", "ends with a line break."],
        ["sk-secret ", "ends with a space."],
        [" sk-secret", "begins with a space."],
        ["sk-se cret", "has at position 6 a space."],
        ["sk-secrét", "has at position 8 another character."],
      ] as const
    ).map(([apiKey, words]): [string, () => unknown, string] => [
      `a key as ${JSON.stringify(apiKey)}`,
      () => make(relay, { ...upstream, apiKey }),
      `relay: apiKey must be visible ASCII characters, but ${words}`,
    ]),
    [
      "an empty key",
      () => make(relay, { ...upstream, apiKey: "" }),
      "apiKey is empty: is its environment variable set?",
    ],
    [
      "a date as the end of a key",
      () => make(memoryQuotaStore, [{ apiKey: "sk-1", expiresAt: new Date() }]),
      "expiresAt must be a Unix time in seconds, not an object.",
    ],
    [
      "an onFailure",
      () => make(createGateway, { backend, quotas, onFailure: "log" }),
      "createGateway: onFailure must be a function, not a text.",
    ],
    [
      "stores that are given whole",
      () => make(createGateway, { backend, stores }),
      "createGateway: stores does not exist; write ...stores.ports.",
    ],
    [
      "stores that are spread whole",
      () => make(createGateway, { backend, ...stores }),
      "createGateway: ports does not exist; write ...stores.ports.",
    ],
    [
      "prices that are not spread",
      () =>
        make(createGateway, { backend, quotas, prices: priceTable({ m: { input: 1, output: 2, per: 1_000_000 } }) }),
      "createGateway: prices does not exist; its value has the options price and imagePrice: write ...value in place of prices: value.",
    ],
    ...(
      [
        ["quotas", "a QuotaStore, such as memoryQuotaStore([…])", ": pass stores.ports.quotas"],
        ["replayStore", "a ReplayStore, such as memoryReplayStore()", ": pass stores.ports.replayStore"],
        ["responseStore", "a ResponseStore, such as memoryResponseStore()", ": pass stores.ports.responseStore"],
        ["onCall", "a function", ": pass stores.recorder()"],
        ["codeRunner", "a CodeRunner", ""],
        ["backend", "a ModelBackend, such as relay({…})", ""],
      ] as const
    ).map(([name, what, hint]): [string, () => unknown, string] => [
      `stores as ${name}`,
      () => make(createGateway, { backend, quotas, [name]: stores }),
      `createGateway: ${name} must be ${what}, not all the stores of openStores${hint}.`,
    ]),
    [
      "the ports of stores",
      () => make(createGateway, { backend, quotas: stores.ports }),
      "createGateway: quotas must be a QuotaStore, such as memoryQuotaStore([…]), not all the stores of openStores: pass stores.ports.quotas.",
    ],
    [
      "the ports of stores that are not awaited",
      () => make(createGateway, { backend, ...(Promise.resolve(stores) as object as typeof stores).ports }),
      "createGateway: quotas must be a QuotaStore, such as memoryQuotaStore([…]), not undefined. If stores.ports.quotas is meant, openStores must be awaited.",
    ],
    [
      "the calls of stores that are not awaited",
      () => make(callAdmin, undefined),
      "If stores.calls is meant, openStores must be awaited.",
    ],
    [
      "stores as a counter",
      () => make(flexibleRateLimiter, { perKey: { requests: [stores] } }),
      "flexibleRateLimiter: perKey.requests[0] must be a counter of rate-limiter-flexible, such as new RateLimiterMemory({ points: 60, duration: 60 }), not all the stores of openStores: pass stores.counter(points, seconds).",
    ],
    [
      "stores as the keys of an admin",
      () => make(keyAdmin, stores),
      "keyAdmin: the first argument must be a store over SQL or Redis, such as stores.ports.quotas, or the keys of a store in memory, not all the stores of openStores: pass stores.ports.quotas.",
    ],
    [
      "stores as calls",
      () => make(callAdmin, stores),
      "callAdmin: the first argument must be the calls of stores over SQL, such as stores.calls, not all the stores of openStores: pass stores.calls.",
    ],
    [
      "stores as a log of changes",
      () => make(adminHandler, quotas.keys, { authorize() {}, audit: stores }),
      "adminHandler: audit must be an AuditLog, such as memoryAuditLog(), not all the stores of openStores: pass stores.auditLog.",
    ],
    [
      "stores as a database",
      () => make(sqlQuotaStore, { db: stores, dialect: "sqlite" }),
      "sqlQuotaStore: db must be a Kysely database, such as new Kysely({ dialect: nodePostgresDialect(pool) }), not all the stores of openStores: pass stores.db.",
    ],
    [
      "a word",
      () => make(createGateway, { backend, quotas, replayInFlight: "no" }),
      'createGateway: replayInFlight must be one of "wait", "refuse", not "no".',
    ],
    [
      "a word that may be a secret",
      () => make(createGateway, { backend, quotas, countInput: "sk-1234567890abcdefghij" }),
      'createGateway: countInput must be one of "estimate", "backend", not a text.',
    ],
    [
      "messages",
      () => make(createGateway, { backend, quotas, messages: { range: "vendor" } }),
      "createGateway: messages: range does not exist; did you mean ranges? There are ranges, imageSources, errors",
    ],
    [
      "images",
      () => make(createGateway, { backend, quotas, images: { publicURL: "x" } }),
      "createGateway: images: publicURL does not exist; did you mean publicUrl? There are models, aliases, store, publicUrl",
    ],
    [
      "a key",
      () => make(memoryQuotaStore, [{ key: "sk-1" }]),
      "memoryQuotaStore: keys[0]: key does not exist; did you mean apiKey? There are apiKey, id, name, granted, used, budget, metadata, models, expiresAt",
    ],
    [
      "a budget's typo, which would mean UTC",
      () => make(memoryQuotaStore, [], { budgets: [{ id: "a", amount: 1, period: "day", timezone: "Asia/Tokyo" }] }),
      "memoryQuotaStore: budgets[0]: timezone does not exist; did you mean timeZone?",
    ],
    [
      "no budget",
      () => make(memoryQuotaStore, [], { budgets: [null] }),
      "memoryQuotaStore: budgets[0]: expects an object of options with id and amount, not null.",
    ],
    [
      "a period of a budget",
      () => make(memoryQuotaStore, [], { budgets: [{ id: "a", amount: 1, period: 7 }] }),
      "memoryQuotaStore: budgets[0]: period must be a text, not a number.",
    ],
    [
      "no key",
      () => make(memoryQuotaStore, [null]),
      "memoryQuotaStore: keys[0]: expects an object of options, not null.",
    ],
    [
      "keys",
      () => make(memoryQuotaStore, { apiKey: "sk-1" }),
      'memoryQuotaStore: the first argument must be a list, such as memoryQuotaStore([{ apiKey: "sk-…" }]), not an object.',
    ],
    [
      "the beginning of an option",
      () => make(priceTable, { small: { in: 3 } }),
      'The price of "small": in does not exist; did you mean input? There are input, output,',
    ],
    ["relay()", () => make(relay), "relay: expects an object of options with format and baseUrl, not undefined."],
    ["no address", () => make(relay, { format: "messages" }), "relay: baseUrl is missing; it must be a text."],
    ["an address", () => make(relay, { ...upstream, baseUrl: 5 }), "relay: baseUrl must be a text, not a number."],
    ["a key of a relay", () => make(relay, { ...upstream, apiKey: null }), "relay: apiKey must be a text, not null."],
    ["no routes", () => make(route, { routes: {} }), 'routes is empty: write routes: { "a-model": backend }'],
    ["routes", () => make(route, { routes: [backend] }), "route: routes must be an object, not a list."],
    [
      "a route",
      () => make(route, { routes: { fast: { upstream: [backend] } } }),
      'route: routes["fast"]: upstream does not exist; did you mean upstreams? There are',
    ],
    [
      "a list of backends as a route",
      () => make(route, { routes: { fast: [backend, backend] } }),
      'route: routes["fast"] is a list; write { upstreams: [...] } for several backends.',
    ],
    [
      "a list of routes",
      () => make(route, { routes: { fast: { upstreams: backend } } }),
      'route: routes["fast"]: upstreams must be a list, not an object.',
    ],
    [
      "an upstream",
      () => make(route, { routes: { fast: { upstreams: [{ backends: backend }] } } }),
      'route: routes["fast"].upstreams[0]: backends does not exist; did you mean backend? There are',
    ],
    [
      "an option of an upstream",
      () => make(route, { routes: { fast: { upstreams: [{ backend, wieght: 1 }] } } }),
      'route: routes["fast"].upstreams[0]: wieght does not exist; did you mean weight? There are',
    ],
    [
      "two upstreams of one name",
      () => make(route, { routes: { fast: { upstreams: [{ backend, name: "a" }, backend, { backend, name: "a" }] } } }),
      'route: routes["fast"]: upstreams[0] and upstreams[2] have the same name, "a". Give each upstream a name of its own.',
    ],
    [
      "an upstream with the name that another gets by default",
      () => make(route, { routes: { fast: { upstreams: [backend, backend, { backend, name: "fast 1" }] } } }),
      'route: routes["fast"]: upstreams[1] and upstreams[2] have the same name, "fast 1".',
    ],
    [
      "an option of a route beside the routes",
      () => make(route, { routes: { fast: { upstreams: [backend] } }, onBreak: "continue" }),
      'route: onBreak does not exist; did you mean routes["fast"].onBreak? There are routes,',
    ],
    [
      "an option of an upstream beside the routes",
      () => make(route, { routes: { fast: backend }, weight: 1 }),
      'route: weight does not exist; did you mean routes["fast"].upstreams[0].weight? There are routes,',
    ],
    [
      "upstreams without routes",
      () => make(route, { upstreams: [backend] }),
      'route: upstreams does not exist; did you mean routes["*"].upstreams? There are routes,',
    ],
    [
      "an option of an upstream in a route",
      () => make(route, { routes: { fast: { upstreams: [backend], weight: 1 } } }),
      'route: routes["fast"]: weight does not exist; did you mean upstreams[0].weight? There are upstreams,',
    ],
    [
      "an upstream as a route",
      () => make(route, { routes: { fast: { backend, weight: 1 } } }),
      'route: routes["fast"]: backend does not exist; did you mean upstreams[0].backend? There are upstreams,',
    ],
    [
      "an option of all routes in one",
      () => make(route, { routes: { fast: { upstreams: [backend], retry: { rounds: 0 } } } }),
      'route: routes["fast"]: retry does not exist; did you mean retry beside routes? There are upstreams,',
    ],
    [
      "an option of a route in an upstream",
      () => make(route, { routes: { fast: { upstreams: [{ backend, onBreak: "continue" }] } } }),
      'route: routes["fast"].upstreams[0]: onBreak does not exist; did you mean routes["fast"].onBreak? There are backend,',
    ],
    [
      "an option of all routes in an upstream",
      () => make(route, { routes: { fast: { upstreams: [{ backend, breaker: {} }] } } }),
      'route: routes["fast"].upstreams[0]: breaker does not exist; did you mean breaker beside routes? There are backend,',
    ],
    [
      "a storage",
      () => make(unstorageImageStore, { getItem() {} }),
      "unstorageImageStore: storage must be a storage of unstorage, and has no getItemRaw().",
    ],
    [
      "limits of a limiter",
      () => make(flexibleRateLimiter, { perKey: { requests: {} } }),
      "flexibleRateLimiter: perKey: requests must be a list, not an object.",
    ],
    [
      "limits of a tier",
      () => make(flexibleRateLimiter, { tiers: { gold: { perGroup: { tokens: {} } } } }),
      'flexibleRateLimiter: tiers["gold"]: perGroup: tokens must be a list, not an object.',
    ],
    [
      "a tier",
      () => make(flexibleRateLimiter, { tiers: { gold: { pergroup: {} } } }),
      'flexibleRateLimiter: tiers["gold"]: pergroup does not exist; did you mean perGroup? There are',
    ],
    [
      "a database",
      () => make(sqlQuotaStore, { db: pool, dialect: "postgres" }),
      "sqlQuotaStore: db must be a Kysely database, such as new Kysely({ dialect: nodePostgresDialect(pool) }), and has no withoutPlugins().",
    ],
    [
      "a dialect",
      () => make(sqlQuotaStore, { db, dialect: "mariadb" }),
      'sqlQuotaStore: dialect must be one of "sqlite", "postgres", "mysql", not "mariadb".',
    ],
    [
      "a gateway",
      () => make(toNodeHandler, { backend, quotas }),
      "toNodeHandler: the first argument must be a gateway of createGateway, and has no at().",
    ],
    [
      "a counter for a limiter",
      () => make(createGateway, { backend, quotas, rateLimiter: new RateLimiterMemory({ points: 1, duration: 1 }) }),
      "createGateway: rateLimiter must be a RateLimiter, such as flexibleRateLimiter({ perKey: { requests: [counter] } }), and has no begin().",
    ],
    [
      "an observer that is not made",
      () => make(createGateway, { backend, quotas, observer: openTelemetry }),
      "createGateway: observer must be an Observer, such as openTelemetry(), not a function: its result is probably meant.",
    ],
    [
      "a feature",
      () => make(createCoreGateway, { backend, quotas, formats: [messages()], features: [null] }),
      "createGateway: features[0] must be withCors or withHooks or withReplays or withSockets.",
    ],
    [
      "options for a gateway",
      () => make(toExpressHandler, { backend: {}, quotas: {} }),
      "toExpressHandler: the first argument must be a gateway of createGateway, and has no at(). Call createGateway with these options first.",
    ],
    [
      "keys that are an empty object",
      () => make(keyAdmin, {}),
      "keyAdmin: the first argument must be a store over SQL or Redis, such as stores.ports.quotas, or the keys of a store in memory, and has no add().",
    ],
    [
      "a key with its scheme",
      () => make(relay, { ...upstream, apiKey: "Bearer sk-1" }),
      "relay: apiKey must be the key alone; the relay adds what the header has before it.",
    ],
    [
      "a promise of a client",
      () => make(redisQuotaStore, { client: Promise.resolve({}) }),
      "redisQuotaStore: client must be a client of redis, ioredis or Bun, not a Promise: await it first.",
    ],
    [
      "a client of another kind",
      () => make(redisReplayStore, { client: pool }),
      "redisReplayStore: client must be a client of redis, ioredis or Bun, and has no call() or sendCommand() or send().",
    ],
    ["numbers", () => make(relay, { ...upstream, timeouts: [5] }), "relay: timeouts must be an object, not a list."],
  ])("%s", (_name, act, words) => {
    expect(refusal(act)).toContain(words);
  });

  const page = "https://app.example";
  it.each<[cors: object, words: string]>([
    [{}, 'origin must be a list of pages such as ["https://app.example"], a function, "null", or "*" for every page'],
    [{ origins: [page] }, "origins does not exist; did you mean origin?"],
    [{ origin: [page], credential: true }, "credential does not exist; did you mean credentials?"],
    [{ origin: page }, "origin must be a list of pages"],
    [{ origin: [] }, "origin must be a list of pages"],
    [{ origin: "" }, "origin must be a list of pages"],
    [{ origin: ["*"] }, "origin[0] must be an origin"],
    [{ origin: [`${page}/`] }, 'origin[0] must be an origin such as "https://app.example"'],
    [{ origin: ["https://App.example:443/path"] }, 'origin[0] must be an origin such as "https://app.example"'],
    [{ origin: [page, "app.example"] }, "origin[1] must be an origin"],
    [{ origin: [/\.example$/] }, "origin[0] must begin with ^ and end with $"],
    [{ origin: "*", credentials: true }, "credentials needs an origin that is a list of known pages, or a function"],
    [{ origin: [page, "null"], credentials: true }, "credentials needs an origin that is a list of known pages"],
    [{ origin: [page], allowHeaders: [] }, "allowHeaders must name a header"],
    [{ origin: [page], maxAge: 600 }, 'maxAge must be seconds as a text, such as "600"'],
    [{ origin: [page], preflight: { statusCode: 500 } }, "preflight: statusCode must be a status from 200 to 299"],
  ])("cors: %o", (cors, words) => {
    expect(refusal(() => make(createGateway, { backend, quotas, cors }))).toContain(`createGateway: cors: ${words}`);
  });

  it.each<[string, () => unknown, string]>([
    [
      "a store for an admin",
      () => make(adminHandler, quotas, { authorize() {} }),
      "adminHandler: the first argument must be a store over SQL or Redis, such as stores.ports.quotas, or the keys of a store in memory, not a store in memory: pass its keys, as in memoryQuotaStore([]).keys.",
    ],
    [
      "keys for a gateway",
      () => make(createGateway, { backend, quotas: quotas.keys }),
      "createGateway: quotas must be a QuotaStore, such as memoryQuotaStore([…]), not the keys of a store: pass the store itself.",
    ],
    [
      "a gateway for keys",
      () => make(keyAdmin, createGateway({ backend, quotas })),
      "or the keys of a store in memory, not a gateway.",
    ],
    [
      "a backend for options",
      () => make(createGateway, backend),
      "createGateway: expects an object of options with backend and quotas, not a backend.",
    ],
    [
      "a promise for options",
      () => make(createGateway, Promise.resolve({ backend, quotas })),
      "createGateway: expects an object of options with backend and quotas, not a Promise: await it first.",
    ],
    [
      "a gateway for options",
      () => make(relay, createGateway({ backend, quotas })),
      "relay: expects an object of options with format and baseUrl, not a gateway.",
    ],
    [
      "a function for a route",
      () => make(route, { routes: { a: () => backend } }),
      'route: routes["a"] must be a backend, or an object with upstreams, not a function: its result is probably meant.',
    ],
    [
      "a store for a route",
      () => make(route, { routes: { a: quotas } }),
      'route: routes["a"] must be a backend, or an object with upstreams, not a store in memory.',
    ],
    [
      "a text for a mount",
      () => make(toNodeHandler, "/ai"),
      "toNodeHandler: the first argument must be a gateway of createGateway, not a text.",
    ],
    [
      "a list for a mount",
      () => make(toExpressHandler, []),
      "toExpressHandler: the first argument must be a gateway of createGateway, not a list.",
    ],
    [
      "nothing for a wrong address",
      () => make(wrongAddress),
      "wrongAddress: the first argument must be a gateway of createGateway, not undefined.",
    ],
    [
      "a backend for a document",
      () => make(openApiDocument, backend),
      "openApiDocument: the first argument must be a gateway of createGateway, not a backend.",
    ],
  ])("says what was given: %s", (_name, act, words) => {
    expect(refusal(act)).toContain(words);
  });

  it("of a store without keys of its own too", () => {
    expect(refusal(() => make(keyAdmin, quotas))).toBe(
      "keyAdmin: the first argument must be a store over SQL or Redis, such as stores.ports.quotas, or the keys of a store in memory, not a store in memory: pass its keys, as in memoryQuotaStore([]).keys.",
    );
  });

  it("of a client of Redis that is not connected when a call needs it", async () => {
    const store = redisQuotaStore({ client: createClient() });
    await expect(store.balance("one")).rejects.toThrow(
      "The Redis client is not connected: await client.connect() first.",
    );
    const cluster = redisQuotaStore({ client: createCluster({ rootNodes: [{}] }) });
    await expect(cluster.balance("one")).rejects.toThrow("The Redis client is not connected");
  });

  it("from functions that are async too", async () => {
    await expect(make(migrate, pool, { dialect: "postgres" })).rejects.toThrow(
      "migrate: db must be a Kysely database, such as new Kysely({ dialect: nodePostgresDialect(pool) }), and has no withoutPlugins().",
    );
    await expect(make(migrate, Promise.resolve(db), { dialect: "postgres" })).rejects.toThrow(
      "not a Promise: await it first.",
    );
    await expect(make(migrate, db, {})).rejects.toThrow(
      'migrate: dialect is missing; it must be one of "sqlite", "postgres", "mysql".',
    );
    await expect(make(verifyLedger, {}, { dialect: "sqlite", table: {} })).rejects.toThrow(
      "verifyLedger: table does not exist; did you mean tables?",
    );
  });
});

it.each<[string, (options: { patienceMs: number }) => unknown]>([
  ["toNodeHandler", (options) => toNodeHandler(gateway, options)],
  ["toExpressHandler", (options) => toExpressHandler(gateway, options)],
  ["toKoaMiddleware", (options) => toKoaMiddleware(gateway, options)],
])("%s refuses a patience that no timer waits", (_name, mount) => {
  for (const patienceMs of [Number.POSITIVE_INFINITY, Number.NaN, 2 ** 31, -1, 0])
    expect(() => mount({ patienceMs })).toThrow(
      `patienceMs must be an integer from 1 to 2147483647, not ${patienceMs}`,
    );
  expect(() => mount({ patienceMs: 2 ** 31 - 1 })).not.toThrow();
});

describe("nearest", () => {
  it("takes a name of one letter, or of none, for no part of another", () => {
    expect(nearest("ext-1", ["e", "", "x"])).toBeUndefined();
    expect(nearest("ext-1", ["e", "", "ext"])).toBe("ext");
    expect(nearest("b", ["a"])).toBe("a");
    const known = `arn:aws:bedrock:us-east-1:000000000000:inference-profile/us.claude-sonnet-1`;
    expect(nearest("claude-sonnet", [`claude-sonnet-${"x".repeat(300)}`, known])).toBe(known);
  });
});
