/** The health of a gateway: its stores, its settlements, its upstreams, and its calls. */

import { DatabaseSync } from "node:sqlite";
import { Kysely, sql } from "kysely";
import { describe, expect, it } from "vitest";
import {
  borrowingQuotaStore,
  createGateway,
  flexibleRateLimiter,
  GatewayError,
  type GatewayGauges,
  memoryQuotaStore,
  memoryReplayStore,
  type ModelBackend,
  type QuotaStore,
} from "../../src/index.ts";
import { openStores } from "../../src/stores/open/index.ts";
import { migrate, nodeSqliteDialect, type SqlDatabase, sqlQuotaStore } from "../../src/stores/sql/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { failing, never, opened, speaking, verbsOf, WORD } from "./bench.ts";

const AWAY = new Error("The database at db.example is away.");

const refused = () => Promise.reject(AWAY);
const hung = () => never;

/** Sends calls of keys, each of which gets the next answer, and returns what the state tells of the upstream. */
function asked(place: string, isListed = true) {
  const clock = manualClock();
  let answer: (() => Response) | undefined;
  const upstream = relay({
    format: "messages",
    baseUrl: "https://api.example.com/v1",
    name: "fake",
    apiKey: "sk-wrong",
    ...(isListed && { models: ["any"] }),
    clock,
    fetch: async () => answer?.() ?? Response.error(),
  });
  const routes = { [isListed ? "any" : "*"]: upstream };
  const backend = place === "alone" ? upstream : route({ routes, retry: { rounds: 0 }, clock });
  const quotas = memoryQuotaStore(["one", "two"].map((id) => ({ id, apiKey: `sk-${id}` })));
  const gateway = createGateway({ backend, quotas, clock, onFailure: () => {} });
  return async (times: number, reply: () => Response, keys: readonly string[] = ["one"]) => {
    answer = reply;
    for (let at = 0; at < times; at++) {
      const request = new Request("http://host/v1/messages", {
        method: "POST",
        headers: {
          "x-api-key": `sk-${keys[at % keys.length]}`,
          "anthropic-version": "1",
          "content-type": "application/json",
        },
        body: JSON.stringify({ model: "any", max_tokens: 9, messages: [{ role: "user", content: "Go." }] }),
      });
      await (await gateway.fetch(request)).text();
      await clock.advance(1_000);
    }
    const [{ failing, state } = {}] = (await gateway.health()).upstreams;
    expect(state).toBe("closed");
    return failing && { ...failing, at: failing.at - clock.now(), since: failing.since - clock.now() };
  };
}

const refusing = (status: number, type: string, message: string) => (): Response =>
  Response.json({ type: "error", error: { type, message } }, { status });
const wrongKey = refusing(401, "authentication_error", "invalid x-api-key");
const noModel = refusing(404, "not_found_error", "model: any");
const wrongPrompt = refusing(400, "invalid_request_error", "messages: wrong");
const answered = (): Response =>
  Response.json({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "any",
    content: [{ type: "text", text: "Hello." }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  });

describe("a gateway", () => {
  it("is ready while its quota store answers", async () => {
    const { gateway } = opened();
    expect(await gateway.health()).toEqual({
      ready: true,
      closing: false,
      calls: 0,
      waitingSettlements: 0,
      stores: { "quota-store": "ok" },
      reasons: {},
      restingUpstreams: 0,
      upstreams: [],
    });
  });

  it.each([{ timeoutMs: Number.NaN }, { timeoutMs: -1 }, { timeoutMs: 2 ** 31 }])("refuses %j", async (options) => {
    const { gateway } = opened();
    await expect(gateway.health(options)).rejects.toThrow("health: timeoutMs must be an integer from 1 to 2147483647");
  });

  it.each([
    ["rejects", () => Promise.reject(AWAY)],
    [
      "throws",
      () => {
        throw AWAY;
      },
    ],
  ])("is not ready where its store %s, and tells the cause to its host alone", async (_how, balance) => {
    const { gateway, failures } = opened({ around: () => ({ balance }) });
    const health = await gateway.health();
    expect(health).toMatchObject({
      ready: false,
      stores: { "quota-store": "unreachable" },
      reasons: { "quota-store": "The store has failed." },
    });
    expect(JSON.stringify(health)).not.toContain("db.example");
    expect(failures).toMatchObject([{ port: "quota-store", error: { code: "store_unavailable", cause: AWAY } }]);
    expect(failures[0]?.text).toContain("db.example");
  });

  it.each(["postgres://127.0.0.1:1/x", "mysql://127.0.0.1:1/x", "redis://127.0.0.1:1"])(
    "tells the same of all that is in %s",
    async (address) => {
      const stores = await openStores(address, { onError: () => {} });
      try {
        const { ports } = stores;
        const rateLimiter = flexibleRateLimiter({ perKey: { requests: [stores.counter(5, 60)] } });
        const common = { backend: speaking(WORD), rateLimiter, onFailure: () => {} };
        const shared = createGateway({ ...common, ...ports, quotas: borrowingQuotaStore(ports.quotas) });
        const { stores: states, reasons } = await shared.health();
        const away = { "quota-store": "unreachable", "rate-limiter": "unreachable", "replay-store": "unreachable" };
        expect(states).toEqual(away);
        expect(Object.keys(reasons)).toEqual(Object.keys(away));
        const alone = createGateway({ ...common, quotas: ports.quotas, replayStore: memoryReplayStore() });
        expect((await alone.health()).stores).toEqual({ ...away, "replay-store": "ok" });
      } finally {
        await stores.close();
      }
    },
  );

  it("names the code of a failure, and no other text of it", async () => {
    let error: unknown = Object.assign(new Error("connect 10.0.0.7"), { code: "ECONNREFUSED" });
    const { gateway, clock } = opened({ around: () => ({ balance: () => Promise.reject(error) }) });
    const reason = async () => {
      await clock.advance(1_000);
      return (await gateway.health()).reasons["quota-store"];
    };
    expect(await reason()).toBe("The store has failed: nobody answers at its address (ECONNREFUSED).");
    for (const [code, words] of [
      ["28P01", ": the user or the password is wrong (28P01)"],
      ["28000", ": the user or the password is wrong (28000)"],
      ["ER_ACCESS_DENIED_ERROR", ": the user or the password is wrong (ER_ACCESS_DENIED_ERROR)"],
      ["3D000", ": the database does not exist (3D000)"],
      ["ER_BAD_DB_ERROR", ": the database does not exist (ER_BAD_DB_ERROR)"],
      ["ENOTFOUND", ": the name of its host is unknown (ENOTFOUND)"],
      ["57014", " (57014)"],
      ["53100", ": its disk is full (53100)"],
      ["SQLITE_FULL", ": its disk is full (SQLITE_FULL)"],
    ]) {
      error = Object.assign(new Error("password"), { code });
      expect(await reason()).toBe(`The store has failed${words}.`);
    }
    error = Object.assign(new Error("database or disk is full"), { code: "ERR_SQLITE_ERROR", errcode: 13 });
    expect(await reason()).toBe("The store has failed: its disk is full (SQLITE_FULL).");
    error = new Error("OOM command not allowed when used memory > 'maxmemory'.");
    expect(await reason()).toBe("The store has failed: its memory is full (OOM).");
    error = Object.assign(new Error("odd"), { code: "postgres://user:secret@host" });
    expect(await reason()).toBe("The store has failed.");
    error = undefined;
    expect(await reason()).toBe("The store has failed.");
    error = Object.defineProperty(new Error("odd"), "code", {
      get() {
        throw AWAY;
      },
    });
    expect(await reason()).toBe("The store has failed.");
  });

  it.each<[code: string, error: object]>([
    ["25006", { code: "25006" }],
    ["ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION", { code: "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION" }],
    ["ER_OPTION_PREVENTS_STATEMENT", { code: "ER_OPTION_PREVENTS_STATEMENT" }],
    ["SQLITE_READONLY", { code: "ERR_SQLITE_ERROR", errcode: 8 }],
    ["SQLITE_READONLY", { code: "ERR_SQLITE_ERROR", errcode: 8 | (4 << 8) }],
    ["SQLITE_READONLY_DBMOVED", { code: "SQLITE_READONLY_DBMOVED" }],
    ["READONLY", { message: "READONLY You can't write against a read only replica." }],
  ])("says that a database is read-only by %s of %j", async (code, error) => {
    const thrown = Object.assign(new Error("secret"), error);
    const { gateway } = opened({ around: () => ({ recall: () => Promise.reject(thrown) }) });
    expect(await gateway.health()).toMatchObject({
      ready: false,
      stores: { "quota-store": "read-only" },
      reasons: { "quota-store": `The database is read-only (${code}).` },
    });
  });

  it("tells its host once of each trouble of its store, and again after the store has answered", async () => {
    let trouble: (() => Promise<never>) | undefined;
    const { gateway, failures, clock } = opened({
      around: (store) => ({ balance: (keyId) => trouble?.() ?? store.balance(keyId) }),
    });
    const check = async (next: (() => Promise<never>) | undefined) => {
      trouble = next;
      await clock.advance(10_000);
      const checks = [gateway.health(), gateway.health()];
      await clock.advance(1_000);
      await Promise.all(checks);
      return failures.length;
    };
    expect(await check(undefined)).toBe(0);
    expect(await check(refused)).toBe(1);
    expect(await check(refused)).toBe(1);
    expect(await check(hung)).toBe(2);
    expect(await check(hung)).toBe(2);
    expect(await check(undefined)).toBe(2);
    expect(await check(hung)).toBe(3);
    expect(failures[2]?.text).toContain("has not answered a health check within 1000 ms");
  });

  it("is not ready while its store takes no writes: at the start, and after a failed call until a write succeeds", async () => {
    const full = new Error("READONLY You can't write against a read only replica.");
    let isFull = true;
    let written = 0;
    const { gateway, send, clock } = opened({
      around: (store) => ({
        reserve: (hold) => (isFull ? Promise.reject(full) : store.reserve(hold)),
        recall: () => (isFull ? Promise.reject(full) : Promise.resolve(void written++)),
      }),
    });
    const check = async () => {
      await clock.advance(1_000);
      const { ready, reasons } = await gateway.health();
      return [ready, reasons["quota-store"], written];
    };
    const refused = [false, "The database is read-only (READONLY)."];
    expect(await check()).toEqual([...refused, 0]);
    expect(await check()).toEqual([...refused, 0]);
    isFull = false;
    expect(await check()).toEqual([true, undefined, 1]);
    expect(await check(), "writes only in doubt").toEqual([true, undefined, 1]);
    isFull = true;
    expect((await send()).status).toBe(503);
    expect(await check()).toEqual([...refused, 1]);
    isFull = false;
    expect(await check()).toEqual([true, undefined, 2]);
    expect(await check()).toEqual([true, undefined, 2]);
    isFull = true;
    await clock.advance(8_000);
    expect(await check(), "also without a call").toEqual([...refused, 2]);
  });

  it("is not ready once the limiter, which writes first, has failed, and the store takes no writes", async () => {
    let isFull = false;
    const full = () => (isFull ? Promise.reject(new Error("READONLY")) : Promise.resolve());
    const { gateway, send, clock } = opened({
      around: () => ({ recall: full }),
      rateLimiter: {
        begin: () => full().then(() => ({ limits: [] })),
        take: async () => ({ limits: [] }),
        end: async () => {},
      },
    });
    expect((await gateway.health()).ready).toBe(true);
    isFull = true;
    expect((await send()).status).toBe(503);
    await clock.advance(1_000);
    expect((await gateway.health()).ready).toBe(false);
  });

  it("is not ready while a database takes no writes, also behind borrowed units", async () => {
    const stores = await openStores("sqlite::memory:", { sweepMs: 0 });
    const common = { backend: speaking(WORD), onFailure: () => {} };
    const health = async (quotas: QuotaStore) =>
      (await createGateway({ ...common, quotas }).health()).stores["quota-store"];
    const { quotas } = stores.ports;
    const both = [quotas, borrowingQuotaStore(quotas)];
    await sql`PRAGMA query_only = ON`.execute(stores.db);
    expect(await Promise.all(both.map(health))).toEqual(["read-only", "read-only"]);
    await sql`PRAGMA query_only = OFF`.execute(stores.db);
    expect(await Promise.all(both.map(health))).toEqual(["ok", "ok"]);
    await stores.close();
  });

  it("stays ready when its store fails for one key alone, and writes again", async () => {
    const { gateway, send, clock } = opened({
      around: () => ({ reserve: () => Promise.reject(new Error("The key one is spoilt.")), recall: async () => {} }),
    });
    expect((await send()).status).toBe(503);
    await clock.advance(1_000);
    expect(await gateway.health()).toMatchObject({ ready: true, reasons: {} });
  });

  it("names a store whose tables are missing, and is ready once they are migrated", async () => {
    const db: SqlDatabase = new Kysely({ dialect: nodeSqliteDialect(new DatabaseSync(":memory:")) });
    const store = sqlQuotaStore({ db, dialect: "sqlite" });
    const { gateway, failures, clock } = opened({ around: () => verbsOf(store) });
    expect(await gateway.health()).toMatchObject({
      ready: false,
      stores: { "quota-store": "unmigrated" },
      reasons: {
        "quota-store":
          'The store\'s tables are missing. Run "polygate keys migrate", or migrate(db), before the store is used.',
      },
    });
    expect(failures).toHaveLength(1);
    await migrate(db, { dialect: "sqlite" });
    await clock.advance(1_000);
    expect(await gateway.health()).toMatchObject({ ready: true, stores: { "quota-store": "ok" }, reasons: {} });
    await db.destroy();
  });

  it("is not ready where its store hangs, after the given time", async () => {
    const { gateway, clock } = opened({ around: () => ({ balance: hung }) });
    const asked = gateway.health({ timeoutMs: 200 });
    await clock.advance(199);
    const later = gateway.health({ timeoutMs: 100 });
    await clock.advance(100);
    expect(await asked).toMatchObject({
      ready: false,
      stores: { "quota-store": "unreachable" },
      reasons: { "quota-store": "The store has not answered in time." },
    });
    expect(await later).toMatchObject({ ready: false });
  });

  it("asks a store that hangs again after ten seconds, and not at each check", async () => {
    let asked = 0;
    const { gateway, clock } = opened({
      around: () => ({
        balance: () => {
          asked++;
          return never;
        },
      }),
    });
    for (let second = 0; second < 20; second++) {
      const checked = gateway.health();
      await clock.advance(1_000);
      expect(await checked).toMatchObject({ ready: false });
    }
    expect(asked).toBe(2);
  });

  it("asks its store at most once a second, and passes a context on", async () => {
    const contexts: unknown[] = [];
    const { gateway, clock } = opened({
      around: (store) => ({
        balance: (keyId, call) => {
          contexts.push(call?.context);
          return store.balance(keyId);
        },
      }),
    });
    await Promise.all([gateway.health(), gateway.health(), gateway.health()]);
    expect(contexts).toHaveLength(1);
    await clock.advance(1_000);
    await gateway.health();
    await gateway.health({ context: { db: 1 } });
    expect(contexts).toEqual([undefined, undefined, { db: 1 }]);
  });

  it("tells a metric the last answer to a check with a context, where its store needs one", async () => {
    let isAway = false;
    let gauges: GatewayGauges | undefined;
    const { gateway, clock, failures } = opened({
      around: (store) => ({
        async balance(keyId, call) {
          if (call?.context === undefined || isAway) throw new Error("no database");
          return store.balance(keyId);
        },
      }),
      observer: { begin: () => undefined, watchGateway: (told) => void (gauges = told) },
    });
    const told = async (): Promise<unknown> => {
      await clock.advance(15_000);
      return gauges?.isReady();
    };
    expect(await told()).toBe(false);
    const context = { db: 1 };
    await gateway.health({ context });
    expect([await told(), await told(), failures.length]).toEqual([true, true, 1]);
    isAway = true;
    await gateway.health({ context });
    expect([await told(), failures.length]).toEqual([false, 2]);
    isAway = false;
    await gateway.health({ context });
    expect([await told(), failures.length]).toEqual([true, 2]);
    await clock.advance(60_000);
    expect(await told(), "stands no longer than a minute").toBe(false);
  });

  it("tells its calls in flight, and is not ready while it closes", async () => {
    const { gateway, send, clock } = opened({ backend: speaking(WORD, never) });
    const answer = send();
    await clock.advance(0);
    expect(await gateway.health()).toMatchObject({ ready: true, calls: 1 });
    const closed = gateway.close({ deadlineMs: 5 });
    expect(await gateway.health()).toMatchObject({ ready: false, closing: true, calls: 1 });
    await clock.advance(5);
    await Promise.all([closed, answer]);
    expect(await gateway.health()).toMatchObject({ ready: false, calls: 0 });
  });

  it("tells the settlements that wait, and the stores that rest", async () => {
    const { gateway, send, clock } = opened({
      around: (store, at) => ({ ...failing(2).around(store, at), find: () => never }),
      limits: { storeBreakerFailures: 1, storeTimeoutMs: 2_000 },
    });
    const refused = send();
    await clock.advance(2_000);
    expect((await refused).status).toBe(503);
    expect(await gateway.health()).toMatchObject({
      ready: true,
      stores: { "quota-store": "resting" },
      reasons: { "quota-store": "The store has hung several times in a row." },
    });
    const waiting = opened({ around: failing(2).around });
    await (await waiting.send()).text();
    expect(await waiting.gateway.health()).toMatchObject({ waitingSettlements: 1 });
    await waiting.clock.advance(60_000);
    expect(await waiting.gateway.health()).toMatchObject({ waitingSettlements: 0 });
  });

  it("tells the upstreams that rest, and their last failure", async () => {
    const down: ModelBackend = {
      // oxlint-disable-next-line require-yield -- fails first
      async *chat() {
        throw new GatewayError("backend_unavailable", "Down.");
      },
    };
    const bench = opened();
    const backend = route({
      routes: {
        any: {
          upstreams: [
            { backend: down, name: "first" },
            { backend: speaking(WORD), name: "second", weight: 0 },
          ],
        },
      },
      breaker: { failures: 1, openMs: 30_000 },
      clock: bench.clock,
    });
    const { gateway, send } = opened({ backend });
    expect((await send()).status).toBe(200);
    expect(await gateway.health()).toMatchObject({
      ready: true,
      restingUpstreams: 1,
      upstreams: [
        {
          route: "any",
          upstream: "first",
          state: "open",
          waitMs: 30_000,
          lastFailure: { code: "backend_unavailable", at: bench.clock.now() },
        },
        { route: "any", upstream: "second", state: "closed", waitMs: 0, lastFailure: undefined },
      ],
    });
  });

  it("tells the upstream of a relay alone, and its last failure until it answers", async () => {
    let isDown = true;
    const { clock } = opened();
    const backend = relay({
      format: "messages",
      baseUrl: "https://api.example.com/v1",
      name: "fake",
      clock,
      fetch: async () => {
        if (isDown)
          throw new TypeError("fetch failed", { cause: Object.assign(new Error(), { code: "ECONNREFUSED" }) });
        return answered();
      },
    });
    const { gateway, send } = opened({ backend });
    const state = { route: "*", upstream: "fake", state: "closed", waitMs: 0 };
    const upstreams = async (): Promise<unknown> => (await gateway.health()).upstreams;
    expect(await upstreams()).toEqual([{ ...state, lastFailure: undefined }]);
    expect((await send()).status).toBe(503);
    const mistake =
      "The upstream at https://api.example.com takes no connections. Check that it runs, and the baseUrl of the relay.";
    expect(await upstreams()).toEqual([
      { ...state, lastFailure: { code: "backend_unavailable", at: clock.now(), mistake } },
    ]);
    isDown = false;
    expect((await send()).status).toBe(200);
    expect(await upstreams()).toEqual([{ ...state, lastFailure: undefined }]);
  });

  describe.each(["alone", "in a route"])("with an upstream %s that refuses", (place) => {
    it.each([
      [
        "its key",
        wrongKey,
        "backend_refused",
        "The upstream refuses the relay's credential. Check its apiKey and headers.",
      ],
      [
        "this service",
        refusing(403, "permission_error", "No such region."),
        "backend_refused",
        "The upstream refuses the relay's credential or account. Check its apiKey, what it may use, and its credit.",
      ],
      [
        "the model that the host names",
        noModel,
        "model_not_found",
        "The upstream fake does not have the model any. Correct this name in the route or in the models of the relay.",
      ],
    ])("%s, tells of it from the third call on, until an answer is complete", async (_what, refused, code, mistake) => {
      const ask = asked(place);
      expect(await ask(2, refused)).toBeUndefined();
      expect(await ask(1, refused)).toEqual({ code, times: 3, at: -1_000, since: -3_000, mistake });
      expect(await ask(9, refused)).toEqual({ code, times: 12, at: -1_000, since: -12_000, mistake });
      expect(await ask(1, answered)).toBeUndefined();
      expect(await ask(2, refused)).toBeUndefined();
    });

    it.each([
      ["is at its rate limit", refusing(429, "rate_limit_error", "Slow down."), "rate_limited"],
      ["fails", refusing(500, "api_error", "Oops."), "backend_failed"],
    ])(
      "calls and %s, tells of it from the third call on, and whether one key may be the cause",
      async (_how, refused, code) => {
        const ask = asked(place);
        expect(await ask(2, refused)).toBeUndefined();
        expect(await ask(1, refused)).toEqual({ code, times: 3, at: -1_000, since: -3_000, ofOneKey: true });
        expect(await ask(1, refused, ["two"])).toEqual({ code, times: 4, at: -1_000, since: -4_000 });
        expect(await ask(1, answered)).toBeUndefined();
        // A wrong key of the host is the fault of no caller, whatever other errors came before.
        expect(await ask(3, refused)).toMatchObject({ ofOneKey: true });
        expect(await ask(2, wrongKey)).toMatchObject({ code: "backend_refused", times: 5, ofOneKey: true });
        expect(await ask(1, wrongKey)).not.toHaveProperty("ofOneKey");
      },
    );

    it.each([
      ["requests", wrongPrompt, "invalid_request", true],
      ["a model that callers name", noModel, "model_not_found", false],
    ])("%s, tells of many in a row, and whether they are of one key", async (_what, refused, code, isListed) => {
      const ask = asked(place, isListed);
      expect(await ask(9, refused)).toBeUndefined();
      expect(await ask(1, refused)).toMatchObject({ code, times: 10, ofOneKey: true });
      expect(await ask(1, refused, ["two"])).toEqual({ code, times: 11, at: -1_000, since: -11_000 });
      expect(await ask(1, answered)).toBeUndefined();
      expect(await ask(9, refused, ["one", "two"])).toBeUndefined();
    });

    it("some requests, tells of none while others are answered", async () => {
      const ask = asked(place);
      for (let round = 0; round < 5; round++) {
        expect(await ask(9, wrongPrompt)).toBeUndefined();
        expect(await ask(1, answered, ["two"])).toBeUndefined();
      }
    });
  });

  it.each([
    [
      "throws",
      () => {
        throw AWAY;
      },
    ],
    ["lies", () => "all good" as never],
    ["lists nothing of use", () => [null, 5, {}] as never],
  ])("is healthy where the status of its backend %s", async (_how, status) => {
    const { gateway } = opened({ backend: { ...speaking(WORD), status } });
    expect(await gateway.health()).toMatchObject({ ready: true, upstreams: [] });
  });
});
