/** The laws of what a QuotaStore is told that is wrong. */

import type { QuotaStoreLaw } from "./contract.ts";
import { expectRangeError, law, LEASE_MS } from "./law.ts";

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
    await key.advance(LEASE_MS);
    await key.expectUsed(5, "and leaves the lease to run out");
  }),
];
