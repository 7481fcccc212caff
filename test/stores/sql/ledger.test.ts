/** The SQL store's books: they agree with the memory store's, a tampered row shows, and pruning keeps the sums. */

import fc from "fast-check";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type MemoryQuotaStore, memoryQuotaStore, type QuotaStore } from "../../../src/index.ts";
import { verifyLedger } from "../../../src/stores/sql/index.ts";
import { manualClock } from "../../../src/testing/laws/index.ts";
import { databases, sqliteInMemory, type TestPlace } from "./databases.ts";
import { storeAt } from "./open.ts";

const LEASE_MS = 600_000;

type Command = (store: QuotaStore, keyIds: readonly string[], run: string) => Promise<unknown>;

const holdId = fc.integer({ min: 0, max: 9 });
const units = fc.integer({ min: 0, max: 120 });
/** A verb of the store, or the passing of a lease. */
const command: fc.Arbitrary<Command | "advance"> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(holdId, units, units).map(reserving) },
  {
    weight: 2,
    arbitrary: fc.tuple(holdId, units).map(
      ([id, used]): Command =>
        (store, _, run) =>
          store.renew(`${run}-${id}`, { leaseMs: LEASE_MS, used }),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(holdId, units, fc.boolean()).map(
      ([id, used, exact]): Command =>
        (store, _, run) =>
          store.settle(`${run}-${id}`, { used, certainty: exact ? "exact" : "estimated" }),
    ),
  },
  { weight: 1, arbitrary: fc.constant("advance" as const) },
);

function reserving([id, a, b]: [number, number, number]): Command {
  const [atLeast, atMost] = [Math.min(a, b), Math.max(a, b)];
  // Each hold belongs to one key here. The owner of an id that two keys reserve is a law of its own.
  return (store, keyIds, run) =>
    store.reserve({
      id: `${run}-${id}`,
      keyId: keyIds[id % 2] ?? "",
      atLeast,
      atMost,
      leaseMs: LEASE_MS,
    });
}

const booksOf = ({
  used,
  available,
  held,
  overdraft,
  estimated,
}: NonNullable<ReturnType<MemoryQuotaStore["report"]>>) => ({
  used,
  available,
  held,
  overdraft,
  estimated,
});

describe.each([sqliteInMemory, ...databases.filter(({ name }) => !name.startsWith("SQLite"))])(
  "the books on $name",
  (database) => {
    describe.skipIf(!database.available)("when it answers", () => {
      let place: TestPlace;
      beforeAll(async () => void (place = await database.place()));
      afterAll(() => place?.remove());

      it("say after any commands what the memory store says, and the journal agrees", async () => {
        let runs = 0;
        await fc.assert(
          fc.asyncProperty(fc.array(command, { minLength: 10, maxLength: 30 }), async (commands) => {
            const run = `run-${runs++}`;
            const clock = manualClock();
            const { store, advance } = storeAt(place);
            const granted = [200, undefined];
            const keyIds = await Promise.all(
              granted.map((units) => store.add(units === undefined ? {} : { granted: units })),
            );
            const model = memoryQuotaStore(
              keyIds.map((id, index) => ({
                id,
                apiKey: `${run}-${index}`,
                ...(granted[index] !== undefined && { granted: granted[index] }),
              })),
              { clock },
            );
            const pass = async (ms: number) => {
              advance(ms);
              await clock.advance(ms);
            };
            const [told, expected]: unknown[][] = [[], []];
            for (const each of commands) {
              // No two leases end at once: the overdraft depends on the order of their ends.
              await pass(1);
              if (each === "advance") await pass(LEASE_MS);
              else {
                told?.push(await each(store, keyIds, run));
                expected?.push(await each(model, keyIds, run));
              }
            }
            expect(told).toEqual(expected);
            for (const keyId of keyIds) {
              const report = model.report(keyId);
              expect(await store.report(keyId)).toMatchObject(report ? booksOf(report) : {});
            }
          }),
          { numRuns: 8 },
        );
        expect(await verifyLedger(place.db, place.options)).toEqual([]);
      });

      it("name a key whose row a hand has spoilt, and leave the others alone", async () => {
        const place = await database.place();
        const { store, advance } = storeAt(place);
        const [spoilt, sound] = [await store.add({ granted: 100 }), await store.add({ granted: 100 })];
        const hold = (keyId: string, name: string) =>
          store.reserve({ id: `${keyId}-${name}`, keyId, atLeast: 10, atMost: 10, leaseMs: LEASE_MS });
        for (const keyId of [spoilt, sound]) await hold(keyId, "late");
        await store.renew(`${sound}-late`, { leaseMs: LEASE_MS, used: 4 });
        const beyond = "9007199254740994";
        const keys = sql.table(`${place.prefix}keys`);
        await sql`UPDATE ${keys} SET charged = ${sql.raw(beyond)} WHERE id = ${spoilt}`.execute(place.db);
        advance(LEASE_MS);
        await expect(store.sweep()).rejects.toThrow(`The key ${spoilt} is spoilt: its charged units are ${beyond}.`);
        await expect(hold(spoilt, "next")).rejects.toThrow(/is spoilt/);
        expect(await hold(sound, "next")).toEqual({ granted: 10 });
        expect(await store.balance(sound), "the sweep has charged it").toEqual({ used: 14, available: 86, held: 10 });
        const listed = new Map((await store.list({ limit: 1_000 })).map((report) => [report.id, report]));
        expect(listed.get(spoilt)).toMatchObject({ spoilt: ["charged"], held: 10 });
        expect(listed.get(sound)).toMatchObject({ used: 14, held: 10 });
        expect(listed.get(sound)).not.toHaveProperty("spoilt");
        expect(await verifyLedger(place.db, place.options)).toMatchObject([
          { table: "keys", id: spoilt, field: "charged", stored: beyond, expected: 0 },
          { table: "keys", id: spoilt, field: "used" },
        ]);
        await sql`UPDATE ${keys} SET charged = 0 WHERE id = ${spoilt}`.execute(place.db);
        await store.sweep();
        // A spoilt hold is named as well, and its key goes on.
        const holds = sql.table(`${place.prefix}holds`);
        await sql`UPDATE ${holds} SET noted = ${sql.raw(beyond)} WHERE id = ${`${sound}-next`}`.execute(place.db);
        advance(LEASE_MS);
        expect(await hold(sound, "after")).toEqual({ granted: 10 });
        expect(await store.balance(sound)).toMatchObject({ used: 24 });
        expect(await verifyLedger(place.db, place.options)).toMatchObject([
          { table: "holds", id: `${sound}-next`, field: "noted", stored: beyond, expected: 0 },
        ]);
        await sql`UPDATE ${holds} SET noted = 0 WHERE id = ${`${sound}-next`}`.execute(place.db);
        await store.sweep();
        expect(await verifyLedger(place.db, place.options)).toEqual([]);
        await place.remove();
      });

      it("are the same after pruning, and what is pruned is forgotten", async () => {
        const { store, advance } = storeAt(place);
        const keyId = await store.add({ granted: 2_000 });
        const id = (name: string) => `${keyId}-${name}`;
        const hold = (name: string) => store.reserve({ id: id(name), keyId, atLeast: 9, atMost: 9, leaseMs: LEASE_MS });
        const calls = Array.from({ length: 105 }, (_, index) => `call-${index}`);
        await Promise.all(
          calls.map(async (name) => {
            await hold(name);
            await store.renew(id(name), { leaseMs: LEASE_MS, used: 2 });
            await store.settle(id(name), { used: 5, certainty: "estimated" });
          }),
        );
        await hold("expired");
        advance(LEASE_MS);
        await hold("live");
        const before = await store.report(keyId);
        expect(await store.prune({ olderThanMs: LEASE_MS * 2 })).toBe(0);
        advance(1_000);
        expect(await store.prune({ olderThanMs: LEASE_MS })).toBeGreaterThanOrEqual(105);
        expect(await store.report(keyId)).toEqual(before);
        expect(await verifyLedger(place.db, place.options)).toEqual([]);
        await hold("call-0");
        expect((await store.report(keyId))?.used, "the id is free again").toBe((before?.used ?? 0) + 9);
        // The hold is old, but it has expired just now.
        await store.settle(id("expired"), { used: 4, certainty: "exact" });
        expect((await store.report(keyId))?.used).toBe((before?.used ?? 0) + 13);
        expect(await store.prune({ olderThanMs: LEASE_MS })).toBe(0);
        expect(await verifyLedger(place.db, place.options)).toEqual([]);
      });
    });
  },
);

describe("verifyLedger", () => {
  const tampering: readonly [what: string, statement: string, found: { table: string; field: string }][] = [
    ["a key's grant", "UPDATE polygate_keys SET granted = granted + 5", { table: "keys", field: "granted" }],
    ["a key's charges", "UPDATE polygate_keys SET charged = charged - 1", { table: "keys", field: "charged" }],
    ["what a key holds", "UPDATE polygate_keys SET held = 0", { table: "keys", field: "held" }],
    ["a key's overdraft", "UPDATE polygate_keys SET overdraft = 0", { table: "keys", field: "overdraft" }],
    ["a key's estimates", "UPDATE polygate_keys SET estimated = 0", { table: "keys", field: "estimated" }],
    ["a key that is gone", "DELETE FROM polygate_keys", { table: "keys", field: "missing" }],
    ["a key that came by itself", "UPDATE polygate_keys SET id = 'other'", { table: "keys", field: "granted" }],
    ["a hold's grant", "UPDATE polygate_holds SET granted = 1 WHERE id = 'live'", { table: "holds", field: "granted" }],
    ["a hold's use", "UPDATE polygate_holds SET used = 1 WHERE id = 'settled'", { table: "holds", field: "used" }],
    ["a hold's overdraft", "UPDATE polygate_holds SET overdraft = 1", { table: "holds", field: "overdraft" }],
    ["a hold's note", "UPDATE polygate_holds SET noted = 77 WHERE id = 'live'", { table: "holds", field: "noted" }],
    ["a hold's renewals", "UPDATE polygate_holds SET renewals = 0", { table: "holds", field: "renewals" }],
    [
      "a hold's state",
      "UPDATE polygate_holds SET state = 'settled' WHERE id = 'late'",
      { table: "holds", field: "state" },
    ],
    ["a hold's owner", "UPDATE polygate_holds SET key_id = 'other'", { table: "holds", field: "key_id" }],
    ["a hold that is gone", "DELETE FROM polygate_holds WHERE id = 'live'", { table: "holds", field: "missing" }],
    [
      "a hold made up",
      "INSERT INTO polygate_holds SELECT 'new', key_id, state, 0, 0, 0, 0, 0, expires_at, resolved_at, shares FROM polygate_holds WHERE id = 'live'",
      { table: "holds", field: "entries" },
    ],
    [
      "an entry that is gone",
      "DELETE FROM polygate_journal WHERE kind = 'settle'",
      { table: "keys", field: "charged" },
    ],
    [
      "a renewal that is gone",
      "DELETE FROM polygate_journal WHERE kind = 'renew'",
      { table: "holds", field: "renewals" },
    ],
    [
      "a grant made up",
      "INSERT INTO polygate_journal (key_id, kind, at, granted, charged, held, overdraft, estimated, noted) VALUES ('key', 'grant', 0, 50, 0, 0, 0, 0, 0)",
      { table: "keys", field: "granted" },
    ],
    [
      "an entry that was changed",
      "UPDATE polygate_journal SET charged = charged + 1 WHERE kind = 'expire'",
      { table: "keys", field: "charged" },
    ],
    [
      "an entry's kind",
      "UPDATE polygate_journal SET kind = 'correct' WHERE kind = 'settle'",
      { table: "holds", field: "state" },
    ],
    [
      "an entry's hold",
      "UPDATE polygate_journal SET hold_id = 'late' WHERE kind = 'settle'",
      { table: "holds", field: "used" },
    ],
  ];

  it.each(tampering)("finds %s", async (_, statement, found) => {
    const place = await sqliteInMemory.place();
    const { store, advance } = storeAt(place);
    await store.add({ id: "key", granted: 100 });
    for (const id of ["settled", "late"])
      await store.reserve({ id, keyId: "key", atLeast: 40, atMost: 40, leaseMs: LEASE_MS });
    await store.renew("late", { leaseMs: LEASE_MS, used: 10 });
    await store.settle("settled", { used: 85, certainty: "exact" });
    advance(LEASE_MS);
    await store.reserve({ id: "live", keyId: "key", atLeast: 20, atMost: 20, leaseMs: LEASE_MS });
    expect(await store.report("key")).toMatchObject({ overdraft: 25, held: 20, used: 90 });
    expect(await verifyLedger(place.db, place.options)).toEqual([]);
    await sql.raw(statement).execute(place.db);
    expect(await verifyLedger(place.db, place.options)).toContainEqual(expect.objectContaining(found));
    await place.remove();
  });

  // As docs/operations.md says, "Repair the ledger".
  it.each([
    ["a row", "UPDATE polygate_keys SET charged = 40 WHERE id = 'key'"],
    [
      "a journal",
      "INSERT INTO polygate_journal (key_id, kind, at, granted, charged, held, overdraft, estimated, noted) VALUES ('key', 'carried', 0, 0, 5, 0, 0, 0, 0)",
    ],
  ])("finds no difference after the repair of %s, also after holds are pruned", async (_, repair) => {
    const place = await sqliteInMemory.place();
    const { store, advance } = storeAt(place);
    await store.add({ id: "key", granted: 100 });
    await store.reserve({ id: "settled", keyId: "key", atLeast: 40, atMost: 40, leaseMs: LEASE_MS });
    await store.settle("settled", { used: 40, certainty: "exact" });
    await sql.raw("UPDATE polygate_keys SET charged = charged + 5").execute(place.db);
    await store.grant("key", 10);
    const difference = { table: "keys", id: "key", field: "charged", stored: 45, expected: 40 };
    expect(await verifyLedger(place.db, place.options)).toEqual([difference]);
    await sql.raw(repair).execute(place.db);
    expect(await verifyLedger(place.db, place.options)).toEqual([]);
    advance(LEASE_MS);
    expect(await store.prune({ olderThanMs: 0 })).toBe(1);
    expect(await verifyLedger(place.db, place.options)).toEqual([]);
    await place.remove();
  });
});

it("prunes up to one time, and ends however many calls are resolved meanwhile", async () => {
  const place = await sqliteInMemory.place();
  const { store, advance } = storeAt(place);
  await store.add({ id: "key", granted: 1_000 });
  let calls = 0;
  const call = async (): Promise<void> => {
    const id = `call-${calls++}`;
    await store.reserve({ id, keyId: "key", atLeast: 1, atMost: 1, leaseMs: LEASE_MS });
    await store.settle(id, { used: 1, certainty: "exact" });
    advance(10);
  };
  await call();
  advance(1_000);
  const over = new AbortController();
  let meanwhile = 0;
  // Each statement of the run is followed by a call.
  const load = (async () => {
    while (!over.signal.aborted && meanwhile++ < 200) await call();
  })();
  const pruned = await store.prune({ olderThanMs: 0 });
  over.abort();
  await load;
  expect(meanwhile, "the run ends by itself").toBeLessThan(200);
  expect(pruned).toBeLessThan(10);
  expect(await verifyLedger(place.db, place.options)).toEqual([]);
  await place.remove();
});

it("ends its pruning also where a key was deleted by hand, and forgets the others' holds", async () => {
  const place = await sqliteInMemory.place();
  const { store, advance } = storeAt(place);
  for (const id of ["deleted", "kept"]) {
    await store.add({ id, granted: 10 });
    await store.reserve({ id: `hold-of-${id}`, keyId: id, atLeast: 1, atMost: 1, leaseMs: LEASE_MS });
    await store.settle(`hold-of-${id}`, { used: 1, certainty: "exact" });
  }
  advance(1_000);
  await sql.raw("DELETE FROM polygate_keys WHERE id = 'deleted'").execute(place.db);
  expect(await store.prune({ olderThanMs: 0 })).toBe(1);
  expect(await store.prune({ olderThanMs: 0 })).toBe(0);
  await place.remove();
});
