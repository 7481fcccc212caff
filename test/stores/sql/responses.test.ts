/** The response store in SQL keeps the laws of its port on every database, its bounds, and its housekeeping. */

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { sql } from "kysely";
import { Migrator } from "kysely/migration";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { NewDocument } from "../../../src/index.ts";
import { bytesOf } from "../../../src/stores/memory-responses.ts";
import {
  migrate,
  migrations,
  SCHEMA_VERSION,
  sqlResponseStore,
  type SqlResponseStore,
  type SqlResponseStoreOptions,
} from "../../../src/stores/sql/index.ts";
import { type OpenedResponseStore, responseStoreLaws } from "../../../src/testing/laws/index.ts";
import { databases, sqliteInMemory, type TestPlace } from "./databases.ts";

const HOUR_MS = 3_600_000;

const full: string = "The store of responses is full.";

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const documentOf = (id: string, content = ""): NewDocument => ({ id, content, retainMs: HOUR_MS });
const childOf = (parentId: string, index: number): NewDocument => ({ ...documentOf(`${parentId}-${index}`), parentId });

async function idsOf(store: SqlResponseStore, keyId: string, ids: readonly string[]): Promise<string[]> {
  return (await store.read(keyId, ids)).map(({ id }) => id).toSorted();
}

/** The numbers of documents and of aliases of a key in the tables. */
async function rowsOf({ db, prefix }: TestPlace, keyId: string): Promise<number[]> {
  const counts = ["documents", "aliases"].map(async (table) => {
    const { rows } = await sql<{
      count: unknown;
    }>`SELECT COUNT(*) AS count FROM ${sql.table(`${prefix}${table}`)} WHERE key_id = ${keyId}`.execute(db);
    return Number(rows[0]?.count);
  });
  return Promise.all(counts);
}

interface Opened extends OpenedResponseStore {
  readonly store: SqlResponseStore;
}

function openedAt(
  { dialect, prefix, db }: TestPlace,
  other: TestPlace["db"],
  options: Partial<SqlResponseStoreOptions> = {},
): Opened {
  let ahead = 0;
  const open = (database: TestPlace["db"]) =>
    sqlResponseStore({ db: database, dialect, prefix, clock: (now) => sql`(${now} + ${sql.lit(ahead)})`, ...options });
  return { store: open(db), other: open(other), advance: (ms) => void (ahead += ms) };
}

describe.each([sqliteInMemory, ...databases])("sqlResponseStore on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    let other: TestPlace["db"];
    beforeAll(async () => {
      place = await database.place();
      other = place.connect();
    });
    afterAll(() => place?.remove());

    it.each(responseStoreLaws)("$name", async (law) => {
      await expect(law.verify((setup) => openedAt(place, other, setup))).resolves.toBeUndefined();
    });

    it("keeps about as many documents of a key as it may, and whole conversations", async () => {
      const { store } = openedAt(place, other, { maxDocumentsPerKey: 20 });
      const keyId = `key-${randomUUID()}`;
      await store.create(keyId, [documentOf("old"), ...numbers(9).map((index) => childOf("old", index))]);
      await store.create(keyId, [documentOf("new"), ...numbers(9).map((index) => childOf("new", index))]);
      for (const index of numbers(32)) await store.create(keyId, [documentOf(`d${index}`)]);
      const found = await idsOf(store, keyId, [
        "old",
        "old-0",
        "new",
        "new-8",
        ...numbers(32).map((index) => `d${index}`),
      ]);
      expect(found.length).toBeGreaterThanOrEqual(20);
      expect(found.length).toBeLessThanOrEqual(20 + 32);
      expect(found.filter((id) => /^(?:old|new)/.test(id))).toEqual([]);
      expect(found).toContain("d31");
      expect(await store.list(keyId, "new", { limit: 9, order: "asc" })).toEqual([]);
    });

    it("keeps about as many bytes of a key as it may, and refuses a document that is larger than that", async () => {
      const { store } = openedAt(place, other, { maxBytesPerKey: 100_000 });
      const keyId = `key-${randomUUID()}`;
      for (const index of numbers(32)) await store.create(keyId, [documentOf(`d${index}`, "x".repeat(9_000))]);
      const found = await idsOf(
        store,
        keyId,
        numbers(32).map((index) => `d${index}`),
      );
      expect(found.toSorted()).toEqual(numbers(10).map((index) => `d${22 + index}`));
      await expect(store.create(keyId, [documentOf("e"), documentOf("f", "x".repeat(100_000))])).rejects.toThrow(full);
      await expect(store.update(keyId, { ...documentOf("d31", "x".repeat(100_000)), revision: 0 })).rejects.toThrow(
        full,
      );
      expect(await idsOf(store, keyId, ["d31", "e", "f"])).toEqual(["d31"]);
    });

    it("takes a document of just as many bytes as a key may have, created and changed", async () => {
      const document = documentOf("whole", "x".repeat(1_000));
      const { store } = openedAt(place, other, { maxBytesPerKey: bytesOf(document) });
      const keyId = `key-${randomUUID()}`;
      await store.create(keyId, [document]);
      expect(await store.update(keyId, { ...document, revision: 0 })).toBe(true);
      const larger = { ...document, content: `${document.content}x`, revision: 1 };
      await expect(store.update(keyId, larger)).rejects.toThrow(full);
    });

    it("sweeps what has expired with its children, and nothing else", async () => {
      const opened = openedAt(place, other);
      const { store } = opened;
      await store.sweep();
      const [old, fresh] = [`old-${randomUUID()}`, `new-${randomUUID()}`];
      await store.create(old, [
        ...numbers(130).map((index) => ({ ...documentOf(`d${index}`), aliases: [`a${index}`] })),
        ...numbers(3).map((index) => childOf("d0", index)),
      ]);
      await opened.advance(HOUR_MS / 2);
      await store.create(fresh, [documentOf("kept"), childOf("kept", 1)]);
      await opened.advance(HOUR_MS / 2 + 1_000);
      expect(await store.sweep()).toBeGreaterThanOrEqual(130);
      expect(await store.sweep()).toBe(0);
      expect(await idsOf(store, fresh, ["kept", "kept-1"])).toEqual(["kept", "kept-1"]);
      expect(await rowsOf(place, old)).toEqual([0, 0]);
    });

    it("sweeps as it creates", async () => {
      const opened = openedAt(place, other);
      const { store } = opened;
      const keyId = `key-${randomUUID()}`;
      await store.sweep();
      await store.create(keyId, [{ ...documentOf("a"), aliases: ["b"] }]);
      await opened.advance(HOUR_MS + 1_000);
      for (const index of numbers(32)) await store.create(`other-${keyId}`, [documentOf(`d${index}`)]);
      expect(await rowsOf(place, keyId)).toEqual([0, 0]);
    });

    it("leaves no alias behind after updates and deletions", async () => {
      const { store } = openedAt(place, other);
      const keyId = `key-${randomUUID()}`;
      await store.create(keyId, [
        { ...documentOf("a"), aliases: ["x", "y", "x"] },
        { ...childOf("a", 1), aliases: ["z"] },
        { ...childOf("a", 2), aliases: ["z"] },
      ]);
      expect(await rowsOf(place, keyId)).toEqual([3, 4]);
      await store.update(keyId, { ...documentOf("a"), aliases: ["x"], revision: 0 });
      await store.delete(keyId, "a-1");
      expect(await rowsOf(place, keyId)).toEqual([2, 2]);
      await store.delete(keyId, "a");
      expect(await rowsOf(place, keyId)).toEqual([0, 0]);
    });

    it("creates and reads more documents than a statement takes", async () => {
      const { store } = openedAt(place, other);
      const keyId = `key-${randomUUID()}`;
      const ids = numbers(1_201).map((index) => `p-${index}`);
      const documents = ids.map((_, index) => ({ ...childOf("p", index), aliases: [`alias-${index}`] }));
      expect(await store.create(keyId, [documentOf("p"), ...documents])).toBe(true);
      expect(await store.create(keyId, [documentOf("p"), ...documents])).toBe(true);
      expect((await store.list(keyId, "p", { limit: 2_000, order: "asc" })).map(({ id }) => id)).toEqual(ids);
      const aliases = ids.map((_, index) => `alias-${index}`);
      expect(await store.read(keyId, aliases)).toHaveLength(1_201);
      expect(await store.delete(keyId, "p")).toBe(true);
      expect(await rowsOf(place, keyId)).toEqual([0, 0]);
    });

    it("refuses bounds that are none", () => {
      for (const options of [{ maxDocumentsPerKey: 0 }, { maxBytesPerKey: Number.NaN }])
        expect(() => openedAt(place, other, options)).toThrow(RangeError);
    });
  });
});

const shared = databases.filter(({ name }) => name !== "PGlite" && name !== "MySQL or MariaDB");

describe.each(shared)("a process on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    it("may be killed while it writes: each conversation is there whole or not at all, and its items have an order", async () => {
      const place = await database.place();
      const { store } = openedAt(place, place.db);
      const keyId = "killed";
      await store.create(keyId, [documentOf("shared")]);
      const order = JSON.stringify({ dialect: place.dialect, address: place.address, prefix: place.prefix, keyId });
      const writer = new URL("writer.ts", import.meta.url).pathname;
      const child = spawn(process.execPath, [writer, order], { stdio: ["ignore", "pipe", "inherit"] });
      const exit = once(child, "exit");
      await once(child.stdout, "data");
      child.kill("SIGKILL");
      await exit;
      // The server may still be ending what the process had sent.
      await expect.poll(() => store.update(keyId, { ...documentOf("shared"), revision: 0 })).toBe(true);
      const items = await store.list(keyId, "shared", { limit: 1_000_000, order: "asc" });
      const batches = Map.groupBy(items, ({ id }) => id.replace(/-\d+$/, ""));
      expect(batches.size).toBeGreaterThan(0);
      for (const [name, batch] of batches) {
        expect(batch.map(({ id }) => id)).toEqual(numbers(5).map((index) => `${name}-${index}`));
        const aliases = numbers(5).map((index) => `alias-${name}-${index}`);
        expect(await idsOf(store, keyId, aliases)).toHaveLength(5);
      }
      await store.create(keyId, [childOf("shared", 1)]);
      expect(await store.list(keyId, "shared", { limit: 1, order: "desc" })).toMatchObject([{ id: "shared-1" }]);
      await place.remove();
    });
  });
});

describe("a database of an older version", () => {
  it("is brought up to date with what it holds", async () => {
    const place = await sqliteInMemory.place();
    const { db, dialect } = place;
    const old = { dialect, prefix: "old_" } as const;
    const migrator = new Migrator({
      db,
      provider: { getMigrations: async () => migrations(old) },
      migrationTableName: "old_schema_version_steps",
      migrationLockTableName: "old_schema_version_lock",
    });
    await migrator.migrateTo("polygate-0002-replays");
    await sql`INSERT INTO old_keys VALUES ('one', 'One', 0, NULL, 0, NULL, 5, 0, 0, 0, 0)`.execute(db);
    const store = sqlResponseStore({ db, ...old });
    await expect(store.create("one", [documentOf("a")])).rejects.toThrow(`version 2, and must be ${SCHEMA_VERSION}`);
    await migrate(db, old);
    await store.create("one", [documentOf("a")]);
    expect(await idsOf(store, "one", ["a"])).toEqual(["a"]);
    const { rows } = await sql<{ granted: number }>`SELECT granted FROM old_keys`.execute(db);
    expect(rows).toEqual([{ granted: 5 }]);
    await place.remove();
  });
});
