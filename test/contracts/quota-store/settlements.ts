/** The laws of what a QuotaStore charges. */

import type { QuotaStoreLaw } from "./contract.ts";
import { law } from "./law.ts";

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
];
