/** The borrowing store: what it asks of its store, and what deaths, partitions, clocks and other processes cost. */

import { describe, expect, it } from "vitest";
import {
  type BorrowingQuotaStore,
  borrowingQuotaStore,
  type BorrowingQuotaStoreOptions,
  type MemoryQuotaStore,
  memoryQuotaStore,
  type MemoryQuotaStoreOptions,
  type QuotaRecalls,
  type QuotaStore,
} from "../../../src/index.ts";
import { type ManualClock, manualClock } from "../../../src/testing/laws/index.ts";

type SharedStore = QuotaStore & QuotaRecalls;

const LEASE_MS = 60_000;
const WINDOW_MS = 2_000;

/** The connection of a process to the store. */
class Connection implements SharedStore {
  readonly log: string[] = [];
  isDown = false;
  readonly #store: SharedStore;

  constructor(store: SharedStore) {
    this.#store = store;
  }

  async #send<T>(what: string, work: () => Promise<T>): Promise<T> {
    if (what !== "recalled") this.log.push(what.replace(/block-[\w-]+/, "block"));
    if (this.isDown) throw new Error("no connection");
    return work();
  }

  find = (apiKey: string) => this.#send("find", () => this.#store.find(apiKey));
  balance = (keyId: string) => this.#send("balance", () => this.#store.balance(keyId));
  reserve: QuotaStore["reserve"] = (hold) =>
    this.#send(`reserve ${hold.id} ${hold.atMost}`, () => this.#store.reserve(hold));
  renew: QuotaStore["renew"] = (id, renewal) =>
    this.#send(`renew ${id} ${renewal.used}${renewal.keep === undefined ? "" : ` keep ${renewal.keep}`}`, () =>
      this.#store.renew(id, renewal),
    );
  settle: QuotaStore["settle"] = (id, outcome) =>
    this.#send(`settle ${id} ${outcome.used}`, () => this.#store.settle(id, outcome));
  recall = (keyId: string) => this.#send("recall", () => this.#store.recall(keyId));
  recalled = (withinMs: number) => this.#send("recalled", () => this.#store.recalled(withinMs));

  /** The messages since the last call. */
  sent(): string[] {
    return this.log.splice(0);
  }
}

/** A process that borrows, with short verbs for the key `key-1`. */
class Process {
  readonly connection: Connection;
  readonly quotas: BorrowingQuotaStore;

  constructor(store: SharedStore, clock: ManualClock, options: BorrowingQuotaStoreOptions = {}) {
    this.connection = new Connection(store);
    this.quotas = borrowingQuotaStore(this.connection, { windowMs: WINDOW_MS, minCalls: 0, clock, ...options });
  }

  async reserve(id: string, atLeast: number, atMost: number = atLeast, leaseMs: number = LEASE_MS) {
    return this.quotas.reserve({ id, keyId: "key-1", atLeast, atMost, leaseMs });
  }

  settle(id: string, used: number, certainty: "exact" | "estimated" = "exact") {
    return this.quotas.settle(id, { used, certainty });
  }

  renew(id: string, used: number) {
    return this.quotas.renew(id, { leaseMs: LEASE_MS, used });
  }

  /** Borrows a block of `size` units, and leaves them all free. */
  async borrow(size: number): Promise<void> {
    await this.reserve("warm", size);
    await this.settle("warm", 0);
  }
}

interface Stage {
  readonly clock: ManualClock;
  readonly store: MemoryQuotaStore;
  readonly start: (options?: BorrowingQuotaStoreOptions) => Process;
}

function stage(granted: number | undefined, options: MemoryQuotaStoreOptions = {}): Stage {
  const clock = manualClock();
  const key = {
    apiKey: "sk-one",
    ...(granted !== undefined && { granted }),
    ...(options.budgets && { budget: "team" }),
  };
  const store = memoryQuotaStore([key], { clock, ...options });
  return { clock, store, start: (own) => new Process(store, clock, own) };
}

describe("a process that borrows", () => {
  it("leaves keys with few calls to the store", async () => {
    const { start } = stage(1_000);
    const at = start({ minCalls: 2 });
    for (const id of ["one", "two", "three"]) {
      await at.reserve(id, 10);
      await at.settle(id, 5);
    }
    expect(at.connection.sent()).toEqual([
      "reserve one 10",
      "settle one 5",
      "reserve two 10",
      "settle two 5",
      "reserve block 10",
      "renew block 5",
    ]);
  });

  it("leaves all holds of a call to the store that has served the first, because reports add them up", async () => {
    const { start } = stage(1_000);
    const at = start({ minCalls: 1 });
    const call = { requestId: "one", context: undefined, headers: new Headers(), clientAddress: undefined };
    const hold = { keyId: "key-1", atLeast: 10, atMost: 10, leaseMs: LEASE_MS };
    await at.quotas.reserve({ ...hold, id: "one" }, call);
    await at.settle("one", 5);
    await at.borrow(60);
    await at.quotas.reserve({ ...hold, id: "one-2" }, call);
    await at.settle("one-2", 5);
    expect(at.connection.sent()).toContain("settle one-2 5");
    await at.quotas.reserve({ ...hold, id: "two" }, { ...call, requestId: "two" });
    await at.quotas.reserve({ ...hold, id: "two-2" }, { ...call, requestId: "two" });
    expect(at.connection.sent().join()).not.toContain("two");
  });

  it("serves a call that a block of its own process has overtaken on the way to the store", async () => {
    const { start } = stage(60);
    const at = start({ minCalls: 1 });
    const { reserve } = at.connection;
    const overtaken = Promise.withResolvers<void>();
    at.connection.reserve = async (hold) => {
      if (hold.id === "early") await overtaken.promise;
      return reserve(hold);
    };
    const early = at.reserve("early", 27);
    await at.borrow(60);
    overtaken.resolve();
    expect(await early).toEqual({ granted: 27 });
    expect(at.quotas.borrowed("key-1")).toMatchObject({ free: 0, held: 0 });
  });

  it("serves reservations of one moment from one block, and those that follow from what the block has left", async () => {
    const { start } = stage(10_000);
    const at = start();
    const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => at.reserve(`call-${index}`, 1, 100)));
    expect(answers).toEqual(answers.map(() => ({ granted: 100 })));
    expect(at.connection.sent()).toEqual(["reserve block 1000"]);
    await Promise.all(Array.from({ length: 10 }, (_, index) => at.settle(`call-${index}`, 40)));
    expect(at.connection.sent(), "one note for ten settlements").toEqual(["renew block 400"]);
    expect(await at.reserve("next", 1, 600)).toEqual({ granted: 600 });
    expect(at.connection.sent()).toEqual([]);
    expect(at.quotas.borrowed("key-1")).toEqual({
      blocks: 1,
      units: 1_000,
      held: 600,
      charged: 400,
      free: 0,
      overdraft: 0,
      estimated: 0,
    });
  });

  it("borrows as much as its calls have used in the last window", async () => {
    const { start, clock } = stage(100_000);
    const at = start();
    await Promise.all(Array.from({ length: 10 }, (_, index) => at.reserve(`call-${index}`, 100)));
    await Promise.all(Array.from({ length: 10 }, (_, index) => at.settle(`call-${index}`, 70)));
    await clock.advance(WINDOW_MS);
    at.connection.sent();
    await at.reserve("next", 50);
    expect(at.connection.sent(), "700 were charged, and 1,000 held at once").toEqual(["reserve block 1700"]);
  });

  it("gives back what is idle after a window, and leaves no timer", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await at.reserve("call", 100);
    await at.settle("call", 30);
    expect(store.report("key-1")).toMatchObject({ used: 100, held: 100 });
    expect(await at.quotas.balance("key-1")).toEqual({ used: 30, available: 970, held: 0 });
    await clock.advance(WINDOW_MS);
    expect(store.report("key-1")).toMatchObject({ used: 30, held: 0, liveHolds: 0, estimated: 0 });
    await clock.advance(WINDOW_MS);
    expect(clock.pending).toBe(0);
  });

  it("keeps only what its running calls hold when a window is over", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all([at.reserve("long", 100), at.reserve("short", 200)]);
    await at.settle("short", 50);
    await clock.advance(WINDOW_MS);
    expect(store.report("key-1")).toMatchObject({ used: 150, held: 150 });
    expect(await at.quotas.balance("key-1")).toEqual({ used: 150, available: 850, held: 100 });
    await at.settle("long", 120);
    expect(store.report("key-1")).toMatchObject({ used: 170, held: 0, overdraft: 0 });
  });

  it("tells the store which part of a block rests on estimates", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all([at.reserve("counted", 100), at.reserve("guessed", 100)]);
    await at.settle("counted", 60);
    await at.settle("guessed", 40, "estimated");
    await clock.advance(WINDOW_MS);
    expect(store.report("key-1")).toMatchObject({ used: 100, held: 0, estimated: 40 });
  });

  it("takes a settlement above its hold from its block, from the store, and then as overdraft", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all([at.reserve("call", 100), at.reserve("other", 100)]);
    await at.settle("other", 40);
    await at.settle("call", 150);
    expect(
      at.connection.sent().filter((message) => message.includes("call")),
      "the block had enough",
    ).toEqual([]);
    await at.reserve("next", 300);
    await at.settle("next", 700);
    expect(await at.quotas.balance("key-1")).toEqual({ used: 890, available: 110, held: 0 });
    await at.reserve("last", 100);
    await at.settle("last", 500);
    await clock.advance(WINDOW_MS);
    expect(store.report("key-1")).toMatchObject({ used: 1_000, held: 0, overdraft: 390 });
  });

  it("meters an unlimited key, and holds nothing of a key that there is not", async () => {
    const { start, clock, store } = stage(undefined);
    const at = start();
    await Promise.all(Array.from({ length: 5 }, (_, index) => at.reserve(`call-${index}`, 1_000)));
    await Promise.all(Array.from({ length: 5 }, (_, index) => at.settle(`call-${index}`, 10)));
    await clock.advance(WINDOW_MS);
    expect(store.report("key-1")).toMatchObject({ used: 50, held: 0 });
    const stranger = { id: "call", keyId: "nobody", atLeast: 0, atMost: 10, leaseMs: LEASE_MS };
    expect(await at.quotas.reserve(stranger)).toEqual({ refused: true, available: 0, held: 0 });
    expect(await at.quotas.balance("nobody")).toBeUndefined();
  });

  it("finds a revoked key for as long as it remembers it, and no longer", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start({ keyCacheMs: 1_000 });
    await Promise.all([at.quotas.find("one"), at.quotas.find("one")]);
    expect(at.connection.sent()).toEqual(["find"]);
    await store.keys.revoke("key-1");
    await clock.advance(999);
    expect(await at.quotas.find("one")).toMatchObject({ id: "key-1" });
    await clock.advance(1);
    expect(await at.quotas.find("one")).toBeUndefined();
    expect(await at.quotas.find("one"), "an unknown secret is not remembered").toBeUndefined();
    expect(at.connection.sent()).toEqual(["find", "find"]);
    at.connection.isDown = true;
    await expect(at.quotas.find("one")).rejects.toThrow("no connection");
  });

  it("does not find a revoked key for longer when its clock was set back", async () => {
    const { start, clock, store } = stage(1_000);
    let back = 0;
    const at = start({ keyCacheMs: 1_000, clock: { ...clock, now: () => clock.now() - back } });
    await at.quotas.find("one");
    await store.keys.revoke("key-1");
    back = 3_600_000;
    expect(await at.quotas.find("one")).toBeUndefined();
  });

  it("charges the calls of a removed key to nobody", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await at.reserve("call", 100);
    store.remove("key-1");
    await at.settle("call", 10);
    await clock.advance(LEASE_MS);
    expect(store.report("key-1")).toBeUndefined();
    expect(clock.pending).toBe(0);
  });
});

describe("two processes that borrow from one key", () => {
  it("use it up to its last unit, and are refused with what there is", async () => {
    const { start, clock, store } = stage(1_000);
    const [one, two] = [start(), start()];
    await Promise.all(Array.from({ length: 9 }, (_, index) => one.reserve(`one-${index}`, 100)));
    await Promise.all(Array.from({ length: 9 }, (_, index) => one.settle(`one-${index}`, 10)));
    expect(store.report("key-1"), "810 of 900 are free in the other process").toMatchObject({ available: 100 });
    const waiting = two.reserve("two", 900);
    await clock.advance(1_000);
    expect(await waiting).toEqual({ granted: 900 });
    expect(await one.reserve("last", 1, 50)).toEqual({ granted: 10 });
    const refused = one.reserve("next", 1);
    await clock.advance(1_000);
    expect(await refused).toEqual({ refused: true, available: 0, held: 910 });
    await two.settle("two", 900);
    await one.settle("last", 10);
    expect(store.report("key-1")).toMatchObject({ used: 1_000, available: 0, held: 0, overdraft: 0 });
  });

  it("are refused at once when nobody else holds units", async () => {
    const { start } = stage(100);
    const at = start();
    await at.reserve("call", 60);
    expect(await at.reserve("next", 50)).toEqual({ refused: true, available: 40, held: 60 });
    expect(at.connection.sent()).not.toContain("recall");
  });

  it("never hold more than the key has, whichever order they ask in", async () => {
    const { start, clock, store } = stage(1_000);
    const processes = [start(), start(), start()];
    const calls = processes.flatMap((process, at) =>
      Array.from({ length: 20 }, async (_, index) => {
        const answer = await process.reserve(`${at}-${index}`, 30);
        return answer.refused ? 0 : answer.granted;
      }),
    );
    await clock.advance(2_000);
    const granted = (await Promise.all(calls)).reduce((sum, units) => sum + units, 0);
    expect(granted).toBe(990);
    expect(store.report("key-1")).toMatchObject({ used: 990, available: 10, overdraft: 0 });
  });

  it("wait for units after a call that got less than it asked for", async () => {
    const { start, clock } = stage(1_000);
    const [one, two] = [start(), start({ minCalls: 100 })];
    await one.borrow(990);
    expect(await two.reserve("partial", 1, 100)).toEqual({ granted: 10 });
    const waiting = two.reserve("next", 100);
    await clock.advance(1_000);
    expect(await waiting).toEqual({ granted: 100 });
  });

  it("wait no longer for units that nobody gives back when their clock was set back", async () => {
    const { start, clock } = stage(100);
    let back = 0;
    const other = start();
    const at = start({ clock: { ...clock, now: () => clock.now() - back } });
    await other.reserve("running", 90);
    const waiting = at.reserve("call", 50);
    await clock.advance(100);
    back = 3_600_000;
    await clock.advance(1_000);
    expect(await Promise.race([waiting, Promise.resolve("waits")])).toMatchObject({ refused: true, available: 10 });
  });

  it("ask again when a recall was lost", async () => {
    const { start, clock } = stage(1_000);
    const [one, two] = [start(), start()];
    await one.borrow(990);
    const { recall } = two.connection;
    two.connection.recall = () => Promise.reject(new Error("no connection"));
    await expect(two.reserve("call", 100)).rejects.toThrow("no connection");
    two.connection.recall = recall;
    const waiting = two.reserve("next", 100);
    await clock.advance(1_000);
    expect(await waiting).toEqual({ granted: 100 });
  });

  it("give back what they have borrowed after the recall, too", async () => {
    const { start, clock } = stage(1_000);
    const [one, two, three] = [start(), start(), start()];
    await Promise.all([one.reserve("one", 500), two.reserve("two", 450)]);
    const refused = two.reserve("short", 100);
    await clock.advance(1_000);
    expect(await refused).toMatchObject({ refused: true, available: 50 });
    await one.settle("one", 0);
    await clock.advance(1_500);
    await three.borrow(540);
    await clock.advance(300);
    expect(await two.reserve("later", 100)).toEqual({ granted: 100 });
  });

  it("borrow again some seconds after a recall", async () => {
    const { start, clock } = stage(10_000);
    const [one, two] = [start(), start()];
    await one.borrow(9_500);
    const waiting = two.reserve("two", 9_000);
    await clock.advance(1_000);
    await waiting;
    one.connection.sent();
    await one.reserve("direct", 10);
    expect(one.connection.sent()).toEqual(["reserve direct 10"]);
    await two.settle("two", 0);
    await clock.advance(8_000);
    one.connection.sent();
    await one.reserve("lent", 10);
    expect(one.connection.sent()[0]).toMatch(/^reserve block/);
  });
});

describe("a settlement", () => {
  it("is confirmed when the store has noted it, and is repeated without a second charge", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all([at.reserve("call", 100), at.reserve("other", 100)]);
    at.connection.isDown = true;
    await expect(at.settle("call", 40)).rejects.toThrow("no connection");
    await expect(at.settle("call", 40), "a repetition waits for the store too").rejects.toThrow("no connection");
    await expect(at.renew("other", 5)).rejects.toThrow("no connection");
    at.connection.isDown = false;
    at.connection.sent();
    await at.settle("call", 40);
    expect(at.connection.sent()).toEqual(["renew block 45"]);
    await at.settle("call", 90);
    expect(at.connection.sent(), "the store knows it by now").toEqual([]);
    await at.settle("other", 0);
    await clock.advance(WINDOW_MS);
    expect(store.report("key-1")).toMatchObject({ used: 40, held: 0 });
  });

  it("is charged when its process dies: with the notes of running calls, and no free unit", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all(["settled", "running", "silent"].map((id) => at.reserve(id, 100)));
    await at.settle("settled", 40);
    await at.renew("running", 25);
    at.connection.isDown = true;
    await at.settle("silent", 90).catch(() => {});
    await clock.advance(2 * LEASE_MS);
    expect(store.report("key-1")).toMatchObject({ used: 65, available: 935, held: 0, estimated: 65 });
  });

  it.each(["renew", "settle"] as const)(
    "above its hold leaves the last note of its call to a process that dies in it: %s",
    async (verb) => {
      const { start, clock, store } = stage(1_000);
      const at = start();
      await Promise.all([at.reserve("call", 100), at.reserve("other", 100)]);
      await at.renew("call", 30);
      at.connection.reserve = () => ((at.connection.isDown = true), Promise.reject(new Error("no connection")));
      await expect(at[verb]("call", 150)).rejects.toThrow("no connection");
      await clock.advance(2 * LEASE_MS);
      expect(store.report("key-1")).toMatchObject({ used: 30, held: 0, estimated: 30 });
    },
  );

  it.each([0, WINDOW_MS])(
    "above its hold is charged at once, beside other calls, %d ms after its block",
    async (ms) => {
      const { start, clock, store } = stage(1_000);
      const at = start();
      await Promise.all([at.reserve("call", 100), at.reserve("other", 100)]);
      await clock.advance(ms);
      await at.renew("call", 150);
      expect(store.report("key-1"), "a note takes no units").toMatchObject({ used: 200, available: 800 });
      expect(at.connection.sent()).toContain("renew block 50");
      await at.settle("call", 1_050, "estimated");
      await at.settle("call", 1_050, "estimated");
      expect(store.report("key-1")).toMatchObject({ used: 1_000, available: 0, overdraft: 150, estimated: 800 });
      await at.settle("other", 0);
      expect(store.report("key-1")).toMatchObject({ used: 900, held: 0, overdraft: 150, estimated: 900 });
    },
  );

  it("above its hold, late, corrects the charge of its whole note", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all([at.reserve("late", 100), at.reserve("other", 100)]);
    await at.renew("late", 130);
    await clock.advance(LEASE_MS + 1_000);
    expect(store.report("key-1")).toMatchObject({ used: 130, held: 0, estimated: 130 });
    await at.settle("late", 145);
    expect(store.report("key-1")).toMatchObject({ used: 145, held: 0, estimated: 0 });
  });

  it("of a call whose lease is over corrects the charge of its last note", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await at.reserve("late", 100);
    await at.renew("late", 30);
    await clock.advance(LEASE_MS + 1_000);
    expect(store.report("key-1")).toMatchObject({ used: 30, held: 0, estimated: 30 });
    expect(await at.reserve("late", 10)).toMatchObject({ refused: true, available: 970 });
    await at.settle("late", 45);
    await at.settle("late", 90);
    expect(store.report("key-1")).toMatchObject({ used: 45, held: 0, estimated: 0 });
    expect(clock.pending).toBe(0);
  });
});

describe("a process that cannot reach its store", () => {
  it("lends until the window is over, and then serves no call", async () => {
    const { start, clock } = stage(1_000);
    const at = start();
    await at.borrow(500);
    at.connection.isDown = true;
    await clock.advance(WINDOW_MS - 1);
    expect(await at.reserve("still", 10)).toEqual({ granted: 10 });
    await clock.advance(1);
    await expect(at.reserve("no-more", 10)).rejects.toThrow("no connection");
  });

  it("moves its calls to holds of their own when the lease of their block is over, and spends nothing twice", async () => {
    const { start, clock, store } = stage(1_000);
    const [cut, other] = [start(), start()];
    await cut.reserve("call", 900);
    cut.connection.isDown = true;
    await clock.advance(30_000);
    await cut.renew("call", 300).catch(() => {});
    await clock.advance(36_000);
    expect(await other.reserve("other", 1_000), "the store has charged the last note: nothing").toEqual({
      granted: 1_000,
    });
    await other.settle("other", 200);
    await clock.advance(WINDOW_MS);
    cut.connection.isDown = false;
    await clock.advance(1_000);
    await cut.settle("call", 500);
    await clock.advance(5_000);
    expect(store.report("key-1")).toMatchObject({ used: 700, available: 300, held: 0, overdraft: 0 });
  });

  it("returns a block whose answer was lost", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    const { reserve } = at.connection;
    at.connection.reserve = async (hold) => {
      await reserve(hold);
      throw new Error("no answer");
    };
    await expect(at.reserve("call", 100)).rejects.toThrow("no answer");
    await clock.advance(0);
    expect(store.report("key-1")).toMatchObject({ used: 0, held: 0 });
    at.connection.reserve = reserve;
    expect(await at.reserve("call", 100), "a repetition is a new call").toEqual({ granted: 100 });
  });

  it("returns a block whose answer comes after the wait for it", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    const { reserve } = at.connection;
    at.connection.reserve = async (hold) => {
      await new Promise<void>((resolve) => void clock.after(6_000, resolve));
      return reserve(hold);
    };
    const failed = at.reserve("call", 1_000).catch(String);
    await clock.advance(7_000);
    expect(await failed).toContain("more than 5000 ms");
    expect(store.report("key-1")).toMatchObject({ used: 0, held: 0 });
  });

  it("lends nothing from a block after a pause, whatever its timers did", async () => {
    const { store, clock } = stage(1_000);
    // Timers of a machine that slept fire late.
    let ahead = 0;
    const sleepy: ManualClock = { ...clock, now: () => clock.now() + ahead, pending: 0 };
    const process = new Process(store, sleepy);
    await process.borrow(500);
    process.connection.sent();
    ahead = 10 * LEASE_MS;
    await clock.advance(1);
    await process.reserve("after", 10);
    expect(process.connection.sent()).toEqual(["settle block 0", "reserve block 10"]);
  });

  it.each([0.96, 1, 1.04])(
    "never lends a unit that the store may have taken back, with a clock of %d times the speed",
    async (speed) => {
      const { store, clock } = stage(1_000);
      const begin = clock.now();
      const drifting: ManualClock = {
        ...clock,
        now: () => begin + (clock.now() - begin) * speed,
        after: (ms, callback) => clock.after(ms / speed, callback),
        every: (ms, callback) => clock.every(ms / speed, callback),
        pending: 0,
      };
      const at = new Process(store, drifting);
      await Promise.all([at.reserve("call", 400), at.borrow(400)]);
      at.connection.isDown = true;
      for (let index = 0; ; index++) {
        const answer = await at.reserve(`call-${index}`, 1).catch(() => undefined);
        if (!answer) break;
        await clock.advance(100);
      }
      const lastLent = clock.now();
      while (store.report("key-1")?.held !== 0) await clock.advance(100);
      expect(clock.now() - lastLent, "the last call has had a whole lease").toBeGreaterThanOrEqual(
        LEASE_MS / speed - 200,
      );
    },
  );
});

describe("budgets of a key that is lent out", () => {
  const budgets = [{ id: "team", amount: 1_000, period: "day" as const }];

  it("hold blocks as they hold calls, and are charged when blocks end", async () => {
    const events: number[] = [];
    const { start, clock, store } = stage(undefined, { budgets, onBudget: ({ percent }) => void events.push(percent) });
    const at = start();
    await Promise.all([at.reserve("one", 400), at.reserve("two", 200)]);
    expect(store.budgetReport("team")).toMatchObject({ held: 600, available: 400 });
    await at.settle("one", 350);
    await at.settle("two", 170);
    await clock.advance(WINDOW_MS);
    expect(store.budgetReport("team")).toMatchObject({ used: 520, held: 0 });
    expect(events).toEqual([50]);
    expect(await at.reserve("three", 500)).toMatchObject({ refused: true, available: 480, held: 0, budget: "team" });
  });

  it("charge a call to the period of its block", async () => {
    const { start, clock, store } = stage(undefined, { budgets });
    const at = start();
    await clock.advance(86_400_000 - 1_000);
    await at.reserve("evening", 100);
    await clock.advance(1_500);
    await at.settle("evening", 90);
    await clock.advance(WINDOW_MS);
    expect(store.budgetReport("team")).toMatchObject({ used: 0, available: 1_000 });
  });

  it("charge a call whose lease is over to the budgets of that moment", async () => {
    const { start, clock, store } = stage(undefined, {
      budgets: [
        { id: "team", amount: 1_000 },
        { id: "other", amount: 1_000 },
      ],
    });
    const at = start();
    await at.reserve("late", 100);
    await at.renew("late", 20);
    store.assignBudget("key-1", "other");
    await clock.advance(LEASE_MS + WINDOW_MS);
    expect(store.budgetReport("team")).toMatchObject({ used: 0, held: 0 });
    expect(store.budgetReport("other")).toMatchObject({ used: 20, held: 0, estimated: 20 });
    await at.settle("late", 30);
    expect(store.budgetReport("other")).toMatchObject({ used: 30, estimated: 0 });
  });
});

describe("close", () => {
  it("gives all free units back, settles running calls, and leaves new calls to the store", async () => {
    const { start, clock, store } = stage(1_000);
    const at = start();
    await Promise.all([at.reserve("running", 100), at.reserve("done", 400)]);
    await at.settle("done", 50);
    await at.quotas.close();
    expect(store.report("key-1")).toMatchObject({ used: 150, held: 150 });
    at.connection.sent();
    await at.reserve("after", 10);
    expect(at.connection.sent()).toEqual(["reserve after 10"]);
    await at.settle("after", 5);
    await at.settle("running", 60);
    expect(store.report("key-1")).toMatchObject({ used: 115, held: 0 });
    await clock.advance(1_000);
    expect(clock.pending).toBe(0);
  });

  it("ends at its deadline when the store does not answer", async () => {
    const { store, clock } = stage(1_000);
    const at = new Process(store, clock);
    await at.borrow(100);
    at.connection.renew = () => new Promise(() => {});
    at.connection.settle = () => new Promise(() => {});
    let isClosed = false;
    void at.quotas.close({ deadlineMs: 3_000 }).then(() => (isClosed = true));
    await clock.advance(2_999);
    expect(isClosed).toBe(false);
    await clock.advance(1);
    expect(isClosed).toBe(true);
  });
});

describe("options", () => {
  it.each([
    ["an unknown one", { window: 1 }, /window does not exist; did you mean windowMs/],
    ["a window that is none", { windowMs: 0 }, /windowMs must be a positive integer, not 0/],
    ["calls that are none", { minCalls: -1 }, /minCalls must be an integer from 0 up/],
    ["an interval that is none", { recallMs: 0.5 }, /recallMs must be a positive integer/],
    ["a wait that is none", { recallWaitMs: -1 }, /recallWaitMs must be an integer from 0 up/],
    ["a time that is none", { keyCacheMs: Number.NaN }, /keyCacheMs must be an integer from 0 up/],
  ])("refuse %s", (_, options, message) => {
    expect(() => borrowingQuotaStore(memoryQuotaStore(), options as BorrowingQuotaStoreOptions)).toThrow(message);
  });

  it("set no timer for longer than a timer waits: it would ring at once", async () => {
    const { start, clock } = stage(1_000);
    const waits: number[] = [];
    const every: ManualClock["every"] = (ms, callback) => clock.every((waits.push(ms), ms), callback);
    const after: ManualClock["after"] = (ms, callback) => clock.after((waits.push(ms), ms), callback);
    const at = start({ recallMs: 2 ** 40, clock: { ...clock, every, after } });
    await at.borrow(100);
    await at.quotas.close({ deadlineMs: 2 ** 40 });
    expect(Math.max(...waits)).toBe(2 ** 31 - 1);
    expect(waits.filter((ms) => ms === 2 ** 31 - 1)).toHaveLength(2);
  });

  it("refuse a store without recalls", () => {
    const { find, balance, reserve, renew, settle } = new Connection(memoryQuotaStore());
    const store = { find, balance, reserve, renew, settle } as unknown as SharedStore;
    expect(() => borrowingQuotaStore(store)).toThrow("and has no recall()");
  });
});
