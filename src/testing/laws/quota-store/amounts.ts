/** The laws of a QuotaStore's amounts: charges, wrong amounts, and the largest numbers. */

import { expectRangeError, law, LEASE_MS, type QuotaStoreLaw } from "./law.ts";

/** The limit of each book, in units: the largest integer that a number holds exactly. */
const MOST = Number.MAX_SAFE_INTEGER;

export const settlementLaws: readonly QuotaStoreLaw[] = [
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
];

export const inputLaws: readonly QuotaStoreLaw[] = [
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
];

export const extremeLaws: readonly QuotaStoreLaw[] = [
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
    await key.hold("next", 6);
    await key.settle("next", 6);
    await key.expectUsed(MOST, "and the key goes on");
  }),
];
