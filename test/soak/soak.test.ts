/** Thousands of calls that end and hundreds of clients that hang up leave no hold, handle or memory behind. */

import { beforeAll, describe, expect, it } from "vitest";
import { soakHosts } from "./hosts.ts";
import { type Left, leftOf } from "./left.ts";
import { type Plan, soak } from "./soak.ts";

/** The full counts, of a hundred thousand, are those of `npm run soak`. */
const PLAN: Plan = { warmUp: { completions: 2_000, hangUps: 450 }, completions: 3_000, hangUps: 450, timed: 0 };
/** Where the line behind the mount is the same, what a mount alone may leave behind. */
const SHARE: Plan = { warmUp: { completions: 500, hangUps: 180 }, completions: 200, hangUps: 180, timed: 0 };

const MINUTES = 60_000;

describe.each(soakHosts)("$name", (host) => {
  describe.skipIf(!host.available)("in a process of its own", () => {
    let left: Left;
    beforeAll(async () => void (left = leftOf(await soak(host, host.name === "node" ? PLAN : SHARE))), 5 * MINUTES);

    it("aborts no call that ends, and charges each exactly", () => {
      expect(left).toMatchObject({ falseAborts: 0, chargedAmiss: 0, chargedByEstimate: 0 });
    });

    it("settles every hold, and ends every call", () => {
      expect(left).toMatchObject({ liveHolds: 0, runningBackends: 0, openGateways: 0, failures: 0 });
    });

    it("keeps no timer, no handle and no memory", () => {
      expect(left).toMatchObject({ timers: 0, moreHandles: 0, moreFiles: 0, moreMib: 0 });
    });
  });
});
