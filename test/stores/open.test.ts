/** `openStores`: everything that a long-running gateway needs, from one address. */

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { inspect, promisify } from "node:util";
import { sql } from "kysely";
import { createConnection } from "mysql2/promise";
import { createClient } from "redis";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { keyAdmin } from "../../src/admin/index.ts";
import { openStore } from "../../src/admin/open-store.ts";
import {
  type ApiKey,
  createGateway,
  flexibleRateLimiter,
  type RateCounter,
  type RateVerdict,
} from "../../src/index.ts";
import { priceTable } from "../../src/prices/index.ts";
import { type OpenedStores, openStores, type OpenStoresOptions } from "../../src/stores/open/index.ts";
import { testGateway } from "../../src/testing/index.ts";
import { REDIS, redisAnswers } from "./redis/servers.ts";
import { databases, newMysql, newPostgres } from "./sql/databases.ts";

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const opened = async (address: string, options?: OpenStoresOptions): Promise<OpenedStores> => {
  const stores = await openStores(address, options);
  undo.push(() => stores.close());
  return stores;
};

async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "polygate-open-"));
  undo.push(() => rm(folder, { recursive: true, force: true }));
  return `sqlite:${join(folder, "gateway.db")}`;
}

const newDatabase = (make: typeof newPostgres) => async (): Promise<string> => {
  const { address, remove } = await make();
  undo.push(remove);
  return address;
};

const answers = (dialect: string): boolean =>
  databases.some(({ name, dialect: its, available }) => its === dialect && available && name !== "PGlite");

/** Each store, with a new and empty address, and a prefix of its own. */
const STORES = [
  { name: "SQLite", available: true, place: newFile, prefix: "own_" },
  { name: "PostgreSQL", available: answers("postgres"), place: newDatabase(newPostgres), prefix: "own_" },
  { name: "MySQL or MariaDB", available: answers("mysql"), place: newDatabase(newMysql), prefix: "own_" },
  { name: "Redis", available: redisAnswers, place: async () => REDIS, prefix: `test-${randomUUID().slice(0, 8)}` },
];

const backend = {
  async *chat() {
    yield "Hello.";
  },
};

afterAll(async () => {
  if (!redisAnswers) return;
  const client = await createClient({ url: REDIS }).connect();
  const names = await client.keys(`${STORES.at(-1)?.prefix}:*`);
  if (names.length > 0) await client.del(names);
  client.destroy();
});

/** Sends a call with `sk-one`, and returns its status. */
async function ask(gateway: ReturnType<typeof createGateway>, model = "any"): Promise<number> {
  const response = await gateway.fetch(
    new Request("http://host/v1/chat/completions", {
      method: "POST",
      headers: { authorization: "Bearer sk-one", "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] }),
    }),
  );
  await response.text();
  return response.status;
}

const isRedis = ({ name }: (typeof STORES)[number]): boolean => name === "Redis";

describe.each(STORES.filter((one) => !isRedis(one)))(
  "openStores on $name, for calls",
  ({ available, place, prefix }) => {
    it.skipIf(!available)("records calls, which its reports add up, and sweeps them", async () => {
      const address = await place();
      const stores = await openStores(address, { prefix });
      const { quotas } = stores.ports;
      await quotas.addBudget({ id: "team", amount: 1_000_000, period: "month" });
      await quotas.add({ id: "one", apiKey: "sk-one", budget: "team", metadata: { group: "blue" } });
      const onCall = stores.recorder();
      const prices = priceTable({ "*": { input: 1, output: 1 } });
      const gateway = createGateway({ backend, onCall, ...prices, ...stores.ports });
      expect([await ask(gateway, "m"), await ask(gateway, "m"), await ask(gateway, "other")]).toEqual([200, 200, 200]);
      await gateway.close();
      const { used } = (await quotas.budgetReport("team")) ?? {};
      // Closing writes what waits.
      await stores.close();
      const reader = await opened(address, { prefix });
      await reader.sweep();
      const { rows, total } = await reader.calls.usage({ by: ["budget", "group", "key", "model"] });
      expect(total.units).toBe(used);
      expect(rows.map(({ model, calls, budget, group, key }) => [budget, group, key, model, calls])).toEqual([
        ["team", "blue", "one", "m", 2],
        ["team", "blue", "one", "other", 1],
      ]);
      const [last] = await reader.calls.list({ limit: 1 });
      expect(await reader.calls.find(last?.requestId ?? "")).toEqual(last);
      expect(last).toMatchObject({ currency: "USD", status: 200, format: "chat-completions" });
      // The command line now refuses an amount without a currency, and shows money.
      expect((await reader.calls.usage()).currency).toBe("USD");
    });
  },
);

it("says that a recorder is made by a call, where the function itself got a record", async () => {
  const stores = await openStores("sqlite::memory:");
  const g = testGateway({ onCall: (record) => stores.recorder(record as never) });
  await g.fetch("/v1/models", { headers: { authorization: `Bearer ${g.apiKey}` } });
  await g.close();
  expect(g.failures.map(({ text }) => text).join("\n")).toContain("write onCall: stores.recorder(), with parentheses.");
  await stores.close();
});

describe.each(STORES.filter(isRedis))("openStores on $name, for calls", ({ available, place, prefix }) => {
  it.skipIf(!available)("says that it keeps no record of calls", async () => {
    const stores = await opened(await place(), { prefix });
    expect(() => stores.recorder()).toThrow("stores.recorder: Redis keeps no record of calls.");
    expect(() => stores.calls).toThrow("stores.calls: Redis keeps no record of calls.");
  });
});

describe.each(STORES)("openStores on $name", ({ name, available, place, prefix }) => {
  const isSql = name !== "Redis";

  it.skipIf(!available)("serves a gateway, with counters that also count long names of models", async () => {
    const stores = await opened(await place(), { prefix });
    const { quotas } = stores.ports;
    await quotas.add({ id: `é ${"k".repeat(180)}`, apiKey: "sk-one", granted: 1_000_000 });
    undo.push(() => quotas.removeSecret("sk-one"));
    const rateLimiter = flexibleRateLimiter({
      perKey: { tokens: [stores.counter(1_000_000, 60)] },
      perModel: { requests: [stores.counter(2, 3_600)] },
    });
    const failures: unknown[] = [];
    const onFailure = (failure: unknown): void => void failures.push(failure);
    const gateway = createGateway({ backend, rateLimiter, onFailure, ...stores.ports });
    const long = "m".repeat(256);
    expect([await ask(gateway, long), await ask(gateway, long), await ask(gateway, long)]).toEqual([200, 200, 429]);
    expect(await ask(gateway, "other")).toBe(200);
    expect("responseStore" in stores.ports).toBe(isSql);
    await gateway.close();
    expect(failures).toEqual([]);
  });

  it.skipIf(!available)(
    "tells a call that lacks tokens the wait of the last window that refuses it, by key, group and model",
    async () => {
      const stores = await opened(await place(), { prefix });
      const id = randomUUID();
      const key = { id, metadata: { group: id } } as unknown as ApiKey;
      const counters = (): RateCounter[] => [stores.counter(100, 60), stores.counter(100, 3_600)];
      for (const scope of ["perKey", "perGroup", "perModel"]) {
        const limiter = flexibleRateLimiter({ [scope]: { tokens: counters() } });
        const take = (callId: string, tokens: number): Promise<RateVerdict> =>
          limiter.take({ id: callId, keyId: id, key, model: "m", tokens });
        await limiter.begin({ id: "first", keyId: id, key });
        expect((await take("first", 60)).refused).toBeUndefined();
        await limiter.end("first", 60);
        const { refused } = await take("second", 60);
        expect(refused).toMatchObject({ needed: 60, available: 40, limit: 100, windowMs: 3_600_000 });
        expect(refused?.retryAfterMs).toBeGreaterThan(60_000);
        expect((await take("third", 101)).refused?.retryAfterMs).toBe(Number.POSITIVE_INFINITY);
        expect((await take("fourth", 40)).refused).toBeUndefined();
      }
    },
  );

  it.skipIf(!available)("shares a counter with other processes, except in SQLite", async () => {
    const address = await place();
    const [one, other] = [await opened(address, { prefix }), await opened(address, { prefix })];
    const key = randomUUID();
    await one.counter(5, 60).consume(key, 2);
    const { remainingPoints } = await other.counter(5, 60).consume(key, 1);
    expect(remainingPoints).toBe(name === "SQLite" ? 4 : 2);
    await expect(one.counter(5, 60).consume(key, 9)).rejects.toMatchObject({ remainingPoints: 0 });
  });

  it.skipIf(!available)("lets its process end after close, also when several processes start at once", async () => {
    const address = await place();
    const script = `
      import { openStores } from ${JSON.stringify(new URL("../../src/stores/open/index.ts", import.meta.url).href)};
      const stores = await openStores(process.argv[1], { prefix: process.argv[2] });
      const { remainingPoints } = await stores.counter(3, 60).consume(process.argv[3], 1);
      await stores.sweep();
      await Promise.all([stores.close(), stores.close()]);
      console.log(remainingPoints);
    `;
    const args = ["--input-type=module", "--eval", script, address, prefix, randomUUID()];
    const start = () => promisify(execFile)(process.execPath, args);
    const said = (await Promise.all([start(), start(), start()])).map(({ stdout }) => Number(stdout));
    expect(said.toSorted((one, other) => one - other)).toEqual(name === "SQLite" ? [2, 2, 2] : [0, 1, 2]);
  });

  it.skipIf(!available)("charges the holds of dead processes, and reports a sweep that fails", async () => {
    const errors: unknown[] = [];
    const stores = await opened(await place(), { prefix, onError: (error) => void errors.push(error) });
    const { quotas } = stores.ports;
    const keyId = randomUUID();
    await quotas.add({ id: keyId, apiKey: `sk-${keyId}`, granted: 100 });
    await quotas.reserve({ id: randomUUID(), keyId, atLeast: 1, atMost: 40, leaseMs: 1 });
    await expect.poll(async () => (await stores.sweep(), (await quotas.balance(keyId))?.held)).toBe(0);
    expect(errors).toEqual([]);
    await stores.close();
    await stores.sweep();
    expect(errors.length).toBeGreaterThan(0);
  });
});

/** A place in front of a database. Its server is away until `open`. */
async function door(address: string) {
  const { hostname, port: behind } = new URL(address);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const other = connect(Number(behind), hostname);
    for (const one of [socket, other]) sockets.add(one.on("error", () => {}));
    socket.pipe(other).pipe(socket);
  });
  const open = async (port = 0): Promise<number> => {
    await once(server.listen(port, "127.0.0.1"), "listening");
    return (server.address() as AddressInfo).port;
  };
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    if (server.listening) await once(server.close(), "close");
  };
  const port = await open();
  await close();
  undo.push(close);
  const url = new URL(address);
  url.port = String(port);
  return { address: url.href, port, open: () => open(port), close };
}

describe.each(STORES.filter(({ name }) => name !== "SQLite"))(
  "openStores at the address of $name",
  ({ available, place, prefix }) => {
    it.skipIf(!available)("says that a server is away, with its address and without its password", async () => {
      const { port, address } = await door(await place());
      const { protocol } = new URL(address);
      for (const migrate of [true, false]) {
        const errors: unknown[] = [];
        const onError = (error: unknown): void => void errors.push(error);
        await opened(`${protocol}//me:secr%40et@127.0.0.1:${port}/4?password=more-secret`, { migrate, onError });
        expect(errors.map(String)).toEqual([
          `Error: openStores: ${protocol}//me@127.0.0.1:${port}/4 cannot be used: connect ECONNREFUSED 127.0.0.1:${port}. The stores ask again every second.`,
        ]);
      }
    });

    it.skipIf(!available)("starts while a server is away, is not ready, and serves when it is there", async () => {
      const { address, open } = await door(await place());
      const errors: unknown[] = [];
      const stores = await opened(address, { prefix, onError: (error) => void errors.push(error) });
      const onFailure = vi.fn<() => void>();
      const gateway = createGateway({ backend, onFailure, limits: { storeTimeoutMs: 500 }, ...stores.ports });
      expect([await ask(gateway), (await gateway.health()).ready]).toEqual([503, false]);
      await open();
      await expect.poll(async () => (await gateway.health()).ready, { timeout: 10_000 }).toBe(true);
      await stores.ports.quotas.add({ id: "one", apiKey: "sk-one", granted: 1_000_000 });
      undo.push(() => stores.ports.quotas.removeSecret("sk-one"));
      expect(await ask(gateway)).toBe(200);
      await gateway.close();
      expect(errors.length).toBe(1);
    });

    it.skipIf(!available)(
      "can be closed while a server is away, also when the host's own function never ends",
      async () => {
        const { address } = await door(await place());
        const stores = await openStores(address, { prefix, onError: (): unknown => new Promise(() => {}) });
        await expect(stores.close()).resolves.toBeUndefined();
      },
    );
  },
);

// A client of Redis waits for its server, and a sweep with it.
describe.each(STORES.filter(({ name }) => name !== "SQLite" && name !== "Redis"))(
  "openStores while $name is away",
  ({ available, place, prefix }) => {
    it.skipIf(!available)(
      "tells an outage once, and the next outage again, however many sweeps and records fail",
      async () => {
        const { address, open, close } = await door(await place());
        await open();
        const errors: unknown[] = [];
        const stores = await opened(address, { prefix, onError: (error) => void errors.push(error) });
        const onCall = stores.recorder({ flushMs: 1 });
        const gateway = createGateway({ backend, ...stores.ports, onCall, onFailure: () => {} });
        await stores.sweep();
        expect(errors).toEqual([]);
        for (const outage of [1, 2]) {
          await close();
          expect(await ask(gateway)).toBe(503);
          for (const _ of [1, 2, 3]) await stores.sweep();
          expect(errors.length).toBe(outage);
          expect(String(errors.at(-1))).toMatch(
            /^Error: openStores: \w+:\/\/\S+ cannot be used: .+\. Sweeps and records go on when it is back\.$/,
          );
          await open();
          await stores.sweep();
        }
        await gateway.close();
        expect(errors.length).toBe(2);
      },
    );
  },
);

it("openStores opens beside a Redis that accepts connections and never answers", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  undo.push(async () => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const errors: unknown[] = [];
    const opening = openStores(`redis://127.0.0.1:${port}`, { onError: (error) => void errors.push(error) });
    const [socket] = (await once(server, "connection")) as [Socket];
    await once(socket, "data");
    await vi.advanceTimersByTimeAsync(15_000);
    const stores = await opening;
    expect(String(errors[0])).toContain("cannot be used: the server does not answer. The stores ask again");
    socket.destroy();
    await stores.close();
  } finally {
    vi.useRealTimers();
  }
});

/** Opens an address of PostgreSQL that names no user, and returns the user and the database that the client names to the server. */
async function namedBy(query = "", user = ""): Promise<readonly string[]> {
  vi.stubEnv("PGUSER", user);
  vi.stubEnv("USER", "");
  const server = createServer().listen(0, "127.0.0.1");
  undo.push(
    async () => server.close(),
    async () => void vi.unstubAllEnvs(),
  );
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const opening = openStores(`postgres://127.0.0.1:${port}/sea${query}`, { onError: () => {}, sweepMs: 0 });
  const [socket] = (await once(server, "connection")) as [Socket];
  const [first] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  await (await opening).close();
  return first.toString("latin1", 8).split("\0").slice(0, 4);
}

describe.skipIf(!answers("postgres"))("an address of PostgreSQL", () => {
  it.each([
    ["", 2],
    ["?pgbouncer=true", 0],
  ])("with %j keeps %d statements prepared on its connection", async (query, count) => {
    const stores = await opened((await newDatabase(newPostgres)()) + query, { connections: 1 });
    const { quotas } = stores.ports;
    const keyId = await quotas.add({ granted: 10 });
    await quotas.reserve({ id: "call", keyId, atLeast: 1, atMost: 1, leaseMs: 60_000 });
    await quotas.settle("call", { used: 1, certainty: "exact" });
    const { rows } = await sql`SELECT name FROM pg_prepared_statements`.execute(stores.db);
    expect(rows).toHaveLength(count);
  });
});

describe("an address of PostgreSQL without a user", () => {
  it("is opened as the user of the operating system, as psql does", async () => {
    const named = ["user", userInfo().username, "database", "sea"];
    expect(await namedBy()).toEqual(named);
    expect(await namedBy("?application_name=bay")).toEqual(named);
  });

  it("is opened as PGUSER or its parameter names the user", async () => {
    expect(await namedBy("", "ann")).toEqual(["user", "ann", "database", "sea"]);
    expect(await namedBy("?user=bo")).toEqual(["user", "bo", "database", "sea"]);
  });
});

for (const { name, available, place } of STORES.filter((store) =>
  ["PostgreSQL", "MySQL or MariaDB"].includes(store.name),
))
  it.skipIf(!available)(`openStores refuses a database that ${name} does not have`, async () => {
    const url = new URL(await place());
    url.pathname = "/polygate_nowhere";
    await expect(openStores(url.href)).rejects.toThrow(/\/polygate_nowhere cannot be used: .*polygate_nowhere/);
  });

describe.each(STORES.filter(({ name }) => name !== "Redis"))(
  "openStores over the tables of $name",
  ({ available, place, prefix }) => {
    it.skipIf(!available)("works with the tables of the command, and shares the database with the host", async () => {
      const address = await place();
      const command = await openStore(address, { prefix, create: true });
      const stores = await opened(address, { prefix, migrate: false });
      await expect(stores.ports.quotas.list()).rejects.toThrow('Run "polygate keys migrate"');
      await command.migrate?.();
      await command.close();
      expect(await keyAdmin(stores.ports.quotas).list()).toEqual([]);
      await stores.counter(1, 60).consume("one", 1);
      const db = stores.db.withTables<{ calls: { id: string } }>();
      await db.schema.createTable("calls").addColumn("id", "varchar(20)").execute();
      await db.insertInto("calls").values({ id: "call-1" }).execute();
      expect(await db.selectFrom("calls").selectAll().execute()).toEqual([{ id: "call-1" }]);
    });
  },
);

for (const { name, available, place, readOnly } of [
  { ...STORES[1], readOnly: "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY" },
  { ...STORES[2], readOnly: "SET SESSION TRANSACTION READ ONLY" },
])
  it.skipIf(!available)(`leaves a connection to ${name} that has become read-only`, async () => {
    const stores = await opened((await place?.()) ?? "", { connections: 1 });
    const { quotas } = stores.ports;
    await sql.raw(readOnly).execute(stores.db);
    await expect(quotas.add({ id: "one" })).rejects.toThrow(/read.only/i);
    expect(await quotas.add({ id: "one" })).toBe("one");
  });

it.skipIf(!answers("postgres"))("opens a read-only PostgreSQL, with its tables or while it has none", async () => {
  const { address, remove } = await newPostgres();
  undo.push(remove);
  const readOnly = `${address}?options=${encodeURIComponent("-c default_transaction_read_only=on")}`;
  const errors: string[] = [];
  const onError = (error: unknown): void => void errors.push(String(error));
  await opened(readOnly, { onError });
  expect(errors).toEqual([expect.stringContaining("in a read-only transaction. The stores ask again every second.")]);
  const stores = await opened(address);
  await stores.ports.quotas.add({ id: "one", granted: 5 });
  const { ports } = await opened(readOnly, { onError });
  expect(await ports.quotas.balance("one")).toMatchObject({ available: 5 });
  expect(errors.length).toBe(1);
});

it.skipIf(!redisAnswers)("refuses at once while Redis refuses connections, and serves when it is there", async () => {
  const { address, open } = await door(REDIS);
  const { quotas } = (await opened(address, { onError: () => {} })).ports;
  await expect(quotas.list()).rejects.toThrow("connect ECONNREFUSED");
  await open();
  await expect.poll(async () => quotas.list().catch(() => undefined), { timeout: 10_000 }).toBeTypeOf("object");
});

it.skipIf(!redisAnswers)("keeps calls while a connection to Redis that was reset is made anew", async () => {
  const { hostname, port: behind } = new URL(REDIS);
  const connections: Socket[] = [];
  const through = (socket: Socket): unknown => {
    const other = connect(Number(behind), hostname);
    undo.push(async () => void other.destroy());
    return socket.pipe(other).pipe(socket);
  };
  const server = createServer((socket) => {
    connections.push(socket.on("error", () => {}));
    if (connections.length === 1) through(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  undo.push(async () => void server.close());
  const { quotas } = (await opened(`redis://127.0.0.1:${(server.address() as AddressInfo).port}`)).ports;
  await quotas.list();
  connections[0]?.resetAndDestroy();
  await expect.poll(() => connections.length).toBe(2);
  const listed = quotas.list();
  through(connections[1] as Socket);
  await expect(listed).resolves.toBeTypeOf("object");
});

it.skipIf(!redisAnswers).each<readonly [what: string, write: (stores: OpenedStores) => Promise<unknown>]>([
  ["a store", ({ ports }) => ports.quotas.recall("one")],
  ["a counter", (stores) => stores.counter(1_000_000, 60).consume("one", 1)],
])("leaves a Redis that is a replica since a failover, when %s has met it", async (_what, write) => {
  const { prefix = "" } = STORES.at(-1) ?? {};
  const { hostname, port: behind } = new URL(REDIS);
  let isReplica = false;
  let connections = 0;
  const server = createServer((socket) => {
    const other = connect(Number(behind), hostname);
    for (const one of [socket, other]) undo.push(async () => void one.on("error", () => {}).destroy());
    connections++;
    other.pipe(socket);
    socket.on("data", (sent) => {
      if (!isReplica || connections > 1) other.write(sent);
      else if (sent.includes("QUIT")) socket.end("+OK\r\n");
      else socket.write("-READONLY You can't write against a read only replica.\r\n");
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  undo.push(async () => void server.close());
  const stores = await opened(`redis://127.0.0.1:${(server.address() as AddressInfo).port}`, { prefix });
  await write(stores);
  isReplica = true;
  await expect(write(stores)).rejects.toThrow("READONLY");
  const isWritten = (): Promise<boolean> =>
    write(stores).then(
      () => true,
      () => false,
    );
  await expect.poll(isWritten, { timeout: 10_000 }).toBe(true);
  expect(connections).toBe(2);
});

it.skipIf(!redisAnswers)("waits for Redis that was away, and then refuses connections for a while", async () => {
  const { address, port, open } = await door(REDIS);
  const errors: unknown[] = [];
  const stores = await opened(address, { onError: (error) => void errors.push(error) });
  const full = createServer((socket) =>
    socket.on("error", () => {}).end("-ERR max number of clients reached\r\n", () => socket.destroy()),
  );
  await once(full.listen(port, "127.0.0.1"), "listening");
  await expect.poll(() => errors.length, { timeout: 10_000 }).toBe(2);
  await once(full.close(), "close");
  await open();
  await expect
    .poll(async () => stores.ports.quotas.list().catch(() => undefined), { timeout: 10_000 })
    .toBeTypeOf("object");
  const { host } = new URL(address);
  expect(errors.slice(0, 2).map(String)).toEqual(
    [`connect ECONNREFUSED ${host}`, "ERR max number of clients reached"].map(
      (problem) => `Error: openStores: redis://${host} cannot be used: ${problem}. The stores ask again every second.`,
    ),
  );
});

it.skipIf(!answers("mysql"))("keeps the process alive when counters lose their connections", async () => {
  const address = await newDatabase(newMysql)();
  const stores = await opened(address);
  const counter = stores.counter(1_000_000, 60);
  const client = await createConnection(address);
  undo.push(() => client.end());
  let lost = 0;
  const over = new AbortController();
  const lane = async (key: string): Promise<void> => {
    while (!over.signal.aborted) await counter.consume(key, 1).catch(() => (lost += 1));
  };
  const lanes = Promise.all(["a", "b", "c", "d"].map(lane));
  await expect
    .poll(async () => {
      const [rows] = await client.query(
        "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()",
      );
      for (const { id } of rows as { id: number }[]) await client.query(`KILL ${id}`).catch(() => {});
      return lost;
    })
    .toBeGreaterThan(4);
  over.abort();
  await lanes;
  expect((await counter.consume("e", 1)).consumedPoints).toBe(1);
});

describe("openStores sweeps", () => {
  it("every minute or as often as it is told, deletes old holds, and stops at close", async () => {
    const timers = vi.spyOn(globalThis, "setInterval");
    undo.push(async () => timers.mockRestore());
    const stores = await opened("sqlite::memory:", { keepDays: 2 });
    await opened("sqlite::memory:", { sweepMs: 5 });
    await opened("sqlite::memory:", { sweepMs: 0 });
    expect(timers.mock.calls.map(([, ms]) => ms)).toEqual([60_000, 5]);
    const timer = timers.mock.results[0]?.value as NodeJS.Timeout;
    expect(timer.hasRef()).toBe(false);

    const { quotas } = stores.ports;
    await quotas.add({ id: "one", apiKey: "sk-one", granted: 100 });
    for (const [id, days] of Object.entries({ old: 3, young: 1 })) {
      await quotas.reserve({ id, keyId: "one", atLeast: 1, atMost: 10, leaseMs: 60_000 });
      await quotas.settle(id, { used: 5, certainty: "exact" });
      const db = stores.db.withTables<{ polygate_holds: { id: string; resolved_at: number } }>();
      const set = { resolved_at: Date.now() - days * 86_400_000 };
      await db.updateTable("polygate_holds").set(set).where("id", "=", id).execute();
    }
    for (const [run] of timers.mock.calls.slice(0, 1)) run();
    const holds = stores.db.withTables<{ polygate_holds: { id: string } }>().selectFrom("polygate_holds").select("id");
    await expect.poll(() => holds.execute()).toEqual([{ id: "young" }]);
    const cleared = vi.spyOn(globalThis, "clearInterval");
    undo.push(async () => cleared.mockRestore());
    await stores.close();
    expect(cleared).toHaveBeenCalledWith(timer);
  });

  it("and writes why a sweep has failed, without a password", async () => {
    const written = vi.spyOn(console, "error").mockImplementation(() => {});
    undo.push(async () => written.mockRestore());
    const stores = await opened("sqlite::memory:");
    vi.spyOn(stores.ports.quotas, "sweep").mockRejectedValue(
      new Error("No postgres://me:secret@host or redis:me:secret@host here."),
    );
    await stores.sweep();
    expect(written.mock.calls).toEqual([["The stores have a problem: No postgres://***@host or redis:***@host here."]]);
  });

  it("and tells a failure that every sweep meets once, until it is over", async () => {
    const errors: unknown[] = [];
    const stores = await opened("sqlite::memory:", { onError: (error) => void errors.push(error) });
    const sweep = vi.spyOn(stores.ports.quotas, "sweep");
    for (const message of ["No.", "No.", "Never.", "Never."]) {
      sweep.mockRejectedValueOnce(new Error(message));
      await stores.sweep();
    }
    expect(errors.map(String)).toEqual(["Error: No.", "Error: Never."]);
    await stores.sweep();
    sweep.mockRejectedValueOnce(new Error("Never."));
    await stores.sweep();
    expect(errors.length).toBe(3);
  });

  it("and writes that the stores are back", async () => {
    const written = vi.spyOn(console, "error").mockImplementation(() => {});
    undo.push(async () => written.mockRestore());
    const stores = await opened("sqlite::memory:");
    const away = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    vi.spyOn(stores.ports.quotas, "sweep").mockRejectedValueOnce(away).mockRejectedValueOnce(away);
    for (const _ of [1, 2, 3, 4]) await stores.sweep();
    expect(written.mock.calls).toEqual([
      [expect.stringContaining("connect ECONNREFUSED. Sweeps and records go on when it is back.")],
      ["The stores are back: sqlite::memory:"],
    ]);
  });

  it("and tells an outage of a recorder once, and writes what waits when it is closed", async () => {
    const errors: unknown[] = [];
    const stores = await opened("sqlite::memory:", { onError: (error) => void errors.push(error) });
    const onCall = stores.recorder();
    await stores.ports.quotas.add({ id: "one", apiKey: "sk-one", granted: 1_000 });
    const gateway = createGateway({ backend, ...stores.ports, onCall });
    await sql`ALTER TABLE polygate_calls RENAME TO away`.execute(stores.db);
    expect(await ask(gateway)).toBe(200);
    await expect(onCall.flush()).rejects.toThrow("polygate_calls");
    await sql`ALTER TABLE away RENAME TO polygate_calls`.execute(stores.db);
    await onCall.flush();
    expect((await stores.calls.usage()).total).toMatchObject({ calls: 1 });
    expect(errors).toEqual([]);
  });

  it("and goes on where the host's own function fails", async () => {
    const onError = vi.fn<() => void>().mockImplementation(() => {
      throw new Error("The host's own.");
    });
    const stores = await opened("sqlite::memory:", { onError });
    vi.spyOn(stores.ports.quotas, "sweep").mockRejectedValue(new Error("No."));
    const next = vi.spyOn(stores.ports.quotas, "prune");
    await stores.sweep();
    expect([onError.mock.calls.length, next.mock.calls.length]).toEqual([1, 1]);
  });
});

describe("stores.recorder refuses", () => {
  it.each<readonly [string, object, string]>([
    ["a misspelt option", { keepDay: 3 }, "keepDays"],
    ["no days", { keepDays: 0 }, "keepDays"],
    ["an unknown time zone", { timeZone: "Mars" }, '"Mars" is no time zone.'],
    ["no code of a currency", { currency: "dollars" }, "currency must be a code of three letters"],
    ["a group that is no function", { groupOf: "team" }, "groupOf"],
  ])("%s", async (_what, options, message) => {
    const stores = await opened("sqlite::memory:");
    expect(() => stores.recorder(options)).toThrow(message);
  });
});

describe("openStores refuses", () => {
  it.each<readonly [string, unknown, unknown, string]>([
    ["no address", undefined, {}, "openStores: the address of the store must be a text, such as sqlite:gateway.db"],
    ["an empty address", "", {}, "openStores: The address of the store"],
    ["a file alone", "./new-comer.db", {}, "redis://…. Did you mean sqlite:./new-comer.db?"],
    ["another kind of address", "mssql://x", {}, "must be sqlite:FILE, postgres://…, mysql://… or redis://…"],
    ["no file", "sqlite:", {}, "openStores: sqlite: must be followed by a file."],
    [
      "a folder that is not there",
      "sqlite:/nowhere/x.db",
      {},
      "openStores: There is no folder /nowhere for the database.",
    ],
    ["a password that breaks the address", "postgres://me:a/b#c@host/db", {}, "Write @, :, /, ? and #"],
    ...["postgres:me:a/b#c@host", "postgres://me:12/a/b#c@host/db", "mysql://me:12?a/b#c@host", "redis:a/b#c@host"].map(
      (address) => [`a mistake around a password (${address})`, address, {}, "is no valid URL"] as const,
    ),
    ["an address without slashes", "postgres:db", {}, 'begins with postgres://. Write // behind "postgres:".'],
    ["a port beyond all", "postgres://me:a@host:99999/db", {}, "Its port must be a number from 1 to 65535."],
    ["a port beyond all, of Redis", "redis://host:70000", {}, "Its port must be a number from 1 to 65535."],
    ["a password that may look like a port", "postgres://me:99999/b@host/db", {}, "Write @, :, /, ? and #"],
    ["a file that is not there, without migrate", "sqlite:/nowhere/x.db", { migrate: false }, "There is no file"],
    [
      "an unknown option",
      "sqlite::memory:",
      { keepdays: 3 },
      "openStores: keepdays does not exist; did you mean keepDays?",
    ],
    ["options of another kind", "sqlite::memory:", 3, "openStores: expects an object of options"],
    ["prefix", "sqlite::memory:", { prefix: "no-" }, '"no-keys" is no name for a table.'],
    ["prefix in Redis", REDIS, { prefix: "a b" }, '"a b" is no prefix.'],
    ...["app:budget", "app:owner:b", "app:secret", "app:rates"].map(
      (prefix) =>
        [
          `prefix in Redis (${prefix})`,
          REDIS,
          { prefix },
          `"${prefix}" is no prefix: the store of the prefix "app" may have the same names.`,
        ] as const,
    ),
    ["a prefix of another kind", "sqlite::memory:", { prefix: 1 }, "openStores: prefix must be a text"],
    ["migrate", "sqlite::memory:", { migrate: "no" }, "openStores: migrate must be true or false, not a text."],
    [
      "connections",
      "sqlite::memory:",
      { connections: 0 },
      "openStores: connections must be an integer from 1 to 1000, not 0.",
    ],
    [
      "keepDays",
      "sqlite::memory:",
      { keepDays: 0.5 },
      "openStores: keepDays must be an integer from 1 to 36500, not 0.5.",
    ],
    [
      "sweepMs",
      "sqlite::memory:",
      { sweepMs: -1 },
      "openStores: sweepMs must be an integer from 0 to 2147483647, not -1.",
    ],
    ["onBudget", "sqlite::memory:", { onBudget: "mail" }, "openStores: onBudget must be a function, not a text."],
    ["onError", "sqlite::memory:", { onError: null }, "openStores: onError must be a function, not null."],
  ])("%s", async (_name, address, options, message) => {
    const failure: unknown = await openStores(address as string, options as OpenStoresOptions).catch((error) => error);
    expect(String(failure)).toContain(message);
    expect(inspect(failure)).not.toContain("a/b#c");
  });

  it.each([
    [0, 60, "points must be an integer from 1 to 1000000000, not 0."],
    [60, 30 * 86_400, "seconds must be an integer from 1 to 2147483, not 2592000."],
    [1, Number.NaN, "seconds must be an integer"],
  ])("a counter of %d points in %d seconds", async (points, seconds, message) => {
    const stores = await opened("sqlite::memory:");
    expect(() => stores.counter(points, seconds)).toThrow(`stores.counter: ${message}`);
  });

  it.skipIf(!redisAnswers)("tables of the host in Redis", async () => {
    const stores = await opened(REDIS);
    expect(() => stores.db).toThrow("Redis has no SQL database");
  });
});

it("ends on close also when its database is silent, in a sweep or at the end of its connections", async () => {
  const errors: string[] = [];
  const onError = (error: unknown): void => void errors.push(String(error));
  const stores = await openStores("sqlite::memory:", { sweepMs: 0, onError });
  const destroy = stores.db.destroy.bind(stores.db);
  undo.push(destroy);
  const silent = new Promise<never>(() => {});
  vi.spyOn(stores.db, "destroy").mockReturnValue(silent);
  vi.spyOn(stores.ports.quotas, "sweep").mockReturnValue(silent);
  vi.useFakeTimers();
  try {
    void stores.sweep();
    const closed = stores.close();
    await vi.advanceTimersByTimeAsync(20_000);
    await closed;
  } finally {
    vi.useRealTimers();
  }
  expect(errors).toEqual(Array(2).fill("Error: The database has not answered in time while the stores were closed."));
});
