/** The laws of the QuotaStore port, to be run on a store by any test runner. Races come first: they are what a ledger is for. */

import assert from "node:assert/strict";
import type { ApiKeyOptions, ApiKeyRecord, Certainty, Clock, QuotaStore, Reservation } from "../../src/index.ts";
import { type ManualClock, manualClock } from "./manual-clock.ts";

/** What a law asks a store to be opened with. */
export interface QuotaStoreSetup {
  /** The keys that the store must know, and no others. Their secrets stand without `sk-`, as `find` is given them. */
  readonly keys: readonly ApiKeyOptions[];
  /** The time by which leases end. It is wound by hand: a store that reads another clock cannot keep the laws of leases. */
  readonly clock: Clock;
}

/**
 * Opens a fresh store for one law; nothing that an earlier law did may show in it.
 *
 * @example
 * const open: OpenQuotaStore = ({ keys, clock }) => memoryQuotaStore(keys, { clock });
 */
export type OpenQuotaStore = (setup: QuotaStoreSetup) => QuotaStore | Promise<QuotaStore>;

/** One promise of the QuotaStore port. */
export interface QuotaStoreLaw {
  /** The promise as a sentence, fit for a test's name. */
  readonly name: string;
  /** Opens a store and holds it to the promise; rejects with an AssertionError that says how it was broken. */
  verify(open: OpenQuotaStore): Promise<void>;
}

/** How long the laws' leases last, in milliseconds. */
const LEASE_MS = 60_000;

/** One key of a fresh store, with short verbs for its holds. */
class Ledger {
  readonly store: QuotaStore;
  readonly clock: ManualClock;
  readonly #granted: number | undefined;
  readonly #keyId: string;

  constructor(store: QuotaStore, clock: ManualClock, granted: number | undefined, keyId: string) {
    this.store = store;
    this.clock = clock;
    this.#granted = granted;
    this.#keyId = keyId;
  }

  /** A key without `granted` is unlimited. */
  static async open(open: OpenQuotaStore, granted?: number): Promise<Ledger> {
    const clock = manualClock();
    const store = await open({ keys: [{ apiKey: "one", ...(granted !== undefined && { granted }) }], clock });
    return new Ledger(store, clock, granted, (await recordOf(store, "one")).id);
  }

  reserve(id: string, atLeast: number, atMost: number = atLeast): Promise<Reservation | undefined> {
    return this.store.reserve({ id, keyId: this.#keyId, atLeast, atMost, expiresAt: this.clock.now() + LEASE_MS });
  }

  renew(id: string, used: number): Promise<void> {
    return this.store.extend(id, { expiresAt: this.clock.now() + LEASE_MS, used });
  }

  settle(id: string, used: number, how: Certainty = "exact"): Promise<void> {
    return this.store.settle(id, used, how);
  }

  record(): Promise<ApiKeyRecord> {
    return recordOf(this.store, "one");
  }

  /** Asserts what is used, live holds included, and that all the rest of the grant is available. */
  async expectUsed(used: number, why: string): Promise<void> {
    const record = await this.record();
    if (this.#granted === undefined) return assert.equal(record.used, used, why);
    const available = this.#granted - used;
    assert.deepEqual({ used: record.used, available: record.available }, { used, available }, why);
  }
}

async function recordOf(store: QuotaStore, apiKey: string): Promise<ApiKeyRecord> {
  const record = await store.find(apiKey);
  assert.ok(record, `find("${apiKey}") must know a key that the store was opened with`);
  return record;
}

/** Calls `work` for 0 to count - 1 without waiting in between. */
const atOnce = <T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));

const grantsOf = (reservations: readonly (Reservation | undefined)[]): number[] =>
  reservations.flatMap((reservation) => reservation?.granted ?? []).toSorted((a, b) => b - a);

/**
 * What every QuotaStore promises. Each law opens a store of its own, so they may run in any order, and at once.
 *
 * @example
 * describe("my store", () => {
 *   for (const law of quotaStoreLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const quotaStoreLaws: readonly QuotaStoreLaw[] = [
  {
    name: "of 1,000 reservations at once on a balance for 100, exactly 100 are admitted",
    async verify(open) {
      const ledger = await Ledger.open(open, 700);
      const reservations = await atOnce(1000, (index) => ledger.reserve(`hold-${index}`, 7));
      const expected = Array.from({ length: 100 }, () => 7);
      assert.deepEqual(grantsOf(reservations), expected);
      await ledger.expectUsed(700, "what was granted is held");
    },
  },
  {
    name: "reservations at once share a balance to its last unit",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      const reservations = await atOnce(50, (index) => ledger.reserve(`hold-${index}`, 1, 30));
      assert.deepEqual(grantsOf(reservations), [30, 30, 30, 10]);
      await ledger.expectUsed(100, "what was granted is held");
    },
  },
  {
    name: "the same hold reserved by many callers at once is held once",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      const reservations = await atOnce(20, () => ledger.reserve("one call", 30));
      assert.deepEqual(
        reservations,
        reservations.map(() => ({ granted: 30 })),
      );
      await ledger.expectUsed(30, "twenty answers, one hold");
    },
  },
  {
    name: "the same hold settled by many callers at once is charged once",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("one call", 90);
      await atOnce(20, () => ledger.settle("one call", 15));
      await ledger.expectUsed(15, "twenty settlements, one charge");

      await ledger.reserve("another call", 50);
      await Promise.all([ledger.settle("another call", 20), ledger.settle("another call", 30, "estimated")]);
      const { used } = await ledger.record();
      assert.ok(used === 35 || used === 45, `one of two settlements counts, never both: ${used - 15} was charged`);
      await ledger.expectUsed(used, "the rest is returned");
    },
  },
  {
    name: "used and available add up to what was granted at every instant",
    async verify(open) {
      const ledger = await Ledger.open(open, 1000);
      const call = async (index: number): Promise<void> => {
        await ledger.reserve(`hold-${index}`, 1, 60);
        await ledger.renew(`hold-${index}`, 5);
        await ledger.settle(`hold-${index}`, index % 40);
      };
      const look = async (): Promise<void> => {
        const { used, available } = await ledger.record();
        assert.equal(used + available, 1000);
        assert.ok(available >= 0, `available fell to ${available}`);
      };
      await atOnce(200, (index) => (index % 2 === 0 ? call(index) : look()));
      await look();
    },
  },
  {
    name: "a hold that expires and is settled at once is charged once",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("late", 40);
      await ledger.renew("late", 10);
      await ledger.clock.advance(LEASE_MS);
      await Promise.all([ledger.record(), ledger.settle("late", 25), ledger.record(), ledger.settle("late", 25)]);
      await ledger.expectUsed(25, "the settlement replaces what expiry charged");
    },
  },
  {
    name: "a hold gets what is available between atLeast and atMost",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      assert.deepEqual(await ledger.reserve("all of it", 10, 60), { granted: 60 });
      assert.deepEqual(await ledger.reserve("a part of it", 10, 60), { granted: 40 });
      await ledger.expectUsed(100, "a live hold counts as used");
      assert.deepEqual(
        await ledger.reserve("free", 0, 60),
        { granted: 0 },
        "nothing is enough for a call that may be free",
      );
      await ledger.settle("all of it", 0);
      assert.deepEqual(await ledger.reserve("exactly", 60), { granted: 60 }, "a balance is enough for all of itself");
    },
  },
  {
    name: "less than atLeast is refused, and holds nothing",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      assert.equal(await ledger.reserve("too dear", 101, 200), undefined);
      await ledger.expectUsed(0, "a refusal holds nothing");
      await ledger.reserve("first", 95);
      assert.equal(await ledger.reserve("second", 6, 50), undefined);
      await ledger.settle("second", 6);
      await ledger.expectUsed(95, "a refused hold cannot be settled");
    },
  },
  {
    name: "the same id gets the same answer for as long as its hold lives, and holds nothing more",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("big", 70);
      assert.deepEqual(await ledger.reserve("again", 10, 50), { granted: 30 });
      await ledger.settle("big", 0);
      assert.deepEqual(await ledger.reserve("again", 10, 50), { granted: 30 }, "the first answer stands");
      await ledger.expectUsed(30, "one hold");
    },
  },
  {
    name: "the id of a hold that is settled or has expired gets nothing, and is not opened again",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("settled", 30);
      await ledger.settle("settled", 20);
      assert.equal(await ledger.reserve("settled", 10, 50), undefined, "nothing is held for a settled id");
      await ledger.expectUsed(20, "a settled hold is not opened again");
      await ledger.reserve("expired", 40);
      await ledger.renew("expired", 5);
      await ledger.clock.advance(LEASE_MS);
      assert.equal(await ledger.reserve("expired", 40), undefined, "nothing is held for an expired id");
      await ledger.expectUsed(25, "an expired hold is not opened again");
      await ledger.settle("expired", 15);
      assert.equal(await ledger.reserve("expired", 40), undefined, "nor is one that was corrected");
      await ledger.expectUsed(35, "and its correction stands");
    },
  },
  {
    name: "the id of a refused hold stays refused, whatever has become available since",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("big", 95);
      assert.equal(await ledger.reserve("refused", 10), undefined);
      await ledger.settle("big", 0);
      assert.equal(await ledger.reserve("refused", 10), undefined, "the same id again: the same answer");
      await ledger.renew("refused", 10);
      await ledger.settle("refused", 10);
      await ledger.expectUsed(0, "it holds nothing and is charged nothing");
      assert.deepEqual(await ledger.reserve("another", 10), { granted: 10 });
    },
  },
  {
    name: "an id belongs to the key that it was reserved for, and is rejected for another",
    async verify(open) {
      const clock = manualClock();
      const store = await open({ keys: ["one", "two"].map((apiKey) => ({ apiKey, granted: 100 })), clock });
      const [one, two] = [await recordOf(store, "one"), await recordOf(store, "two")];
      const terms = { id: "call", atLeast: 80, atMost: 80, expiresAt: clock.now() + LEASE_MS };
      await store.reserve({ ...terms, keyId: one.id });
      await assert.rejects(
        () => store.reserve({ ...terms, keyId: two.id }),
        "a live id must be rejected for another key",
      );
      await store.settle("call", 10, "exact");
      await assert.rejects(() => store.reserve({ ...terms, keyId: two.id }), "a settled one too");
      assert.equal((await recordOf(store, "one")).used, 10);
      assert.equal((await recordOf(store, "two")).used, 0);
    },
  },
  {
    name: "settling charges what was used and returns the rest, once",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("call", 60);
      await ledger.settle("call", 25);
      await ledger.expectUsed(25, "the rest of the hold is returned");
      await ledger.settle("call", 60);
      await ledger.settle("call", 0, "estimated");
      await ledger.expectUsed(25, "a second settlement changes nothing");
    },
  },
  {
    name: "settling 0 voids the hold",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("call", 60);
      await ledger.renew("call", 40);
      await ledger.settle("call", 0);
      await ledger.expectUsed(0, "nothing is charged, whatever a renewal noted");
      await ledger.settle("call", 60);
      await ledger.expectUsed(0, "a voided hold stays void");
    },
  },
  {
    name: "settling above the hold takes what is still available, and no more",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("modest", 10);
      await ledger.settle("modest", 30);
      await ledger.expectUsed(30, "what exceeds the hold is taken from the balance");
      await ledger.reserve("greedy", 40);
      await ledger.reserve("neighbour", 20);
      await ledger.settle("greedy", 500);
      await ledger.expectUsed(100, "30, what greedy held and 10 that were left, and what its neighbour holds");
      await ledger.settle("neighbour", 0);
      await ledger.expectUsed(80, "a neighbour's hold was not touched");
    },
  },
  {
    name: "a lease that runs out is charged what its last renewal noted",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("silent", 30);
      await ledger.reserve("renewed", 50);
      await ledger.renew("renewed", 12);
      await ledger.renew("renewed", 20);
      await ledger.clock.advance(LEASE_MS - 1);
      await ledger.expectUsed(80, "both leases live");
      await ledger.clock.advance(1);
      assert.deepEqual(await ledger.reserve("next", 80), { granted: 80 }, "what they held is available to the next");
      await ledger.settle("next", 0);
      await ledger.expectUsed(20, "the silent one is charged nothing, the renewed one its last note");
    },
  },
  {
    name: "a renewed lease keeps its hold alive",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("long call", 60);
      for (let renewals = 1; renewals <= 5; renewals++) {
        await ledger.clock.advance(LEASE_MS - 1);
        await ledger.renew("long call", renewals);
      }
      await ledger.expectUsed(60, "five leases later it is held");
      await ledger.settle("long call", 30);
      await ledger.expectUsed(30, "and settled as any other");
    },
  },
  {
    name: "renewing what has expired or was settled changes nothing",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("settled", 30);
      await ledger.settle("settled", 10);
      await ledger.renew("settled", 25);
      await ledger.expectUsed(10, "a settled hold is not charged by a renewal");
      await ledger.reserve("expired", 40);
      await ledger.renew("expired", 5);
      await ledger.clock.advance(LEASE_MS);
      await ledger.renew("expired", 35);
      await ledger.expectUsed(15, "an expired hold is not revived");
      await ledger.clock.advance(2 * LEASE_MS);
      await ledger.expectUsed(15, "nor charged anew");
    },
  },
  {
    name: "settling after expiry corrects what expiry charged, up or down, once",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      for (const id of ["down", "up", "void"]) {
        await ledger.reserve(id, 20);
        await ledger.renew(id, 10);
      }
      await ledger.clock.advance(LEASE_MS);
      await ledger.expectUsed(30, "each is charged its last note");
      await ledger.settle("down", 4);
      await ledger.expectUsed(24, "the lower count replaces it");
      await ledger.settle("up", 15);
      await ledger.expectUsed(29, "the higher count replaces it");
      await ledger.settle("void", 0);
      await ledger.expectUsed(19, "nothing replaces it");
      for (const id of ["down", "up", "void"]) await ledger.settle(id, 20);
      await ledger.expectUsed(19, "a second settlement changes nothing");
    },
  },
  {
    name: "settling after expiry takes no more than is available",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("late", 50);
      await ledger.renew("late", 10);
      await ledger.clock.advance(LEASE_MS);
      await ledger.reserve("neighbour", 70);
      await ledger.settle("late", 50);
      await ledger.expectUsed(100, "the 10 of expiry and the 20 that were left, and what its neighbour holds");
      await ledger.settle("neighbour", 0);
      await ledger.expectUsed(30, "a neighbour's hold was not touched");
    },
  },
  {
    name: "an unlimited key is metered, and never refused",
    async verify(open) {
      const ledger = await Ledger.open(open);
      assert.equal((await ledger.record()).unlimited, true);
      const reservations = await atOnce(100, (index) => ledger.reserve(`hold-${index}`, 1, 1_000_000));
      assert.deepEqual(
        grantsOf(reservations),
        reservations.map(() => 1_000_000),
        "each gets the most that it asks for",
      );
      await atOnce(100, (index) => ledger.settle(`hold-${index}`, 1000));
      await ledger.expectUsed(100_000, "what was used is counted");
      await ledger.reserve("modest", 10);
      await ledger.settle("modest", 30);
      await ledger.expectUsed(100_030, "above its hold too");
      await ledger.reserve("expired", 10);
      await ledger.renew("expired", 7);
      await ledger.clock.advance(LEASE_MS);
      await ledger.expectUsed(100_037, "and by expiry");
      assert.ok((await ledger.record()).available >= 0);
    },
  },
  {
    name: "a key's holds leave other keys alone",
    async verify(open) {
      const clock = manualClock();
      const store = await open({ keys: ["one", "two"].map((apiKey) => ({ apiKey, granted: 100 })), clock });
      const [one, two] = [await recordOf(store, "one"), await recordOf(store, "two")];
      assert.notEqual(one.id, two.id);
      const terms = { atLeast: 80, atMost: 80, expiresAt: clock.now() + LEASE_MS };
      assert.ok(await store.reserve({ id: "of one", keyId: one.id, ...terms }));
      assert.equal((await recordOf(store, "two")).available, 100);
      assert.ok(await store.reserve({ id: "of two", keyId: two.id, ...terms }));
      await store.settle("of one", 10, "exact");
      assert.equal((await recordOf(store, "one")).used, 10);
      assert.equal((await recordOf(store, "two")).used, 80);
    },
  },
  {
    name: "an unknown key is undefined, and gets nothing",
    async verify(open) {
      const { store, clock } = await Ledger.open(open, 100);
      for (const stranger of ["", "two", "ONE", "__proto__"]) {
        assert.equal(await store.find(stranger), undefined);
        const terms = { atLeast: 0, atMost: 10, expiresAt: clock.now() + LEASE_MS };
        assert.equal(await store.reserve({ id: `of ${stranger}`, keyId: `no ${stranger}`, ...terms }), undefined);
      }
    },
  },
  {
    name: "an unknown hold is renewed and settled without harm",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.renew("never reserved", 10);
      await ledger.settle("never reserved", 10);
      await ledger.settle("__proto__", 10, "estimated");
      await ledger.expectUsed(0, "nothing was held");
      assert.deepEqual(await ledger.reserve("never reserved", 10), { granted: 10 }, "its id is still free");
    },
  },
  {
    name: "amounts are integers from 0 up, and others are rejected",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("call", 60);
      for (const amount of [0.5, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
        await assert.rejects(() => ledger.reserve("new", amount, 70), `reserve must reject atLeast ${amount}`);
        await assert.rejects(() => ledger.reserve("new", 0, amount), `reserve must reject atMost ${amount}`);
        await assert.rejects(() => ledger.renew("call", amount), `extend must reject used ${amount}`);
        await assert.rejects(() => ledger.settle("call", amount), `settle must reject used ${amount}`);
      }
      await ledger.expectUsed(60, "what is rejected changes nothing");
      await ledger.settle("call", 10);
      await ledger.expectUsed(10, "and leaves the hold to be settled");
    },
  },
  {
    name: "the end of a lease is a whole millisecond, and others are rejected",
    async verify(open) {
      const ledger = await Ledger.open(open, 100);
      await ledger.reserve("call", 60);
      const { id: keyId } = await ledger.record();
      for (const expiresAt of [Number.NaN, Number.POSITIVE_INFINITY, ledger.clock.now() + 0.5, 2 ** 53]) {
        const terms = { id: "new", keyId, atLeast: 1, atMost: 1, expiresAt };
        await assert.rejects(() => ledger.store.reserve(terms), `reserve must reject expiresAt ${expiresAt}`);
        const renewal = { expiresAt, used: 1 };
        await assert.rejects(() => ledger.store.extend("call", renewal), `extend must reject expiresAt ${expiresAt}`);
      }
      await ledger.expectUsed(60, "what is rejected changes nothing");
      await ledger.clock.advance(LEASE_MS);
      await ledger.expectUsed(0, "and leaves the lease to run out");
    },
  },
  {
    name: "a record tells what its key was declared with, and not its secret",
    async verify(open) {
      const clock = manualClock();
      const expiresAt = Math.floor(clock.now() / 1000) + 3600;
      const team = { apiKey: "s3cret-of-team", name: "Team", granted: 100, used: 30, models: ["small"], expiresAt };
      const store = await open({ keys: [team, { apiKey: "plain", name: "Plain", granted: 5 }], clock });
      const { id, ...record } = await recordOf(store, "s3cret-of-team");
      assert.deepEqual(record, {
        name: "Team",
        used: 30,
        available: 70,
        unlimited: false,
        modelLimits: { small: true },
        modelLimitsEnabled: true,
        expiresAt,
      });
      assert.ok(!id.includes("s3cret"), "the id is not the secret");
      const plain = await recordOf(store, "plain");
      assert.equal(plain.modelLimitsEnabled, false);
      assert.ok(plain.expiresAt === 0 || plain.expiresAt === -1, "a key that was given no end never expires");
    },
  },
];
