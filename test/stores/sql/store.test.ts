/** The SQL store's promises beyond the port: its schema, its tables, its keys, and its housekeeping. */

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { Kysely, sql } from "kysely";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { retrying } from "../../../src/stores/sql/database.ts";
import {
  type DurableKeyOptions,
  type DurableQuotaStore,
  migrate,
  nodeSqliteDialect,
  SCHEMA_VERSION,
  schemaVersion,
  sqlQuotaStore,
  verifyLedger,
} from "../../../src/stores/sql/index.ts";
import { databases, sqliteDialect, sqliteInMemory, type TestPlace } from "./databases.ts";
import { storeAt } from "./open.ts";

const LEASE_MS = 600_000;
const SQLITE = { dialect: "sqlite" } as const;

const empty = () => new Kysely<unknown>({ dialect: sqliteDialect(":memory:") });

/** Returns the number of attempts of a work that fails, unless it is tried for long. */
async function triesOf(error: object): Promise<number> {
  let tries = 0;
  try {
    await retrying(async () => {
      if (++tries < 30) throw Object.assign(new Error("The store fails."), error);
    });
  } catch {}
  return tries;
}

it("tries a conflict again for a short time, and a busy file of SQLite for longer", async () => {
  const errors = [{}, { errcode: 2067 }, { code: "23505" }, { errno: 1062 }, { errcode: 517 }, { code: "SQLITE_BUSY" }];
  expect(await Promise.all(errors.map(triesOf))).toEqual([1, 20, 20, 20, 30, 30]);
});

describe("the schema", () => {
  it("is 0 before it is migrated, and the store says what to do", async () => {
    const db = empty();
    expect(await schemaVersion(db)).toBe(0);
    const store = sqlQuotaStore({ db, ...SQLITE });
    await expect(store.find("one")).rejects.toThrow(
      /tables are missing\. Run "polygate keys migrate", or migrate\(db\)/,
    );
    await migrate(db, SQLITE);
    expect(await schemaVersion(db)).toBe(SCHEMA_VERSION);
    expect(await store.find("one"), "the same store works once it is").toBeUndefined();
    // Also when somebody removes a table, or all of them, from a store that works.
    await db.schema.dropTable("polygate_keys").execute();
    await expect(store.report("one")).rejects.toThrow("no such table");
    await db.schema.dropTable("polygate_schema_version").execute();
    await expect(store.report("one")).rejects.toMatchObject({ code: "STORE_UNMIGRATED" });
    await db.destroy();
  });

  it("is made in a file of SQLite while no other process can write between two steps", async () => {
    const folder = await mkdtemp(join(tmpdir(), "polygate-migrate-"));
    const file = join(folder, "gateway.db");
    const [database, other] = [new DatabaseSync(file), new DatabaseSync(file)];
    const prepare = database.prepare.bind(database);
    const refused: unknown[] = [];
    database.prepare = (text, ...rest) => {
      if (/^alter table/i.test(text))
        try {
          other.exec("create table if not exists other (a integer)");
        } catch (error) {
          refused.push((error as { errcode?: number }).errcode);
        }
      return prepare(text, ...rest);
    };
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
    await migrate(db, SQLITE);
    // SQLITE_BUSY.
    expect(refused).toEqual([5, 5, 5, 5, 5, 5, 5]);
    expect(await schemaVersion(db)).toBe(SCHEMA_VERSION);
    other.close();
    await db.destroy();
    await rm(folder, { recursive: true });
  });

  it("is found in another database of the same server", async () => {
    const mysql = databases.find(({ dialect }) => dialect === "mysql");
    if (!mysql?.available) return;
    const [here, there] = [await mysql.place(), await mysql.place()];
    const name = new URL(there.address ?? "").pathname.slice(1);
    expect(await schemaVersion(here.db, { prefix: `${name}.${there.prefix}` })).toBe(SCHEMA_VERSION);
    expect(await schemaVersion(here.db, { prefix: `${name}.other_` })).toBe(0);
    expect(await schemaVersion(here.db, { prefix: "no_such_database.q_" })).toBe(0);
    for (const place of [here, there]) await place.remove();
  });

  it("of a newer polygate is refused", async () => {
    const db = empty();
    await migrate(db, SQLITE);
    await sql`UPDATE polygate_schema_version SET version = ${sql.lit(SCHEMA_VERSION + 1)}`.execute(db);
    const refusal = new RegExp(`version ${SCHEMA_VERSION + 1}.*newer polygate`);
    await expect(sqlQuotaStore({ db, ...SQLITE }).balance("key")).rejects.toThrow(refusal);
    await expect(migrate(db, SQLITE)).rejects.toThrow(refusal);
    await db.destroy();
  });

  it("is not made again in a database that takes no writes", async () => {
    const db = empty();
    await migrate(db, SQLITE);
    await sql`pragma query_only = on`.execute(db);
    await expect(migrate(db, SQLITE)).resolves.toBeUndefined();
    await db.destroy();
  });

  it("is made once, however often it is migrated", async () => {
    const db = empty();
    await Promise.all([migrate(db, SQLITE), migrate(db, SQLITE)]);
    await migrate(db, SQLITE);
    expect(await schemaVersion(db)).toBe(SCHEMA_VERSION);
    await db.destroy();
  });

  it("is made in SQLite also when another process locks it between two steps", async () => {
    const database = new DatabaseSync(":memory:");
    const locked: string[] = [];
    const prepare = database.prepare.bind(database);
    database.prepare = (text, ...rest) => {
      if (!/^alter table/i.test(text) || locked.includes(text)) return prepare(text, ...rest);
      locked.push(text);
      throw Object.assign(new Error("database is locked"), { errcode: 5 });
    };
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
    await migrate(db, SQLITE);
    expect(locked).toEqual([
      expect.stringContaining('"budgets"'),
      expect.stringContaining('"shares"'),
      expect.stringContaining('"metadata"'),
      expect.stringContaining('"error_field"'),
      expect.stringContaining('"afforded_output_tokens"'),
      expect.stringContaining('"error_message"'),
      expect.stringContaining('"currency"'),
    ]);
    expect(await schemaVersion(db)).toBe(SCHEMA_VERSION);
    await db.destroy();
  });

  it("takes the host's own names beside the host's own tables", async () => {
    const db = empty();
    await sql`CREATE TABLE keys (id text)`.execute(db);
    const names = { prefix: "quota_", tables: { journal: "book_of_quota" } };
    await migrate(db, { ...SQLITE, ...names });
    await sqlQuotaStore({ db, ...SQLITE, ...names }).add({ id: "team", granted: 5 });
    const { rows } = await sql`SELECT key_id, kind, granted FROM book_of_quota`.execute(db);
    expect(rows).toEqual([{ key_id: "team", kind: "grant", granted: 5 }]);
    expect((await sql`SELECT * FROM keys`.execute(db)).rows).toEqual([]);
    await db.destroy();
  });

  it.each(databases.filter(({ available }) => available))(
    "of older versions is updated with its keys, in $name",
    async (database) => {
      const place = await database.place();
      const { db, prefix } = place;
      const steps = sql`DELETE FROM ${sql.table(`${prefix}schema_version_steps`)} WHERE name > 'polygate-0005'`;
      await storeAt(place).store.add({ id: "team", granted: 5 });
      await sql`ALTER TABLE ${sql.table(`${prefix}keys`)} DROP COLUMN metadata`.execute(db);
      for (const table of ["recalls", "calls", "usage_days"])
        await sql`DROP TABLE ${sql.table(`${prefix}${table}`)}`.execute(db);
      await sql`UPDATE ${sql.table(`${prefix}schema_version`)} SET version = 4`.execute(db);
      await steps.execute(db);
      const { store } = storeAt(place);
      await expect(store.report("team")).rejects.toThrow('Run "polygate keys migrate"');
      await migrate(db, place.options);
      await store.update("team", { metadata: { team: "a" } });
      if (place.dialect !== "postgres") {
        // A process that was killed has made the column and the table, and no more.
        await steps.execute(db);
        await migrate(db, place.options);
        // Another one was killed at the end of the first step.
        await sql`DELETE FROM ${sql.table(`${prefix}schema_version_steps`)}`.execute(db);
        await migrate(db, place.options);
      }
      expect(await schemaVersion(db, { prefix })).toBe(SCHEMA_VERSION);
      await store.recall("team");
      expect(await store.recalled(1_000)).toEqual(["team"]);
      expect(await store.report("team")).toMatchObject({ granted: 5, metadata: { team: "a" } });
      await place.remove();
    },
  );

  it.each(["", "a b", "a;DROP TABLE x", "a.b.c", 'a"'])("refuses the table name %j", (journal) => {
    expect(() => sqlQuotaStore({ db: empty(), ...SQLITE, tables: { journal } })).toThrow(RangeError);
  });
});

const holdAtOnce = (store: DurableQuotaStore, keyIds: readonly string[]) =>
  Promise.allSettled(
    keyIds.map((keyId, index) =>
      store.reserve({ id: `call-${index}`, keyId, atLeast: 10, atMost: 10, leaseMs: LEASE_MS }),
    ),
  );

describe("verbs that wait at the same time", () => {
  let place: Pick<TestPlace, "db" | "dialect" | "prefix">;
  let locks = 0;
  beforeEach(async () => {
    const prefix = "polygate_";
    locks = 0;
    const log = ({ query }: { readonly query: { readonly sql: string } }): void => {
      if (query.sql.startsWith(`update "${prefix}keys" set "held" = "held"`)) locks++;
    };
    place = { db: new Kysely({ dialect: sqliteDialect(":memory:"), log }), dialect: "sqlite", prefix };
    await migrate(place.db, place);
  });
  afterEach(() => place.db.destroy());

  it.each([
    [undefined, 2],
    [4, 11],
    [1, 41],
  ])("share transactions of %s verbs", async (maxVerbsPerTransaction, transactions) => {
    const options = maxVerbsPerTransaction === undefined ? {} : { maxVerbsPerTransaction };
    const store = sqlQuotaStore({ ...place, ...options });
    const keyId = await store.add({ granted: 200 });
    locks = 0;
    const outcomes = await holdAtOnce(
      store,
      Array.from({ length: 41 }, () => keyId),
    );
    const grants = outcomes.filter((outcome) => outcome.status === "fulfilled" && !outcome.value.refused);
    expect([grants.length, locks]).toEqual([20, transactions]);
    expect(await verifyLedger(place.db, place)).toEqual([]);
  });

  it("do not share what one of them meets", async () => {
    const store = sqlQuotaStore(place);
    const keyIds = await Promise.all([200, undefined, 200].map((granted) => store.add(granted ? { granted } : {})));
    const [first = "", huge = "", spoilt = ""] = keyIds;
    await sql`UPDATE polygate_keys SET charged = 9007199254740990 WHERE id = ${huge}`.execute(place.db);
    await sql`UPDATE polygate_keys SET charged = -1 WHERE id = ${spoilt}`.execute(place.db);
    const outcomes = await holdAtOnce(store, [first, first, huge, spoilt, first]);
    expect(
      outcomes.map((outcome) => (outcome.status === "fulfilled" ? outcome.value : String(outcome.reason))),
    ).toEqual([
      { granted: 10 },
      { granted: 10 },
      expect.stringMatching(/^RangeError: The used units of the key .* would be beyond 2\^53 - 1/),
      expect.stringMatching(/is spoilt/),
      { granted: 10 },
    ]);
  });

  it("fail with the error of a statement, also when the rollback fails after it", async () => {
    const database = new DatabaseSync(":memory:");
    const before = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
    await migrate(before, SQLITE);
    await sqlQuotaStore({ db: before, ...SQLITE }).add({ id: "one", granted: 5 });
    const prepare = database.prepare.bind(database);
    database.prepare = (text, ...rest) => {
      if (/^update/i.test(text)) throw new Error("The connection is lost.");
      if (text === "rollback") throw new Error("There is no connection.");
      return prepare(text, ...rest);
    };
    // A new dialect has no prepared statements yet.
    const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) });
    await expect(sqlQuotaStore({ db, ...SQLITE }).grant("one", 5)).rejects.toThrow("The connection is lost.");
    await db.destroy();
  });

  it.each([0, 1.5, 1_001, Number.NaN])("refuses to share transactions of %d", (maxVerbsPerTransaction) => {
    expect(() => sqlQuotaStore({ ...place, maxVerbsPerTransaction })).toThrow(RangeError);
  });
});

describe("sqlQuotaStore, beyond the port", () => {
  let place: TestPlace;
  let store: DurableQuotaStore;
  let advance: (ms: number) => void;

  beforeEach(async () => {
    place = await sqliteInMemory.place();
    ({ store, advance } = storeAt(place));
    await store.add({ id: "team", apiKey: "sk-one", granted: 100 });
  });
  afterEach(async () => {
    assert.deepEqual(await verifyLedger(place.db, place.options), []);
    await place.remove();
  });

  const hold = (id: string, units = 10) =>
    store.reserve({ id, keyId: "team", atLeast: units, atMost: units, leaseMs: LEASE_MS });

  it("keeps no secret", async () => {
    const { rows } = await sql`SELECT * FROM polygate_secrets`.execute(place.db);
    expect(JSON.stringify(rows)).not.toContain("one");
    expect(await store.find("one")).toMatchObject({ id: "team" });
  });

  it("asks the host's own find, and keeps its quota", async () => {
    const own = { id: "team", name: "Own", unlimited: false, modelLimits: {}, modelLimitsEnabled: false, expiresAt: 0 };
    const found = sqlQuotaStore({ ...place.options, find: async (apiKey) => (apiKey === "host" ? own : undefined) });
    expect(await found.find("host")).toEqual(own);
    expect(await found.find("one"), "the store's own secrets are not asked for").toBeUndefined();
    expect(await found.balance("team")).toEqual({ used: 0, available: 100, held: 0 });
  });

  it("rotates a secret: both find the key until the overlap is over", async () => {
    await store.rotateSecret("team", "sk-two", 60_000);
    expect([await store.find("one"), await store.find("two")]).toMatchObject([{ id: "team" }, { id: "team" }]);
    advance(60_000);
    expect(await store.find("one")).toBeUndefined();
    expect(await store.find("two")).toMatchObject({ id: "team" });
    // A second rotation does not give an ending secret more time.
    await store.rotateSecret("team", "three", 0);
    expect([await store.find("one"), await store.find("two")]).toEqual([undefined, undefined]);
    expect(await store.report("team")).toMatchObject({ secrets: 1, revoked: false });
  });

  it("revokes a key for good, and still charges its calls", async () => {
    await hold("call");
    await store.revoke("team");
    expect(await store.find("one")).toBeUndefined();
    await store.settle("call", { used: 7, certainty: "exact" });
    expect(await store.report("team")).toMatchObject({ used: 7, secrets: 0, revoked: true });
    await expect(store.addSecret("team", "two")).rejects.toThrow(RangeError);
    await expect(store.rotateSecret("team", "two", 0)).rejects.toThrow(RangeError);
    await expect(store.grant("team", 5)).rejects.toThrow(RangeError);
    await store.revoke("team");
  });

  it("grants more", async () => {
    await hold("call", 100);
    await store.grant("team", 50);
    expect(await store.balance("team")).toEqual({ used: 100, available: 50, held: 100 });
    await expect(store.grant("team", Number.MAX_SAFE_INTEGER)).rejects.toThrow(/beyond 2\^53/);
    await expect(store.grant("nobody", 5)).rejects.toThrow(RangeError);
    const unlimited = await store.add({ name: "Free" });
    await expect(store.grant(unlimited, 5)).rejects.toThrow(/has no quota/);
  });

  it("lists keys page by page", async () => {
    for (const id of ["a", "b", "z"]) await store.add({ id });
    const first = await store.list({ limit: 2 });
    expect(first.map(({ id }) => id)).toEqual(["a", "b"]);
    const rest = await store.list({ after: "b" });
    expect(rest.map(({ id, secrets }) => [id, secrets])).toEqual([
      ["team", 1],
      ["z", 0],
    ]);
    await expect(store.list({ limit: 0 })).rejects.toThrow(RangeError);
  });

  it("charges more expired holds than one transaction takes", async () => {
    await store.grant("team", 10_000);
    await Promise.all(Array.from({ length: 250 }, (_, index) => hold(`call-${index}`)));
    advance(LEASE_MS);
    expect(await hold("next", 10_100)).toEqual({ granted: 10_100 });
  });

  it.each([
    ["a settlement", () => store.settle("call", { used: Number.MAX_SAFE_INTEGER, certainty: "exact" })],
    ["a second settlement", () => store.settle("other", { used: Number.MAX_SAFE_INTEGER, certainty: "exact" })],
  ])("refuses sums beyond 2^53: %s", async (_, settle) => {
    await hold("call");
    await hold("other");
    await hold("first");
    await store.settle("first", { used: Number.MAX_SAFE_INTEGER, certainty: "exact" });
    await expect(settle()).rejects.toThrow(/beyond 2\^53/);
    expect(await store.report("team"), "and changes nothing").toMatchObject({ held: 20 });
  });

  it.each<[why: string, key: DurableKeyOptions]>([
    ["an id that it knows", { id: "team" }],
    ["a secret that it knows", { apiKey: ["two", "one"] }],
    ["an empty secret", { apiKey: "sk-" }],
    ["an id with a space at its end", { id: "team " }],
    ["an id with a control character", { id: "te\0am" }],
    ["an id that is too long", { id: "x".repeat(191) }],
    ["half a grant", { granted: 0.5 }],
    ["more usage than was granted", { granted: 5, used: 6 }],
    ["an end that is no time", { expiresAt: 1.5 }],
    ["an end in milliseconds", { expiresAt: 1_700_000_000_000 }],
  ])("rejects a key of %s", async (_, key) => {
    await expect(store.add(key)).rejects.toThrow(RangeError);
    expect(await store.find("two")).toBeUndefined();
    expect(await store.list()).toHaveLength(1);
  });

  it.each(["", "x ", "x".repeat(191), "\ud800"])("knows no hold and no key of the id %j", async (id) => {
    await expect(hold(id)).rejects.toThrow(RangeError);
    await store.settle(id, { used: 1, certainty: "exact" });
    await store.renew(id, { used: 1, leaseMs: 1 });
    expect(await store.balance(id)).toBeUndefined();
    expect(await store.report(id)).toBeUndefined();
  });
});
