/** The laws of a QuotaStore's leases: their ends, and the renewals and settlements that come afterwards. */

import { law, LEASE_MS, type QuotaStoreLaw } from "./law.ts";

/** A step of the store's clock, in milliseconds. A store that uses another clock by mistake is wrong by this step, and fails. */
const DAY_MS = 86_400_000;

export const leaseLaws: readonly QuotaStoreLaw[] = [
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
];
