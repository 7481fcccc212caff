/** The SQL store's ledger under calls from several connections and processes, and after a process that was killed. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verifyLedger } from "../../../src/stores/sql/index.ts";
import { databases, type TestPlace } from "./databases.ts";
import { storeAt } from "./open.ts";
import type { RacerOrder } from "./racer.ts";

/** Reservations at once; `POLYGATE_TEST_RACERS=10000` takes minutes. */
const RACERS = Number(process.env["POLYGATE_TEST_RACERS"] ?? 400);

const racer = new URL("racer.ts", import.meta.url).pathname;

interface Racer {
  readonly child: ChildProcess;
  readonly lines: AsyncIterator<string>;
}

function start(order: RacerOrder): Racer {
  const child = spawn(process.execPath, [racer, JSON.stringify(order)], { stdio: ["pipe", "pipe", "inherit"] });
  if (!child.stdout) throw new Error("The racer has no output.");
  return { child, lines: createInterface(child.stdout)[Symbol.asyncIterator]() };
}

// PGlite has one connection: nothing can race on it.
const servers = databases.filter(({ name }) => name !== "PGlite");

describe.each(servers)("the ledger on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    beforeAll(async () => void (place = await database.place()));
    afterAll(() => place?.remove());

    it(`admits 100 of ${RACERS} reservations at once over three pools`, async () => {
      const stores = [place.db, place.connect(), place.connect()].map((db) => storeAt(place, db).store);
      const keyId = (await stores[0]?.add({ granted: 700 })) ?? "";
      const race = async (index: number) =>
        stores[index % stores.length]?.reserve({
          id: `race-${index}`,
          keyId,
          atLeast: 7,
          atMost: 7,
          leaseMs: 600_000,
        });
      const answers = await Promise.all(Array.from({ length: RACERS }, (_, index) => race(index)));
      expect(answers.filter((answer) => answer && !answer.refused)).toHaveLength(100);
      expect(await stores[0]?.balance(keyId)).toEqual({ used: 700, available: 0, held: 700 });
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });

    it("charges each expired hold once, however many sweep", async () => {
      const sweepers = [place.db, place.connect(), place.connect()].map((db) => storeAt(place, db));
      const [first] = sweepers;
      const keyIds = await Promise.all([1, 2].map(async () => first?.store.add({ granted: 10_000 }) ?? ""));
      for (const keyId of keyIds)
        await Promise.all(
          Array.from({ length: 105 }, async (_, index) => {
            const id = `${keyId}-${index}`;
            await first?.store.reserve({ id, keyId, atLeast: 10, atMost: 10, leaseMs: 60_000 });
            if (index % 10 === 0) await first?.store.renew(id, { leaseMs: 60_000, used: 4 });
          }),
        );
      for (const { advance } of sweepers) advance(60_000);
      const swept = await Promise.all(sweepers.map(({ store }) => store.sweep()));
      // A sweep leaves a locked key to the holder of the lock, so that the last sweep comes after all others.
      const rest = (await first?.store.sweep()) ?? 0;
      expect(swept.reduce((sum, count) => sum + count, rest)).toBe(210);
      for (const keyId of keyIds)
        expect(await first?.store.report(keyId)).toMatchObject({ used: 44, held: 0, estimated: 44 });
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });
  });
});

const shared = servers.filter(({ dialect }) => dialect !== "mysql");

describe.each(shared)("processes on $name", (database) => {
  describe.skipIf(!database.available)("when it answers", () => {
    let place: TestPlace;
    beforeAll(async () => void (place = await database.place()));
    afterAll(() => place?.remove());

    const orderOf = (keyId: string, name: string): RacerOrder => {
      const { dialect, address, prefix } = place;
      if (address === undefined) throw new Error("No other process can reach this database.");
      return { dialect, address, prefix, keyId, name };
    };

    it("race, and exactly what fits is admitted", async () => {
      const { store } = storeAt(place);
      const keyId = await store.add({ granted: 700 });
      const racers = ["one", "two"].map((name) => start({ ...orderOf(keyId, name), reservations: 110 }));
      for (const { lines } of racers) expect(await lines.next()).toMatchObject({ value: "ready" });
      for (const { child } of racers) child.stdin?.write("go\n");
      const admitted = await Promise.all(racers.map(async ({ lines }) => Number((await lines.next()).value)));
      expect(admitted.reduce((sum, count) => sum + count, 0)).toBe(100);
      for (const { child } of racers) if (child.exitCode === null) await once(child, "exit");
      expect(await store.balance(keyId)).toEqual({ used: 700, available: 0, held: 700 });
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });

    it("may be killed in the middle of calls: one lease later nothing is held, and the books add up", async () => {
      const { store, advance } = storeAt(place);
      const keyId = await store.add({ granted: 1_000_000 });
      const { child, lines } = start(orderOf(keyId, "killed"));
      expect(await lines.next()).toMatchObject({ value: "ready" });
      const exit = once(child, "exit");
      child.kill("SIGKILL");
      await exit;
      const before = await store.report(keyId);
      expect(before?.held).toBeGreaterThan(0);
      advance(600_000);
      // The server may still be ending what the process had sent.
      await expect.poll(async () => (await store.report(keyId))?.held).toBe(0);
      expect((await store.report(keyId))?.estimated).toBeGreaterThan(0);
      expect(await verifyLedger(place.db, place.options)).toEqual([]);
    });
  });
});
