/** The replay store in SQL keeps the laws of its port on every database, its bounds, and its housekeeping. */

import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { Migrator } from "kysely/migration";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  migrate,
  migrations,
  SCHEMA_VERSION,
  sqlReplayStore,
  type SqlReplayStore,
  type SqlReplayStoreOptions,
} from "../../../src/stores/sql/index.ts";
import { type OpenedReplayStore, replayStoreLaws } from "../../../src/testing/laws/index.ts";
import { filled } from "../replays.ts";
import { databases, sqliteInMemory, type TestPlace } from "./databases.ts";

const HOUR_MS = 3_600_000;

interface Opened extends OpenedReplayStore {
  readonly store: SqlReplayStore;
}

function openedAt(
  { dialect, prefix, db }: TestPlace,
  other: TestPlace["db"],
  options: Partial<SqlReplayStoreOptions> = {},
): Opened {
  let ahead = 0;
  const open = (database: TestPlace["db"]) =>
    sqlReplayStore({
      db: database,
      dialect,
      prefix,
      clock: (now) => sql`(${now} + ${sql.lit(ahead)})`,
      ...options,
    });
  return { store: open(db), other: open(other), advance: (ms) => void (ahead += ms) };
}

describe.each([sqliteInMemory, ...databases])("sqlReplayStore on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    let other: TestPlace["db"];
    beforeAll(async () => {
      place = await database.place();
      other = place.connect();
    });
    afterAll(() => place?.remove());

    it.each(replayStoreLaws)("$name", async (law) => {
      await expect(law.verify(() => openedAt(place, other))).resolves.toBeUndefined();
    });

    it("keeps about as many answers of a key as it may, the newest, and those of other keys", async () => {
      const { store } = openedAt(place, other, { maxEntriesPerKey: 10 });
      const foreign = await filled(store, `other-${randomUUID()}`, 1);
      const states = await (await filled(store, `key-${randomUUID()}`, 32))();
      const kept = states.filter((state) => state === "answered").length;
      expect(kept).toBeGreaterThanOrEqual(10);
      expect(kept).toBeLessThan(10 + 16);
      expect(states.slice(-10)).toEqual(Array(10).fill("answered"));
      expect(await foreign()).toEqual(["answered"]);
    });

    it("keeps of an answer that is larger than all room of its key that it was given, and gives up nothing", async () => {
      const { store } = openedAt(place, other, { maxBytesPerKey: 20_000 });
      const keyId = `key-${randomUUID()}`;
      const states = [await filled(store, keyId, 16), await filled(store, keyId, 1, 50_000, "large")];
      expect((await Promise.all(states.map((state) => state()))).flat()).toEqual(Array(17).fill("answered"));
    });

    it("sweeps what is over, and nothing else", async () => {
      const opened = openedAt(place, other);
      const { store } = opened;
      await store.sweep();
      const old = await filled(store, `old-${randomUUID()}`, 130);
      await opened.advance(HOUR_MS / 2);
      const fresh = await filled(store, `new-${randomUUID()}`, 3);
      await opened.advance(HOUR_MS / 2 + 1_000);
      expect(await store.sweep()).toBeGreaterThanOrEqual(130 - 100);
      expect(await store.sweep()).toBe(0);
      expect(await fresh()).toEqual(Array(3).fill("answered"));
      expect(new Set(await old())).toEqual(new Set(["claimed"]));
    });

    it("refuses bounds that are none", () => {
      for (const options of [{ maxEntriesPerKey: 0 }, { maxBytesPerKey: Number.NaN }])
        expect(() => openedAt(place, other, options)).toThrow(RangeError);
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
    await migrator.migrateTo("polygate-0001-ledger");
    await sql`INSERT INTO old_keys VALUES ('one', 'One', 0, NULL, 0, NULL, 5, 0, 0, 0, 0)`.execute(db);
    await expect(filled(sqlReplayStore({ db, ...old }), "one", 1)).rejects.toThrow(
      `version 1, and must be ${SCHEMA_VERSION}`,
    );
    await migrate(db, old);
    const states = await filled(sqlReplayStore({ db, ...old }), "one", 1);
    expect(await states()).toEqual(["answered"]);
    const { rows } = await sql<{ granted: number }>`SELECT granted FROM old_keys`.execute(db);
    expect(rows).toEqual([{ granted: 5 }]);
    await place.remove();
  });
});
