/** Every store that several processes can share: its address, its holds and its audit. */

import { sql } from "kysely";
import { type OpenedStore, openStore } from "../../src/admin/open-store.ts";
import { sqlCallLog, type SqlCallLogOptions } from "../../src/stores/sql/index.ts";
import { drivers, REDIS, redisAnswers } from "./redis/servers.ts";
import { databases, type TestDatabase } from "./sql/databases.ts";

/** A hold in a store. */
export interface StoredHold {
  readonly id: string;
  readonly state: "live" | "settled" | "expired" | "corrected";
  /** The charge of a resolved hold, in units. */
  readonly used: number;
  /** The usage in the last renewal, in units, where the store tells it. */
  readonly noted?: number;
}

/** A place of the run's own in a store. */
export interface Ledger extends OpenedStore {
  /** The address for other processes, as `openStore` takes it. */
  readonly address: string;
  readonly prefix: string;
  /** The holds of a key. */
  holds(keyId: string): Promise<readonly StoredHold[]>;
  /** The differences between the balance of a key and its journal, or in Redis its holds. */
  differences(keyId: string): Promise<readonly unknown[]>;
  /** The units and the unrecorded calls in the reports about a key, once the records are compared with the ledger; undefined without records. */
  reported?(keyId: string): Promise<{ readonly units: number; readonly unrecorded: number }>;
  /** Closes the store, and removes all that the run has written. */
  remove(): Promise<void>;
}

export interface SharedStore {
  readonly name: string;
  /** False where its server does not answer. */
  readonly available: boolean;
  open(): Promise<Ledger>;
}

const overSql = (database: TestDatabase): SharedStore => ({
  name: database.name,
  available: database.available,
  async open() {
    const { db, prefix, ...place } = await database.place();
    const address = database.dialect === "sqlite" ? `sqlite:${place.address}` : (place.address ?? "");
    const opened = await openStore(address, { prefix });
    return {
      ...opened,
      address,
      prefix,
      holds: async (keyId) => {
        const rows = await db.selectFrom(`${prefix}holds`).selectAll().where("key_id", "=", keyId).execute();
        return rows.map(({ id, state, used, noted }) => ({ id, state, used: Number(used), noted: Number(noted) }));
      },
      differences: async () => (await opened.verify?.()) ?? [],
      async reported(key) {
        // By a clock that is ahead, so that no call can be about to be written.
        const options: SqlCallLogOptions = {
          db,
          dialect: database.dialect,
          prefix,
          clock: (now) => sql`(${now} + 600000)`,
        };
        const log = sqlCallLog(options);
        while ((await log.sweep()) > 0);
        const { total } = await log.usage({ key });
        const unrecorded = await log.list({ key, outcome: "unrecorded", limit: 1_000 });
        await log.close();
        return { units: total.units, unrecorded: unrecorded.length };
      },
      async remove() {
        await opened.close();
        await place.remove();
      },
    };
  },
});

/** Adds up one of the numbers of Redis's texts. */
const sum = (words: readonly (readonly string[])[], at: number): number =>
  words.reduce((total, each) => total + Number(each[at]), 0);

const STATES = { settled: "settled", expired: "expired", corrected: "corrected" } as const;

const overRedis: SharedStore = {
  name: "Redis",
  available: redisAnswers,
  async open() {
    const place = await drivers[0]?.place();
    if (!place || !("sendCommand" in place.client) || "masters" in place.client)
      throw new Error("No node-redis client.");
    const { client, prefix } = place;
    const opened = await openStore(REDIS, { prefix });
    /** The holds of a key: their state and two numbers, in one text. */
    const all = async (keyId: string): Promise<(readonly [id: string, words: readonly string[]])[]> => {
      const told = await client.sendCommand(["HGETALL", `${prefix}:{${encodeURIComponent(keyId)}}:ledger`]);
      const fields = Array.isArray(told) ? told.map(String) : Object.entries(Object(told)).flat().map(String);
      return fields.flatMap((name, index) =>
        index % 2 === 0 && name.startsWith("hold:") ? [[name.slice(5), (fields[index + 1] ?? "").split(" ")]] : [],
      );
    };
    return {
      ...opened,
      address: REDIS,
      prefix,
      holds: async (keyId) =>
        (await all(keyId)).map(([id, [state = "", used]]) =>
          state === "live"
            ? { id, state, used: 0 }
            : { id, state: STATES[state as keyof typeof STATES], used: Number(used) },
        ),
      async differences(keyId) {
        const report = await opened.store.report(keyId);
        const holds = (await all(keyId)).map(([, words]) => words);
        const live = holds.filter(([state]) => state === "live");
        const resolved = holds.filter(([state]) => state !== "live");
        const held = sum(live, 1);
        const overdraft = sum(resolved, 2);
        const expected = { used: sum(resolved, 1) - overdraft + held, held, overdraft };
        return Object.entries(expected).flatMap(([field, value]) => {
          const stored = report?.[field as keyof typeof expected];
          return stored === value ? [] : [{ keyId, field, stored, expected: value }];
        });
      },
      async remove() {
        await opened.close();
        await place.remove();
      },
    };
  },
};

/** The stores on real servers, and SQLite in a file. */
export const sharedStores: readonly SharedStore[] = [
  // PGlite lives within one process.
  ...databases.filter(({ name }) => name !== "PGlite").map(overSql),
  overRedis,
];
