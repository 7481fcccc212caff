/** The laws of a QuotaStore's reservations: grants and refusals. */

import assert from "node:assert/strict";
import { atOnce, expectRangeError, grantsOf, law, LEASE_MS, type QuotaStoreLaw } from "./law.ts";

export const reservationLaws: readonly QuotaStoreLaw[] = [
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
];
