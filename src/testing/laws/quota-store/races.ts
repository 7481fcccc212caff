/** The laws of calls that meet in a QuotaStore. */

import assert from "node:assert/strict";
import { atOnce, grantsOf, law, LEASE_MS, type QuotaStoreLaw, unitsOf } from "./law.ts";

export const raceLaws: readonly QuotaStoreLaw[] = [
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
];
