/** The admin over HTTP: its verbs, the login of the host, pages of other origins, the log of changes, and repeated requests. */

import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { getRequestListener } from "@hono/node-server";
import { Validator } from "@seriousme/openapi-schema-validator";
import express, { type RequestHandler } from "express";
import fastify from "fastify";
import { HTTPError } from "h3";
import { Hono } from "hono";
import Koa from "koa";
import mount from "koa-mount";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { toDenoHandler } from "../../adapters/deno.ts";
import { toExpressHandler } from "../../adapters/express.ts";
import { toKoaMiddleware } from "../../adapters/koa.ts";
import { toNodeHandler } from "../../adapters/node.ts";
import {
  type AdminHandler,
  adminHandler,
  type AdminHandlerOptions,
  type AuditLog,
  type AuditRecord,
  memoryAuditLog,
} from "../../src/admin/http/index.ts";
import { pageIn } from "../../src/admin/page/files.ts";
import { assertNewBudget } from "../../src/admin/possible.ts";
import {
  type ModelBackend,
  createGateway,
  flexibleRateLimiter,
  type Gateway,
  memoryQuotaStore,
  memoryReplayStore,
  type RateLimiter,
} from "../../src/index.ts";
import { priceTable } from "../../src/prices/index.ts";
import { type OpenedStores, openStores } from "../../src/stores/open/index.ts";
import { manualClock } from "../../src/testing/laws/index.ts";
import { route } from "../../src/upstreams/route/index.ts";

let stores: OpenedStores;
beforeEach(async () => {
  stores = await openStores("sqlite::memory:", { sweepMs: 0 });
});
afterEach(() => stores.close());

/** The login of the host: by a header. */
const authorize = (request: Request): { name: string; readOnly: boolean } | undefined => {
  const name = request.headers.get("x-user");
  return name ? { name, readOnly: name === "reader" } : undefined;
};

interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>> & { readonly error?: { code: string; message: string } };
}

type Ask = (method: string, path: string, body?: object, headers?: Record<string, string>) => Promise<Answered>;

function asking(options: Partial<AdminHandlerOptions> = {}): Ask {
  const admin = adminHandler(stores.ports.quotas, { authorize, ...options }).at("/admin");
  return async (method, path, body, headers = {}) => {
    const response = await admin.fetch(
      new Request(`http://host/admin${path}`, {
        method,
        headers: { "x-user": "ann", "content-type": "application/json", ...headers },
        ...(method !== "GET" && { body: JSON.stringify(body ?? {}) }),
      }),
    );
    return { status: response.status, headers: response.headers, body: (await response.json()) as Answered["body"] };
  };
}

const failing = () => Promise.reject(new Error("The store fails."));

/** A gateway whose answers begin, and never end. */
function endless(): { gateway: Gateway; clock: ReturnType<typeof manualClock> } {
  const clock = manualClock();
  const backend = {
    async *chat() {
      yield "Rain.";
      await new Promise(() => {});
    },
  };
  const quotas = memoryQuotaStore([{ id: "one", apiKey: "sk-one" }], { clock });
  return { gateway: createGateway({ backend, quotas, clock }), clock };
}

const unasked = async (): Promise<never> => ({}) as never;

const throwing = (): never => {
  throw new Error("Out of order.");
};

const streamed = (model: string): Request =>
  new Request("http://host/v1/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
    body: JSON.stringify({ model, max_tokens: 50, stream: true, messages: [{ role: "user", content: "Rain?" }] }),
  });

/** The questions for little money, and for the last limit of a key. */
const little = (units: number, money: string): string =>
  `A unit is a millionth of USD: ${units} units would be only ${money} USD. ${units} USD would be ${units}000000 units.`;
const without = (limit: string): string =>
  `Without its ${limit}, the key counted is unlimited: nothing refuses its calls.`;

/** A schema of the OpenAPI document, or a parameter, as far as a test reads it. */
interface JsonSchema {
  readonly type?: string;
  readonly pattern?: string;
  readonly description?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly in?: string;
  readonly name?: string;
  readonly schema?: JsonSchema;
}

describe("adminHandler", () => {
  it("makes, lists, changes, rotates, grants, lowers, assigns and revokes keys", async () => {
    const ask = asking();
    const key = { id: "team/a b%", name: "Team A", granted: 100, models: ["m"], metadata: { plan: "gold" } };
    const made = await ask("POST", "/keys", key);
    expect(made).toMatchObject({ status: 201, body: { id: key.id, apiKey: expect.stringMatching(/^sk-/) } });
    const at = `/keys/${encodeURIComponent(key.id)}`;
    const secret = String(made.body["apiKey"]).slice(3);
    expect((await stores.ports.quotas.find(secret))?.id).toBe(key.id);
    expect((await ask("POST", "/keys", key)).body.error).toEqual({ code: "conflict", message: "This id is taken." });
    await ask("POST", "/keys", { id: "other" });
    expect((await ask("GET", "/keys?limit=1")).body).toMatchObject({ data: [{ id: "other" }], next: "other" });
    expect((await ask("GET", "/keys?limit=1&after=other")).body).toMatchObject({ data: [{ id: key.id }] });
    expect((await ask("GET", "/keys?metadata=plan%3Dgold&state=active")).body).toMatchObject({
      data: [{ id: key.id }],
      next: null,
    });
    expect((await ask("PATCH", at, { models: null, metadata: { plan: null } })).body).toMatchObject({
      name: "Team A",
      models: null,
    });
    expect((await ask("POST", `${at}/grant`, { units: 50 })).body).toMatchObject({ granted: 150 });
    expect((await ask("POST", `${at}/lower`, { units: 140 })).body).toMatchObject({ granted: 10 });
    expect(await ask("POST", `${at}/lower`, { units: 140 })).toMatchObject({
      status: 400,
      body: {
        error: {
          code: "limit_reached",
          message: `The key ${key.id} has only 10 units available.`,
          limit: { owner: `key ${key.id}`, available: 10 },
        },
      },
    });
    const most = Number.MAX_SAFE_INTEGER;
    expect((await ask("POST", `${at}/grant`, { units: most }, { confirm: "true" })).body.error).toMatchObject({
      message: `The granted amount of the key ${key.id} would be beyond ${most} units.`,
      limit: { owner: `key ${key.id}`, book: "granted", most },
    });
    expect((await ask("POST", `${at}/grant`, { units: -1 })).body.error).not.toHaveProperty("limit");
    const rotated = await ask("POST", `${at}/rotate`, { overlapMs: 0 });
    expect(rotated.body).toMatchObject({ olderEndAt: expect.closeTo(Date.now(), -4) });
    expect(await stores.ports.quotas.find(secret)).toBeUndefined();
    const added = await ask("POST", `${at}/secrets`);
    expect(added.status).toBe(201);
    await ask("POST", "/secrets/remove", { apiKey: added.body["apiKey"] });
    expect((await ask("GET", at)).body).toMatchObject({ secrets: 1 });
    await ask("POST", "/budgets", { id: "company", amount: 1_000, period: "month", timeZone: "Europe/Berlin" });
    expect((await ask("PUT", `${at}/budget`, { budget: "company" })).body).toMatchObject({ budget: "company" });
    expect((await ask("PUT", `${at}/budget`, { budget: null })).body).not.toHaveProperty("budget");
    expect((await ask("POST", `${at}/revoke`)).body).toMatchObject({ revoked: true, secrets: 0 });
    expect(await stores.ports.quotas.find(String(rotated.body["apiKey"]).slice(3))).toBeUndefined();
    expect((await ask("GET", "/keys/nobody")).body.error?.code).toBe("not_found");
    expect((await ask("POST", "/keys/nobody/revoke")).status).toBe(404);
  });

  it("tells a key in the same words wherever it answers, which it takes as well", async () => {
    const ask = asking();
    const key = { id: "team", granted: null, models: null, expiresAt: 0 };
    const made = await ask("POST", "/keys", key);
    const { apiKey: _secret, note: _note, ...told } = made.body;
    expect(told).toEqual({ ...key, unlimited: true });
    const one = (await ask("GET", "/keys/team")).body;
    expect(one).toMatchObject({ ...told, used: 0, spent: 0, left: null, limitedBy: null });
    expect(one).not.toHaveProperty("modelLimits");
    expect((await ask("GET", "/keys")).body["data"]).toEqual([one]);
    const models = ["small"];
    const changed = await ask("PATCH", "/keys/team", { models, granted: 9 });
    expect(changed.body).toMatchObject({ models, granted: 9, left: 9, limitedBy: null });
    await ask("POST", "/budgets", { id: "all", amount: 5 });
    const moved = (await ask("PUT", "/keys/team/budget", { budget: "all" })).body;
    expect(moved).toMatchObject({ models, left: 5, limitedBy: "all" });
    expect((await ask("POST", "/keys/team/revoke")).body).toEqual({
      ...moved,
      secrets: 0,
      revoked: true,
      left: null,
      limitedBy: null,
    });
  });

  it("says what was revoked or removed before, and what no key has", async () => {
    const ask = asking();
    const { apiKey } = (await ask("POST", "/keys", { id: "team", granted: 5 })).body;
    const remove = async () => (await ask("POST", "/secrets/remove", { apiKey })).body;
    expect(await remove()).toEqual({ id: "team", removed: true });
    expect(await remove()).toEqual({ removed: false, note: "No key has this secret: nothing was changed." });
    expect((await ask("GET", "/audit?target=team&action=secrets.remove")).body["data"]).toMatchObject([
      { state: "done" },
    ]);
    expect((await ask("POST", "/keys/team/revoke")).body).not.toHaveProperty("note");
    expect(await ask("POST", "/keys/team/revoke")).toMatchObject({
      status: 200,
      body: { revoked: true, note: 'The key "team" is revoked already: nothing was changed.' },
    });
  });

  it("gives an unlimited key a quota, takes it away, and has both in the log of changes", async () => {
    const ask = asking();
    await ask("POST", "/budgets", { id: "red", amount: 9 });
    await ask("POST", "/keys", { id: "team" });
    expect(await ask("POST", "/keys/team/grant", { units: 5 })).toMatchObject({
      status: 409,
      body: {
        error: {
          code: "conflict",
          message: "The API key team has no quota of its own: a change of granted gives it one.",
        },
      },
    });
    await ask("POST", "/keys", { id: "drawing", budget: "red" });
    const tag = (await ask("GET", "/keys/drawing")).headers.get("etag") ?? "";
    expect((await ask("PATCH", "/keys/drawing", { name: "D" }, { "if-match": tag })).status).toBe(200);
    const { headers } = await ask("GET", "/keys/team");
    expect((await ask("PATCH", "/keys/team", { granted: 5 })).body).toMatchObject({
      unlimited: false,
      granted: 5,
      available: 5,
    });
    const seen = { "if-match": headers.get("etag") ?? "" };
    expect(await ask("PATCH", "/keys/team", { granted: null }, seen)).toMatchObject({ status: 412 });
    expect((await ask("PATCH", "/keys/team", { granted: null }, { confirm: "true" })).body).toMatchObject({
      unlimited: true,
      granted: null,
      available: null,
    });
    const { body } = await ask("GET", "/audit?target=team&action=keys.update");
    expect(body["data"]).toMatchObject([
      { changes: { granted: null }, former: { granted: 5 }, state: "done" },
      // The state of the tag was another one.
      { changes: { granted: null }, state: "refused" },
      { changes: { granted: 5 }, former: { granted: null }, state: "done" },
    ]);
  });

  it("names the id that was probably meant, and says of an id that its budget was removed", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "anna", name: "Anna Schmidt" });
    await ask("POST", "/budgets", { id: "red", name: "Team Red", amount: 5 });
    for (const [method, path, body, status, message] of [
      ["GET", "/keys/ana", undefined, 404, "There is no API key of the id ana. Did you mean anna?"],
      ["POST", "/keys/Anna%20Schmidt/grant", { units: 1 }, 404, "the id Anna Schmidt. Did you mean anna?"],
      ["GET", "/keys/zzzzzz", undefined, 404, "There is no API key of the id zzzzzz."],
      ["PATCH", "/budgets/rde", { amount: 1 }, 404, "There is no budget of the id rde. Did you mean red?"],
      ["GET", "/budgets/team", undefined, 404, "There is no budget of the id team. Did you mean red?"],
      ["PUT", "/keys/anna/budget", { budget: "rad" }, 404, "There is no budget of the id rad. Did you mean red?"],
      ["POST", "/keys", { budget: "rad" }, 404, "There is no budget of the id rad. Did you mean red?"],
      ["POST", "/keys", { granted: 5, budget: "rad" }, 404, "There is no budget of the id rad. Did you mean red?"],
      ["POST", "/budgets", { id: "b", amount: 5, parent: "rad" }, 404, "the id rad. Did you mean red?"],
      ["GET", "/keys?budget=rad", undefined, 404, "No budget has the id rad."],
    ] as const) {
      const answer = await ask(method, path, body);
      expect(answer).toMatchObject({ status, body: { error: { code: "not_found" } } });
      expect(answer.body.error?.message).toMatch(
        new RegExp(`${message.replaceAll(".", "\\.").replaceAll("?", "\\?")}$`),
      );
    }
    expect((await ask("POST", "/budgets", { id: "red", amount: 5 })).body.error?.message).toBe("This id is taken.");
    await ask("DELETE", "/budgets/red");
    expect(await ask("POST", "/budgets", { id: "red", amount: 5 })).toMatchObject({
      status: 409,
      body: { error: { message: "The budget red was removed. Choose another id: its history stays." } },
    });
    for (const [method, path, body] of [
      ["DELETE", "/budgets/red", undefined],
      ["PATCH", "/budgets/red", { name: "Red" }],
      ["POST", "/budgets/red/top-up", { units: 1 }],
      ["POST", "/budgets/red/lower", { units: 1 }],
    ] as const)
      expect(await ask(method, path, body)).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
  });

  it("adds and takes some units, not 0", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "anna", granted: 0 });
    await ask("POST", "/budgets", { id: "red", amount: 0 });
    for (const path of ["/keys/anna/grant", "/keys/anna/lower", "/budgets/red/top-up", "/budgets/red/lower"])
      expect(await ask("POST", path, { units: 0 })).toMatchObject({
        status: 400,
        body: { error: { message: "units: must be an integer from 1 up, not 0." } },
      });
    expect((await ask("POST", "/budgets/red/top-up", { units: 1 })).body).toMatchObject({ granted: 1 });
  });

  it("shows the currency of amounts from the command line while neither calls nor prices tell one", async () => {
    const audit = memoryAuditLog();
    const note = async (id: string, currency: string, state: "done" | "refused") => {
      const change = { at: 0, user: "ann (command line)", action: "budgets.create", target: "red" };
      await audit.begin({ ...change, id, changes: { amount: 1, currency } });
      await audit.end(id, { state });
    };
    const me = async (more: object = {}) => (await asking({ audit, ...more })("GET", "/me")).body["currency"];
    expect(await me()).toBeUndefined();
    await note("1", "USD", "done");
    await note("2", "EUR", "done");
    await note("3", "CHF", "refused");
    expect(await me()).toBe("EUR");
    // A gateway without a currency counts in units.
    expect(await me({ gateway: { health: failing } })).toBeUndefined();
    expect(await me({ audit: { ...audit, list: failing } })).toBeUndefined();
  });

  it("pauses a key and lets it work again, and tells an editor who has not seen it", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", paused: true });
    const seen = (await ask("GET", "/keys/team")).headers.get("etag") ?? "";
    expect((await ask("GET", "/keys?state=paused")).body).toMatchObject({ data: [{ id: "team", paused: true }] });
    expect((await ask("PATCH", "/keys/team", { paused: false })).body).not.toHaveProperty("paused");
    expect((await ask("PATCH", "/keys/team", { name: "Team" }, { "if-match": seen })).status).toBe(412);
    expect((await ask("PATCH", "/keys/team", { paused: true })).body).toMatchObject({ name: "team", paused: true });
    expect((await ask("PATCH", "/keys/team", { paused: "yes" })).body.error?.message).toBe(
      'paused: must be true or false, not "yes".',
    );
  });

  it("gives an id to one of several that take it at the same time", async () => {
    const ask = asking();
    const { quotas } = stores.ports;
    const [add, addBudget] = [quotas.add.bind(quotas), quotas.addBudget.bind(quotas)];
    // Somebody else is a little faster.
    vi.spyOn(quotas, "add").mockImplementation(async (made) => add({ id: made?.id ?? "" }).then(() => add(made)));
    vi.spyOn(quotas, "addBudget").mockImplementation(async (made) => addBudget(made).then(() => addBudget(made)));
    for (const [path, body] of [
      ["/keys", { id: "team" }],
      ["/budgets", { id: "team", amount: 1 }],
    ] as const)
      expect(await ask("POST", path, body)).toMatchObject({ status: 409, body: { error: { code: "conflict" } } });
  });

  it("makes, changes, tops up, lists and removes budgets", async () => {
    const ask = asking();
    expect(await ask("POST", "/budgets", { id: "team", amount: 10 })).toMatchObject({
      status: 201,
      body: { amount: 10 },
    });
    expect((await ask("POST", "/budgets", { id: "team", amount: 10 })).status).toBe(409);
    expect((await ask("POST", "/budgets/team/top-up", { units: 5 })).body).toMatchObject({ available: 15 });
    expect((await ask("POST", "/budgets/team/lower", { units: 3 })).body).toMatchObject({ available: 12 });
    expect((await ask("POST", "/budgets/team/lower", { units: 13 })).status).toBe(400);
    expect((await ask("POST", "/budgets/team/top-up", { units: 3 })).body).toMatchObject({ available: 15 });
    expect((await ask("PATCH", "/budgets/team", { amount: 20 })).body).toMatchObject({ amount: 20, available: 25 });
    expect((await ask("PATCH", "/budgets/team", { name: "Team" })).body).toMatchObject({ name: "Team", amount: 20 });
    expect((await ask("GET", "/budgets")).body).toMatchObject({ data: [{ name: "Team", available: 25 }] });
    expect((await ask("GET", "/budgets")).body).toMatchObject({
      data: [{ id: "team", spent: 0, percentSpent: 0 }],
      next: null,
    });
    expect((await ask("GET", "/budgets/none")).status).toBe(404);
    const period = { id: "team", granted: 25, spent: 0, percentSpent: 0 };
    expect((await ask("GET", "/budgets/team/periods")).body).toEqual({
      data: [expect.objectContaining(period)],
      next: null,
    });
    expect((await ask("GET", "/budgets/team/periods")).body).not.toHaveProperty("data.0.amount");
    expect((await ask("GET", "/budgets/none/periods")).status).toBe(404);
    expect((await ask("GET", "/budgets/team/periods?before=x")).status).toBe(400);
    expect((await ask("POST", "/budgets", { id: "monthly", amount: 10, period: "month" })).status).toBe(201);
    const { data, next } = (await ask("GET", "/budgets/monthly/periods?limit=1")).body as {
      data: { startsAt: number }[];
      next: number;
    };
    expect([data.length, data[0]?.startsAt]).toEqual([1, next]);
    expect((await ask("GET", `/budgets/monthly/periods?before=${next}`)).body).toEqual({ data: [], next: null });
    // The same as a file, which all clients name in the same way.
    const admin = adminHandler(stores.ports.quotas, { authorize: () => ({ name: "ann" }) });
    const csvOf = (query: string, accept = "*/*"): Promise<Response> =>
      admin.fetch(new Request(`http://host/budgets/monthly/periods${query}`, { headers: { accept } }));
    const csv = await csvOf("?currency=usd", "text/csv");
    expect(csv.headers.get("content-disposition")).toBe('attachment; filename="periods-monthly.csv"');
    const [headings = "", current = "", ...rest] = (await csv.text()).split("\r\n");
    expect(headings).toMatch(/^id,name,granted,spent,.*,currency,period,startsAt,endsAt,timeZone,ended,asOf$/);
    expect(current).toMatch(
      /^monthly,monthly,0\.000010,0\.000000,.*,USD,month,20\d\d-\d\d-01T00:00:00\.000Z,.*,UTC,false,20\S+Z$/,
    );
    expect(rest).toEqual([""]);
    expect((await (await csvOf(`?format=csv&before=${next}`)).text()).split("\r\n")).toHaveLength(2);
    expect(await (await csvOf("?spreadsheet=excel-europe")).text()).toMatch(/^Budget;Budget name;Granted;Spent;/);
    for (const wrong of ["?format=csv&currency=dollars", "?format=json&spreadsheet=excel"])
      expect([wrong, (await csvOf(wrong)).status]).toEqual([wrong, 400]);
    expect((await ask("DELETE", "/budgets/monthly")).status).toBe(200);
    expect((await ask("PATCH", "/budgets/none", { amount: 1 })).status).toBe(404);
    await ask("POST", "/keys", { id: "user", budget: "team" });
    expect((await ask("DELETE", "/budgets/team")).body.error?.message).toContain("user");
    await ask("POST", "/keys/user/revoke");
    expect((await ask("DELETE", "/budgets/team")).body).toEqual({ id: "team", removed: true });
  });

  it.each<[string, string, object]>([
    ["POST", "/keys/nobody/lower", { units: 5 }],
    ["POST", "/keys/nobody/grant", { units: 5 }],
    ["PATCH", "/keys/nobody", { granted: 5 }],
    ["POST", "/keys", { granted: 5, budget: "nobody" }],
    ["POST", "/budgets/nobody/lower", { units: 5 }],
    ["POST", "/budgets/nobody/top-up", { units: 5 }],
    ["PATCH", "/budgets/nobody", { amount: 5 }],
    ["POST", "/budgets", { id: "child", amount: 5, parent: "nobody" }],
  ])("refuses an unknown id before it asks for a confirmation: %s %s", async (method, path, body) => {
    const ask = asking({ gateway: { health: unasked, currency: "USD" } });
    const { error } = (await ask(method, path, body)).body;
    expect(error).toMatchObject({ code: "not_found", message: expect.stringMatching(/ of the id nobody\.$/) });
  });

  it.each<[string, string, object]>([
    ["POST", "/budgets/gone/lower", { units: 5 }],
    ["POST", "/budgets/gone/top-up", { units: 5 }],
    ["PATCH", "/budgets/gone", { amount: 5 }],
  ])("refuses a removed budget before it asks for a confirmation: %s %s", async (method, path, body) => {
    const ask = asking({ gateway: { health: unasked, currency: "USD" } });
    await ask("POST", "/budgets", { id: "gone", amount: 1_000_000 });
    await ask("DELETE", "/budgets/gone");
    expect((await ask(method, path, body)).body.error).toMatchObject({ code: "not_found" });
  });

  it("refuses what the store would refuse before it asks for a confirmation", async () => {
    const ask = asking({ gateway: { health: unasked, currency: "USD" } });
    const confirm = { confirm: "true" };
    for (const [id, body] of [
      ["anna", { granted: 0 }],
      ["open", {}],
      ["gone", { granted: 0 }],
    ] as const)
      await ask("POST", "/keys", { id, ...body }, confirm);
    await ask("POST", "/keys/gone/revoke");
    await ask("POST", "/budgets", { id: "team", amount: 0 });
    await ask("POST", "/budgets", { id: "old", amount: 0 });
    await ask("DELETE", "/budgets/old");
    for (const [method, path, body, status, code] of [
      ["POST", "/keys", { id: "anna", granted: 5 }, 409, "conflict"],
      ["POST", "/budgets", { id: "team", amount: 5 }, 409, "conflict"],
      ["POST", "/budgets", { id: "old", amount: 5 }, 409, "conflict"],
      ["PATCH", "/budgets/old", { amount: 5 }, 404, "not_found"],
      ["POST", "/budgets/team/lower", { units: 5 }, 400, "limit_reached"],
      ["PATCH", "/keys/anna", { granted: 5 }, 409, "conflict"],
      ["PATCH", "/keys/gone", { granted: null }, 409, "conflict"],
      ["POST", "/keys/gone/grant", { units: 5 }, 409, "conflict"],
      ["POST", "/keys/open/grant", { units: 5 }, 409, "conflict"],
      ["POST", "/keys/anna/lower", { units: 5 }, 400, "limit_reached"],
      ["PUT", "/keys/gone/budget", { budget: null }, 409, "conflict"],
    ] as const) {
      const answer = await ask(method, path, body);
      const asked = [method, path, answer.status, answer.body.error?.code];
      expect(asked).toEqual([method, path, status, code]);
      // With a confirmation, the answer is the same.
      expect((await ask(method, path, body, confirm)).body).toEqual(answer.body);
    }
  });

  it("asks for amounts of a hundred times the number in a currency without decimals", async () => {
    for (const [currency, factor] of [
      ["JPY", 100],
      ["KWD", 1],
    ] as const) {
      const ask = asking({ gateway: { health: unasked, currency } });
      for (const [id, path, body, status] of [
        ["little", "/budgets", { amount: 1_000_000 * factor - 1 }, 428],
        ["little-quota", "/keys", { granted: 100_000 * factor - 1 }, 428],
        ["least", "/budgets", { amount: 1_000_000 * factor }, 201],
        ["least-quota", "/keys", { granted: 100_000 * factor }, 201],
        ["most", "/budgets", { amount: 999_999_000_000 * factor }, 201],
        ["large", "/budgets", { amount: 1_000_000_000_000 * factor }, 428],
        ["large-quota", "/keys", { granted: 1_000_000_000_000 * factor }, 428],
      ] as const) {
        const answer = await ask("POST", path, { id: `${id}-${currency}`, ...body });
        expect([id, currency, answer.status]).toEqual([id, currency, status]);
      }
    }
  });

  it("asks for a confirmation of what is often a mistake, and makes the change with one", async () => {
    const usd = { health: unasked, currency: "USD" };
    const ask = asking({ gateway: usd });
    const units = asking();
    // The same request with a confirmation goes through, also with the same Idempotency-Key.
    let change = 0;
    const unconfirmed = async (by: typeof ask, method: string, path: string, body: object, question: string) => {
      const key = { "idempotency-key": `change-${change++}` };
      expect(await by(method, path, body, { ...key, confirm: "no" })).toMatchObject({
        status: 428,
        body: {
          error: {
            code: "confirmation_required",
            message: `${question} Nothing was changed. If this is meant, send the request again with the header confirm: true.`,
          },
        },
      });
      expect((await by(method, path, body, { ...key, confirm: "true" })).status).toBeLessThan(300);
    };
    await unconfirmed(ask, "POST", "/keys", { id: "team", granted: 50 }, little(50, "0.00005"));
    await unconfirmed(ask, "POST", "/keys", { id: "small", granted: 99_999 }, little(99_999, "0.099999"));
    await unconfirmed(ask, "POST", "/budgets", { id: "all", amount: 999_999 }, little(999_999, "0.999999"));
    await unconfirmed(ask, "PATCH", "/budgets/all", { amount: 300_000 }, little(300_000, "0.30"));
    await unconfirmed(ask, "POST", "/budgets/all/lower", { units: 99_999 }, little(99_999, "0.099999"));
    // The least amounts that need no confirmation.
    for (const [path, body] of [
      ["/budgets", { id: "least", amount: 1_000_000 }],
      ["/keys", { id: "least", granted: 100_000 }],
      ["/budgets/least/top-up", { units: 100_000 }],
    ] as const)
      expect((await ask("POST", path, body)).status).toBeLessThan(300);
    await unconfirmed(ask, "POST", "/keys/team/grant", { units: 5 }, little(5, "0.000005"));
    await unconfirmed(ask, "POST", "/budgets/all/top-up", { units: 20 }, little(20, "0.00002"));
    await unconfirmed(ask, "POST", "/keys/team/lower", { units: 5 }, little(5, "0.000005"));
    const much = "5000000 units (5.00 USD) is 100,000 times what this key was granted so far, 50 units (0.00005 USD).";
    await unconfirmed(ask, "POST", "/keys/team/grant", { units: 5_000_000 }, much);
    // A first amount of money that looks like units.
    const large =
      "50000000000000 units (50000000.00 USD) is a large first amount. A unit is a millionth: as units, 50000000 is only 50000000 units (50.00 USD).";
    const units50M = 50_000_000_000_000;
    await unconfirmed(ask, "POST", "/keys", { id: "large", granted: units50M }, large);
    await unconfirmed(ask, "POST", "/budgets", { id: "large", amount: units50M }, large);
    await ask("POST", "/keys", { id: "empty", granted: 0 });
    await ask("POST", "/keys", { id: "open" });
    await ask("POST", "/budgets", { id: "empty", amount: 0 });
    await ask("POST", "/budgets", { id: "zero", amount: 0 });
    await unconfirmed(ask, "POST", "/keys/empty/grant", { units: units50M }, large);
    await unconfirmed(ask, "PATCH", "/keys/open", { granted: units50M }, large);
    await unconfirmed(ask, "PATCH", "/budgets/empty", { amount: units50M }, large);
    await unconfirmed(ask, "POST", "/budgets/zero/top-up", { units: units50M }, large);
    // Less than a million, an amount that is no whole number, and units without a known currency.
    for (const granted of [999_999_000_000, 1_000_000_000_001])
      expect((await ask("POST", "/keys", { granted })).status).toBe(201);
    expect((await units("POST", "/keys", { granted: units50M })).status).toBe(201);
    // Without a known currency, only the size counts.
    await units("POST", "/keys", { id: "counted", granted: 50 });
    await units("POST", "/budgets", { id: "counts", amount: 50 });
    const times = "is 10 times what this";
    await unconfirmed(
      units,
      "POST",
      "/keys/counted/grant",
      { units: 500 },
      `500 units ${times} key was granted so far, 50 units.`,
    );
    await unconfirmed(
      units,
      "POST",
      "/budgets/counts/top-up",
      { units: 500 },
      `500 units ${times} budget was given so far, 50 units.`,
    );
    await unconfirmed(
      units,
      "PATCH",
      "/budgets/counts",
      { amount: 5_000 },
      "5000 units is 100 times the amount of this budget, 50 units.",
    );
    // An amount that is far below the present one, or that leaves nothing.
    const low = "is less than a tenth of the amount of this budget,";
    await unconfirmed(
      units,
      "PATCH",
      "/budgets/counts",
      { amount: 499 },
      `499 units ${low} 5000 units. When it is used up, calls are refused until the budget gets more.`,
    );
    const gone = "nothing is left of this budget: its calls are refused until";
    // Of the top-up, 500 units are left.
    await units("POST", "/budgets/counts/lower", { units: 500 });
    await unconfirmed(units, "PATCH", "/budgets/counts", { amount: 0 }, `With 0 units, ${gone} the budget gets more.`);
    await ask("POST", "/budgets", { id: "monthly", amount: 300_000_000, period: "month" });
    await ask("POST", "/keys", { id: "spending", budget: "monthly" });
    await stores.ports.quotas.reserve({
      id: "spent",
      keyId: "spending",
      atLeast: 40_000_000,
      atMost: 40_000_000,
      leaseMs: 60_000,
    });
    const next = "until the next period begins, or the budget gets more.";
    await unconfirmed(
      ask,
      "PATCH",
      "/budgets/monthly",
      { amount: 40_000_000 },
      `With 40000000 units (40.00 USD), nothing is left of this budget, which has used 40000000 units (40.00 USD): its calls are refused ${next}`,
    );
    for (const amount of [300_000_000, 40_000_001, 300_000_000])
      expect((await ask("PATCH", "/budgets/monthly", { amount }, { confirm: String(amount > 1e8) })).status).toBe(200);
    // The last limit of a key.
    await units("PUT", "/keys/counted/budget", { budget: "counts" });
    expect((await units("PATCH", "/keys/counted", { granted: null })).status).toBe(200);
    await unconfirmed(units, "PUT", "/keys/counted/budget", { budget: null }, without("budget"));
    await units("PATCH", "/keys/counted", { granted: 5 });
    await unconfirmed(units, "PATCH", "/keys/counted", { granted: null }, without("quota"));
    await unconfirmed(
      units,
      "PATCH",
      "/keys/counted",
      { granted: 0 },
      "With a quota of 0 units, this key can use nothing: its calls are refused until it is granted more.",
    );
    await units("PATCH", "/keys/counted", { granted: null }, { confirm: "true" });
    // Two changes at once, each of which leaves the other limit.
    await units("PATCH", "/keys/counted", { granted: 5 });
    await units("PUT", "/keys/counted/budget", { budget: "counts" });
    const both = await Promise.all([
      units("PATCH", "/keys/counted", { granted: null }),
      units("PUT", "/keys/counted/budget", { budget: null }),
    ]);
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 409]));
    await units("PATCH", "/keys/counted", { granted: null }, { confirm: "true" });
    await units("PUT", "/keys/counted/budget", { budget: null }, { confirm: "true" });
    // What changes nothing, or names nothing, needs no confirmation.
    expect((await units("PATCH", "/keys/counted", { granted: null })).status).toBe(200);
    expect((await units("PUT", "/keys/nobody/budget", { budget: null })).status).toBe(404);
    expect((await units("POST", "/budgets/nobody/top-up", { units: 5 })).status).toBe(404);
    const { body } = await units("GET", "/audit?target=counted&action=keys.grant");
    // Readers of the log send no headers.
    const reason = `A confirmation was asked for: 500 units ${times} key was granted so far, 50 units.`;
    expect(body["data"]).toMatchObject([{ state: "done" }, { state: "refused", reason }]);
  });

  it("refuses units beyond what is available in units and in money, and has the units in the log of changes", async () => {
    const ask = asking({ gateway: { health: unasked, currency: "USD" } });
    await ask("POST", "/budgets", { id: "all", amount: 299_954_500 });
    expect((await ask("POST", "/budgets/all/lower", { units: 300_000_000 })).body.error).toEqual({
      code: "limit_reached",
      message: "The budget all has only 299954500 units (299.9545 USD) available.",
      limit: { owner: "budget all", available: 299_954_500 },
    });
    const { body } = await ask("GET", "/audit?action=budgets.lower");
    expect(body["data"]).toMatchObject([
      { state: "refused", reason: "The budget all has too few available units: 299954500." },
    ]);
  });

  it("notes that a key is unlimited", async () => {
    const ask = asking();
    const note =
      'The key "team" is unlimited: it has neither a quota nor a budget. PUT /keys/ID/budget, or granted in PATCH /keys/ID, limits it.';
    await ask("POST", "/budgets", { id: "all", amount: 10 });
    expect((await ask("POST", "/keys", { id: "team" })).body).toMatchObject({ id: "team", note });
    for (const [method, path, body, noted] of [
      ["PATCH", "/keys/team", { name: "Team" }, undefined],
      ["PATCH", "/keys/team", { granted: 5 }, undefined],
      ["PUT", "/keys/team/budget", { budget: null }, undefined],
      ["PATCH", "/keys/team", { granted: null }, note],
      ["PUT", "/keys/team/budget", { budget: "all" }, undefined],
      ["PUT", "/keys/team/budget", { budget: null }, note],
      ["POST", "/keys", { id: "quota", granted: 0 }, undefined],
      ["POST", "/keys", { id: "drawing", budget: "all" }, undefined],
    ] as const) {
      const answer = await ask(method, path, body, { confirm: "true" });
      expect(answer.status).toBeLessThan(300);
      expect([path, body, answer.body["note"]]).toEqual([path, body, noted]);
    }
  });

  it("refuses a time in the past for a key and for a secret, but takes back the one that a key has", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team" });
    await stores.ports.quotas.add({ id: "old", expiresAt: 1_000 });
    const message =
      "expiresAt: must be in the future, or 0 for never, and 1970-01-01T00:16:40.000Z is over. To stop a key, pause it.";
    for (const [method, path] of [
      ["POST", "/keys"],
      ["PATCH", "/keys/team"],
      ["POST", "/keys/team/secrets"],
    ] as const)
      for (const [expiresAt, told] of [
        [1_000, message],
        [-1_700_000_000, "expiresAt must not be below 0, except -1, which never expires as 0 does."],
      ] as const)
        expect(await ask(method, path, { expiresAt })).toMatchObject({
          status: 400,
          body: { error: { message: told } },
        });
    expect((await ask("GET", "/keys/team")).body).toMatchObject({ expiresAt: 0, secrets: 1 });
    expect((await ask("PATCH", "/keys/old", { expiresAt: 1_000, name: "Old" })).body).toMatchObject({ name: "Old" });
    for (const expiresAt of [0, 32_503_680_000])
      expect((await ask("PATCH", "/keys/old", { expiresAt })).body).toMatchObject({ expiresAt });
    expect((await ask("PATCH", "/keys/nobody", { expiresAt: 1_000 })).status).toBe(400);
  });

  it("refuses a change of something that has been changed meanwhile", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", granted: 10 });
    await ask("POST", "/budgets", { id: "all", amount: 10 });
    for (const [at, one, other] of [
      ["/keys/team", { name: "One" }, { name: "Two" }],
      ["/budgets/all", { amount: 9 }, { amount: 8 }],
      ["/budgets/all", { amount: 7 }, { name: "All" }],
    ] as const) {
      const seen = (await ask("GET", at)).headers.get("etag") ?? "";
      // Two editors save what they have seen at the same moment.
      const both = await Promise.all([one, other].map((body) => ask("PATCH", at, body, { "if-match": seen })));
      expect(new Set(both.map(({ status }) => status))).toEqual(new Set([200, 412]));
      const late = both.find(({ status }) => status === 412);
      expect(late?.body.error).toMatchObject({
        code: "changed_meanwhile",
        message: expect.stringContaining("meanwhile"),
      });
      const now = (await ask("GET", at)).headers.get("etag") ?? "";
      expect(now).not.toBe(seen);
      // The log would compare the fields with the state of one tag, and the store with that of the other.
      expect((await ask("PATCH", at, other, { "if-match": `${seen}, ${now}` })).status).toBe(400);
      expect((await ask("PATCH", at, other, { "if-match": now })).status).toBe(200);
      expect((await ask("PATCH", at, one, { "if-match": "*" })).status).toBe(200);
    }
    // The budget of a key is a change, too.
    const seen = (await ask("GET", "/keys/team")).headers.get("etag") ?? "";
    await ask("PUT", "/keys/team/budget", { budget: "all" });
    expect((await ask("PATCH", "/keys/team", { name: "Three" }, { "if-match": seen })).status).toBe(412);
    // So is a quota of its own for a key with a budget, which another editor gives or takes.
    await ask("POST", "/keys", { id: "both", budget: "all" });
    for (const granted of [5, null]) {
      const tag = { "if-match": (await ask("GET", "/keys/both")).headers.get("etag") ?? "" };
      const { headers, status } = await ask("PATCH", "/keys/both", { granted }, tag);
      expect([status, headers.get("etag")]).toEqual([200, (await ask("GET", "/keys/both")).headers.get("etag")]);
      expect((await ask("PATCH", "/keys/both", { name: "Late" }, tag)).status).toBe(412);
    }
    // The units that calls use are no change of an editor.
    const before = (await ask("GET", "/keys/team")).headers.get("etag");
    await ask("POST", "/keys/team/grant", { units: 1 });
    expect((await ask("GET", "/keys/team")).headers.get("etag")).toBe(before);
  });

  it.each([
    ["POST", "/keys", { grantd: 1 }, "grantd does not exist; did you mean granted?"],
    ["PATCH", "/keys/team", { budget: "b" }, "budget: is set with PUT /keys/ID/budget."],
    ["PATCH", "/keys/team", { granted: -1 }, "granted: must be an integer from 0 up, or null, not -1."],
    ["PATCH", "/keys/team", { granted: 1 }, "The API key team has a quota already: grant adds to it"],
    ["PATCH", "/keys/team", { nam: "x" }, "nam does not exist; did you mean name?"],
    ["PATCH", "/budgets/b", { period: "day" }, "period: cannot be changed; make another budget, move the keys to it"],
    ["PATCH", "/budgets/b", { amuont: 1 }, "amuont does not exist; did you mean amount?"],
    ["POST", "/keys/team/revoke", { overlapMs: 1 }, "This route takes no fields, not overlapMs."],
    ["POST", "/keys", [], "The body must be a JSON object."],
    ["DELETE", "/budgets/b", { units: 1 }, "This route takes no fields, not units."],
    ["POST", "/keys", { granted: -1 }, "granted: "],
    ["POST", "/keys", { metadata: { a: 1 } }, "metadata.a: "],
    ["POST", "/keys", { metadata: { "a b": "x" } }, '"a b" is no name of metadata'],
    ["POST", "/keys", { budget: "none" }, "There is no budget of the id none."],
    ["POST", "/keys/team/grant", {}, "units: "],
    ["POST", "/budgets", { id: "b", amount: 1, period: "year" }, "period: "],
    ["POST", "/budgets", { id: "b", amount: 1, period: "day", timeZone: "Mars" }, "Mars"],
    ["GET", "/keys?limit=0", undefined, "limit: "],
    ["GET", "/keys?limit=1001", undefined, "limit: "],
    ["GET", "/keys?state=old", undefined, "state: "],
    ["GET", "/keys?metadata=plan", undefined, "metadata: "],
    ["GET", "/keys?page=2", undefined, "page does not exist"],
    ["GET", "/keys/%ff", undefined, "not percent-encoded"],
  ])("refuses %s %s %j by name, and changes nothing", async (method, path, body, message) => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", granted: 10 });
    const answer = await ask(method, path, body);
    const isKnown = message.includes("already");
    const isMissing = message.startsWith("There is no budget");
    const code = isKnown ? "conflict" : isMissing ? "not_found" : "invalid_request";
    expect([answer.status, answer.body.error?.code]).toEqual([isKnown ? 409 : isMissing ? 404 : 400, code]);
    expect(answer.body.error?.message).toContain(message);
    expect((await ask("GET", "/keys")).body).toMatchObject({ data: [{ id: "team", granted: 10 }], next: null });
    expect((await ask("GET", "/budgets")).body).toMatchObject({ data: [] });
  });

  it("takes a tag as a proxy that compresses answers has passed it on", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team" });
    for (const passed of [
      (tag: string) => `W/${tag}`,
      (tag: string) => tag.replace(/"$/, '-gzip"'),
      (tag: string) => `W/${tag.replace(/"$/, '-br"')}`,
    ]) {
      const { headers } = await ask("GET", "/keys/team");
      const name = passed("x");
      const tag = passed(headers.get("etag") ?? "");
      expect((await ask("PATCH", "/keys/team", { name }, { "if-match": tag })).body).toMatchObject({ name });
      expect((await ask("PATCH", "/keys/team", { name }, { "if-match": tag })).status).toBe(412);
    }
  });

  it("refuses a tag where it would guard nothing", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", granted: 5 });
    const headers = { "if-match": (await ask("GET", "/keys/team")).headers.get("etag") ?? "" };
    expect(await ask("POST", "/keys/team/grant", { units: 1 }, headers)).toMatchObject({
      status: 400,
      body: { error: { message: "This route takes no If-Match." } },
    });
    expect((await ask("GET", "/keys/team")).body).toMatchObject({ granted: 5 });
  });

  it.each(["*", '"x"'])("makes no change on the condition If-None-Match: %s", async (tag) => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", name: "before" });
    const headers = { "if-none-match": tag };
    expect((await ask("GET", "/keys/team", undefined, headers)).status).toBe(200);
    expect(await ask("PATCH", "/keys/team", { name: "after" }, headers)).toMatchObject({
      status: 400,
      body: { error: { message: "A change takes no If-None-Match." } },
    });
    expect((await ask("GET", "/keys/team")).body).toMatchObject({ name: "before" });
  });

  it.each([
    ["/keys", { id: "." }, "id: cannot be . or .., which no address can hold."],
    ["/keys", { id: `sk-${"a".repeat(43)}` }, "id: cannot look like the secret of a key."],
    ["/budgets", { id: "..", amount: 1 }, "id: cannot be . or .., which no address can hold."],
    ["/keys", { id: "a", metadata: { constructor: "x" } }, "metadata: the name constructor cannot be used."],
    ["/keys", JSON.parse(`{"metadata":{"__proto__":"x"}}`), "metadata: the name __proto__ cannot be used."],
  ])("makes nothing at %s that it cannot keep as written: %j", async (path, body, message) => {
    const ask = asking();
    expect((await ask("POST", path, body as object)).body.error).toEqual({ code: "invalid_request", message });
    expect((await ask("GET", path)).body["data"]).toEqual([]);
  });

  it.each<[method: string, path: string, body: object | undefined, message: string]>([
    ["POST", "/budgets", { id: "a", amount: 5.5 }, "amount: must be an integer from 0 up, not 5.5."],
    ["POST", "/budgets", { id: "a" }, "amount: is missing; it must be an integer from 0 up."],
    ["POST", "/budgets", { id: "a", amount: -1 }, "amount: must be an integer from 0 up, not -1."],
    [
      "POST",
      "/budgets",
      { id: "a", amount: 1e16 },
      "amount: must be an integer from 0 up, not 10000000000000000. The most is 2^53 - 1, 9007199254740991.",
    ],
    ["POST", "/budgets", { id: "a", amount: "5 dollars" }, "amount: must be an integer from 0 up, not a text."],
    ["POST", "/budgets", { id: "a", amount: 1, period: "year" }, 'period: must be day, week or month, not "year".'],
    ["POST", "/budgets", { id: "a", amount: 1, rollover: "yes" }, 'rollover: must be true or false, not "yes".'],
    ["POST", "/budgets", { id: "", amount: 1 }, "id: must be a text that is not empty, not an empty text."],
    ["POST", "/keys", { id: "a", models: ["x", 5] }, "models.1: must be a text, not 5."],
    ["POST", "/keys", { id: "a", models: "x" }, 'models: must be a list, each of it a text, or null, not "x".'],
    ["POST", "/keys", { id: "a", metadata: { team: 5 } }, "metadata.team: must be a text, not 5."],
    ["POST", "/keys", { id: "a", metadata: "team" }, 'metadata: must be an object of texts, not "team".'],
    ["POST", "/keys", { id: "a", expiresAt: null }, "expiresAt: must be an integer, not null."],
    ["POST", "/keys/a/grant", {}, "units: is missing; it must be an integer from 1 up."],
    ["PUT", "/keys/a/budget", { budget: 5 }, "budget: must be a text that is not empty, or null, not 5."],
    ["GET", "/keys?limit=0", undefined, "limit: must be an integer from 1 to 1000, not 0."],
    ["GET", "/keys?limit=many", undefined, 'limit: must be an integer from 1 to 1000, not "many".'],
    ["GET", "/keys?state=gone", undefined, 'state: must be active, paused, expired or revoked, not "gone".'],
  ])("says what a field must be: %s %s %j", async (method, path, body, message) => {
    const ask = asking();
    await ask("POST", "/keys", { id: "a" });
    const told = await ask(method, path, body);
    expect([told.status, told.body.error]).toEqual([400, { code: "invalid_request", message }]);
  });

  it("reads an address the same way for its route and for its id", async () => {
    const quotas = stores.ports.quotas;
    const admin = adminHandler(quotas, { authorize: () => ({ name: "ann" }) });
    for (const id of ["keys", "victim", "mine", "revoke", "a/revoke", "victim/revoke"]) await quotas.add({ id });
    const server = createServer(toNodeHandler(admin, { prefix: "/admin" })).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const revoked = async (path: string): Promise<readonly string[]> => {
      // An address as no URL writes it.
      const socket = connect(port, "127.0.0.1");
      const head = `POST ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json`;
      socket.end(`${head}\r\ncontent-length: 2\r\n\r\n{}`);
      socket.resume();
      await once(socket, "close");
      return (await quotas.list()).filter((key) => key.revoked).map(({ id }) => id);
    };
    for (const path of [
      "/admin/keys/mine%2Frevoke",
      "/admin/keys%2Fmine/revoke",
      "/admin/keys/%2e%2e/revoke",
      "/admin/keys/./revoke",
      "/admin/keys//revoke",
      "/admin//keys/mine/revoke",
      "/admin/keys/mine/revoke%2F",
      "/ADMIN/keys/mine/revoke",
      "/admin/budgets/../audit",
      "/admin/keys/victim/../mine/revoke",
      "/admin/keys/victim/%2E./mine/revoke",
      "/x/../admin/keys/mine/revoke",
      "http://x/x/../admin/keys/mine/revoke",
      "/.\\admin/keys/mine/revoke",
      "/admin\\keys\\mine\\revoke",
      "/admin/keys/mine/r%65voke",
      "/admin/keys/mine/revoke/",
      "/admin/k%65ys/mine/revoke",
      "/%61dmin/keys/mine/revoke",
    ])
      expect([path, await revoked(path)]).toEqual([path, []]);
    expect(await revoked("/admin/keys/a%2Frevoke/revoke?x=/../victim")).toEqual(["a/revoke"]);
    expect(await revoked("http://x/admin/keys/mine/revoke")).toEqual(["a/revoke", "mine"]);
    server.close();
    server.closeAllConnections();
  });

  it("refuses a host header with which the path makes no URL, as Bun and Deno pass it on", async () => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const admin = adminHandler(stores.ports.quotas, { authorize, onFailure }).at("/admin");
    for (const [url, user, status] of [
      ["http://h:99999/admin/keys", "ann", 400],
      ["http://[/admin/keys", "ann", 400],
      ["http://[/admin/keys", "", 400],
    ] as const) {
      const request = new Request("http://host/admin/keys", { headers: { "x-user": user } });
      Object.defineProperty(request, "url", { value: url });
      expect((await admin.handle(request))?.status).toBe(status);
    }
    expect(onFailure).not.toHaveBeenCalled();
  });

  it.each(["keys/%2e", "keys/%2E%2e", "keys/.%2e/budgets", "budgets/%2e"])(
    "takes no %s for another path, as Deno passes it on",
    async (path) => {
      const admin = adminHandler(stores.ports.quotas, { authorize, page: { file: async () => undefined } });
      const headers = { "x-user": "ann", "content-type": "application/json" };
      const request = new Request("http://host/", { method: "POST", headers, body: '{"id":"team","amount":5}' });
      Object.defineProperty(request, "url", { value: `http://host/${path}` });
      expect(await (await admin.handle(request))?.json()).toMatchObject({
        error: { code: "not_found", message: expect.stringContaining("Write its path as it is") },
      });
    },
  );

  it("reads an address with many parameters once", async () => {
    const getAll = vi.spyOn(URLSearchParams.prototype, "getAll");
    const names = Array.from({ length: 2_000 }, (_, at) => `p${at}`);
    expect((await asking()("GET", `/keys?${names.join("&")}`)).status).toBe(400);
    expect(getAll).not.toHaveBeenCalled();
    getAll.mockRestore();
    await asking()("POST", "/keys", { id: "team", metadata: { a: "1", b: "2" } });
    expect((await asking()("GET", "/keys?metadata=a=1&metadata=b=2")).body).toMatchObject({ data: [{ id: "team" }] });
  });

  it.each(["host/admin", "host?", "host#", "user@host", "host\\admin"])("refuses the host header %s", async (host) => {
    const request = (): Request => new Request("http://host/admin/keys", { headers: { "x-user": "ann", host } });
    const admin = adminHandler(stores.ports.quotas, { authorize });
    expect((await admin.at("/admin").handle(request()))?.status).toBe(400);
    // Deno reads the path of its own address.
    expect((await toDenoHandler(admin, { prefix: "/admin" })(request(), undefined)).status).toBe(400);
    const gateway = createGateway({ backend: { chat: throwing }, quotas: stores.ports.quotas });
    expect((await toDenoHandler(gateway)(request(), undefined)).status).toBe(400);
  });

  it("tells the host nothing of a client that breaks off its body", async () => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const admin = adminHandler(stores.ports.quotas, { authorize, onFailure });
    const server = createServer(toNodeHandler(admin)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const socket = connect(port, "127.0.0.1");
    const headers = "host: x\r\nx-user: ann\r\ncontent-type: application/json\r\ntransfer-encoding: chunked";
    const begun = once(server, "request");
    socket.write(`PATCH /keys/a HTTP/1.1\r\n${headers}\r\n\r\n3\r\n{"n\r\n`);
    const [, res] = (await begun) as [unknown, ServerResponse];
    const closed = once(res, "close");
    socket.resetAndDestroy();
    await closed;
    await new Promise((resolve) => setImmediate(resolve));
    expect(onFailure).not.toHaveBeenCalled();
    server.close().closeAllConnections();
  });

  it.each(["/x/../keys", "/./keys", "/k%65ys", "/.\\keys"])("has no route at %s, as Bun passes it on", async (path) => {
    const request = new Request("http://host/admin", { headers: { "x-user": "ann" } });
    Object.defineProperty(request, "url", { value: `http://host/admin${path}` });
    const admin = adminHandler(stores.ports.quotas, { authorize }).at("/admin");
    expect((await admin.handle(request))?.status).toBe(404);
  });

  it("shows the login of the host the whole path, also of a target with an origin of another scheme", async () => {
    const seen: string[] = [];
    const admin = adminHandler(stores.ports.quotas, {
      authorize: ({ url }) => {
        seen.push(new URL(url).pathname);
        return { name: "ann" };
      },
    });
    const server = createServer(express().use("/admin", toExpressHandler(admin)) as RequestListener).listen(0);
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    for (const [target, host] of [
      ["/admin/keys", "x"],
      ["http://x/admin/keys", "x"],
      ["foo://x/admin/keys", "x"],
      ["/admin/keys", "a b"],
      ["/admin/keys", "x:99999"],
    ] as const) {
      const socket = connect(port, "127.0.0.1");
      socket.end(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
      socket.resume();
      await once(socket, "close");
    }
    expect(seen).toEqual(["/admin/keys", "/admin/keys", "/admin/keys", "/admin/keys"]);
    server.close().closeAllConnections();
  });

  it("answers other routes, methods and bodies with their errors", async () => {
    const ask = asking();
    expect((await ask("GET", "/nothing")).body.error).toEqual({
      code: "not_found",
      message: "There is no such route. This admin is at /admin/, with routes such as /admin/keys.",
    });
    for (const [method, path, meant] of [
      ["POST", "/budgets/red/topup", "Did you mean /budgets/red/top-up?"],
      ["POST", "/kyes/anna/grant", "Did you mean /keys/anna/grant?"],
      ["GET", "/key", "Did you mean /keys?"],
      ["GET", "/kyes/anna/grnat", "This admin is at /admin/, with routes such as /admin/keys."],
      ["GET", "/api/keys", "This admin is at /admin/, with routes such as /admin/keys."],
    ] as const)
      expect((await ask(method, path)).body.error?.message).toBe(`There is no such route. ${meant}`);
    const wrong = await ask("PUT", "/keys");
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, POST"]);
    expect((await ask("POST", "/keys", { name: "x".repeat(70_000) })).status).toBe(413);
    const admin = adminHandler(stores.ports.quotas, { authorize });
    const broken = { method: "POST", headers: { "x-user": "a", "content-type": "application/json" }, body: "{" };
    expect(await (await admin.fetch(new Request("http://host/keys", broken))).json()).toMatchObject({
      error: { message: "The body is not JSON." },
    });
    expect(admin.at("/admin").handle(new Request("http://host/administer"))).toBeUndefined();
    expect((await admin.at("/admin").fetch(new Request("http://host/keys"))).status).toBe(404);
  });

  it.each<[string, Record<string, string>]>([
    ["of a declared length", { "content-length": "100" }],
    ["of no declared length", {}],
  ])("ends a body %s that comes too slowly", async (_what, length) => {
    const clock = manualClock(0);
    const admin = adminHandler(stores.ports.quotas, { authorize, clock, onFailure: () => {} });
    const headers = { "x-user": "ann", "content-type": "application/json", ...length };
    const body = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new Uint8Array([0x7b])) });
    const init = { method: "POST", headers, body, duplex: "half" as const };
    const asked = admin.fetch(new Request("http://host/keys", init));
    await clock.advance(30_000);
    const { status } = await asked;
    expect(status).toBe(408);
    expect(await stores.ports.quotas.list()).toEqual([]);
  });

  it.each<[string, string, Record<string, string>, number, string]>([
    ["that Express has parsed, nested too deep", "[".repeat(6_000) + "]".repeat(6_000), {}, 400, "nested too deep"],
    ["that Express has parsed, with a number beyond all", '{"id":"team","granted":1e999}', {}, 400, "is no JSON"],
    ["that is too large", JSON.stringify({ name: "€".repeat(30_000) }), {}, 413, "larger than 65536 bytes (64 KiB)"],
    ["that is compressed", "{}", { "content-encoding": "x" }, 415, "must not be compressed"],
  ])("tells the client what is wrong with a body %s", async (_what, body, headers, status, message) => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const admin = toExpressHandler(adminHandler(stores.ports.quotas, { authorize, onFailure }));
    const parse: RequestHandler = (req, res, next) =>
      headers["content-encoding"] ? next() : express.json({ limit: "1mb" })(req, res, next);
    const server = createServer(express().use(parse, admin) as RequestListener).listen(0, "127.0.0.1");
    await once(server, "listening");
    const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`, {
      method: "POST",
      headers: { "x-user": "ann", "content-type": "application/json", ...headers },
      body,
    });
    expect([answer.status, await answer.text()]).toEqual([status, expect.stringContaining(message)]);
    expect(onFailure).not.toHaveBeenCalled();
    server.close().closeAllConnections();
  });

  it("has no budgets over the keys of a store in memory", async () => {
    const admin = adminHandler(memoryQuotaStore([{ apiKey: "sk-1", id: "one" }]).keys, { authorize });
    const get = (path: string): Promise<Response> =>
      admin.fetch(new Request(`http://host${path}`, { headers: { "x-user": "ann" } }));
    expect(await (await get("/keys")).json()).toMatchObject({ data: [{ id: "one" }] });
    expect((await get("/budgets")).status).toBe(404);
  });

  it("shows the health of a gateway", async () => {
    const health = { ready: true, upstreams: [{ name: "a", state: "open" }] };
    expect((await asking({ gateway: { health: async () => health as never } })("GET", "/health")).body).toEqual(health);
    expect((await asking()("GET", "/health")).status).toBe(404);
    const failing = { code: "rate_limited", at: 2, times: 3, since: 1 };
    const inWords = async (more: object): Promise<unknown> => {
      const upstreams = [{ failing: { ...failing, ...more } }];
      return (await asking({ gateway: { health: async () => ({ upstreams }) as never } })("GET", "/health")).body;
    };
    const [second, credential] = [
      "A second upstream in the route takes the calls that this one refuses.",
      "Check the credential and the account of the upstream: the log of the gateway has its answers.",
    ];
    for (const [more, reason, remedy] of [
      [{}, "A rate limit of the upstream was reached.", second],
      [{ code: "backend_refused" }, "The upstream refused the credential or the account of this service.", credential],
      [{ code: "invalid_request" }, /field/, "The callers must change their requests."],
      [{ code: "model_not_found" }, /model/, /^Correct the model in the routes,/],
      [{ code: "backend_unavailable" }, /available/, /^If it lasts, check that the upstream runs,/],
      [{ code: "backend_failed" }, /failed/, /^For the cause, look in the log of the gateway,/],
      [{ code: "backend_failed", mistake: "Check the baseUrl." }, "Check the baseUrl.", /^undefined$/],
    ] as const) {
      const { upstreams } = (await inWords(more)) as { upstreams: readonly { failing: { remedy?: string } }[] };
      expect(upstreams).toMatchObject([{ failing: { times: 3, reason: expect.stringMatching(reason) } }]);
      expect(String(upstreams[0]?.failing.remedy)).toMatch(remedy);
    }
  });

  it("lists the calls that run, and stops one", async () => {
    const { gateway, clock } = endless();
    const beganAt = clock.now();
    const [first, second] = await Promise.all(["a", "b"].map((model) => gateway.fetch(streamed(model))));
    await clock.advance(1_000);
    const ask = asking({ gateway, clock });
    const listed = await ask("GET", "/live");
    expect(listed.headers.get("cache-control")).toBe("no-store");
    expect(listed.body).toMatchObject({
      at: beganAt + 1_000,
      total: 2,
      data: [
        {
          requestId: first?.headers.get("request-id"),
          key: { id: "one" },
          modelAsked: "a",
          format: "chat-completions",
          stream: true,
          webSocket: false,
          usage: { outputTokens: expect.any(Number) },
          beganAt,
        },
        { modelAsked: "b" },
      ],
    });
    expect(JSON.stringify(listed.body)).not.toMatch(/Rain|sk-one/);
    expect((await ask("GET", "/live?limit=1")).body).toMatchObject({ total: 2, data: [{ modelAsked: "a" }] });
    expect((await ask("GET", "/live?limit=1&key=one")).body).toMatchObject({ total: 2, data: [{ modelAsked: "a" }] });
    expect((await ask("GET", "/live?key=other")).body).toMatchObject({ total: 0, data: [] });
    expect((await ask("POST", "/keys/other/stop-calls")).body.error).toEqual({
      code: "not_found",
      message: "No call of the key other runs in this process.",
    });
    const at = `/live/${second?.headers.get("request-id")}`;
    expect((await ask("POST", `${at}/stop`, {}, { "x-user": "reader" })).status).toBe(403);
    expect((await ask("POST", `${at}/stop`)).body).toEqual({ requestId: at.slice(6), stopped: true });
    await clock.advance(0);
    expect(await second?.text()).toContain("call_stopped");
    expect((await ask("POST", `${at}/stop`)).body.error).toEqual({
      code: "not_found",
      message: `No call of the request id ${at.slice(6)} runs in this process, or it has just ended.`,
    });
    expect((await ask("GET", "/live")).body).toMatchObject({ total: 1 });
    expect((await ask("POST", "/keys/one/stop-calls", {}, { "x-user": "reader" })).status).toBe(403);
    expect((await ask("POST", "/keys/one/stop-calls")).body).toEqual({ key: "one", stopped: 1 });
    expect((await ask("GET", "/audit")).body).toMatchObject({
      data: [
        { user: "ann", action: "live.stop-key", target: "one", state: "done" },
        { action: "live.stop", state: "refused" },
        { user: "ann", action: "live.stop", target: at.slice(6), state: "done" },
        { action: "live.stop-key", target: "other", state: "refused" },
      ],
    });
    void gateway.close({ deadlineMs: 0 });
    await clock.advance(0);
  });

  it.each([
    ["GET", "/live"],
    ["POST", "/live/any/stop"],
    ["POST", "/keys/team/stop-calls"],
    ["POST", "/keys"],
    ["PATCH", "/keys/team"],
  ])("fails at %s %s of a gateway whose functions are async by mistake, and tells the host", async (method, path) => {
    const { gateway } = endless();
    await stores.ports.quotas.add({ id: "team" });
    const verbs = { liveCalls: failing, liveCallCount: failing, stopCall: failing, keyFault: failing };
    const onFailure = vi.fn<(error: unknown) => void>();
    // The cast is safe: the gateway is of a host without types.
    const ask = asking({ gateway: { ...gateway, ...verbs } as never, onFailure });
    expect((await ask(method, path)).status).toBe(500);
    expect(onFailure).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({
        message: expect.stringMatching(/^gateway\.\w+ must answer at once, not with a promise\.$/),
      }),
    );
  });

  it("stops no call once its client was told that the time is over", async () => {
    const clock = manualClock(0);
    const { promise: asleep, resolve: wake } = Promise.withResolvers<void>();
    const log = memoryAuditLog();
    const audit: AuditLog = { ...log, begin: (entry) => asleep.then(() => log.begin(entry)) };
    const stopCall = vi.fn<(id: string) => boolean>(() => true);
    const gateway = { health: unasked, liveCalls: () => [], liveCallCount: () => 0, stopCall };
    const answer = asking({ clock, audit, gateway })("POST", "/live/one/stop");
    await clock.advance(30_000);
    expect((await answer).status).toBe(503);
    wake();
    await vi.waitFor(async () => expect(await log.list({ limit: 9 })).toMatchObject([{ state: "failed" }]));
    expect(stopCall).not.toHaveBeenCalled();
  });

  it("has no live calls without a gateway that tells them", async () => {
    for (const options of [
      {},
      { gateway: { health: unasked } },
      { gateway: { health: unasked, liveCalls: () => [] } },
      { gateway: { health: unasked, liveCalls: () => [], liveCallCount: () => 0 } },
    ]) {
      const ask = asking(options);
      expect((await ask("GET", "/me")).body).toMatchObject({ live: false });
      expect((await ask("GET", "/live")).status).toBe(404);
    }
  });

  it("makes no key with a rate tier that its gateway does not have, and still changes a key that has one", async () => {
    const { quotas } = stores.ports;
    const backend = { async *chat() {} };
    const rateLimiter = flexibleRateLimiter({ tiers: { gold: {}, slow: {} } });
    const ask = asking({ gateway: createGateway({ backend, quotas, rateLimiter }) });
    const wrong = 'metadata.tier must be "gold" or "slow", not "golld". Did you mean "gold"?';
    const golld = { metadata: { tier: "golld", team: "a" } };
    const refusal = { status: 400, body: { error: { message: wrong } } };
    expect(await ask("POST", "/keys", { id: "one", ...golld })).toMatchObject(refusal);
    expect(await ask("POST", "/keys", golld)).toMatchObject(refusal);
    expect(await quotas.report("one")).toBeUndefined();
    expect((await ask("POST", "/keys", { id: "one", metadata: { tier: "gold" } })).status).toBe(201);
    expect(await ask("PATCH", "/keys/one", golld)).toMatchObject(refusal);
    expect((await quotas.report("one"))?.metadata).toEqual({ tier: "gold" });
    // The tier may have gone from the limiter: its keys can still be stopped, and moved.
    await quotas.update("one", golld);
    expect(await ask("PATCH", "/keys/one", { paused: true, ...golld })).toMatchObject({ status: 200 });
    expect((await ask("PATCH", "/keys/one", { metadata: { tier: "gold" } })).status).toBe(200);
    expect((await ask("PATCH", "/keys/nobody", golld)).status).toBe(404);

    // Without a gateway that can tell, every tier is taken.
    const faulty = flexibleRateLimiter({ tiers: {}, tierOf: throwing });
    for (const options of [{}, { gateway: createGateway({ backend, quotas, rateLimiter: faulty }) }])
      expect((await asking(options)("POST", "/keys", golld)).status).toBe(201);
  });

  it("notes models that its gateway does not have, and makes the key all the same", async () => {
    const { quotas } = stores.ports;
    const chat = { async *chat() {} };
    const backend = route({ routes: { "claude-sonnet": chat, "gpt-*": chat, "o-1": { ...chat, models: () => [] } } });
    const ask = asking({ gateway: createGateway({ backend, quotas }) });
    const note = 'The gateway has no model "claude-sonet". Did you mean "claude-sonnet"?';
    const models = ["claude-sonet", "claude-sonnet", "gpt-9"];
    const made = await ask("POST", "/keys", { id: "one", granted: 5, models });
    expect(made).toMatchObject({ status: 201, body: { id: "one", note } });
    expect((await ask("POST", "/keys", { models })).body).toMatchObject({
      note: expect.stringMatching(
        /^The key "[^"]+" is unlimited: .* limits it\. The gateway has no model "claude-sonet"/,
      ),
    });
    expect((await quotas.report("one"))?.modelLimits).toMatchObject({ "claude-sonet": true });
    expect((await ask("POST", "/keys", { id: "two", granted: 5, models: ["gpt-9"] })).body).not.toHaveProperty("note");
    expect((await ask("PATCH", "/keys/two", { models })).body).toMatchObject({ id: "two", note });
    // A name that the key has already is noted no more.
    expect((await ask("PATCH", "/keys/two", { models })).body).not.toHaveProperty("note");
    expect((await ask("PATCH", "/keys/two", { models: null })).body).not.toHaveProperty("note");
    expect(await ask("GET", "/models?name=claude-sonet&name=zebra")).toMatchObject({
      status: 200,
      body: { models: ["claude-sonnet", "o-1"], note: `${note} The gateway has no model "zebra".` },
    });
    expect((await ask("GET", "/models?name=gpt-1")).body).toMatchObject({ note: null });
    const many = Array.from({ length: 7 }, (_, at) => `name=zebra-${at}`).join("&");
    expect((await ask("GET", `/models?${many}`)).body).toMatchObject({
      note: expect.stringMatching(/zebra-4"\. Nor has it 2 more of these models\.$/) as string,
    });
  });

  it("notes names of metadata that are nearly those that a gateway reads", async () => {
    const ask = asking();
    const note = "A gateway reads the metadata tier and group by itself, not teir. Did you mean tier?";
    const made = await ask("POST", "/keys", { id: "one", granted: 5, metadata: { teir: "gold" } });
    expect(made.body).toMatchObject({ id: "one", note });
    for (const [metadata, noted] of [
      // A name that the key has already, and one that it loses, are noted no more.
      [{ teir: "blue" }, undefined],
      [{ teir: null }, undefined],
      [{ teir: "gold", Group: "a" }, `${note} ${note.replaceAll("teir", "Group").replace("mean tier", "mean group")}`],
      [{ teir: null, tiers: null, groups: null }, undefined],
      [{ tier: "gold", group: "a", team: "a", "price-tier": "b", subgroup: "c" }, undefined],
    ] as const)
      expect([metadata, (await ask("PATCH", "/keys/one", { metadata })).body["note"]]).toEqual([metadata, noted]);
  });

  it.each([
    ["no gateway", {}],
    ["a gateway that lists no models", { backend: { async *chat() {} } }],
    ["a backend that is away", { backend: { async *chat() {}, models: () => Promise.reject(new Error("away")) } }],
    ["a backend whose list is wrong", { backend: { async *chat() {}, models: () => [{ id: 5 }] as never } }],
  ])("notes and lists no model with %s", async (_name, { backend }: { backend?: ModelBackend }) => {
    const gateway = backend && createGateway({ backend, quotas: stores.ports.quotas });
    const ask = asking(gateway ? { gateway } : {});
    const { status, body } = await ask("POST", "/keys", { granted: 5, models: ["any"] });
    expect(status).toBe(201);
    expect(body).not.toHaveProperty("note");
    expect((await ask("GET", "/models?name=any")).body).toEqual({ models: null, tiers: null, note: null });
  });

  it("lists the models and the tiers that keys can name, at most 1,000 of each", async () => {
    const { quotas } = stores.ports;
    const backend = {
      async *chat() {},
      models: () => Array.from({ length: 1_001 }, (_, at) => ({ id: `model-${at}` })),
    };
    const choices = async (rateLimiter: RateLimiter) =>
      (await asking({ gateway: createGateway({ backend, quotas, rateLimiter }) })("GET", "/models")).body;
    const tiers = { gold: {}, slow: {} };
    const body = await choices(flexibleRateLimiter({ tiers }));
    expect(body).toMatchObject({ tiers: ["gold", "slow"], note: null });
    expect(body["models"]).toHaveLength(1_000);
    // The tiers of such a limiter are not those of the metadata.
    expect(await choices(flexibleRateLimiter({ tiers, tierOf: () => "gold" }))).toMatchObject({ tiers: null });
    expect(await choices(flexibleRateLimiter({}))).toMatchObject({ tiers: null });
    const clock = manualClock(0);
    const asks = Promise.withResolvers<void>();
    const keyChoices = () => (asks.resolve(), new Promise<never>(() => {}));
    const asked = asking({ gateway: { health: unasked, keyChoices }, clock })("GET", "/models");
    await asks.promise;
    await clock.advance(2_000);
    expect((await asked).body).toEqual({ models: null, tiers: null, note: null });
    expect((await asking()("GET", "/models?names=any")).status).toBe(400);
    const hanging = createGateway({ backend: { ...backend, models: () => new Promise(() => {}) }, quotas, clock });
    const [told, fault] = [hanging.keyChoices(), hanging.modelFault(["any"])];
    await clock.advance(2_000);
    expect([await told, await fault]).toEqual([{ models: undefined, tiers: undefined }, undefined]);
  });

  it("makes no budget below parents that make a circle", async () => {
    const report = { id: "one", name: "", granted: 0, used: 0, available: 0, held: 0, parent: "one" };
    const store = { report: unasked, budgetReport: async (id: string) => (id === "one" ? report : undefined) } as never;
    await expect(assertNewBudget(store, { id: "new", amount: 1, parent: "one" })).rejects.toThrow("at most 4 budgets");
  });

  it("tells each budget of a key once when corrupt parents make a circle", async () => {
    await stores.ports.quotas.addBudget({ id: "top", amount: 10 });
    await stores.ports.quotas.addBudget({ id: "team", amount: 10, parent: "top" });
    await stores.ports.quotas.add({ id: "one", budget: "team" });
    const real = stores.ports.quotas.budgetReport.bind(stores.ports.quotas);
    vi.spyOn(stores.ports.quotas, "budgetReport").mockImplementation(async (id) => {
      const report = await real(id);
      return report && { parent: "team", ...report };
    });
    const { body } = await asking()("GET", "/keys/one");
    expect(body).toMatchObject({ left: 10, budgets: [{ id: "team" }, { id: "top" }] });
  });

  it("says in its OpenAPI document what each number of a body, a key, a budget and a query counts", async () => {
    const { body } = await asking({ calls: stores.calls })("GET", "/openapi.json");
    const mute: string[] = [];
    const look = (name: string, value: unknown): void => {
      const { type, anyOf = [], pattern, description, properties = {}, ...rest } = Object(value) as JsonSchema;
      const isNumber = type === "integer" || type === "number" || String(pattern).startsWith("^\\d");
      if (isNumber && description === undefined && name !== "secrets") mute.push(name);
      for (const one of anyOf) look(name, one);
      for (const [field, schema] of Object.entries(properties)) look(field, schema);
      if (rest.in === "query") look(String(rest.name), rest.schema);
    };
    const operations = Object.values(body["paths"] as object).flatMap((path) => Object.values(path as object));
    for (const { operationId, parameters, requestBody, responses } of operations) {
      for (const parameter of parameters) look("", parameter);
      look("", requestBody?.content["application/json"].schema);
      if (/^get(?:Key|Budget)$/.test(operationId)) look("", responses[200].content["application/json"].schema);
    }
    expect(mute).toEqual([]);
  });

  it("describes itself in OpenAPI, and the document holds for its answers", async () => {
    const { body } = await asking({ calls: stores.calls })("GET", "/openapi.json");
    expect(JSON.stringify(body)).toContain("not_found has the status 404, wherever the unknown id stands.");
    expect(await new Validator().validate({ ...body })).toEqual({ valid: true });
    expect(body).toMatchObject({ servers: [{ url: "/admin" }] });
    expect(Object.keys(body["paths"] as object)).toContain("/keys/{id}/grant");
    const operations = Object.values(body["paths"] as object).flatMap((path) => Object.values(path as object));
    expect(
      operations
        .map(({ operationId }: { operationId: string }) => operationId)
        .toSorted()
        .join(" "),
    ).toEqual(
      "addSecret assignBudget createBudget createKey getBudget getCall getKey getMe getUsage grantQuota listBudgetPeriods listBudgets listCalls listChanges " +
        "listKeys listModels lowerBudget lowerQuota removeBudget removeSecret revokeKey rotateSecret topUpBudget updateBudget updateKey",
    );
    expect(body).toMatchObject({
      paths: {
        "/keys": {
          post: { summary: expect.stringContaining("Without `granted` and `budget`, the key is unlimited.") },
        },
        "/keys/{id}": {
          get: {
            responses: {
              200: {
                content: {
                  "application/json": {
                    schema: {
                      properties: {
                        granted: { anyOf: [{ type: "integer", minimum: 0 }, { type: "null" }] },
                        models: { anyOf: [{ type: "array", items: { type: "string" } }, { type: "null" }] },
                        spent: { type: "integer" },
                        left: { anyOf: [{ type: "integer", minimum: 0 }, { type: "null" }] },
                        limitedBy: { anyOf: [{ type: "string" }, { type: "null" }] },
                        usedUp: { enum: ["quota", "budget"] },
                        budgets: { type: "array" },
                      },
                    },
                  },
                },
              },
            },
          },
        },
        "/usage": { get: { responses: { 200: { content: { "application/json": {}, "text/csv": {} } } } } },
        "/budgets/{id}/periods": {
          get: { responses: { 200: { content: { "application/json": {}, "text/csv": {} } } } },
        },
        "/calls/{id}": { get: { parameters: [{ name: "id", in: "path" }] } },
      },
    });
  });
});

/** Makes a call of a key, and returns its request id. */
async function call(keyId: string): Promise<string> {
  const onCall = stores.recorder();
  const gateway = createGateway({
    backend: {
      async *chat() {
        yield "Rain.";
      },
    },
    ...stores.ports,
    ...priceTable({ "*": { input: 1, output: 1 } }),
    onCall,
  });
  const body = { model: "small", max_tokens: 50, messages: [{ role: "user", content: "Rain?" }] };
  const headers = { authorization: `Bearer sk-${keyId}`, "content-type": "application/json" };
  const answer = await gateway.fetch(
    new Request("http://host/v1/chat/completions", { method: "POST", headers, body: JSON.stringify(body) }),
  );
  await answer.text();
  await gateway.close();
  await onCall.flush();
  return answer.headers.get("request-id") ?? "";
}

describe("recorded calls", () => {
  beforeEach(async () => {
    await stores.ports.quotas.addBudget({ id: "company", amount: 1_000_000 });
    await stores.ports.quotas.add({ id: "rich", apiKey: "sk-rich", budget: "company", metadata: { group: "a,b" } });
    await stores.ports.quotas.add({ id: "poor", apiKey: "sk-poor", granted: 1, metadata: { group: "=1+1" } });
  });

  it("are summed up as JSON and as CSV, to the unit of the ledger", async () => {
    await call("rich");
    await call("rich");
    await call("poor");
    const ask = asking({ calls: stores.calls });
    const { used } = (await ask("GET", "/keys/rich")).body as { used: number };
    expect(used).toBeGreaterThan(0);
    expect((await ask("GET", "/usage?by=group,key")).body).toMatchObject({
      rows: [
        { group: "=1+1", key: "poor", calls: 1, refused: 1, units: 0, money: "0.000000" },
        { group: "a,b", key: "rich", calls: 2, refused: 0, units: used, money: (used / 1e6).toFixed(6) },
      ],
      total: { calls: 3, refused: 1, units: used, money: (used / 1e6).toFixed(6) },
      currency: "USD",
      next: null,
    });
    expect((await ask("GET", "/usage?by=key&by=day&budget=company")).body).toMatchObject({ rows: [{ key: "rich" }] });
    expect((await ask("GET", "/usage?by=key&ownBudget=")).body).toMatchObject({ rows: [{ key: "poor" }] });
    expect((await ask("GET", "/usage?by=key&limit=1")).body).toMatchObject({ rows: [{ key: "poor" }], next: 1 });
    expect((await ask("GET", "/usage?by=key&limit=1&offset=1")).body).toMatchObject({ rows: [{ key: "rich" }] });
    expect((await ask("GET", "/usage?by=key&charged=true")).body).toMatchObject({
      rows: [{ key: "rich", calls: 2 }],
      total: { calls: 3, units: used },
    });
    expect((await ask("GET", "/usage?by=key&charged=false")).body).toMatchObject({ rows: [{ key: "poor" }, {}] });
    const latest = "The latest call is recorded in USD, not EUR: req_\\w+, at 20\\S+Z, of the model \\S+\\.";
    for (const [path, cause] of [
      ["/usage", "These calls are recorded in USD, not EUR\\."],
      ["/budgets/company/periods", latest],
    ])
      for (const format of ["json", "csv"])
        expect(await ask("GET", `${path}?currency=eur&format=${format}`)).toMatchObject({
          status: 400,
          body: {
            error: {
              message: expect.stringMatching(new RegExp(`^${cause} For amounts in USD, write currency=usd\\.$`)),
            },
          },
        });
    const [today = ""] = new Date().toISOString().split("T");
    const ofMonth = await ask("GET", `/usage?by=month,day&month=${today.slice(0, 7)}`);
    expect(ofMonth.body).toMatchObject({ rows: [{ month: today.slice(0, 7), day: today, calls: 3 }] });
    expect((await ask("GET", "/usage?month=2020-02")).body).toMatchObject({
      total: { calls: 0 },
      recorded: { since: today, until: today },
    });
    expect((await ask("GET", "/usage?until=2020-01-01")).body).toMatchObject({ total: { calls: 0 } });
    // A mistyped year is a year, too.
    expect((await ask("GET", "/usage?month=0026-02")).body).toMatchObject({ since: "0026-02-01", until: "0026-02-28" });
    // The month is that of the host's clock, in UTC.
    const atMonthsEnd = asking({ calls: stores.calls, clock: manualClock(Date.UTC(2024, 1, 29, 23, 59)) });
    expect((await atMonthsEnd("GET", "/usage?month=this")).body).toMatchObject({
      since: "2024-02-01",
      until: "2024-02-29",
    });
    expect((await atMonthsEnd("GET", "/usage?month=last")).body).toMatchObject({
      since: "2024-01-01",
      until: "2024-01-31",
    });
    expect((await ask("GET", "/usage?by=budget")).body).toMatchObject({
      rows: [
        { budget: "", timeZone: "" },
        { budget: "company", timeZone: "UTC" },
      ],
      since: today,
      until: today,
    });
    const admin = adminHandler(stores.ports.quotas, { authorize, calls: stores.calls });
    const csvOf = (path: string, headers: object = {}): Promise<Response> =>
      admin.fetch(new Request(`http://host${path}`, { headers: { "x-user": "ann", ...headers } }));
    const csv = await csvOf("/usage?by=group&currency=usd", { accept: "text/csv, */*;q=0.1" });
    expect(csv.headers.get("content-type")).toMatch(/^text\/csv; charset=utf-8/);
    expect(csv.headers.get("content-disposition")).toBe(`attachment; filename="usage-${today}-${today}.csv"`);
    const named = await csvOf("/usage?by=key,budget&since=2026-10-01&until=2026-10-31&format=csv");
    expect(named.headers.get("content-disposition")).toBe('attachment; filename="usage-2026-10-01-2026-10-31.csv"');
    expect(await named.text()).toMatch(/^key,keyName,budget,budgetName,since,until,timeZone,spent,currency,calls,/);
    const open = await csvOf("/usage?since=2026-10-01&format=csv");
    expect(open.headers.get("content-disposition")).toBe(`attachment; filename="usage-2026-10-01-${today}.csv"`);
    const before = await csvOf("/usage?until=2020-01-01&format=csv");
    expect(before.headers.get("content-disposition")).toBe('attachment; filename="usage-until-2020-01-01.csv"');
    expect(csv.headers.get("cache-control")).toBe("no-store");
    const [headings, poor, rich] = (await csv.text()).split("\r\n");
    expect(headings).toMatch(/^group,since,until,timeZone,spent,currency,calls,/);
    const days = `${today},${today}`;
    expect(poor).toMatch(new RegExp(`^'=1\\+1,${days},,0\\.000000,USD,1,1,`));
    expect(rich).toMatch(new RegExp(`^"a,b",${days},,0\\.\\d{6},USD,2,0,.*,${used},`));
    expect(await (await csvOf("/usage?by=group&format=csv")).text()).toContain('"a,b"');
    const european = await csvOf("/usage?by=month&spreadsheet=excel-europe&charged=true");
    expect(new Uint8Array(await european.clone().arrayBuffer()).slice(0, 3)).toEqual(new Uint8Array([239, 187, 191]));
    expect(await european.text()).toMatch(
      /^Month;From;Until;Time zone;Spent;Currency;Calls;.*\r\n20\d\d-\d\d;.*;0,\d{6};USD;3;1;/,
    );
    const json = await csvOf("/usage?format=json", { accept: "text/csv" });
    expect(json.headers.get("content-type")).toBe("application/json");
  });

  it("are listed and found with the reasons of their end", async () => {
    const completed = await call("rich");
    const refused = await call("poor");
    const ask = asking({ calls: stores.calls });
    expect((await ask("GET", "/calls?outcome=refused")).body).toMatchObject({
      data: [
        {
          requestId: refused,
          refusedBy: { kind: "quota", available: 1 },
          reasons: expect.arrayContaining([expect.stringContaining("the key's own quota")]),
        },
      ],
      next: null,
    });
    const first = (await ask("GET", "/calls?limit=1")).body as { data: { requestId: string }[]; next: string };
    expect([first.data.length, first.next]).toEqual([1, first.data[0]?.requestId]);
    const second = (await ask("GET", `/calls?limit=1&after=${first.next}`)).body as typeof first;
    expect(new Set([first.next, second.data[0]?.requestId])).toEqual(new Set([completed, refused]));
    expect((await ask("GET", "/calls?key=rich&since=1")).body).toMatchObject({ data: [{ requestId: completed }] });
    const today = new Date().toISOString().slice(0, 10);
    for (const [filter, found] of [
      ["errorCode=quota_insufficient", [refused]],
      ["errorCode=internal", []],
      ["errorCode=rate_limit_error", [refused]],
      ["errorCode=rate_limit_exceeded", []],
      ["outcome=failed,refused", [refused]],
      ["outcome=failed,deadline", []],
      [`key=poor&sinceDay=${today}&untilDay=${today}&ownBudget=&upstream=`, [refused]],
      ["untilDay=2020-01-01", []],
      ["budget=company&errorCode=internal", []],
      ["group=none", []],
      ["model=none", []],
    ] as const)
      expect((await ask("GET", `/calls?${filter}`)).body["data"]).toEqual(
        found.map((requestId) => expect.objectContaining({ requestId })),
      );
    expect((await ask("GET", "/calls?errorCode=rate_limit_error")).body).toMatchObject({
      errorCodes: expect.arrayContaining(["quota_exhausted", "quota_insufficient"]),
    });
    for (const id of [refused.slice("req_".length), refused.slice("req_".length, "req_12345678".length)])
      expect((await ask("GET", `/calls/${id}`)).body).toMatchObject({ requestId: refused });
    // The id of the answer that the gateway has made has the same digits.
    expect((await ask("GET", `/calls/${refused.replace("req_", "msg_")}`)).body).toMatchObject({ requestId: refused });
    expect((await ask("GET", "/calls/msg_01XFDUDYJgAACzvnptvVoYEL")).body.error?.message).toContain(
      "it stands in the header request-id of the answer",
    );
    expect((await ask("GET", `/calls/${refused}`)).body).toMatchObject({
      requestId: refused,
      errorMessage: expect.stringContaining("Needed: 0.000003 USD, available: 0.000001 USD."),
      reasons: [
        expect.stringContaining("The call was refused, with the status"),
        expect.anything(),
        expect.stringMatching(
          /^The caller was told: "The remaining quota .* Needed: 0\.000003 USD, available: 0\.000001 USD\."$/,
        ),
        expect.stringContaining("the key's own quota"),
      ],
      next: expect.arrayContaining([
        {
          verb: "keys grant",
          key: "poor",
          units: expect.any(Number),
          sentence: expect.stringMatching(/^polygate keys grant poor /),
        },
      ]),
    });
    await stores.ports.quotas.grant("poor", 1_000_000);
    const sentence = "There is enough for the call now: the caller may try again.";
    const enough = { next: expect.arrayContaining([{ sentence }]) };
    expect((await ask("GET", `/calls/${refused}`)).body).toMatchObject(enough);
    expect((await ask("GET", "/calls?key=poor")).body).toMatchObject({ data: [enough] });
    expect((await ask("GET", `/calls/${completed}`)).body).toMatchObject({ next: [] });
    expect(await ask("GET", "/calls/none")).toMatchObject({ status: 404, body: { error: { code: "not_found" } } });
    expect((await ask("GET", "/me")).body).toMatchObject({ calls: true, currency: "USD" });
    const calls = { ...stores.calls, list: () => Promise.reject(new Error("There is no table for calls.")) };
    expect((await asking({ calls })("GET", "/me")).body).not.toHaveProperty("currency");
    const gateway = { currency: "EUR", health: () => Promise.reject(new Error("not asked")) };
    expect((await asking({ calls, gateway })("GET", "/me")).body).toMatchObject({ currency: "EUR" });
    expect((await asking({ calls: stores.calls, gateway })("GET", "/me")).body).toMatchObject({ currency: "USD" });
    const called = Promise.withResolvers<void>();
    const hanging = { ...stores.calls, list: () => (called.resolve(), new Promise<never>(() => {})) };
    const clock = manualClock(0);
    const told = asking({ calls: hanging, clock })("GET", "/me");
    await called.promise;
    await clock.advance(1_000);
    expect((await told).body).toMatchObject({ calls: true });
  });

  it("sum up charges in several currencies only with a note", async () => {
    const report = { ...(await stores.calls.usage()), rows: [], currency: "USD", otherCurrencies: ["EUR"] };
    report.total = { ...report.total, calls: 2, units: 5_000_000 };
    const calls = { ...stores.calls, usage: () => Promise.resolve(report) };
    const ask = asking({ calls });
    expect((await ask("GET", "/usage")).body).toMatchObject({ currency: "USD", otherCurrencies: ["EUR"] });
    expect((await ask("GET", "/usage?currency=eur")).body).toMatchObject({
      currency: "EUR",
      otherCurrencies: ["USD"],
      total: { money: "5.000000" },
    });
    const note = "Charges that were recorded in EUR are counted as USD, unit for unit: nothing is converted.";
    const admin = adminHandler(stores.ports.quotas, { authorize, calls }).at("/admin");
    for (const file of ["format=csv", "spreadsheet=excel"]) {
      const request = new Request(`http://host/admin/usage?currency=usd&${file}`, { headers: { "x-user": "ann" } });
      const response = await admin.fetch(request);
      await response.text();
      expect(response.headers.get("polygate-note")).toBe(note);
    }
    expect(await ask("GET", "/usage?currency=gbp")).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringMatching(/^These calls are recorded in USD and EUR, not GBP\./) } },
    });
  });

  it("are refused with the id of a key of that name, also behind a page of long names", async () => {
    const { quotas } = stores.ports;
    const long = Array.from({ length: 400 }, (_, at) => ({ id: `k${at}`, name: "名".repeat(1_000) }));
    await Promise.all(long.map((key) => quotas.add(key)));
    await quotas.add({ id: "last", name: "Slow Joe" });
    expect((await asking({ calls: stores.calls })("GET", "/calls?key=Slow%20Joe")).body.error?.message).toBe(
      "No key has the id Slow Joe. Did you mean last?",
    );
  });

  it("are refused for an id that nobody has, with the id of the key or the budget of that name", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "slow-joe", name: "Slow Joe", apiKey: "sk-slow-joe" });
    for (const id of ["twin-1", "twin-2"]) await quotas.add({ id, name: "Twin" });
    await quotas.addBudget({ id: "team-1", name: "The team", amount: 1 });
    const ask = asking({ calls: stores.calls });
    for (const [filter, message] of [
      ["key=Slow%20Joe", "No key has the id Slow Joe. Did you mean slow-joe?"],
      ["key=slow%20joe&limit=1", "No key has the id slow joe. Did you mean slow-joe?"],
      ["key=Twin", "No key has the id Twin. Did you mean twin-1, twin-2?"],
      ["key=nobody&group=none", "No key has the id nobody."],
      ["budget=The%20team", "No budget has the id The team. Did you mean team-1?"],
      ["ownBudget=none", "No budget has the id none."],
    ] as const)
      for (const path of ["/calls", "/usage", "/usage?format=csv"])
        expect(await ask("GET", `${path}${path.includes("?") ? "&" : "?"}${filter}`)).toMatchObject({
          status: 404,
          body: { error: { code: "not_found", message } },
        });
    // Also on a host without records.
    for (const one of [ask, asking()]) {
      expect(await one("GET", "/keys?budget=The%20team")).toMatchObject({
        status: 404,
        body: { error: { message: expect.stringContaining("Did you mean team-1?") } },
      });
      expect((await one("GET", "/keys?budget=team-1")).body).toEqual({ data: [], next: null });
    }
    for (const filter of ["key=slow-joe", "budget=team-1", "key=", "ownBudget="]) {
      expect((await ask("GET", `/calls?${filter}`)).body).toMatchObject({ data: [] });
      expect((await ask("GET", `/usage?${filter}`)).body).toMatchObject({ total: { calls: 0 } });
    }
  });

  it("are known by their key and budget also when another store has these", async () => {
    await call("rich");
    const other = memoryQuotaStore([{ id: "else", apiKey: "sk-else" }]);
    const durable = await openStores("sqlite::memory:", { sweepMs: 0 });
    for (const store of [other.keys, durable.ports.quotas]) {
      const admin = adminHandler(store, { authorize, calls: stores.calls });
      const statusOf = async (path: string): Promise<number> =>
        (await admin.fetch(new Request(`http://host${path}`, { headers: { "x-user": "ann" } }))).status;
      for (const filter of ["key=rich", "budget=company", "ownBudget=company"]) {
        expect(await statusOf(`/calls?${filter}&errorCode=internal`)).toBe(200);
        expect(await statusOf(`/usage?${filter}&until=2020-01-01`)).toBe(200);
      }
      expect(await statusOf("/calls?key=poor")).toBe(404);
    }
    await durable.close();
  });

  it.each([
    ["/usage?by=x", 'by: must be day, month, key, budget, group, model or upstream, not "x".'],
    ["/usage?by=team", 'upstream, not "team". Did you mean budget or group?'],
    ["/usage?by=day,Users", 'upstream, not "Users". Did you mean key or group?'],
    ["/usage?by=provider", 'upstream, not "provider". Did you mean upstream?'],
    ["/usage?by=key,modle", 'upstream, not "modle". Did you mean model?'],
    ["/usage?by=key&by=modle", 'not "modle". Did you mean model?'],
    ["/usage?by=", "by: "],
    ["/usage?since=yesterday", "since must be a day"],
    ["/usage?until=2026-02-30", "until must be a day"],
    ["/usage?since=2026-10-02&until=2026-10-01", "since must not be after until"],
    ["/usage?limit=0", "limit: "],
    ["/usage?limit=100001", "limit: "],
    ["/usage?offset=-1", "offset: "],
    ["/usage?month=2026-13", "month must be a month, such as 2026-11, this or last, not 2026-13."],
    ["/usage?month=2026-11&until=2026-11-02", "Choose month, or since and until."],
    ["/usage?charged=1", "charged: "],
    ["/usage?spreadsheet=lotus", "spreadsheet: "],
    ["/usage?format=xml", "format: "],
    ["/usage?format=csv&currency=dollars", "currency: must be a code of three letters, such as usd."],
    ["/usage?currency=dollars", "currency: must be a code of three letters, such as usd."],
    ["/usage?format=json&spreadsheet=excel", "Choose format=json, or a spreadsheet."],
    ["/calls?since=5&until=4", "list: since must not be after until, but 5 is after 4"],
    ["/usage?key=%00", "key must be plain text"],
    ["/usage?key=a&key=b", "key: "],
    ["/usage?team=a", "team does not exist"],
    ["/calls?outcome=bad", "outcome: "],
    ["/calls?outcome=failed,bad", "outcome: "],
    ["/calls?outcome=refuse", 'not "refuse". Did you mean refused?'],
    ["/keys?state=activ", 'not "activ". Did you mean active?'],
    ["/calls?errorCode=quota_exausted", "not quota_exausted. Did you mean quota_exhausted?"],
    ["/calls?since=x", "since: "],
    ["/calls?limit=1001", "limit: "],
    ["/calls?sinceDay=2026-02-30", "sinceDay must be a day"],
    ["/calls?sinceDay=2026-10-02&untilDay=2026-10-01", "sinceDay must not be after untilDay"],
  ])("refuses %s by name", async (path, message) => {
    const answer = await asking({ calls: stores.calls })("GET", path);
    expect([answer.status, answer.body.error?.message]).toEqual([400, expect.stringContaining(message)]);
  });

  it("are shown to nobody without the option", async () => {
    const ask = asking();
    for (const path of ["/usage", "/calls", "/calls/any"]) expect((await ask("GET", path)).status).toBe(404);
    expect((await ask("GET", "/me")).body).toMatchObject({ calls: false });
    expect((await asking({ calls: stores.calls })("GET", "/calls", undefined, { "x-user": "" })).status).toBe(401);
    expect(() => asking({ calls: {} as never })).toThrow("calls must be the calls of stores over SQL");
  });
});

const loggedIn = async (): Promise<{ name: string } | undefined> => undefined;

describe("the login of the host", () => {
  it("is required", () => {
    expect(() => adminHandler(stores.ports.quotas, {} as AdminHandlerOptions)).toThrow(
      "adminHandler: authorize is missing; it must be a function.",
    );
    expect(() => adminHandler({} as never, { authorize })).toThrow(
      "the first argument must be a store over SQL or Redis",
    );
  });

  it("decides who may look, and who may change", async () => {
    const ask = asking();
    expect(await ask("GET", "/keys", undefined, { "x-user": "" })).toMatchObject({
      status: 401,
      body: { error: { code: "not_logged_in" } },
    });
    expect((await ask("GET", "/keys", undefined, { "x-user": "reader" })).status).toBe(200);
    const refusal = await ask("POST", "/keys", { id: "team" }, { "x-user": "reader" });
    expect([refusal.status, refusal.body.error?.code]).toEqual([403, "forbidden"]);
    expect((await ask("GET", "/keys")).body).toMatchObject({ data: [] });
    expect((await ask("GET", "/audit")).body).toMatchObject({ data: [] });
  });

  it("may answer by itself", async () => {
    const response = await adminHandler(stores.ports.quotas, {
      authorize: () => Response.redirect("http://host/login", 303),
    }).fetch(new Request("http://host/keys"));
    expect([response.status, response.headers.get("location")]).toEqual([303, "http://host/login"]);
  });

  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("secret of the host");
      },
    ],
    ["rejects", () => Promise.reject(new Error("secret of the host"))],
    ["returns a user without a name", () => ({ name: "" })],
    [
      "has a getter that throws",
      () => ({
        get name() {
          throw new Error("secret of the host");
        },
      }),
    ],
  ])("that %s lets nobody in, and tells the host alone", async (_what, wrong) => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const ask = asking({ authorize: wrong as never, onFailure });
    const { status, body } = await ask("GET", "/keys");
    expect([status, body]).toEqual([500, { error: { code: "failed", message: "The request has failed." } }]);
    expect(onFailure).toHaveBeenCalledOnce();
  });

  it.each<[string, unknown, string]>([
    ["true", true, "not true."],
    ["a list", [{ name: "ann" }], "not a list."],
    ["an error", new Error("The session is over."), "not an object of a class, such as an error."],
    ["an error of the platform", new DOMException("Late.", "TimeoutError"), "not an object of a class"],
    ["a function that was not called", authorize, "not a function: its result is probably meant."],
    ["a user of a class", Object.create({ name: "ann" }), "not an object of a class"],
    ["a user in a field", { user: { name: "ann" } }, "write ...value in place of user: value."],
    ["a user with a role", { name: "ann", role: "viewer" }, "role does not exist; there are name, readOnly"],
    ["readonly", { name: "ann", readonly: true }, "did you mean readOnly?"],
    ["a text as readOnly", { name: "ann", readOnly: "true" }, "readOnly must be true or false, not a text."],
    ["null as readOnly", { name: "ann", readOnly: null }, "readOnly must be true or false, not null."],
    ["a promise as readOnly", { name: "ann", readOnly: Promise.resolve(true) }, "await it first"],
  ])("that returns %s lets nobody in, and tells the host what to return", async (_what, login, message) => {
    const onFailure = vi.fn<(error: Error) => void>();
    const ask = asking({ authorize: (() => login) as never, onFailure: onFailure as (error: unknown) => void });
    for (const method of ["GET", "POST"]) expect((await ask(method, "/keys", {})).status).toBe(500);
    expect(await stores.ports.quotas.list()).toEqual([]);
    expect(onFailure.mock.lastCall?.[0].message).toContain(message);
  });

  it("may return neither an error nor a function by its type", () => {
    const options: AdminHandlerOptions[] = [
      { authorize: loggedIn },
      // @ts-expect-error -- the call is missing
      { authorize: () => loggedIn },
      // @ts-expect-error -- the error is returned
      { authorize: () => loggedIn().catch((error: Error) => error) },
    ];
    expect(options.length).toBe(3);
  });

  const HIDDEN = "The name of your login must have no invisible characters, and no space at its ends.";
  it.each<[string, string]>([
    ["x".repeat(201), "The name of your login must have at most 200 characters."],
    ...["\u202E(enil dnammoc) nna", "ann\nbob", "ann\u2028bob", "ann\u200B", "a\u00ADnn", "ann\u{E0041}", "\u200C"].map(
      (name): [string, string] => [name, HIDDEN],
    ),
    ...[
      "ann\u200D",
      "ann\u200C",
      "a\u0301\u200D",
      "ann\u2800",
      "\u2800",
      "ann ",
      "\u00a0ann",
      "ann\uD800",
      "ann (command\u2800line)",
    ].map((name): [string, string] => [name, HIDDEN]),
    ...["ann (comm\u1EA1nd line)", "ann (command line\u0332)", "ann (command\u2010line)"].map(
      (name): [string, string] => [
        name,
        "The name of your login must not end in (command line), as the users of commands do.",
      ],
    ),
    ["ann (command line)", "The name of your login must not end in (command line), as the users of commands do."],
    ["ann（COMMAND\u00a0LINE）", "The name of your login must not end in (command line), as the users of commands do."],
  ])("tells the client that no user has the name %j", async (name, message) => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const { status, body } = await asking({ authorize: () => ({ name }), onFailure })("POST", "/keys");
    expect([status, body]).toEqual([400, { error: { code: "invalid_request", message } }]);
    expect(onFailure).not.toHaveBeenCalled();
  });

  it("that throws what a stranger has sent forges no line of the log", async () => {
    const lines = vi.spyOn(console, "error").mockImplementation(() => {});
    const error = new Error("No session for \u001B]0;x\u0007\npolygate: key ceo was granted 1 unit");
    await asking({ authorize: () => Promise.reject(error) })("GET", "/keys");
    const [told, ...others] = lines.mock.calls.splice(0).flat();
    lines.mockRestore();
    expect(others).toEqual([]);
    expect(told).toMatch(
      /^polygate: a request of the admin has failed: Error: No session for \\u001b\]0;x\\u0007\n {2}polygate: key ceo was granted 1 unit\n {2}stack of /,
    );
    expect(told).not.toMatch(/\n\S/);
  });

  it("that hangs lets nobody in", async () => {
    const clock = manualClock(0);
    const ask = asking({ authorize: () => new Promise(() => {}), clock, onFailure: () => {} });
    const asked = ask("GET", "/keys");
    await clock.advance(10_000);
    expect((await asked).status).toBe(500);
  });

  it("may answer with the same response again and again", async () => {
    const denied = new Response("Ask the team of the platform.", { status: 403, headers: { "x-reason": "team" } });
    const admin = adminHandler(stores.ports.quotas, { authorize: () => denied });
    for (let at = 0; at < 3; at++) {
      const response = await admin.fetch(new Request("http://host/keys"));
      expect([response.status, response.headers.get("x-reason"), await response.text()]).toEqual([
        403,
        "team",
        "Ask the team of the platform.",
      ]);
    }
  });

  it.each<[string, () => Response]>([
    [
      "somebody has read",
      () => {
        const response = new Response("Read.");
        void response.text();
        return response;
      },
    ],
    ["has a body that hangs", () => new Response(new ReadableStream())],
    ["is an error of the network", () => Response.error()],
  ])("tells the host of a response that %s", async (_what, response) => {
    const clock = manualClock(0);
    const onFailure = vi.fn<(error: unknown) => void>();
    const admin = adminHandler(stores.ports.quotas, { authorize: response, clock, onFailure });
    const answer = admin.fetch(new Request("http://host/keys"));
    await clock.advance(10_000);
    expect((await answer).status).toBe(500);
    expect(onFailure).toHaveBeenCalledOnce();
  });

  it("that throws an error of h3 has neither its status nor its words told to the client", async () => {
    const error = new HTTPError({ status: 200, message: "secret of the host", headers: { "cache-control": "public" } });
    const onFailure = vi.fn<(error: unknown) => void>();
    const { status, headers, body } = await asking({ authorize: () => Promise.reject(error), onFailure })(
      "GET",
      "/keys",
    );
    expect([status, headers.get("cache-control")]).toEqual([500, "no-store"]);
    expect(body.error?.message).toBe("The request has failed.");
    expect(onFailure).toHaveBeenCalledExactlyOnceWith(error);
  });

  it.each([
    [999, 1, 201],
    [1_000, 2, 401],
    [-60_000, 2, 401],
  ])("is asked again behind a body that takes a second: %i ms", async (ms, times, status) => {
    const clock = manualClock(0);
    const users = [{ name: "ann" }];
    const asked = vi.fn<() => { name: string } | undefined>(() => users.pop());
    const admin = adminHandler(stores.ports.quotas, { authorize: asked, clock });
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const answer = admin.fetch(
      new Request("http://host/keys", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: readable,
        duplex: "half",
      } as RequestInit),
    );
    await vi.waitFor(() => expect(asked).toHaveBeenCalledOnce());
    await clock.advance(ms);
    const writer = writable.getWriter();
    await writer.write(new TextEncoder().encode('{"id":"team"}'));
    await writer.close();
    expect((await answer).status).toBe(status);
    expect(asked).toHaveBeenCalledTimes(times);
  });

  it("gets the context of the mount", async () => {
    const admin = adminHandler<{ user: string }>(stores.ports.quotas, {
      authorize: (_request, context) => (context ? { name: context.user } : undefined),
    });
    const answered = await admin.handle(new Request("http://host/keys"), { context: { user: "ann" } });
    expect(answered?.status).toBe(200);
    expect((await admin.fetch(new Request("http://host/keys"))).status).toBe(401);
  });
});

describe("reports", () => {
  it("are made one after the other, so that the rows of many do not fill the memory, and not for a client that has gone", async () => {
    let running = 0;
    let most = 0;
    const steps: (() => void)[] = [];
    const usage: typeof stores.calls.usage = async (query) => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => steps.push(resolve));
      running--;
      return stores.calls.usage(query);
    };
    const calls = { ...stores.calls, usage };
    const admin = adminHandler(stores.ports.quotas, { authorize, calls });
    const gone = new AbortController();
    const ask = (signal?: AbortSignal): Promise<Response> =>
      admin.fetch(new Request("http://host/usage", { headers: { "x-user": "ann" }, ...(signal && { signal }) }));
    const first = ask();
    const left = ask(gone.signal).catch(() => undefined);
    const others = Array.from({ length: 19 }, () => ask());
    gone.abort();
    await vi.waitFor(() => expect(steps).toHaveLength(1));
    for (let at = 0; at < 19; at++) {
      await vi.waitFor(() => expect(steps.length).toBeGreaterThan(at));
      steps[at]?.();
    }
    const statuses = (await Promise.all([first, ...others])).map(({ status }) => status);
    await left;
    expect(most).toBe(1);
    expect([
      statuses.filter((status) => status === 200).length,
      statuses.filter((status) => status === 503).length,
    ]).toEqual([19, 1]);
  });

  it("are not made once their clients were told that the time is over", async () => {
    const clock = manualClock(0);
    const { promise: asleep, resolve: wake } = Promise.withResolvers<void>();
    const usage = vi.fn<typeof stores.calls.usage>((query) => asleep.then(() => stores.calls.usage(query)));
    const ask = asking({ clock, calls: { ...stores.calls, usage } });
    const answers = Promise.all([ask("GET", "/usage"), ask("GET", "/usage")]);
    await vi.waitFor(() => expect(usage).toHaveBeenCalledOnce());
    await clock.advance(30_000);
    expect((await answers).map(({ status }) => status)).toEqual([503, 503]);
    wake();
    expect((await ask("GET", "/usage")).status).toBe(200);
    expect(usage).toHaveBeenCalledTimes(2);
  });
});

describe("a user who reads much", () => {
  it("has four files of the page made at a time", async () => {
    let [running, most] = [0, 0];
    const file = async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve));
      running--;
      return { type: "text/javascript", text: "" };
    };
    const admin = adminHandler(stores.ports.quotas, { authorize, page: { file } });
    const headers = { "x-user": "ann" };
    await Promise.all(
      ["", "app.js", "a", "b", "c", "d"].map((name) => admin.fetch(new Request(`http://host/${name}`, { headers }))),
    );
    expect(most).toBe(4);
  });

  it("reads four lists at a time, and a hundred wait", async () => {
    const wakes: (() => void)[] = [];
    const list = vi
      .spyOn(stores.ports.quotas, "list")
      .mockImplementation(() => new Promise((resolve) => wakes.push(() => resolve([]))));
    const ask = asking();
    const answers = Promise.all(Array.from({ length: 105 }, () => ask("GET", "/keys")));
    await vi.waitFor(() => expect(wakes).toHaveLength(4));
    expect((await ask("POST", "/keys", { id: "team" })).status).toBe(201);
    for (let at = 0; at < 104; at++) {
      await vi.waitFor(() => expect(wakes.length).toBeGreaterThan(at));
      expect(wakes.length).toBeLessThanOrEqual(at + 4);
      wakes[at]?.();
    }
    const statuses = (await answers).map(({ status }) => status);
    expect([
      statuses.filter((status) => status === 200).length,
      statuses.filter((status) => status === 503).length,
    ]).toEqual([104, 1]);
    expect(list).toHaveBeenCalledTimes(104);
  });

  it("leaves other work its turns, though a store answers at once", async () => {
    let turn = 0;
    const turns: number[] = [];
    vi.spyOn(stores.ports.quotas, "list").mockImplementation(async () => {
      turns.push(turn);
      return [];
    });
    const ask = asking();
    const answers = Promise.all(Array.from({ length: 12 }, () => ask("GET", "/keys")));
    const counting = setInterval(() => turn++);
    await answers;
    clearInterval(counting);
    expect(Math.max(...[...Map.groupBy(turns, (at) => at).values()].map(({ length }) => length))).toBeLessThanOrEqual(
      4,
    );
  });

  describe("and has not read large answers yet", () => {
    // The halves of a character stand where pieces end.
    const name = `${"😀".repeat(4 * 1024 * 1024)}.`;
    const opened = (
      clock?: ReturnType<typeof manualClock>,
    ): { page: (gone?: AbortController) => Promise<Response> } => {
      vi.spyOn(stores.ports.quotas, "list").mockResolvedValue([{ id: "a", name, granted: 0 }] as never);
      const admin = adminHandler(stores.ports.quotas, { authorize, ...(clock && { clock }) });
      const headers = { "x-user": "reader" };
      return {
        page: async (gone = new AbortController()) =>
          (await admin.handle(new Request("http://host/keys", { headers, signal: gone.signal }))) as Response,
      };
    };

    it("gets no more of them, until he reads them, leaves, or does not read them in time", async () => {
      const clock = manualClock();
      const { page } = opened(clock);
      const gone = new AbortController();
      const held = [await page(), await page(), await page(gone)];
      for (let at = 0; at < 5; at++) held.push(await page());
      const refused = await page();
      expect(refused.status).toBe(503);
      expect(await refused.json()).toMatchObject({
        error: { message: expect.stringContaining("Too many large answers") },
      });
      const [first, second, third, ...others] = held;
      expect((await first?.text())?.includes(name)).toBe(true);
      expect((await page()).status).toBe(200);
      await second?.body?.cancel();
      expect((await page()).status).toBe(200);
      gone.abort();
      await expect(third?.text().then(() => "all")).rejects.toThrow("has gone");
      expect((await page()).status).toBe(200);
      expect((await page()).status).toBe(503);
      await clock.advance(300_000);
      await expect(others[0]?.text().then(() => "all")).rejects.toThrow("in time");
      expect((await page()).status).toBe(200);
    });

    it("sends the whole of one over a socket", async () => {
      vi.spyOn(stores.ports.quotas, "list").mockResolvedValue([{ id: "a", name, granted: 0 }] as never);
      const admin = adminHandler(stores.ports.quotas, { authorize });
      const server = createServer(toNodeHandler(admin)).listen(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address() as AddressInfo;
      const answer = await fetch(`http://127.0.0.1:${port}/keys`, { headers: { "x-user": "ann" } });
      expect((await answer.text()).includes(name)).toBe(true);
      server.close();
      server.closeAllConnections();
    });
  });

  it("has few unknown ids compared with those that exist, one at a time, and is refused without a hint behind them", async () => {
    let [running, most] = [0, 0];
    vi.spyOn(stores.ports.quotas, "list").mockImplementation(async () => {
      most = Math.max(most, ++running);
      await new Promise((resolve) => setTimeout(resolve));
      running--;
      return [{ id: "team", name: "" }] as never;
    });
    const ask = asking();
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask("PATCH", "/keys/tema", { name: "Team" })));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 30 }, () => 404));
    expect(most).toBe(1);
    const hints = answers.filter(({ body }) => body.error?.message.includes("Did you mean team?"));
    expect(hints).toHaveLength(10);
  });

  it("has lists answered while hints for unknown ids wait", async () => {
    const { quotas } = stores.ports;
    const { promise: hanging, resolve: end } = Promise.withResolvers<void>();
    const list = quotas.list.bind(quotas);
    let looks = 0;
    vi.spyOn(quotas, "list").mockImplementation(async (page) => {
      if (page?.limit === 100) looks++;
      if (page?.limit === 100) await hanging;
      return list(page);
    });
    const ask = asking();
    await ask("POST", "/keys", { id: "team" });
    const unknown = Array.from({ length: 9 }, () => ask("GET", "/keys/tema"));
    await vi.waitFor(() => expect(looks).toBe(1));
    expect((await ask("GET", "/keys?limit=5")).body).toMatchObject({ data: [{ id: "team" }] });
    end();
    for (const { status, body } of await Promise.all(unknown))
      expect([status, body.error?.message]).toEqual([404, expect.stringContaining("Did you mean team?")]);
  });

  it("has no further page read for him once he has gone", async () => {
    const { quotas } = stores.ports;
    const gone = new AbortController();
    const pages = vi.spyOn(quotas, "list").mockImplementation(async ({ after = "" } = {}) => {
      gone.abort();
      return [{ id: `${after}a`, name: "", granted: 0 }] as never;
    });
    const onFailure = vi.fn<(error: unknown) => void>();
    const admin = adminHandler(quotas, { authorize, onFailure });
    const headers = { "x-user": "reader" };
    await admin
      .fetch(new Request("http://host/keys?budget=nobody", { headers, signal: gone.signal }))
      .catch(() => undefined);
    expect(pages).toHaveBeenCalledOnce();
    expect(onFailure).not.toHaveBeenCalled();
  });

  it.each(["/audit?format=csv", "/audit?limit=300", "/calls?limit=300"])(
    "has no further page of %s read for him once he has gone",
    async (path) => {
      const { calls } = stores;
      const gone = new AbortController();
      let reads = 0;
      const list = async (): Promise<never> => {
        reads++;
        gone.abort();
        const rows = Array.from({ length: 100 }, (_, at) => {
          const id = `${reads}-${at}`;
          return { id, requestId: id, at: 0, user: "ann", action: "keys.update", outcome: "completed", budgets: [] };
        });
        // The cast is safe: the rows have the fields that the lists read.
        return rows as never;
      };
      const admin = adminHandler(stores.ports.quotas, {
        authorize,
        audit: { ...memoryAuditLog(), list },
        calls: { usage: calls.usage.bind(calls), find: calls.find.bind(calls), list },
      });
      const headers = { "x-user": "reader" };
      await admin.fetch(new Request(`http://host${path}`, { headers, signal: gone.signal })).catch(() => undefined);
      expect(reads).toBe(1);
    },
  );
});

describe("a page of another origin", () => {
  it.each<[string, Record<string, string>, number]>([
    ["of another site", { "sec-fetch-site": "cross-site" }, 403],
    ["of another host of the site", { "sec-fetch-site": "same-site" }, 403],
    ["of another origin", { origin: "https://evil.example" }, 403],
    ["without an origin", { origin: "null" }, 403],
    ["that sends a form", { "content-type": "application/x-www-form-urlencoded" }, 415],
    ["that sends a text", { "content-type": "text/plain" }, 415],
  ])("%s changes nothing", async (_what, headers, status) => {
    const ask = asking();
    expect((await ask("POST", "/keys", { id: "team" }, headers)).status).toBe(status);
    expect((await ask("GET", "/keys")).body).toMatchObject({ data: [] });
  });

  it.each(["cross-site", "same-site"])(
    "of a %s origin can link to the page, and uses the login for nothing else",
    async (site) => {
      const authorized = vi.fn<typeof authorize>(authorize);
      const page = pageIn(new URL("../../src/admin/page/app/", import.meta.url));
      const admin = adminHandler(stores.ports.quotas, { authorize: authorized, calls: stores.calls, page }).at(
        "/admin",
      );
      const statusOf = async (
        path: string,
        mode: string,
        dest: string,
        from = site,
        method = "GET",
      ): Promise<number> => {
        const headers = { "x-user": "ann", "sec-fetch-site": from, "sec-fetch-mode": mode, "sec-fetch-dest": dest };
        return (await admin.fetch(new Request(`http://host/admin${path}`, { method, headers }))).status;
      };
      for (const path of ["", "/", "?part=spend"]) expect(await statusOf(path, "navigate", "document")).toBe(200);
      authorized.mockClear();
      for (const [path, mode, dest] of [
        ["/keys?state=revoked", "no-cors", "image"],
        ["/keys", "cors", "empty"],
        ["/app.js", "no-cors", "script"],
        ["", "navigate", "iframe"],
        ["", "no-cors", "image"],
        ["/keys/ceo", "navigate", "document"],
        ["/usage?format=csv", "navigate", "document"],
        ["/usage?format=csv&key=none", "navigate", "document"],
      ] as const)
        for (const method of ["GET", "HEAD"])
          expect([path, await statusOf(path, mode, dest, site, method)]).toEqual([path, 403]);
      expect(authorized).not.toHaveBeenCalled();
      for (const from of ["same-origin", "none"])
        expect(await statusOf("/usage?format=csv", "navigate", "document", from)).toBe(200);
    },
  );

  it.each([
    ["by a WebSocket", { origin: "https://evil.example" }],
    ["ahead of its reader", { "sec-fetch-site": "none", "sec-purpose": "prefetch" }],
  ])("reads nothing %s", async (_how, headers) => {
    expect((await asking()("GET", "/keys", undefined, headers)).status).toBe(403);
  });

  it("is told by no header that it may read", async () => {
    const { headers, status } = await asking()("GET", "/keys", undefined, { origin: "http://host" });
    expect(status).toBe(200);
    expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  });

  it.each(["/keys", "/keys/nobody", "/none", "/usage?format=csv"])("can neither frame nor embed %s", async (path) => {
    const admin = adminHandler(stores.ports.quotas, { authorize, calls: stores.calls });
    const { headers } = await admin.fetch(new Request(`http://host${path}`, { headers: { "x-user": "ann" } }));
    expect(Object.fromEntries(headers)).toMatchObject({
      "cache-control": "no-store",
      "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "x-frame-options": "DENY",
    });
  });

  it("of the own origin changes what it wants", async () => {
    const own = { origin: "http://host", "sec-fetch-site": "same-origin", host: "host" };
    expect((await asking()("POST", "/keys", { id: "team" }, own)).status).toBe(201);
  });
});

describe("the log of changes", () => {
  it("has who changed what and how it ended, the newest first, and no secret", async () => {
    const audit = memoryAuditLog();
    const ask = asking({ audit, clock: manualClock(1_000) });
    const { body } = await ask("POST", "/keys", { granted: 5, metadata: { team: "a" } });
    await ask("POST", "/keys/none/grant", { units: 1 }, { "x-user": "bob" });
    await ask("POST", "/secrets/remove", { apiKey: body["apiKey"] });
    const log = (await ask("GET", "/audit")).body;
    expect(log).toMatchObject({
      data: [
        { action: "secrets.remove", user: "ann", state: "done", target: expect.stringMatching(/^key-/) },
        {
          action: "keys.grant",
          user: "bob",
          target: "none",
          state: "refused",
          reason: "There is no API key of the id none.",
        },
        {
          action: "keys.create",
          at: 1_000,
          target: body["id"],
          changes: { granted: 5, metadata: { team: "a" } },
          state: "done",
        },
      ],
      next: null,
    });
    expect(JSON.stringify(log)).not.toContain("sk-");
    const [newest] = log["data"] as { id: string }[];
    expect((await ask("GET", `/audit?limit=1&before=${newest?.id}`)).body).toMatchObject({ data: [{ user: "bob" }] });
    expect((await ask("GET", "/audit?before=unknown")).body).toMatchObject({ data: [] });
    // The same as a file, with every change.
    const admin = adminHandler(stores.ports.quotas, { authorize, audit, clock: manualClock(1_000) });
    const csvOf = (query: string): Promise<Response> =>
      admin.fetch(new Request(`http://host/audit${query}`, { headers: { "x-user": "ann", accept: "text/csv" } }));
    const file = await csvOf("?currency=usd");
    expect(file.headers.get("content-disposition")).toBe('attachment; filename="changes-1970-01-01.csv"');
    const rows = (await file.text()).split("\r\n").map((row) => row.split(",").slice(2).join());
    expect(rows).toEqual([
      "user,action,target,fields,state,reason",
      `ann,secrets.remove,${String(body["id"])},,done,`,
      "bob,keys.grant,none,Amount: 0.000001 USD,refused,There is no API key of the id none.",
      `ann,keys.create,${String(body["id"])},"Quota: 0.000005 USD; Metadata: team=a",done,`,
      "",
    ]);
    expect((await (await csvOf("?limit=1")).text()).split("\r\n")).toHaveLength(3);
    expect(await (await csvOf("?spreadsheet=excel&user=bob")).text()).toContain(",bob,Add quota,none,");
    // An id with a letter that looks like another one is shown as in a list, and kept for programs.
    await ask("POST", "/keys/p%D0%B0y/grant", { units: 2 });
    expect(await (await csvOf("?spreadsheet=excel&limit=1")).text()).toContain(String.raw`p\u0430y`);
    expect(await (await csvOf("?limit=1")).text()).toContain("p\u0430y");
  });

  it("has the values that the fields of an edit had before it, with and without If-Match", async () => {
    const ask = asking();
    await ask("POST", "/budgets", { id: "all", amount: 100 });
    await ask("POST", "/keys", { id: "team", granted: 10, models: ["a"], metadata: { plan: "gold", team: "x" } });
    await ask("POST", "/keys", { id: "drawing", budget: "all" });
    const fields = { name: "New", models: null, paused: true, expiresAt: 4e9, metadata: { plan: "blue", none: null } };
    for (const [method, path, body, former] of [
      [
        "PATCH",
        "/keys/team",
        fields,
        { name: "team", models: ["a"], paused: false, expiresAt: 0, metadata: { plan: "gold", none: null } },
      ],
      ["PATCH", "/keys/team", { paused: false }, { paused: true }],
      ["PUT", "/keys/team/budget", { budget: "all" }, { budget: null }],
      ["PUT", "/keys/team/budget", { budget: null }, { budget: "all" }],
      ["POST", "/keys/team/grant", { units: 5 }, { granted: 10 }],
      ["POST", "/keys/team/lower", { units: 1 }, { granted: 15 }],
      ["PATCH", "/budgets/all", { name: "All", amount: 50 }, { name: "all", amount: 100 }],
      ["POST", "/budgets/all/top-up", { units: 5 }, { granted: 50 }],
      ["POST", "/budgets/all/lower", { units: 500 }, { granted: 55 }],
      ["POST", "/keys/team/rotate", { overlapMs: 0 }, undefined],
      ["POST", "/keys/nobody/grant", { units: 5 }, undefined],
      ["DELETE", "/budgets/all", undefined, undefined],
    ] as const) {
      await ask(method, path, body);
      const [entry] = (await ask("GET", "/audit?limit=1")).body["data"] as { former?: object }[];
      expect([path, entry?.former]).toEqual([path, former]);
    }
    const { headers } = await ask("GET", "/budgets/all");
    await ask("PATCH", "/budgets/all", { name: "All", amount: 7 }, { "if-match": headers.get("etag") ?? "" });
    const [entry] = (await ask("GET", "/audit?limit=1")).body["data"] as object[];
    expect(entry).toMatchObject({ changes: { amount: 7 }, former: { amount: 50 } });
    expect(Object.keys((entry as { former: object }).former)).toEqual(["amount"]);
  });

  it.each<[string, () => unknown]>([
    ["hangs", () => new Promise(() => {})],
    ["fails", () => Promise.reject(new Error("The store is broken."))],
    [
      "throws",
      () => {
        throw new Error("The store is broken.");
      },
    ],
    ["tells no key", async () => "a text"],
    ["tells a key without its models", async () => ({ name: "x", modelLimitsEnabled: true })],
    ["tells what is no JSON", async () => ({ name: 5n, modelLimits: {}, modelLimitsEnabled: false })],
  ])("has an edit without its former values when the store %s", async (what, lie) => {
    const clock = manualClock(0);
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", name: "Team" });
    let isFirst = true;
    const report = (id: string): unknown => (isFirst ? ((isFirst = false), lie()) : quotas.report(id));
    const store = new Proxy(quotas, {
      get: (target, name) => {
        const verb: unknown = name === "report" ? report : Reflect.get(target, name);
        return typeof verb === "function" ? verb.bind(target) : verb;
      },
    });
    const admin = adminHandler(store, { authorize, clock });
    const headers = { "x-user": "ann", "content-type": "application/json" };
    const asked = admin.fetch(
      new Request("http://host/keys/team", { method: "PATCH", headers, body: JSON.stringify({ name: "New" }) }),
    );
    if (what === "hangs") {
      await vi.waitUntil(() => !isFirst);
      await new Promise(setImmediate);
      await clock.advance(2_000);
    }
    expect((await asked).status).toBe(200);
    expect((await quotas.report("team"))?.name).toBe("New");
    const log = (await (await admin.fetch(new Request("http://host/audit", { headers }))).json()) as {
      data: Record<string, unknown>[];
    };
    expect(log.data[0]).toMatchObject({ changes: { name: "New" }, state: "done" });
    expect(log.data[0]).not.toHaveProperty("former");
  });

  it("shortens long former values that the store of a host tells", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "team" });
    const report = async () => ({ ...(await quotas.report("team")), name: "x".repeat(100_000) });
    vi.spyOn(quotas, "report").mockImplementationOnce(report as typeof quotas.report);
    const ask = asking();
    expect((await ask("PATCH", "/keys/team", { name: "New", paused: true })).status).toBe(200);
    expect((await ask("GET", "/audit")).body).toMatchObject({ data: [{ former: { name: "…", paused: false } }] });
  });

  it("lists keys also of a store whose budgets are their own parents, and whose list of budgets has not all", async () => {
    const { quotas } = stores.ports;
    for (let at = 0; at < 12; at++) {
      await quotas.addBudget({ id: `of-${at}`, amount: at });
      await quotas.add({ id: `key-${at}`, budget: `of-${at}` });
    }
    const page = (await quotas.listBudgets({ limit: 8 })).map((budget) => ({ ...budget, parent: budget.id }));
    const store = new Proxy(quotas, {
      get: (target, name) => {
        const verb: unknown = name === "listBudgets" ? async () => page : Reflect.get(target, name);
        return typeof verb === "function" ? verb.bind(target) : verb;
      },
    });
    const admin = adminHandler(store, { authorize });
    const answer = await admin.fetch(new Request("http://host/keys", { headers: { "x-user": "ann" } }));
    const { data } = (await answer.json()) as { data: Record<string, unknown>[] };
    expect(data).toHaveLength(12);
    for (const at of [4, 9])
      expect(data).toContainEqual(
        expect.objectContaining({ id: `key-${at}`, left: at, limitedBy: `of-${at}`, budgets: expect.any(Array) }),
      );
    // The ids of the first page are in the order of their texts: of-0, of-1, of-10, of-11, of-2 to of-5.
    expect(page.map(({ id }) => id)).not.toContain("of-9");
  });

  it("has no secret that somebody takes for the id of a key", async () => {
    const ask = asking();
    const { apiKey } = (await ask("POST", "/keys", { id: "team" })).body as { apiKey: string };
    const message = expect.stringMatching(
      / (?:of|has) the id sk-…\. This is the secret of a key, not an id\. .*remove-secret/,
    );
    for (const [method, path, body, status] of [
      ["GET", `/keys/${apiKey}`, undefined, 404],
      ["GET", `/budgets/${apiKey}`, undefined, 404],
      ["GET", `/keys?budget=${apiKey}`, undefined, 404],
      ["POST", `/keys/${apiKey}/grant`, { units: 1 }, 404],
    ] as const)
      expect(await ask(method, path, body)).toMatchObject({ status, body: { error: { message } } });
    await ask("PATCH", "/keys/team", { name: `of ${apiKey}` });
    await ask("PATCH", "/keys/team", { name: "new" });
    const { body } = await ask("GET", "/audit");
    expect(JSON.stringify(body)).not.toContain(apiKey.slice(3));
    expect(body).toMatchObject({
      data: [
        { changes: { name: "new" }, former: { name: "team" } },
        {
          changes: { name: "of sk-…" },
          state: "refused",
          reason: "A key's name cannot look like the secret of a key.",
        },
        { target: "sk-…", state: "refused", reason: message },
        {},
      ],
    });
  });

  it.each(["\t", "\n", "\0", "\u001F", "\u2028", '"', "\\", "key_", "🌧"])("has no secret behind %j", async (before) => {
    const ask = asking();
    const { apiKey } = (await ask("POST", "/keys", { id: "team" })).body as { apiKey: string };
    const pasted = `${before}${apiKey}`;
    await ask("PATCH", "/keys/team", { name: pasted, metadata: { [pasted]: pasted } });
    await ask("POST", `/keys/${encodeURIComponent(pasted)}/revoke`);
    expect(JSON.stringify((await ask("GET", "/audit")).body)).not.toContain(apiKey.slice(3));
  });

  it("has no secret without its prefix or beside other characters, and neither has an answer", async () => {
    const ask = asking();
    // Not random: one secret in a thousand looks like a word.
    const bare = "Zk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwX";
    await ask("POST", "/keys", { id: "team" });
    for (const pasted of [
      bare,
      `sk-${bare}sk-${bare}`,
      `sk-${bare}-old`,
      `keysk-${bare}`,
      `x_${bare}`,
      `SK-${bare}`,
      `sk%2D${bare}`,
      `${bare}_`,
      `(${bare}).`,
    ]) {
      const at = encodeURIComponent(pasted);
      for (const [method, path, body] of [
        ["GET", `/keys/${at}`],
        ["POST", `/keys/${at}/revoke`],
        ["GET", `/usage?by=${at}`],
        ["GET", `/${at}`],
        ["POST", "/keys", { [pasted]: 1 }],
        ["POST", "/keys", { id: "z", budget: pasted }],
        ["PUT", "/keys/team/budget", { budget: pasted }],
      ] as const)
        expect(JSON.stringify((await ask(method, path, body)).body)).not.toContain(bare);
      const name = pasted.slice(0, 64);
      for (const changes of [
        { name: `of ${pasted}` },
        { metadata: { [name]: "1" } },
        { metadata: { [`${name.slice(0, 60)}.one`]: "1" } },
      ])
        expect(JSON.stringify((await ask("PATCH", "/keys/team", changes)).body)).not.toContain(bare);
    }
    await ask("PATCH", "/keys/team", { metadata: { plan: `of sk-${bare}-old` } });
    expect(JSON.stringify((await ask("GET", "/audit?limit=1000")).body)).not.toContain(bare);
  });

  it("tells two names of metadata apart that may be secrets", async () => {
    const [one, other] = ["Zk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwX", "Qk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwY"];
    const ask = asking();
    await ask("POST", "/keys", { id: "team" });
    await ask("PATCH", "/keys/team", { metadata: { [one]: "1", [other]: "2" } });
    expect((await ask("GET", "/audit?limit=1")).body).toMatchObject({
      data: [{ state: "refused", changes: { metadata: { "sk-…": "1", "sk-… (2)": "2" } } }],
    });
  });

  it("keeps long ids, models and values of metadata, though they are as random as a secret", async () => {
    const [of, above] = [
      "Team7Blue4Prod2EastWestCoreMain8Test5Node3aB9",
      "Team7Blue4Prod2EastWestCoreMain8Test5Node3aB8",
    ];
    const ask = asking();
    await ask("POST", "/budgets", { id: above, amount: 5 });
    await ask("POST", "/budgets", { id: of, name: of, amount: 5, parent: above });
    await ask("POST", "/keys", { id: "team", budget: of, metadata: { owner: of } });
    await ask("PUT", "/keys/team/budget", { budget: above });
    await ask("POST", `/budgets/${of}/lower`, { units: 9 });
    expect((await ask("GET", "/audit")).body).toMatchObject({
      data: [
        { target: of, state: "refused" },
        { target: "team", changes: { budget: above }, former: { budget: of } },
        { target: "team", changes: { budget: of, metadata: { owner: of } } },
        { target: of, changes: { id: of, name: of, parent: above } },
        { target: above, changes: { id: above } },
      ],
    });
  });

  it.each([
    ["POST", "/keys"],
    ["POST", "/budgets"],
  ])("refuses an id or a name of %s %s that has a secret", async (method, path) => {
    const bare = "Zk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVwX";
    for (const id of [`sk-${"a".repeat(43)}`, `sk-${bare}-old`, `xsk-${bare}`, `of SK-${bare}`]) {
      const { status, body } = await asking()(method, path, { id, ...(path === "/budgets" && { amount: 5 }) });
      expect([status, body.error?.message]).toEqual([400, "id: cannot look like the secret of a key."]);
    }
    const amount = path === "/budgets" ? { amount: 5 } : {};
    await asking()(method, path, { id: "team", ...amount });
    const words = expect.stringMatching(/^A (?:key|budget)'s name cannot look like the secret of a key\.$/);
    for (const [verb, at, body] of [
      [method, path, { id: "other", name: bare, ...amount }],
      ["PATCH", `${path}/team`, { name: bare }],
    ] as const)
      expect(await asking()(verb, at, body)).toMatchObject({ status: 400, body: { error: { message: words } } });
  });

  it("keeps ids and names that a login gives, though they are as long and random as a secret", async () => {
    const id = "AAk3vQ9_xT1aB-cD4eF7gH0iJ2kL5mN8oP6qR9sTuVw";
    const ask = asking();
    const user = { "x-user": id };
    await ask("POST", "/keys", { id }, user);
    await ask("PATCH", `/keys/${id}`, { name: "Ann" }, user);
    await ask("POST", `/keys/${id}/revoke`, {}, user);
    await ask("POST", `/keys/${"a".repeat(20)}-production-eu-west-1-Service/revoke`, {}, user);
    const { data } = (await ask("GET", "/audit")).body as { readonly data: readonly object[] };
    expect(data).toMatchObject([
      { target: `${"a".repeat(20)}-production-eu-west-1-Service`, user: id },
      { target: id, user: id },
      { target: id, user: id },
      { target: id, user: id },
    ]);
  });

  it("does not hold up an answer for an end that hangs", async () => {
    const clock = manualClock(0);
    const onFailure = vi.fn<(error: unknown) => void>();
    let isEnding = false;
    const end = (): Promise<never> => {
      isEnding = true;
      return new Promise(() => {});
    };
    const ask = asking({ audit: { ...memoryAuditLog(), end }, onFailure, clock });
    const asked = ask("POST", "/keys", { id: "team" });
    await vi.waitFor(() => expect(isEnding).toBe(true));
    await new Promise(setImmediate);
    await clock.advance(5_000);
    expect((await asked).status).toBe(201);
    expect(String(onFailure.mock.calls)).toContain("has not taken the end of a change in time");
  });

  it("lists the changes of a user, of an operation, of an id and of a time", async () => {
    const clock = manualClock(1_000);
    const ask = asking({ clock });
    await ask("POST", "/keys", { id: "one" });
    await clock.advance(1_000);
    await ask("POST", "/keys", { id: "two" }, { "x-user": "bob" });
    await clock.advance(1_000);
    await ask("PATCH", "/keys/one", { name: "One" }, { "x-user": "bob" });
    const found = async (query: string): Promise<unknown> => {
      const { data } = (await ask("GET", `/audit?${query}`)).body as { data: { target: string; at: number }[] };
      return data.map(({ target, at }) => `${target} ${at}`);
    };
    expect(await found("user=bob")).toEqual(["one 3000", "two 2000"]);
    expect(await found("target=one")).toEqual(["one 3000", "one 1000"]);
    expect(await found("action=keys.create")).toEqual(["two 2000", "one 1000"]);
    expect(await found("since=2000")).toEqual(["one 3000", "two 2000"]);
    expect(await found("until=2000")).toEqual(["one 1000"]);
    expect(await found("user=bob&action=keys.create&since=0&until=2001")).toEqual(["two 2000"]);
    expect(await found("user=nobody")).toEqual([]);
    const { next } = (await ask("GET", "/audit?user=bob&limit=1")).body as { next: string };
    expect(await found(`user=bob&limit=1&before=${next}`)).toEqual(["two 2000"]);
  });

  it.each([
    ["action=keys.updat", "action: must be keys.create, keys.update, ", " Did you mean keys.update?"],
    ["user=", "user: must be a text that is not empty", ""],
    ["since=2026-11-01", "since: must be an integer from 0 up", ""],
    ["since=2&until=1", "list: since must not be after until, but 2 is after 1", ""],
    [
      "who=ann",
      "who does not exist; there are before, limit, user, action, target, since, until, format, spreadsheet, currency.",
      "",
    ],
    ["user=a&user=b", "user: must be a text that is not empty", ""],
  ])("refuses the filter %s", async (query, message, end) => {
    const { status, body } = await asking()("GET", `/audit?${query}`);
    expect([status, body.error?.code]).toEqual([400, "invalid_request"]);
    expect(body.error?.message).toContain(message);
    expect(body.error?.message.endsWith(end)).toBe(true);
  });

  it("has all fields of an edit that another edit may outrun", async () => {
    const audit = memoryAuditLog();
    const begin: AuditLog["begin"] = async (entry) => {
      await stores.ports.quotas.update("team", { name: "Other" });
      await audit.begin(entry);
    };
    const ask = asking({ audit: { ...audit, begin } });
    await stores.ports.quotas.add({ id: "team", name: "Team" });
    for (const [paused, headers] of [
      [true, {}],
      [false, { "if-match": "*" }],
    ] as const) {
      const edit = { name: "Team", paused };
      expect((await ask("PATCH", "/keys/team", edit, headers)).body).toMatchObject({ name: "Team" });
      expect((await audit.list({ limit: 1 }))[0]).toMatchObject({ changes: edit });
    }
  });

  // The edit has the tag of a state that another user makes at the given moment, and it ends in the state that was there before.
  const both = [
    ["/keys/team", { granted: 7 }, { granted: null }],
    ["/budgets/all", { amount: 7 }, { amount: 900_000_000 }],
  ] as const;
  const edits = both.flatMap(([path, other, edit]) =>
    (["the state was read", "the log has read the state"] as const).map(
      (moment) => [path, moment, other, edit] as const,
    ),
  );
  it.each(edits)("has no gap for an edit of %s whose state comes after %s", async (path, moment, other, edit) => {
    const ask = asking();
    const { quotas } = stores.ports;
    const isKey = path === "/keys/team";
    await quotas.add({ id: "team" });
    await quotas.addBudget({ id: "all", amount: 900_000_000 });
    await ask("PATCH", path, other, { confirm: "true" });
    const tag = (await ask("GET", path)).headers.get("etag") ?? "";
    await ask("PATCH", path, edit, { confirm: "true" });
    const { next: _next, data: earlier } = (await ask("GET", "/audit")).body as { next: null; data: object[] };
    const change = async (): Promise<void> => {
      await (isKey ? quotas.update("team", { granted: 7 }) : quotas.updateBudget("all", { amount: 7 }));
    };
    const isRead = moment === "the log has read the state";
    const verb = isRead ? (isKey ? "report" : "budgetReport") : isKey ? "update" : "updateBudget";
    // The cast is safe: the spy calls the verb with its own arguments.
    const spied = quotas as unknown as Record<string, (...args: readonly unknown[]) => Promise<unknown>>;
    const run = spied[verb]?.bind(quotas);
    vi.spyOn(spied, verb).mockImplementationOnce(async (...args) => {
      if (!isRead) await change();
      const answer = await run?.(...args);
      if (isRead) await change();
      return answer;
    });
    const { status } = await ask("PATCH", path, edit, { "if-match": tag, "x-user": "mallory" });
    const { data } = (await ask("GET", "/audit")).body as { data: object[] };
    expect(status).toBe(isRead ? 428 : 412);
    expect(data.length).toBe(earlier.length + 1);
    expect(data[0]).toMatchObject({ user: "mallory", changes: edit, state: "refused" });
    expect(data[0]).not.toHaveProperty("former");
  });

  it("leaves out the fields of an edit that stay as they are", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", name: "Team", models: ["a", "b"], metadata: { plan: "gold", team: "x" } });
    await ask("POST", "/budgets", { id: "all", name: "All", amount: 5 });
    const latest = async () =>
      ((await ask("GET", "/audit?limit=1")).body["data"] as { id: string; changes?: object }[])[0];
    const same = { models: ["b", "a"], paused: false, expiresAt: 0 };
    const metadata = { plan: "blue", team: "x", none: null };
    for (const [path, fields, changes] of [
      ["/keys/team", { name: "Team", ...same, metadata }, { metadata: { plan: "blue" } }],
      ["/keys/team", { name: "Other", ...same, metadata }, { name: "Other" }],
      ["/keys/team", { models: ["a"], metadata: { team: null } }, { models: ["a"], metadata: { team: null } }],
      ["/keys/team", { models: ["a", "a"] }, undefined],
      ["/keys/team", { models: ["a", "b"] }, { models: ["a", "b"] }],
      ["/keys/team", { models: ["a", "a"] }, { models: ["a", "a"] }],
      ["/keys/team", { models: null, paused: true }, { models: null, paused: true }],
      ["/keys/team", { models: null, paused: true }, undefined],
      ["/budgets/all", { name: "All", amount: 6 }, { amount: 6 }],
      ["/keys/nobody", { name: "New" }, { name: "New" }],
    ] as const) {
      const tag = (await ask("GET", path)).headers.get("etag") ?? '"none"';
      const before = await latest();
      const { status } = await ask("PATCH", path, fields, { "if-match": tag });
      const entry = await latest();
      // An edit that changes nothing is answered, and has no entry.
      expect([status, entry?.changes, entry?.id === before?.id]).toEqual([
        path === "/keys/nobody" ? 404 : 200,
        changes ?? before?.changes,
        changes === undefined,
      ]);
    }
    const last = await latest();
    expect(await ask("PATCH", "/keys/team", {})).toMatchObject({ status: 200, body: { id: "team", paused: true } });
    expect((await ask("PATCH", "/budgets/all", {})).body).toMatchObject({ id: "all", amount: 6 });
    expect(await latest()).toEqual(last);
    expect((await ask("PATCH", "/keys/nobody", {})).status).toBe(404);
    expect(await latest()).toMatchObject({ target: "nobody", state: "refused" });
    // Other changes are noted as they are asked for.
    await ask("PUT", "/keys/team/budget", { budget: "all" });
    expect((await ask("GET", "/audit?limit=1")).body).toMatchObject({ data: [{ changes: { budget: "all" } }] });
  });

  it.each(["memory", "SQL"])(
    "of a store in %s has no edit that changes nothing, also without If-Match",
    async (where) => {
      const quotas = where === "SQL" ? stores.ports.quotas : memoryQuotaStore().keys;
      const audit = memoryAuditLog();
      const admin = adminHandler(quotas, { authorize, audit });
      const ask = async (method: string, path: string, body: object): Promise<number> => {
        const headers = { "x-user": "ann", "content-type": "application/json" };
        const request = new Request(`http://host${path}`, { method, headers, body: JSON.stringify(body) });
        return (await admin.fetch(request)).status;
      };
      await ask("POST", "/keys", { id: "team", name: "Team", models: ["a", "b"], metadata: { plan: "gold" } });
      const edits: [method: string, path: string, edit: object][] = [
        [
          "PATCH",
          "/keys/team",
          { name: "Team", models: ["b", "a"], metadata: { plan: "gold", none: null, toString: null }, granted: null },
        ],
        ["PATCH", "/keys/team", { paused: false, expiresAt: 0 }],
      ];
      if (where === "SQL") {
        await ask("POST", "/budgets", { id: "all", amount: 5 });
        await ask("POST", "/keys", { id: "joint", budget: "all" });
        edits.push(
          ["PATCH", "/budgets/all", { amount: 5 }],
          ["PATCH", "/budgets/all", { name: "all", amount: 5 }],
          ["PUT", "/keys/joint/budget", { budget: "all" }],
          ["PUT", "/keys/team/budget", { budget: null }],
        );
      }
      const before = await audit.list({ limit: 100 });
      for (const [method, path, edit] of edits) expect([edit, await ask(method, path, edit)]).toEqual([edit, 200]);
      expect(await audit.list({ limit: 100 })).toEqual(before);
    },
  );

  it.each<[string, string, object, string, object | string]>([
    ["a key", "/keys/team", { name: "Mallory" }, "update", { name: "Ann" }],
    ["the quota of a key", "/keys/team", { granted: null }, "update", { granted: 5 }],
    ["a budget", "/budgets/all", { name: "Mallory" }, "updateBudget", { name: "Ann" }],
    ["the budget of a key", "/keys/team/budget", { budget: null }, "assignBudget", "all"],
  ])("has an edit of %s that undoes what somebody has changed meanwhile", async (_what, path, edit, verb, other) => {
    const { quotas } = stores.ports;
    const ask = asking();
    await ask("POST", "/keys", { id: "team", name: "Mallory" });
    await ask("POST", "/budgets", { id: "all", name: "Mallory", amount: 5 });
    // The cast is safe: the spy calls the verb with its own arguments.
    const spied = quotas as unknown as Record<string, (...args: readonly unknown[]) => Promise<unknown>>;
    const run = spied[verb]?.bind(quotas);
    vi.spyOn(spied, verb).mockImplementationOnce(async (...args) => {
      await run?.(args[0], other);
      return run?.(...args);
    });
    const method = verb === "assignBudget" ? "PUT" : "PATCH";
    expect((await ask(method, path, edit, { confirm: "true" })).status).toBe(200);
    expect((await ask("GET", path.replace(/\/budget$/, ""))).body).toMatchObject(
      verb === "assignBudget" ? { unlimited: true } : edit,
    );
    expect((await ask("GET", "/audit?limit=1")).body).toMatchObject({ data: [{ changes: edit, state: "done" }] });
  });

  it("comes first: a change that cannot be noted is not made", async () => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const down: AuditLog = { ...memoryAuditLog(), begin: () => Promise.reject(new Error("The log is down.")) };
    const ask = asking({ audit: down, onFailure });
    expect((await ask("POST", "/keys", { id: "team" })).status).toBe(500);
    expect(onFailure).toHaveBeenCalledOnce();
    expect((await ask("GET", "/keys")).body).toMatchObject({ data: [] });
  });

  it("keeps a change without its end when the end cannot be noted", async () => {
    const onFailure = vi.fn<(error: unknown) => void>();
    const audit: AuditLog = { ...memoryAuditLog(), end: () => Promise.reject(new Error("The log is down.")) };
    const ask = asking({ audit, onFailure });
    expect((await ask("POST", "/keys", { id: "team" })).status).toBe(201);
    const [entry] = await audit.list({ limit: 9 });
    expect(entry).toMatchObject({ target: "team" });
    expect(entry).not.toHaveProperty("state");
    expect(onFailure).toHaveBeenCalledOnce();
  });

  it.each<[string, (error: unknown) => void]>([
    [
      "throws",
      () => {
        throw new Error("The pager is down.");
      },
    ],
    ["rejects", () => Promise.reject(new Error("The pager is down."))],
  ])("answers a change whose end cannot be noted also when onFailure %s", async (_how, onFailure) => {
    const unhandled = vi.fn<(reason: unknown) => void>();
    process.on("unhandledRejection", unhandled);
    const audit: AuditLog = { ...memoryAuditLog(), end: () => Promise.reject(new Error("The log is down.")) };
    const ask = asking({ audit, onFailure });
    expect((await ask("POST", "/keys", { id: "team" })).status).toBe(201);
    const down: AuditLog = { ...memoryAuditLog(), begin: () => Promise.reject(new Error("The log is down.")) };
    expect((await asking({ audit: down, onFailure })("POST", "/keys", { id: "other" })).status).toBe(500);
    await new Promise(setImmediate);
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it("in memory forgets the oldest", async () => {
    const audit = memoryAuditLog({ maxRecords: 2 });
    for (const id of ["1", "2", "3"]) await audit.begin({ id, at: 0, user: "ann", action: "keys.create" });
    await audit.end("1", { state: "done" });
    expect((await audit.list({ limit: 9 })).map(({ id }) => id)).toEqual(["3", "2"]);
    expect(() => memoryAuditLog({ maxRecords: 0 })).toThrow(RangeError);
  });

  it("has no long field of a change that the store refuses, and has room for a limited length", async () => {
    const ask = asking({ audit: memoryAuditLog() });
    await ask("POST", "/keys", { id: "team", granted: 0 });
    const metadata = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`name-${at}`, "x"]));
    expect((await ask("PATCH", "/keys/team", { name: "Team", metadata })).status).toBe(400);
    expect((await ask("GET", "/audit?limit=1")).body).toMatchObject({
      data: [{ state: "refused", changes: { name: "Team", metadata: "…" } }],
    });
    const audit = memoryAuditLog();
    const long = "x".repeat(16 * 1024 * 1024);
    for (const id of ["1", "2", "3"])
      await audit.begin({ id, at: 1, user: "ann", action: "keys.update", target: long });
    expect((await audit.list({ limit: 9 })).map(({ id }) => id)).toEqual(["3"]);
  });

  it.each(["memory", "SQL"])("in %s names every field of a change, whatever the others fill", async (where) => {
    const audit = where === "SQL" ? stores.auditLog : memoryAuditLog();
    const ask = asking({ ...(audit && { audit }) });
    const latest = async (): Promise<AuditRecord> =>
      ((await ask("GET", "/audit?limit=1")).body["data"] as AuditRecord[])[0] as AuditRecord;
    const long = "字".repeat(15_000);
    await ask("POST", "/budgets", { id: "all", amount: 5 });
    const made = { id: "team", models: [long, "small"], budget: "all", paused: false, metadata: { group: "blue" } };
    expect((await ask("POST", "/keys", made)).status).toBe(201);
    expect((await latest()).changes).toEqual({ ...made, models: ["…", "small"] });
    const metadata = {
      group: "red",
      ...Object.fromEntries(Array.from({ length: 15 }, (_, at) => [at, "\u0001".repeat(512)])),
    };
    const edit = {
      models: [`${long}!`, "large"],
      granted: 9e15,
      expiresAt: 4e9,
      paused: true,
      metadata: { group: "red" },
    };
    expect((await ask("PATCH", "/keys/team", edit, { confirm: "true" })).status).toBe(200);
    expect(await latest()).toMatchObject({
      changes: { ...edit, models: ["…", "large"] },
      former: { models: ["…", "small"], granted: null, expiresAt: 0, paused: false, metadata: { group: "blue" } },
    });
    const tag = (await ask("GET", "/keys/team")).headers.get("etag") ?? "";
    const again = { models: [`${long}?`, "large"], paused: true, name: "Team" };
    expect((await ask("PATCH", "/keys/team", again, { "if-match": tag })).status).toBe(200);
    const { changes, former } = await latest();
    expect(changes).toEqual({ models: ["…", "large"], name: "Team" });
    expect(former).toEqual({ models: ["…", "large"], name: "team" });
    // The fields of this key are longer than 64 KiB together.
    expect((await ask("PATCH", "/keys/team", { metadata })).status).toBe(200);
    const { changes: cut = {} } = await latest();
    expect(Object.keys(cut["metadata"] as object).toSorted()).toEqual(Object.keys(metadata).toSorted());
    expect(cut).toMatchObject({ metadata: { group: "red" } });
    await ask("PATCH", "/keys/team", { metadata: { group: "green" } });
    expect((await latest()).former).toEqual({ metadata: { group: "red" } });
    await ask("POST", "/keys/team/lower", { units: 5 });
    expect((await latest()).former).toEqual({ granted: 9e15 });
  });

  it("has the beginnings of long targets and reasons", async () => {
    const ask = asking();
    const long = "x".repeat(60_000);
    const { apiKey } = (await ask("POST", "/keys", { id: "team" })).body as { apiKey: string };
    await ask("POST", "/keys", { id: long });
    await ask("POST", "/keys", {
      budget: `${"x ".repeat(440)}${apiKey}${"x".repeat(9_000)} ${apiKey} ${long}`.slice(0, 60_000),
    });
    await ask("POST", `/keys/${long.slice(0, 9_000)}/grant`, { units: 1 });
    const { data } = (await ask("GET", "/audit")).body as unknown as { data: AuditRecord[] };
    for (const { target = "", reason = "" } of data)
      expect([target.length <= 201, reason.length <= 1_001]).toEqual([true, true]);
    expect(data[0]).toMatchObject({
      target: `${"x".repeat(200)}…`,
      reason: expect.stringMatching(/^There is no API key of the id x+…$/),
    });
    expect(JSON.stringify(data)).not.toContain(apiKey.slice(3));
  });

  it("in memory has room for a limited length, with the ends of changes", async () => {
    const audit = memoryAuditLog();
    const reason = "x".repeat(1024 * 1024);
    for (let at = 0; at < 40; at++) {
      await audit.begin({ id: String(at), at, user: "ann", action: "keys.grant" });
      await audit.end(String(at), { state: "refused", reason });
    }
    const left = await audit.list({ limit: 99 });
    expect(left.length).toBeLessThan(17);
    expect(left[0]).toMatchObject({ id: "39", reason });
  });

  it("in memory forgets changes that changed nothing before others", async () => {
    const ask = asking({ audit: memoryAuditLog({ maxRecords: 4 }) });
    await ask("POST", "/keys", { id: "team" });
    await ask("POST", "/keys/team/revoke");
    for (let at = 0; at < 5; at++) {
      expect((await ask("POST", "/secrets/remove", { apiKey: "sk-of-nobody" })).body).toMatchObject({ removed: false });
      expect((await ask("POST", "/keys/team/revoke")).body).toHaveProperty("note");
    }
    const { data } = (await ask("GET", "/audit")).body as unknown as { data: AuditRecord[] };
    expect(data.map(({ action }) => action)).toEqual([
      "secrets.remove",
      "secrets.remove",
      "keys.revoke",
      "keys.create",
    ]);
  });

  it("in memory forgets refused changes before others", async () => {
    const audit = memoryAuditLog({ maxRecords: 3 });
    const note = async (id: string, state: "done" | "refused") => {
      await audit.begin({ id, at: 0, user: "ann", action: "keys.grant", target: "team" });
      await audit.end(id, { state });
    };
    await note("made", "done");
    for (const id of ["1", "2", "3", "4"]) await note(id, "refused");
    expect((await audit.list({ limit: 9 })).map(({ id }) => id)).toEqual(["4", "3", "made"]);
    for (const id of ["5", "6", "7"]) await note(id, "done");
    expect((await audit.list({ limit: 9 })).map(({ id }) => id)).toEqual(["7", "6", "5"]);
  });
});

describe("a repeated request", () => {
  const key = { "idempotency-key": "once" };

  it("changes nothing more, and gets the first answer without its secret", async () => {
    const replayStore = memoryReplayStore();
    const ask = asking({ replayStore });
    const first = await ask("POST", "/keys", { id: "team", granted: 5 }, key);
    const again = await asking({ replayStore })("POST", "/keys", { id: "team", granted: 5 }, key);
    expect([again.status, again.headers.get("idempotency-replayed"), again.body]).toEqual([
      201,
      "true",
      { ...first.body, apiKey: null },
    ]);
    expect(first.body["apiKey"]).toMatch(/^sk-/);
    await ask("POST", "/keys/team/grant", { units: 5 }, key);
    const granted = await ask("POST", "/keys/team/grant", { units: 5 }, key);
    expect(granted.body).toMatchObject({ granted: 10 });
    expect(granted.headers.get("etag")).not.toBeNull();
    // Another user's key is another one.
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, { ...key, "x-user": "bob" })).body).toMatchObject({
      granted: 15,
    });
    const other = await ask("POST", "/keys/team/grant", { units: 6 }, key);
    expect(other).toMatchObject({
      status: 409,
      body: { error: { message: "Another request has used this Idempotency-Key." } },
    });
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, { "idempotency-key": "a b" })).status).toBe(400);
  });

  it("at the same time is made once", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", granted: 0 });
    const all = await Promise.all(Array.from({ length: 5 }, () => ask("POST", "/keys/team/grant", { units: 5 }, key)));
    expect(all.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
    expect((await ask("GET", "/keys/team")).body).toMatchObject({ granted: 5 });
  });

  it("is not made once its client was told that the time is over, unless it has begun", async () => {
    const clock = manualClock(0);
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", granted: 0 });
    const { promise: asleep, resolve: wake } = Promise.withResolvers<void>();
    const log = memoryAuditLog();
    const audit: AuditLog = { ...log, begin: (entry) => asleep.then(() => log.begin(entry)) };
    const failures: unknown[] = [];
    const admin = adminHandler(quotas, { authorize, clock, audit, onFailure: (error) => failures.push(error) });
    const headers = { "x-user": "ann", "content-type": "application/json", ...key };
    const request = new Request("http://host/keys/team/grant", { method: "POST", headers, body: '{"units":5}' });
    const answer = admin.fetch(request);
    await clock.advance(30_000);
    expect((await answer).status).toBe(503);
    wake();
    await vi.waitFor(async () => expect(await audit.list({ limit: 9 })).toMatchObject([{ state: "failed" }]));
    expect(await quotas.report("team")).toMatchObject({ granted: 0 });
    expect(failures.map(String).join()).not.toContain("Unhandled");
  });

  it("is the same change in another case of the mount's path", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", granted: 0 });
    const admin = adminHandler(quotas, { authorize });
    for (const path of ["/admin", "/Admin"]) {
      const headers = { "x-user": "ann", "content-type": "application/json", ...key };
      const request = new Request("http://host/keys/team/grant", { method: "POST", headers, body: '{"units":5}' });
      expect((await admin.handle(request, { path }))?.status).toBe(200);
    }
    expect(await quotas.report("team")).toMatchObject({ granted: 5 });
  });

  it.each<[string, "record" | "release", number, object]>([
    ["shows the secret of a new key", "record", 201, { apiKey: expect.stringMatching(/^sk-/) }],
    ["tells why a change is refused", "release", 404, { error: { code: "not_found" } }],
  ])("%s also when the store of answers hangs", async (_what, verb, status, body) => {
    const clock = manualClock(0);
    const replayStore = memoryReplayStore({ clock });
    vi.spyOn(replayStore, verb).mockImplementation(() => new Promise<void>(() => {}));
    const onFailure = vi.fn<(error: unknown) => void>();
    const ask = asking({ clock, replayStore, onFailure });
    const fields = { id: "team", ...(verb === "release" && { budget: "none" }) };
    const asked = ask("POST", "/keys", fields, key);
    await vi.waitFor(() => expect(replayStore[verb]).toHaveBeenCalled());
    await clock.advance(5_000);
    expect(await asked).toMatchObject({ status, body });
    // The store is told three more times.
    for (let at = 0; at < 60; at++) await clock.advance(1_000);
    expect(replayStore[verb]).toHaveBeenCalledTimes(4);
    expect(onFailure).toHaveBeenCalledOnce();
  });

  it("changes nothing more while the store hangs, and gets the answer after it", async () => {
    const clock = manualClock(0);
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", granted: 0 });
    const { promise: asleep, resolve: wake } = Promise.withResolvers<void>();
    const grant = quotas.grant.bind(quotas);
    vi.spyOn(quotas, "grant").mockImplementation(async (...granted) => {
      await asleep;
      return grant(...granted);
    });
    const admin = adminHandler(quotas, { authorize, clock });
    const ask = (): Promise<Response> => {
      const headers = { "x-user": "ann", "content-type": "application/json", ...key };
      return admin.fetch(new Request("http://host/keys/team/grant", { method: "POST", headers, body: '{"units":5}' }));
    };
    const first = ask();
    await clock.advance(30_000);
    expect((await first).status).toBe(503);
    expect(await (await ask()).json()).toMatchObject({
      error: { code: "conflict", message: expect.stringContaining("still runs, or its process has died.") },
    });
    // The lease of a change that hangs does not end before a day is over.
    await clock.advance(23 * 3_600_000);
    expect((await ask()).status).toBe(409);
    wake();
    await vi.waitFor(async () => expect((await ask()).headers.get("idempotency-replayed")).toBe("true"));
    expect(await quotas.report("team")).toMatchObject({ granted: 5 });
  });

  it.each<[string, (grant: () => Promise<void>) => Promise<void>]>([
    ["whose acknowledgement is lost", (grant) => grant().then(failing)],
    ["that fails", failing],
    [
      "whose answer cannot be read",
      async (grant) => {
        await grant();
        vi.spyOn(stores.ports.quotas, "report").mockImplementationOnce(failing);
      },
    ],
  ])("is not made again after one %s, for a day", async (_what, first) => {
    const clock = manualClock(0);
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", granted: 0 });
    const grant = quotas.grant.bind(quotas);
    const granting = vi.spyOn(quotas, "grant").mockImplementationOnce((...args) => first(() => grant(...args)));
    const ask = asking({ clock, onFailure: () => {} });
    const again = () => ask("POST", "/keys/team/grant", { units: 5 }, key);
    expect((await again()).status).toBe(500);
    for (const hours of [0, 23]) {
      await clock.advance(hours * 3_600_000);
      expect(await again()).toMatchObject({
        status: 409,
        body: { error: { code: "outcome_unknown", message: expect.stringContaining("Look whether it was made") } },
      });
    }
    expect(granting).toHaveBeenCalledOnce();
    // The log of changes does not know more than the user.
    const { data } = (await ask("GET", "/audit")).body as { data: object[] };
    expect(data).toEqual([expect.objectContaining({ changes: { units: 5 } })]);
    expect(data[0]).not.toHaveProperty("state");
    await clock.advance(3_600_000);
    expect((await again()).status).toBe(200);
  });

  it.each<["claim" | "release" | "record", string, number, string | null]>([
    ["claim", "team", 500, null],
    ["release", "unknown", 404, null],
    ["record", "team", 200, "true"],
  ])("finds its key as it should be soon after the store has failed once at %s", async (verb, id, status, replayed) => {
    const clock = manualClock(0);
    const replayStore = memoryReplayStore({ clock });
    await stores.ports.quotas.add({ id: "team", granted: 0 });
    if (verb === "claim") {
      // The connection is lost behind the claim, and is still away for the release.
      const claim = replayStore.claim.bind(replayStore);
      vi.spyOn(replayStore, "claim").mockImplementationOnce((claimed) => claim(claimed).then(failing));
    }
    vi.spyOn(replayStore, verb === "record" ? "record" : "release").mockImplementationOnce(failing);
    const failures: unknown[] = [];
    const ask = asking({ clock, replayStore, onFailure: (error) => failures.push(error) });
    const again = () => ask("POST", `/keys/${id}/grant`, { units: 5 }, key);
    expect((await again()).status).toBe(status);
    expect((await again()).body).toMatchObject({ error: { code: "conflict" } });
    await clock.advance(500);
    const { headers, status: then } = await again();
    expect([then, headers.get("idempotency-replayed")]).toEqual([status === 500 ? 200 : status, replayed]);
    expect(failures).toHaveLength(verb === "claim" ? 1 : 0);
  });

  it("finds the change running once the store of answers has failed for long, and the host is told", async () => {
    const clock = manualClock(0);
    const replayStore = memoryReplayStore({ clock });
    const recording = vi.spyOn(replayStore, "record").mockImplementation(failing);
    await stores.ports.quotas.add({ id: "team", granted: 0 });
    const failures: unknown[] = [];
    const ask = asking({ clock, replayStore, onFailure: (error) => failures.push(error) });
    await ask("POST", "/keys/team/grant", { units: 5 }, key);
    for (const pauseMs of [500, 5_000, 30_000, 60_000]) await clock.advance(pauseMs);
    expect(recording).toHaveBeenCalledTimes(4);
    expect(failures).toHaveLength(1);
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).status).toBe(409);
    expect(await stores.ports.quotas.report("team")).toMatchObject({ granted: 5 });
  });

  it("is the same request with another encoding of its id", async () => {
    const ask = asking();
    await ask("POST", "/keys", { id: "team", granted: 0 });
    await ask("POST", "/keys/team/grant", { units: 5 }, key);
    const { headers, body } = await ask("POST", "/keys/%74eam/grant", { units: 5 }, key);
    expect([headers.get("idempotency-replayed"), body["granted"]]).toEqual(["true", 5]);
  });

  it("gets its first answer also after many changes of another user", async () => {
    const replayStore = memoryReplayStore({ maxEntries: 8 });
    const ask = asking({ replayStore });
    await ask("POST", "/keys", { id: "team", granted: 0 });
    await ask("POST", "/keys/team/grant", { units: 5 }, key);
    for (let at = 0; at < 20; at++)
      await ask("PATCH", "/keys/team", { name: `${at}` }, { "idempotency-key": `${at}`, "x-user": "bob" });
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).headers.get("idempotency-replayed")).toBe("true");
  });

  it("is another one in the admin of another tenant, with the same store of answers", async () => {
    const replayStore = memoryReplayStore();
    const app = express();
    for (const tenant of ["acme", "globex"]) {
      const { keys } = memoryQuotaStore([{ id: "team", apiKey: "sk-team", name: tenant, granted: 0 }]);
      app.use(`/${tenant}/admin`, toExpressHandler(adminHandler(keys, { authorize, replayStore })));
    }
    const server = createServer(app).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    for (const name of ["acme", "globex"]) {
      const response = await fetch(`http://127.0.0.1:${port}/${name}/admin/keys/team/grant`, {
        method: "POST",
        headers: { "x-user": "ann", "content-type": "application/json", ...key },
        body: '{"units":5}',
      });
      expect(await response.json()).toMatchObject({ name, granted: 5 });
    }
    server.close();
  });

  it("is made after one that was refused, or failed before the change began", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", granted: 0 });
    const ask = asking({ onFailure: () => {} });
    const again = (units: number) => ask("POST", "/keys/team/lower", { units }, key);
    const states = async () =>
      ((await ask("GET", "/audit")).body["data"] as { state: string }[]).map(({ state }) => state);
    expect((await again(5)).status).toBe(400);
    // The log, the question and the change itself each read the key.
    vi.spyOn(quotas, "report").mockImplementationOnce(failing).mockImplementationOnce(failing);
    expect((await again(5)).status).toBe(500);
    await quotas.grant("team", 5);
    expect((await again(5)).body).toMatchObject({ granted: 0 });
    expect(await states()).toEqual(["done", "failed", "refused"]);
  });

  it("is not made again while its first answer could not be kept", async () => {
    const clock = manualClock(0);
    const onFailure = vi.fn<(error: unknown) => void>();
    const replayStore = memoryReplayStore({ clock });
    const ask = asking({ clock, onFailure, replayStore });
    await ask("POST", "/keys", { id: "team", granted: 0 });
    vi.spyOn(replayStore, "record").mockImplementation(failing);
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).status).toBe(200);
    await clock.advance(61_000);
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).status).toBe(409);
    expect(await stores.ports.quotas.report("team")).toMatchObject({ granted: 5 });
    expect(onFailure).toHaveBeenCalledOnce();
  });

  it("is refused where the first answer was too large to keep", async () => {
    const ask = asking({ replayStore: memoryReplayStore({ maxBytes: 2_048, maxBytesPerKey: 1_100 }) });
    await ask("POST", "/keys", { id: "team", granted: 0 });
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).body).toMatchObject({ granted: 5 });
    expect(await ask("POST", "/keys/team/grant", { units: 5 }, key)).toMatchObject({
      status: 409,
      body: {
        error: {
          code: "answer_not_kept",
          message: "The first request with this Idempotency-Key has made the change. Its answer was too large to keep.",
        },
      },
    });
    expect(await stores.ports.quotas.report("team")).toMatchObject({ granted: 5 });
  });

  it("is refused with 503, and not reported, while others take all the room for answers", async () => {
    const { quotas } = stores.ports;
    await quotas.add({ id: "team", granted: 0 });
    const hanging = vi.spyOn(quotas, "grant").mockImplementation(() => new Promise(() => {}));
    const onFailure = vi.fn<(error: unknown) => void>();
    const ask = asking({ replayStore: memoryReplayStore({ maxEntries: 1 }), onFailure });
    void ask("POST", "/keys/team/grant", { units: 5 }, key);
    await vi.waitFor(() => expect(hanging).toHaveBeenCalledOnce());
    const { status, headers, body } = await ask("POST", "/keys/team/grant", { units: 5 }, { ...key, "x-user": "bob" });
    expect([status, headers.get("retry-after"), body.error?.code]).toEqual([503, "5", "unavailable"]);
    expect(onFailure).not.toHaveBeenCalled();
  });

  it("is not made while the store of answers hangs", async () => {
    const clock = manualClock(0);
    const replayStore = memoryReplayStore();
    vi.spyOn(replayStore, "claim").mockReturnValue(new Promise(() => {}));
    const asked = asking({ clock, replayStore })("POST", "/keys", { id: "team" }, key);
    await clock.advance(30_000);
    expect((await asked).status).toBe(503);
    expect(await stores.ports.quotas.report("team")).toBeUndefined();
  });

  it.each(["127.0.0.1", "localhost"])("prints one line while the database at %s is away", async (host) => {
    const away = await openStores(`postgres://me:secret@${host}:1/x`, { onError: () => {} });
    const written = vi.spyOn(console, "error").mockReturnValue();
    const admin = adminHandler(away.ports.quotas, { authorize });
    const { status } = await admin.fetch(new Request("http://host/keys", { headers: { "x-user": "ann" } }));
    const lines = written.mock.calls;
    written.mockRestore();
    await away.close();
    expect(status).toBe(503);
    const line = /^polygate: a request of the admin has failed: connect ECONNREFUSED \S+$/;
    expect(lines).toEqual([[expect.stringMatching(line)]]);
  });

  it.each([
    new Error("READONLY You can't write against a read only replica."),
    Object.assign(new Error("No space left on device"), { code: "53100" }),
    Object.assign(new Error("canceling statement due to statement timeout"), { code: "57014" }),
  ])("fails with 503 for an error that passes: %s", async (error) => {
    const stores = await openStores("sqlite::memory:", { sweepMs: 0 });
    vi.spyOn(stores.ports.quotas, "add").mockRejectedValue(error);
    const admin = adminHandler(stores.ports.quotas, { authorize, onFailure: () => {} });
    const headers = { "x-user": "ann", "content-type": "application/json" };
    const answer = await admin.fetch(
      new Request("http://host/keys", { method: "POST", headers, body: JSON.stringify({ id: "one" }) }),
    );
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
    await stores.close();
  });

  it.each(["postgres", "mysql"])(
    "fails with 503 while %s is away, and tells the host once a minute",
    async (scheme) => {
      const away = await openStores(`${scheme}://me:secret@127.0.0.1:1/x`, { onError: () => {} });
      const clock = manualClock(0);
      const told: unknown[] = [];
      const { auditLog: audit, calls, ports } = away;
      const options = { authorize, audit, calls, clock, onFailure: (error: unknown) => void told.push(error) };
      const admin = adminHandler(ports.quotas, options);
      const ask = (method: string, path: string, body?: object): Promise<Response> =>
        admin.fetch(
          new Request(`http://host${path}`, {
            method,
            headers: { "x-user": "ann", "content-type": "application/json" },
            ...(body && { body: JSON.stringify(body) }),
          }),
        );
      for (const [method, path, body] of [
        ["GET", "/keys"],
        ["GET", "/keys/one"],
        ["POST", "/keys", { id: "one" }],
        ["PATCH", "/keys/one", { name: "One" }],
        ["GET", "/budgets"],
        ["GET", "/usage"],
        ["GET", "/calls"],
        ["GET", "/calls/one"],
        ["GET", "/audit"],
      ] as const) {
        const answer = await ask(method, path, body);
        expect([answer.status, answer.headers.get("retry-after"), await answer.json()]).toEqual([
          503,
          "5",
          {
            error: {
              code: "unavailable",
              message:
                method === "GET"
                  ? "The store is away. Try again in some seconds."
                  : "The store is away. Try again in some seconds, and look whether a change was made.",
            },
          },
        ]);
      }
      expect((await ask("GET", "/me")).status).toBe(200);
      expect(told.map(String)).toEqual([expect.stringContaining("ECONNREFUSED")]);
      await clock.advance(60_000);
      await ask("GET", "/keys");
      expect(told.length).toBe(2);
      await away.close();
    },
  );

  it("fails with 503 while the tables are missing, says which command makes them, and goes on once they are made", async () => {
    const folder = await mkdtemp(join(tmpdir(), "polygate-unmigrated-"));
    const file = join(folder, "gateway.db");
    await writeFile(file, "");
    const bare = await openStores(`sqlite:${file}`, { migrate: false, sweepMs: 0 });
    const told: unknown[] = [];
    const { auditLog: audit, calls, ports } = bare;
    const onFailure = (error: unknown): void => void told.push(error);
    const admin = adminHandler(ports.quotas, { authorize, audit, calls, onFailure, clock: manualClock(0) });
    const ask = (method: string, path: string, body?: object): Promise<Response> =>
      admin.fetch(
        new Request(`http://host${path}`, {
          method,
          headers: { "x-user": "ann", "content-type": "application/json" },
          ...(body && { body: JSON.stringify(body) }),
        }),
      );
    const message =
      'The store\'s tables are missing. Run "polygate keys migrate", or migrate(db), before the store is used.';
    for (const [method, path, body] of [
      ["GET", "/keys"],
      ["POST", "/keys", { id: "one" }],
      ["GET", "/budgets"],
      ["GET", "/usage"],
      ["GET", "/calls"],
      ["GET", "/calls/one"],
      ["GET", "/audit"],
    ] as const) {
      const answer = await ask(method, path, body);
      expect([answer.status, await answer.json()]).toEqual([503, { error: { code: "unavailable", message } }]);
    }
    expect(told.length).toBe(1);
    await (await openStores(`sqlite:${file}`, { sweepMs: 0 })).close();
    expect((await ask("POST", "/keys", { id: "one" })).status).toBe(201);
    await bare.close();
    await rm(folder, { recursive: true });
  });

  it("is made again after a refusal", async () => {
    const ask = asking();
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).status).toBe(404);
    await ask("POST", "/keys", { id: "team", granted: 0 });
    expect((await ask("POST", "/keys/team/grant", { units: 5 }, key)).body).toMatchObject({ granted: 5 });
  });
});

describe("a browser without a session", () => {
  const folder = new URL("../../src/admin/page/app/", import.meta.url);
  const html = "text/html,application/xhtml+xml,*/*;q=0.8";
  const answerTo = async (path: string, init: RequestInit, loginUrl?: string): Promise<unknown[]> => {
    const page = pageIn(folder, loginUrl === undefined ? {} : { loginUrl });
    const admin = adminHandler(stores.ports.quotas, { authorize, page }).at("/admin");
    const { status, headers } = await admin.fetch(new Request(`http://host/admin${path}`, init));
    return [status, headers.get("location") ?? headers.get("content-type"), headers.get("cache-control")];
  };
  const refusal = [401, "application/json", "no-store"];

  it.each([
    "",
    "/",
    "?part=spend",
    "/?part=spend&by=group",
    "/usage?by=key&format=csv",
    "/budgets/a%2Fb/periods?format=csv",
  ])("is sent to the login when it opens %j", async (path) => {
    const next = `next=${encodeURIComponent(`/admin${path}`)}`;
    for (const [loginUrl, location] of [
      ["/login", `/login?${next}`],
      ["/login?from=admin", `/login?from=admin&${next}`],
      ["https://sso.example/", `https://sso.example/?${next}`],
      ["/login?next=/home", "/login?next=/home"],
    ])
      for (const method of ["GET", "HEAD"])
        expect(await answerTo(path, { method, headers: { accept: html } }, loginUrl)).toEqual([
          303,
          location,
          "no-store",
        ]);
  });

  it("gets a 401 from every other route, for other types, and without a login to go to", async () => {
    for (const path of ["/keys", "/me", "/app.js", "/nothing", "/usage/x", "/usages"])
      expect([path, ...(await answerTo(path, { headers: { accept: html } }, "/login"))]).toEqual([path, ...refusal]);
    for (const accept of ["application/json", "*/*", "text/csv"])
      expect(await answerTo("", { headers: { accept } }, "/login")).toEqual(refusal);
    const headers = { accept: html, "content-type": "application/json" };
    expect(await answerTo("", { method: "POST", headers, body: "{}" }, "/login")).toEqual(refusal);
    expect(await answerTo("", { headers: { accept: html } })).toEqual(refusal);
  });
});

it("reads a file of the page again after a failure", async () => {
  const folder = await mkdtemp(join(tmpdir(), "polygate-page-"));
  try {
    const page = pageIn(pathToFileURL(`${folder}/`));
    await expect(page.file("app.js", "/")).rejects.toThrow("ENOENT");
    await writeFile(join(folder, "app.js"), "1;");
    expect(await page.file("app.js", "/")).toMatchObject({ text: "1;" });
  } finally {
    await rm(folder, { recursive: true });
  }
});

describe("every mount", () => {
  const page = pageIn(new URL("../../src/admin/page/app/", import.meta.url));
  const express4 = createRequire(import.meta.url)("express-4") as typeof express;
  /** The addresses that the login of the host has seen. */
  let seen: string[] = [];
  const admin = (): AdminHandler =>
    adminHandler(stores.ports.quotas, {
      authorize: (request) => {
        seen.push(`${request.method} ${request.url}`);
        const headers = new Headers([
          ["set-cookie", "session=; max-age=0"],
          ["set-cookie", "from=admin"],
        ]);
        return request.headers.has("x-user") ? authorize(request) : new Response(null, { status: 401, headers });
      },
      page,
    });
  const mounts: readonly [name: string, listener: () => RequestListener | Promise<RequestListener>][] = [
    ["Node", () => toNodeHandler(admin(), { prefix: "/admin" })],
    ["Express", () => express().use("/admin", toExpressHandler(admin())) as RequestListener],
    [
      "Express behind body parsers",
      () =>
        express().use(express.json(), express.urlencoded()).use("/admin", toExpressHandler(admin())) as RequestListener,
    ],
    ["Express 4", () => express4().use("/admin", toExpressHandler(admin())) as RequestListener],
    [
      "a router of Express",
      () => {
        const router = express.Router().use("/admin", toExpressHandler(admin()));
        return express().use(router) as RequestListener;
      },
    ],
    ["Koa", () => new Koa().use(toKoaMiddleware(admin(), { prefix: "/admin" })).callback()],
    ["koa-mount", () => new Koa().use(mount("/admin", toKoaMiddleware(admin()))).callback()],
    [
      "Fastify",
      async () => {
        const app = fastify();
        const handler = toNodeHandler(admin(), { prefix: "/admin" });
        app.addHook("onRequest", (request, reply, done) => handler(request.raw, reply.raw, done));
        await app.ready();
        return (req, res) => app.routing(req, res);
      },
    ],
    [
      "Hono",
      () => {
        const routes = admin().at("/admin");
        const app = new Hono();
        app.use("/admin/*", async (context, next) => (await routes.handle(context.req.raw)) ?? next());
        const listener = getRequestListener(app.fetch);
        return (req, res) => void listener(req, res);
      },
    ],
  ];

  it.each(mounts)("%s sends every cookie of the login and of the host", async (name, listener) => {
    const serve = await listener();
    const server = createServer((req, res) => {
      res.setHeader("set-cookie", "host=1");
      return serve(req, res);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/admin/keys`;
    const { status, headers } = await fetch(url);
    // The server of Hono overwrites the headers of the host.
    const cookies = [...(name === "Hono" ? [] : ["host=1"]), "session=; max-age=0", "from=admin"];
    expect([status, headers.getSetCookie()]).toEqual([401, cookies]);
    server.close().closeAllConnections();
  });

  it.each(mounts)("%s serves it over a socket", async (_name, listener) => {
    const server = createServer(await listener()).listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const root = `http://127.0.0.1:${(server.address() as AddressInfo).port}/admin`;
      const headers = { "x-user": "ann", "content-type": "application/json" };
      const made = await fetch(`${root}/keys`, { method: "POST", headers, body: '{"id":"a/b","granted":3}' });
      expect(made.status).toBe(201);
      const large = JSON.stringify({ name: "x".repeat(70_000) });
      expect((await fetch(`${root}/keys`, { method: "POST", headers, body: large })).status).toBe(413);
      const read = await fetch(`${root}/keys/a%2Fb`, { headers });
      expect([read.headers.get("etag") !== null, await read.json()]).toEqual([
        true,
        expect.objectContaining({ granted: 3 }),
      ]);
      expect((await fetch(`${root}/keys`)).status).toBe(401);
      for (const path of ["", "/", "?from=mail", "/?from=mail"]) {
        const text = await (await fetch(root + path, { headers })).text();
        const base = new URL(/<base href="([^"]*)"/.exec(text)?.[1] ?? "", root);
        const style = await fetch(new URL("style.css", base), { headers });
        expect([path, style.status, style.headers.get("content-type")]).toEqual([path, 200, "text/css; charset=utf-8"]);
      }
      seen = [];
      await fetch(`${root}/keys?limit=2`);
      await fetch(`${root}/keys/a%2Fb/revoke`, { method: "POST", headers, body: "{}" });
      await fetch(`${root}?part=spend`);
      expect(seen.map((one) => one.replace("/admin/?", "/admin?"))).toEqual([
        `GET ${root}/keys?limit=2`,
        `POST ${root}/keys/a%2Fb/revoke`,
        `GET ${root}?part=spend`,
      ]);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});
