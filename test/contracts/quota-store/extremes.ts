/** The laws of a QuotaStore's largest numbers: a book counts up to 2^53 - 1 units, and a change beyond that is refused whole. */

import type { QuotaStoreLaw } from "./contract.ts";
import { expectRangeError, law, LEASE_MS } from "./law.ts";

/** The most units that a number holds exactly. */
const MOST = Number.MAX_SAFE_INTEGER;

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
