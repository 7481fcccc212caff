/** The laws of the QuotaStore port, to be run on a store by any test runner. Races come first: they are what a ledger is for. */

import assert from "node:assert/strict";
import { atOnce } from "./law.ts";
import { expectRangeError, grantsOf, law, LEASE_MS, type QuotaStoreLaw, unitsOf } from "./quota-ledger.ts";

/** The limit of each book, in units: the largest integer that a number holds exactly. */
const MOST = Number.MAX_SAFE_INTEGER;

/** A step of the store's clock, in milliseconds. A store that uses another clock by mistake is wrong by this step, and fails. */
const DAY_MS = 86_400_000;

/** Unix time in seconds; the laws' keys do not expire by the store's clock. */
const EXPIRES_AT = 4_102_444_800;

/**
 * The promises of every QuotaStore. The laws make up to 300 calls at once, and measure no time: a store may be as slow as it likes.
 * Each law opens a store of its own, so they may run in any order, and at once.
 *
 * @example
 * describe("my store", () => {
 *   for (const law of quotaStoreLaws) it(law.name, () => law.verify(openMyStore));
 * });
 */
export const quotaStoreLaws: readonly QuotaStoreLaw[] = [
  law("of 300 reservations at once on a balance for 30, exactly 30 are admitted", [{ granted: 210 }], async (key) => {
    const reservations = await atOnce(300, (index) => key.reserve(`hold-${index}`, 7));
    const expected = Array.from({ length: 30 }, () => 7);
    assert.deepEqual(grantsOf(reservations), expected);
    await key.expectUsed(210, "what was granted is held");
    for (const answer of reservations)
      if (answer.refused) assert.deepEqual(unitsOf(answer), { available: 0, held: 210 }, "each saw all of it held");
  }),

  law("reservations at once share a balance to its last unit", [{ granted: 100 }], async (key) => {
    const reservations = await atOnce(50, (index) => key.reserve(`hold-${index}`, 1, 30));
    assert.deepEqual(grantsOf(reservations), [30, 30, 30, 10]);
    await key.expectUsed(100, "what was granted is held");
  }),

  law("the same hold reserved by many callers at once is held once", [{ granted: 100 }], async (key) => {
    const reservations = await atOnce(50, () => key.reserve("call", 30));
    assert.deepEqual(
      grantsOf(reservations),
      reservations.map(() => 30),
      "each caller is told the one grant",
    );
    await key.expectUsed(30, "fifty answers, one hold");
  }),

  law(
    "an id for which two keys race belongs to one of them, and the other is rejected",
    [{ granted: 1000 }, { granted: 1000 }],
    async (one, two) => {
      const races = await atOnce(40, (index) => {
        // Each key comes first in every other race.
        const [first, second] = index % 2 === 0 ? [one, two] : [two, one];
        return Promise.allSettled([first.reserve(`call-${index}`, 10), second.reserve(`call-${index}`, 10)]);
      });
      for (const race of races) {
        const outcomes = race.map((outcome) =>
          outcome.status === "rejected" ? (outcome.reason as Error).name : grantsOf([outcome.value])[0],
        );
        assert.deepEqual(new Set(outcomes), new Set([10, "RangeError"]), "one key gets the id, the other a RangeError");
      }
      const [ofOne, ofTwo] = [await one.balance(), await two.balance()];
      assert.equal(ofOne.used + ofTwo.used, 400, "each id is held once");
      await atOnce(40, (index) => one.settle(`call-${index}`, 3));
      const [used, usedByTwo] = [(await one.balance()).used, (await two.balance()).used];
      assert.deepEqual(
        [used, usedByTwo],
        [(ofOne.used / 10) * 3, (ofTwo.used / 10) * 3],
        "each hold is charged once, to the key that holds it",
      );
    },
  ),

  law("the same hold settled by many callers at once is charged once", [{ granted: 100 }], async (key) => {
    await key.hold("call", 90);
    await atOnce(50, () => key.settle("call", 15));
    await key.expectUsed(15, "fifty settlements, one charge");

    await key.hold("another", 50);
    await Promise.all([key.settle("another", 20), key.settle("another", 30, "estimated")]);
    const { used } = await key.balance();
    assert.ok(used === 35 || used === 45, `one of two settlements counts, never both: ${used - 15} was charged`);
    await key.expectBooks({ used, held: 0, estimated: used === 45 ? 30 : 0 }, "its certainty counts with it");
  }),

  law("holds that settle above their grants at once share what is left, once", [{ granted: 150 }], async (key) => {
    for (let index = 0; index < 10; index++) await key.hold(`hold-${index}`, 10);
    await atOnce(10, (index) => key.settle(`hold-${index}`, 20));
    await key.expectBooks(
      { used: 150, available: 0, held: 0, overdraft: 50 },
      "of 200 units the 150 that there were are charged, and the rest is overdraft",
    );
  }),

  law("a renewal that meets a settlement revives nothing", [{ granted: 1000 }], async (key) => {
    await atOnce(20, (index) => key.reserve(`hold-${index}`, 10));
    await atOnce(60, (index) => {
      const hold = `hold-${index % 20}`;
      return index < 20 || index >= 40 ? key.renew(hold, 9) : key.settle(hold, 4);
    });
    await key.expectBooks({ used: 80, held: 0, estimated: 0 }, "each is settled, whatever a renewal noted");
    await key.advance(LEASE_MS);
    await key.expectUsed(80, "and none expires");
  }),

  law("used and available add up to what was granted at every instant", [{ granted: 1000 }], async (key) => {
    const call = async (index: number): Promise<void> => {
      await key.reserve(`hold-${index}`, 1, 60);
      await key.renew(`hold-${index}`, 5);
      await key.settle(`hold-${index}`, index % 40);
    };
    const look = async (): Promise<void> => {
      const { used, available } = await key.balance();
      assert.equal(used + available, 1000, "granted = used + available");
      assert.ok(available >= 0, `available fell to ${available}`);
    };
    await atOnce(200, (index) => (index % 2 === 0 ? call(index) : look()));
    await look();
  }),

  law("a hold that expires and is settled at once is charged once", [{ granted: 100 }], async (key) => {
    await key.hold("late", 40);
    await key.renew("late", 10);
    await key.advance(LEASE_MS);
    await Promise.all([key.balance(), key.settle("late", 25), key.reserve("next", 1), key.settle("late", 25)]);
    await key.settle("next", 0);
    await key.expectUsed(25, "the settlement replaces what expiry charged");
  }),

  law("a hold gets what is available between atLeast and atMost", [{ granted: 100 }], async (key) => {
    await key.expectGrant(key.reserve("all-of-it", 10, 60), 60, "no more than atMost");
    await key.expectGrant(key.reserve("a-part", 10, 60), 40, "no more than is available");
    await key.expectUsed(100, "a live hold counts as used");
    await key.expectGrant(key.reserve("free", 0, 60), 0, "nothing is enough for a call that may be free");
    await key.settle("all-of-it", 0);
    await key.expectGrant(key.reserve("exactly", 60), 60, "a balance is enough for all of itself");
  }),

  law("less than atLeast is refused, holds nothing, and is told what there was", [{ granted: 100 }], async (key) => {
    await key.expectRefusal(key.reserve("too-dear", 101, 200), { available: 100, held: 0 }, "100 are too few for 101");
    await key.expectUsed(0, "a refusal holds nothing");
    await key.hold("charged", 30);
    await key.settle("charged", 20);
    await key.hold("live", 70);
    await key.expectRefusal(key.reserve("second", 11, 50), { available: 10, held: 70 }, "10 are too few for 11");
    await key.hold("rest", 10);
    await key.expectRefusal(key.reserve("third", 1), { available: 0, held: 80 }, "nothing is left");
    await key.settle("live", 70);
    await key.expectRefusal(key.reserve("fourth", 1), { available: 0, held: 10 }, "what is charged is held no more");
    await key.expectUsed(100, "and nothing has changed");
  }),

  law(
    "the id of a refused hold is free: it can be reserved later",
    [{ granted: 100 }, { granted: 100 }],
    async (key, other) => {
      await key.hold("big", 95);
      for (const id of ["refused", "given-away"])
        await key.expectRefusal(key.reserve(id, 10), { available: 5, held: 95 }, "5 are too few for 10");
      await key.renew("refused", 10);
      await key.settle("refused", 10);
      await key.expectUsed(95, "what was refused cannot be settled");
      await key.settle("big", 0);
      await key.expectGrant(key.reserve("refused", 10), 10, "the same id is granted once there is room");
      await other.expectGrant(other.reserve("given-away", 10), 10, "also to another key");
      await key.settle("refused", 4);
      await key.expectUsed(4, "and is settled as any other");
    },
  ),

  law(
    "the same id gets the same grant for as long as its hold lives, and holds nothing more",
    [{ granted: 100 }],
    async (key) => {
      await key.hold("big", 70);
      await key.expectGrant(key.reserve("again", 10, 50), 30, "what is left");
      await key.settle("big", 0);
      await key.expectGrant(key.reserve("again", 10, 50), 30, "the first answer stands");
      await key.expectGrant(key.reserve("again", 40, 50), 30, "whatever is asked for now");
      await key.expectUsed(30, "one hold");
    },
  ),

  law("the id of a resolved hold is refused, and not opened again", [{ granted: 100 }], async (key) => {
    await key.hold("settled", 30);
    await key.settle("settled", 20);
    await key.expectRefusal(key.reserve("settled", 10, 50), { available: 80, held: 0 }, "a settled id gets nothing");
    await key.hold("expired", 40);
    await key.renew("expired", 5);
    await key.advance(LEASE_MS);
    await key.expectRefusal(key.reserve("expired", 40), { available: 75, held: 0 }, "an expired id gets nothing");
    await key.expectUsed(25, "neither is opened again");
    await key.settle("expired", 15);
    await key.expectRefusal(key.reserve("expired", 40), { available: 65, held: 0 }, "nor does one that was corrected");
    await key.expectUsed(35, "and its correction stands");
  }),

  law(
    "an id belongs to the key that it was reserved for, and is rejected for another",
    [{ granted: 100 }, { granted: 100 }],
    async (one, two) => {
      await one.hold("call", 80);
      await one.hold("late", 10);
      await expectRangeError(() => two.reserve("call", 80), "a live id must be rejected for another key");
      await one.settle("call", 10);
      await expectRangeError(() => two.reserve("call", 80), "a settled one too");
      await one.advance(LEASE_MS);
      await expectRangeError(() => two.reserve("late", 80), "and an expired one");
      await one.expectUsed(10, "the key that holds it is charged");
      await two.expectUsed(0, "the other is not");
    },
  ),

  law("an unlimited key is metered, and never refused", [{}], async (key) => {
    const found = await key.store.find(key.secrets[0] ?? "");
    assert.equal(found?.unlimited, true, "a key without a grant is unlimited");
    const reservations = await atOnce(100, (index) => key.reserve(`hold-${index}`, 1, 1_000_000));
    assert.deepEqual(
      grantsOf(reservations),
      reservations.map(() => 1_000_000),
      "each gets the most that it asks for",
    );
    await atOnce(100, (index) => key.settle(`hold-${index}`, 1000));
    await key.expectUsed(100_000, "what was used is counted");
    await key.hold("modest", 10);
    await key.settle("modest", 30, "estimated");
    await key.expectUsed(100_030, "above its hold too");
    await key.hold("expired", 10);
    await key.renew("expired", 7);
    await key.advance(LEASE_MS);
    await key.expectUsed(100_037, "and by expiry");
    await key.expectBooks({ held: 0, overdraft: 0, estimated: 37 }, "there is nothing that it could overdraw");
    assert.ok((await key.balance()).available >= 0);
  }),

  law("settling charges what was used and returns the rest, once", [{ granted: 100 }], async (key) => {
    await key.hold("call", 60);
    await key.settle("call", 25);
    await key.expectUsed(25, "the rest of the hold is returned");
    await key.settle("call", 60);
    await key.settle("call", 0, "estimated");
    await key.expectBooks({ used: 25, held: 0, overdraft: 0, estimated: 0 }, "a second settlement changes nothing");
  }),

  law("settling 0 voids the hold", [{ granted: 100 }], async (key) => {
    await key.hold("call", 60);
    await key.renew("call", 40);
    await key.settle("call", 0);
    await key.expectUsed(0, "nothing is charged, whatever a renewal noted");
    await key.settle("call", 60);
    await key.expectUsed(0, "a voided hold stays void");
  }),

  law("settling above the hold takes what is still available, and no more", [{ granted: 100 }], async (key) => {
    await key.hold("modest", 10);
    await key.settle("modest", 30);
    await key.expectUsed(30, "what exceeds the hold is taken from the balance");
    await key.hold("greedy", 40);
    await key.hold("neighbour", 20);
    await key.settle("greedy", 500);
    await key.expectUsed(100, "30, what greedy held and 10 that were left, and what its neighbour holds");
    await key.settle("neighbour", 0);
    await key.expectUsed(80, "a neighbour's hold was not touched");
  }),

  law("what a key could not cover is recorded as overdraft", [{ granted: 100 }], async (key) => {
    await key.hold("modest", 10);
    await key.settle("modest", 30);
    await key.expectBooks({ overdraft: 0 }, "what the balance covers is no overdraft");
    await key.hold("neighbour", 20);
    await key.hold("greedy", 40);
    await key.settle("greedy", 500);
    await key.expectBooks({ used: 100, held: 20, overdraft: 450 }, "of 500 it had 40 and what was left, 10");
    await key.settle("neighbour", 0);
    await key.expectBooks({ used: 80, held: 0, overdraft: 450 }, "what comes back later pays for nothing");
    await key.hold("another", 20);
    await key.settle("another", 25);
    await key.expectBooks({ used: 100, overdraft: 455 }, "overdraft adds up");
  }),

  law("what rests on estimates is counted apart, as far as it was charged", [{ granted: 100 }], async (key) => {
    for (const hold of ["exact", "cut-short", "greedy"]) await key.hold(hold, 20);
    await key.settle("exact", 15);
    await key.expectBooks({ estimated: 0 }, "the backend's own counts are no estimate");
    await key.settle("cut-short", 10, "estimated");
    await key.expectBooks({ used: 45, estimated: 10 }, "an estimated charge is one");
    await key.settle("greedy", 90, "estimated");
    await key.expectBooks({ used: 100, overdraft: 15, estimated: 85 }, "what was not charged is no part of it");
  }),

  law("an outcome of several calls tells which part of it is an estimate", [{ granted: 100 }], async (key) => {
    const settle = (hold: string, used: number, estimated: number) =>
      key.store.settle(key.id(hold), { used, certainty: "estimated", estimated });
    for (const hold of ["mixed", "certain", "greedy"]) await key.hold(hold, 20);
    await settle("mixed", 15, 4);
    await key.expectBooks({ used: 55, estimated: 4 }, "only a part is an estimate");
    await settle("certain", 15, 0);
    await key.expectBooks({ used: 50, estimated: 4 }, "no part is one");
    await settle("greedy", 90, 80);
    await key.expectBooks({ used: 100, overdraft: 20, estimated: 74 }, "what was not charged is no part of it");
    await key.hold("late", 0);
    await key.advance(LEASE_MS);
    await expectRangeError(() => settle("late", 10, 11), "the estimate must be a part");
    await expectRangeError(() => settle("late", 10, 0.5), "and an integer");
    const exact = { used: 10, certainty: "exact", estimated: 1 } as const;
    await expectRangeError(() => key.store.settle(key.id("late"), exact), "an exact outcome has no estimate");
  }),

  law(
    "a lease that runs out is charged what its last renewal noted, as an estimate",
    [{ granted: 100 }],
    async (key) => {
      await key.hold("silent", 30);
      await key.hold("renewed", 50);
      await key.renew("renewed", 12);
      await key.renew("renewed", 20);
      await key.advance(LEASE_MS / 2);
      await key.expectUsed(80, "both leases live");
      await key.advance(LEASE_MS / 2);
      await key.expectGrant(key.reserve("next", 80), 80, "what they held is available to the next");
      await key.settle("next", 0);
      await key.expectUsed(20, "the silent one is charged nothing, the renewed one its last note");
      await key.expectBooks({ held: 0, overdraft: 0, estimated: 20 }, "and that is an estimate");
    },
  ),

  law(
    "a lease begins and ends by the store's own clock, whatever other clocks tell",
    [{ granted: 100 }],
    async (key) => {
      await key.advance(DAY_MS);
      await key.hold("call", 60);
      await key.expectUsed(60, "it lives when it was just begun");
      await key.advance(LEASE_MS / 2);
      await key.renew("call", 10);
      await key.expectUsed(60, "and when it was just renewed");
      await key.advance(LEASE_MS / 2);
      await key.expectUsed(60, "and half a lease later");
      await key.advance(LEASE_MS / 2);
      await key.expectUsed(10, "it ends one lease after its renewal");
    },
  ),

  law(
    "each lease is as long as it was asked for, and a renewal may make it shorter",
    [{ granted: 100 }],
    async (key) => {
      await key.expectGrant(key.reserve("long", 10, 10, 4 * LEASE_MS), 10, "what is available");
      await key.expectGrant(key.reserve("short", 20, 20, LEASE_MS), 20, "what is available");
      await key.expectGrant(key.reserve("shortened", 40, 40, 4 * LEASE_MS), 40, "what is available");
      await key.renew("shortened", 5, LEASE_MS);
      await key.advance(LEASE_MS);
      await key.expectBooks({ used: 15, held: 10 }, "only the long one lives");
      await key.advance(2 * LEASE_MS);
      await key.expectBooks({ used: 15, held: 10 }, "for the whole of its lease");
      await key.advance(LEASE_MS);
      await key.expectBooks({ used: 5, held: 0 }, "and no longer");
    },
  ),

  law("a renewed lease keeps its hold alive", [{ granted: 100 }], async (key) => {
    await key.hold("long-call", 60);
    for (let renewals = 1; renewals <= 5; renewals++) {
      await key.advance(LEASE_MS / 2);
      await key.renew("long-call", renewals);
    }
    await key.expectUsed(60, "more than two leases later it is held");
    await key.settle("long-call", 30);
    await key.expectBooks({ used: 30, held: 0, estimated: 0 }, "and settled as any other");
  }),

  law("a renewal may lower its hold, and what it no longer holds is available", [{ granted: 100 }], async (key) => {
    await key.hold("call", 60);
    await key.lower("call", 10, 25);
    await key.expectBooks({ used: 25, held: 25 }, "the rest is available at once");
    await key.expectGrant(key.reserve("call", 60), 25, "the grant is what is still held");
    await key.hold("next", 75);
    await key.settle("next", 0);
    await key.lower("call", 12, 40);
    await key.expectBooks({ used: 25, held: 25 }, "a renewal raises no hold");
    await key.lower("call", 20, 5);
    await key.expectBooks({ used: 20, held: 20 }, "what was used stays held");
    await key.lower("call", 30, 0);
    await key.expectBooks({ used: 20, held: 20 }, "also when more was used than is held");
    await key.hold("idle", 40);
    await key.lower("idle", 0, 0);
    await key.expectBooks({ used: 20, held: 20 }, "a hold may keep nothing");
    await key.settle("call", 22);
    await key.expectBooks({ used: 22, held: 0, overdraft: 0 }, "a lowered hold is settled as any other");
    await key.lower("call", 0, 0);
    await key.expectUsed(22, "and is resolved as any other");
    await key.advance(LEASE_MS);
    await key.settle("idle", 7);
    await key.expectBooks({ used: 29, held: 0, overdraft: 0 }, "and is charged as any other");
  }),

  law("renewing what has expired or was settled changes nothing", [{ granted: 100 }], async (key) => {
    await key.hold("settled", 30);
    await key.settle("settled", 10);
    await key.renew("settled", 25);
    await key.expectUsed(10, "a settled hold is not charged by a renewal");
    await key.hold("expired", 40);
    await key.renew("expired", 5);
    await key.advance(LEASE_MS);
    await key.renew("expired", 35);
    await key.expectUsed(15, "an expired hold is not revived");
    await key.advance(2 * LEASE_MS);
    await key.expectBooks({ used: 15, held: 0, estimated: 5 }, "nor charged anew");
  }),

  law("settling after expiry corrects what expiry charged, up or down, once", [{ granted: 100 }], async (key) => {
    for (const id of ["down", "up", "void"]) {
      await key.hold(id, 20);
      await key.renew(id, 10);
    }
    await key.advance(LEASE_MS);
    await key.expectBooks({ used: 30, estimated: 30 }, "each is charged its last note");
    await key.settle("down", 4);
    await key.expectBooks({ used: 24, estimated: 20 }, "the lower count replaces it, and is no estimate");
    await key.settle("up", 15, "estimated");
    await key.expectBooks({ used: 29, estimated: 25 }, "the higher count replaces it, and is one");
    await key.settle("void", 0);
    await key.expectBooks({ used: 19, estimated: 15 }, "nothing replaces it");
    for (const id of ["down", "up", "void"]) await key.settle(id, 20);
    await key.expectBooks({ used: 19, estimated: 15 }, "a second settlement changes nothing");
  }),

  law("settling after expiry takes no more than is available", [{ granted: 100 }], async (key) => {
    await key.hold("late", 50);
    await key.renew("late", 10);
    await key.advance(LEASE_MS);
    await key.hold("neighbour", 70);
    await key.settle("late", 50);
    await key.expectUsed(100, "the 10 of expiry and the 20 that were left, and what its neighbour holds");
    await key.expectBooks({ held: 70, overdraft: 20 }, "the rest is overdraft");
    await key.settle("neighbour", 0);
    await key.expectUsed(30, "a neighbour's hold was not touched");
  }),

  law("expiry records overdraft too, and a correction takes it back", [{ granted: 100 }], async (key) => {
    await key.hold("late", 20);
    await key.renew("late", 130);
    await key.advance(LEASE_MS);
    await key.expectBooks(
      { used: 100, held: 0, overdraft: 30, estimated: 100 },
      "the last note was more than there is",
    );
    await key.settle("late", 40);
    await key.expectBooks({ used: 40, available: 60, overdraft: 0, estimated: 0 }, "the true count is less");
  }),

  law(
    "a key is found as it was declared, without its secret",
    [{ name: "Team", granted: 100, used: 30, models: ["small"], expiresAt: EXPIRES_AT }, { granted: 5 }],
    async (team, plain) => {
      const [secret = ""] = team.secrets;
      const found = await team.store.find(secret);
      assert.ok(found, "the key is known");
      const { id, name, unlimited, modelLimits, modelLimitsEnabled, expiresAt } = found;
      assert.deepEqual(
        { name, unlimited, modelLimits: { ...modelLimits }, modelLimitsEnabled, expiresAt },
        {
          name: "Team",
          unlimited: false,
          modelLimits: { small: true },
          modelLimitsEnabled: true,
          expiresAt: EXPIRES_AT,
        },
      );
      assert.ok(!id.includes(secret), "the id is not the secret");
      assert.ok(!JSON.stringify(found).includes(secret), "nor does it stand elsewhere");
      await team.expectUsed(30, "what was used before counts");
      const bare = await plain.store.find(plain.secrets[0] ?? "");
      assert.equal(bare?.modelLimitsEnabled, false, "a key without a list may use every model");
      assert.ok(bare.expiresAt === 0 || bare.expiresAt === -1, "a key that was given no end never expires");
    },
  ),

  law("what is found of a key is changed by no call, so that it can be cached", [{ granted: 100 }], async (key) => {
    const find = () => key.store.find(key.secrets[0] ?? "");
    const before = structuredClone(await find());
    await key.hold("live", 30);
    await key.hold("call", 30);
    await key.settle("call", 20);
    assert.deepEqual(structuredClone(await find()), before);
  }),

  law("a key's holds leave other keys alone", [{ granted: 100 }, { granted: 100 }], async (one, two) => {
    assert.notEqual(one.keyId, two.keyId, "each key has an id of its own");
    await one.hold("of-one", 80);
    await two.expectUsed(0, "another key's hold is not its own");
    await two.hold("of-two", 80);
    await one.settle("of-one", 10);
    await one.expectUsed(10, "one is charged");
    await two.expectBooks({ used: 80, held: 80 }, "two is not");
  }),

  law(
    "every secret of a key leads to the same ledger",
    [{ granted: 100, secrets: ["first", "second"] }],
    async (key) => {
      const [first, second] = await Promise.all(key.secrets.map((secret) => key.store.find(secret)));
      assert.deepEqual(structuredClone(second), structuredClone(first), "both secrets find the same key");
    },
  ),

  law("removing a secret loses no charge", [{ granted: 100, secrets: ["old", "new"] }], async (key) => {
    const [old = "", current = ""] = key.secrets;
    await key.hold("settled", 20);
    await key.settle("settled", 5);
    await key.hold("live", 30);
    await key.hold("expiring", 10);
    await key.renew("expiring", 7);
    await key.removeSecret(old);
    assert.equal(await key.store.find(old), undefined, "the secret is unknown");
    assert.equal((await key.store.find(current))?.id, key.keyId, "the other finds its key");
    await key.expectBooks({ used: 45, held: 40 }, "every hold and every charge is still there");
    await key.settle("live", 25);
    await key.expectUsed(40, "a live hold is settled as any other");
    await key.advance(LEASE_MS);
    await key.expectBooks({ used: 37, held: 0, estimated: 7 }, "and expires as any other");
  }),

  law("removing the last secret loses no charge of a call under way", [{ granted: 100 }], async (key) => {
    const [secret = ""] = key.secrets;
    await key.hold("live", 30);
    await key.hold("expiring", 10);
    await key.renew("expiring", 7);
    await key.removeSecret(secret);
    assert.equal(await key.store.find(secret), undefined, "the secret is unknown");
    await key.renew("live", 20);
    await key.settle("live", 25);
    await key.expectUsed(35, "the call is charged, and the other hold lives");
    await key.advance(LEASE_MS);
    await key.expectUsed(32, "until it expires");
  }),

  law("a secret or a key that there is not is undefined, and gets nothing", [{ granted: 100 }], async (key) => {
    const [secret = ""] = key.secrets;
    for (const stranger of ["", `${secret}0`, secret.toUpperCase(), "__proto__"]) {
      assert.equal(await key.store.find(stranger), undefined, `${stranger} is no secret`);
      const keyId = `${key.keyId}0${stranger}`;
      assert.equal(await key.store.balance(keyId), undefined, `${keyId} is no key`);
      const terms = { keyId, atLeast: 0, atMost: 10, leaseMs: LEASE_MS };
      const answer = key.store.reserve({ id: key.id(`of ${stranger}`), ...terms });
      await key.expectRefusal(answer, { available: 0, held: 0 }, "a key that there is not gets nothing");
    }
  }),

  law("an unknown hold is renewed and settled without harm", [{ granted: 100 }], async (key) => {
    await key.renew("never-reserved", 10);
    await key.settle("never-reserved", 10);
    for (const id of ["__proto__", "constructor", ""]) await key.store.settle(id, { used: 10, certainty: "estimated" });
    await key.expectUsed(0, "nothing was held");
    await key.expectGrant(key.reserve("never-reserved", 10), 10, "its id is still free");
  }),

  law("amounts are integers from 0 up, and others are rejected", [{ granted: 100 }], async (key) => {
    await key.hold("call", 60);
    for (const amount of [0.5, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      await expectRangeError(() => key.reserve("new", amount, 70), `reserve must reject atLeast ${amount}`);
      await expectRangeError(() => key.reserve("new", 0, amount), `reserve must reject atMost ${amount}`);
      await expectRangeError(() => key.renew("call", amount), `renew must reject used ${amount}`);
      await expectRangeError(() => key.lower("call", 1, amount), `renew must reject keep ${amount}`);
      await expectRangeError(() => key.settle("call", amount), `settle must reject used ${amount}`);
    }
    await expectRangeError(() => key.reserve("new", 11, 10), "reserve must reject an atLeast of more than atMost");
    await key.expectUsed(60, "what is rejected changes nothing");
    await key.settle("call", 10);
    await key.expectUsed(10, "and leaves the hold to be settled");
  }),

  law("a lease is an integer from 1 up, and others are rejected", [{ granted: 100 }], async (key) => {
    await key.hold("call", 60);
    await key.renew("call", 5);
    for (const leaseMs of [0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expectRangeError(() => key.reserve("new", 1, 1, leaseMs), `reserve must reject leaseMs ${leaseMs}`);
      await expectRangeError(() => key.renew("call", 1, leaseMs), `renew must reject leaseMs ${leaseMs}`);
    }
    await key.expectUsed(60, "what is rejected changes nothing");
    await key.expectGrant(key.reserve("endless", 10, 10, MOST), 10, "the longest lease");
    await key.renew("endless", 1, MOST);
    await key.settle("endless", 2);
    await key.expectUsed(62, "the longest lease ends with its settlement");
    await key.advance(LEASE_MS);
    await key.expectUsed(7, "and leaves the lease to run out");
  }),

  law(
    "a key's usage ends at 2^53 - 1: what would pass it is refused, and other keys are left alone",
    [{}, { granted: 100 }],
    async (key, other) => {
      await key.hold("huge", 10);
      await key.hold("small", 10);
      await expectRangeError(() => key.settle("huge", MOST), "with the 10 that are held, it is too much to count");
      await key.expectBooks({ used: 20, held: 20 }, "a refusal changes nothing");
      await key.settle("huge", MOST - 10);
      await expectRangeError(() => key.settle("small", 11), "one unit too many");
      await key.expectBooks({ used: MOST, held: 10 }, "its hold stays");
      await key.settle("small", 10);
      await expectRangeError(() => key.reserve("next", 1), "nothing more can be counted");
      await key.expectGrant(key.reserve("next", 0, 50), 0, "what may be free is granted what can be counted");
      await expectRangeError(() => key.settle("next", 3), "nor be charged");
      await key.settle("next", 0);
      await key.expectBooks({ used: MOST, held: 0, overdraft: 0, estimated: 0 }, "each sum is exact");
      await other.hold("of-another", 60);
      await other.settle("of-another", 25);
      await other.expectBooks({ used: 25, available: 75, held: 0 }, "another key works as ever");
    },
  ),

  law("a key's overdraft ends at 2^53 - 1", [{ granted: 100 }], async (key) => {
    await key.hold("huge", 10);
    await key.hold("small", 10);
    await key.settle("huge", MOST);
    await key.expectBooks({ used: 100, held: 10, overdraft: MOST - 90 }, "90 are charged");
    for (const used of [MOST, 101]) await expectRangeError(() => key.settle("small", used), `${used} are too many`);
    await key.expectBooks({ used: 100, held: 10, overdraft: MOST - 90 }, "a refusal changes nothing");
    await key.settle("small", 100);
    await key.expectBooks({ used: 100, held: 0, overdraft: MOST }, "10 are charged, and 90 fit");
  }),

  law("a lease that runs out is charged no more than can be counted, and blocks no call", [{}], async (key) => {
    await key.hold("late", 10);
    await key.renew("late", MOST);
    await key.hold("huge", 10);
    await key.settle("huge", MOST - 10);
    await key.advance(LEASE_MS);
    await key.expectBooks({ used: MOST, held: 0, estimated: 10 }, "10 of its note were left to count");
    await expectRangeError(() => key.settle("late", 11), "a correction ends there, too");
    await key.settle("late", 4);
    await key.expectBooks({ used: MOST - 6, estimated: 0 }, "a lower count replaces it");
    await key.spend("next", 6);
    await key.expectUsed(MOST, "and the key goes on");
  }),
];
