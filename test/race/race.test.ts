/** Many calls at once from two processes: the store admits exactly the calls that the balance covers. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Ledger, sharedStores } from "../stores/ledgers.ts";
import { race, type Racer, ROOM, startRacers } from "./race.ts";

/** The short form. `npm run trial -- race` makes ten thousand calls from four processes. */
const [PROCESSES, CALLS] = [2, 240];

let racers: readonly Racer[];
beforeAll(() => void (racers = startRacers(PROCESSES)));
afterAll(() => Promise.all(racers.map((racer) => racer[Symbol.asyncDispose]())));

describe.each(sharedStores)("on $name", (store) => {
  describe.skipIf(!store.available)("when it answers", () => {
    let ledger: Ledger;
    beforeAll(async () => void (ledger = await store.open()));
    afterAll(() => ledger?.remove());

    it(`admits ${ROOM} of ${CALLS}, and refuses the others`, async () => {
      const { statuses, available, differences } = await race(ledger, { racers, calls: CALLS });
      expect({ statuses, available, differences }).toEqual({
        statuses: { 200: ROOM, 429: CALLS - ROOM },
        available: 0,
        differences: [],
      });
    });

    // Blocks come from a store by the same statements as holds, so the race for blocks is run on one.
    if (store.name !== "PostgreSQL") return;
    it("admits as many when the processes borrow", async () => {
      const { statuses, available, differences } = await race(ledger, { racers, calls: CALLS, isBorrowing: true });
      expect({ statuses, available, differences }).toEqual({
        statuses: { 200: ROOM, 429: CALLS - ROOM },
        available: 0,
        differences: [],
      });
    });
  });
});
