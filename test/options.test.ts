/** Every factory says in a sentence what is wrong with its options, also where no compiler has checked them. */

import { createClient, createCluster } from "redis";
import { describe, expect, it } from "vitest";
import { toBunHandler } from "../adapters/bun.ts";
import { toDenoHandler } from "../adapters/deno.ts";
import { toEdgeHandler } from "../adapters/edge.ts";
import { toExpressHandler } from "../adapters/express.ts";
import { toKoaMiddleware } from "../adapters/koa.ts";
import { toNodeHandler } from "../adapters/node.ts";
import { keyAdmin } from "../src/admin/index.ts";
import {
  createGateway,
  flexibleRateLimiter,
  memoryImageStore,
  memoryQuotaStore,
  memoryReplayStore,
  unstorageImageStore,
} from "../src/index.ts";
import { openApiDocument } from "../src/openapi/index.ts";
import { priceCatalogue } from "../src/prices/index.ts";
import { redisQuotaStore, redisReplayStore } from "../src/stores/redis/index.ts";
import {
  migrate,
  migrations,
  nodePostgresDialect,
  sqlQuotaStore,
  sqlReplayStore,
  verifyLedger,
} from "../src/stores/sql/index.ts";
import { openTelemetry } from "../src/telemetry/index.ts";
import { aiSdk } from "../src/upstreams/ai-sdk/index.ts";
import { relay } from "../src/upstreams/relay/index.ts";
import { route } from "../src/upstreams/route/index.ts";

/** A factory as JavaScript calls it. */
type Factory = (...args: never[]) => unknown;

const backend = { async *chat() {} };
const quotas = memoryQuotaStore([]);
const gateway = createGateway({ backend, quotas });
const storage = Object.fromEntries(
  ["getItemRaw", "setItemRaw", "setItem", "removeItem", "getKeys"].map((name) => [name, () => {}]),
);
const db: object = { withoutPlugins: () => db, withPlugin: () => db };
const pool = { connect() {}, on() {} };

/** Each factory, its arguments before the options, options that are right, and an option that is misspelt. */
const FACTORIES: readonly (readonly [string, Factory, unknown[], object, string, string])[] = [
  ["createGateway", createGateway, [], { backend, quotas }, "onfailure", "onFailure"],
  ["relay", relay, [], { format: "messages", baseUrl: "https://example.com" }, "apikey", "apiKey"],
  ["route", route, [], { routes: { "*": backend } }, "retries", "retry"],
  ["aiSdk", aiSdk, [], { chat: () => undefined }, "image", "images"],
  ["memoryQuotaStore", memoryQuotaStore, [[]], {}, "maxretained", "maxRetained"],
  ["memoryReplayStore", memoryReplayStore, [], {}, "maxByte", "maxBytes"],
  ["memoryImageStore", memoryImageStore, [], {}, "bytes", "maxBytes"],
  ["unstorageImageStore", unstorageImageStore, [storage], {}, "Base", "base"],
  ["flexibleRateLimiter", flexibleRateLimiter, [], {}, "perkey", "perKey"],
  ["sqlQuotaStore", sqlQuotaStore, [], { db, dialect: "sqlite" }, "prefx", "prefix"],
  ["sqlReplayStore", sqlReplayStore, [], { db, dialect: "sqlite" }, "maxEntries", "maxEntriesPerKey"],
  ["nodePostgresDialect", nodePostgresDialect, [pool], {}, "plan", "planOnce"],
  ["migrations", migrations, [], { dialect: "sqlite" }, "dialct", "dialect"],
  ["redisQuotaStore", redisQuotaStore, [], { client: () => {} }, "retention", "retentionMs"],
  ["redisReplayStore", redisReplayStore, [], { client: () => {} }, "redis", "client"],
  ["openTelemetry", openTelemetry, [], {}, "model", "models"],
  ["openApiDocument", openApiDocument, [gateway], {}, "server", "servers"],
  ["priceCatalogue", priceCatalogue, [{}], { date: "2026-11-01" }, "day", "date"],
  ["toNodeHandler", toNodeHandler, [gateway], {}, "patience", "patienceMs"],
  ["toExpressHandler", toExpressHandler, [gateway], {}, "Prefix", "prefix"],
  ["toKoaMiddleware", toKoaMiddleware, [gateway], {}, "ctx", "context"],
  ["toBunHandler", toBunHandler, [gateway], {}, "fallBack", "fallback"],
  ["toDenoHandler", toDenoHandler, [gateway], {}, "path", "prefix"],
  ["toEdgeHandler", toEdgeHandler, [gateway], {}, "contexts", "context"],
];

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

describe.each(FACTORIES)("%s", (name, factory, first, options, misspelt, meant) => {
  it("takes what is right, and undefined for what is not set", () => {
    expect(() =>
      make(factory, ...first, { ...options, [meant]: (options as Record<string, unknown>)[meant] }),
    ).not.toThrow(TypeError);
  });

  it("refuses an option that does not exist by its name", () => {
    const message = refusal(() => make(factory, ...first, { ...options, [misspelt]: "sk-secret" }));
    expect(message).toMatch(new RegExp(`^${name}: ${misspelt} does not exist; .*here are .*\\b${meant}\\b`));
    expect(message).not.toContain("sk-secret");
  });

  it.each([[null], ["text"], [["list"]]])("refuses %j in place of its options", (wrong) => {
    expect(refusal(() => make(factory, ...first, wrong))).toMatch(/: expects an object of options/);
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
      "createGateway: backend must be a ModelBackend, not undefined.",
    ],
    [
      "an onFailure",
      () => make(createGateway, { backend, quotas, onFailure: "log" }),
      "createGateway: onFailure must be a function, not a text.",
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
      "createGateway: messages: range does not exist; did you mean ranges? There are ranges, imageSources",
    ],
    [
      "images",
      () => make(createGateway, { backend, quotas, images: { publicURL: "x" } }),
      "createGateway: images: publicURL does not exist; did you mean publicUrl? There are models, aliases, store, publicUrl",
    ],
    [
      "a key",
      () => make(memoryQuotaStore, [{ key: "sk-1" }]),
      "An API key: key does not exist; did you mean apiKey? There are apiKey, id, name, granted, used, budget, metadata, models, expiresAt",
    ],
    [
      "a budget's typo, which would mean UTC",
      () => make(memoryQuotaStore, [], { budgets: [{ id: "a", amount: 1, period: "day", timezone: "Asia/Tokyo" }] }),
      "A budget: timezone does not exist; did you mean timeZone?",
    ],
    [
      "no budget",
      () => make(memoryQuotaStore, [], { budgets: [null] }),
      "A budget: expects an object of options with id and amount, not null.",
    ],
    ["no key", () => make(memoryQuotaStore, [null]), "An API key: expects an object of options, not null."],
    [
      "keys",
      () => make(memoryQuotaStore, { apiKey: "sk-1" }),
      'memoryQuotaStore: the first argument must be a list, such as memoryQuotaStore([{ apiKey: "sk-…" }]), not an object.',
    ],
    ["relay()", () => make(relay), "relay: expects an object of options with format and baseUrl, not undefined."],
    ["no address", () => make(relay, { format: "messages" }), "relay: baseUrl is missing; it must be a text."],
    ["an address", () => make(relay, { ...upstream, baseUrl: 5 }), "relay: baseUrl must be a text, not a number."],
    ["a key of a relay", () => make(relay, { ...upstream, apiKey: null }), "relay: apiKey must be a text, not null."],
    ["routes", () => make(route, { routes: [backend] }), "route: routes must be an object, not a list."],
    [
      "a route",
      () => make(route, { routes: { fast: { upstream: [backend] } } }),
      'route: routes["fast"] is no backend and has no upstreams.',
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
      'route: routes["fast"].upstreams[0] is no backend and has no backend.',
    ],
    [
      "an option of an upstream",
      () => make(route, { routes: { fast: { upstreams: [{ backend, wieght: 1 }] } } }),
      'route: routes["fast"].upstreams[0]: wieght does not exist; did you mean weight? There are',
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
      "stores/sql: db must be a Kysely database, such as new Kysely({ dialect: nodePostgresDialect(pool) }), and has no withoutPlugins().",
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
      "a promise of a client",
      () => make(redisQuotaStore, { client: Promise.resolve({}) }),
      "redisQuotaStore: client must be an object, not a Promise: await it first.",
    ],
    [
      "a client of another kind",
      () => make(redisReplayStore, { client: pool }),
      "stores/redis: client must be a client of redis, ioredis or Bun, and has no call() or sendCommand() or send().",
    ],
    ["numbers", () => make(relay, { ...upstream, timeouts: [5] }), "relay: timeouts must be an object, not a list."],
  ])("%s", (_name, act, words) => {
    expect(refusal(act)).toContain(words);
  });

  it("of a store without keys of its own too", () => {
    expect(refusal(() => make(keyAdmin, quotas))).toBe(
      "keyAdmin: the first argument must be a store over SQL or Redis, or the keys of a store in memory, and has no rotateSecret().",
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
