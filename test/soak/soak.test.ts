/** Thousands of calls that end, hundreds of clients that hang up, and a crowd of streams leave no hold, handle or memory behind. */

import { beforeAll, describe, expect, it } from "vitest";
import { crowd, crowdLeftOf, type CrowdPlan } from "./crowd.ts";
import { type Left, leftOf, type Plan, soak } from "./soak.ts";
import { soakHosts } from "./subject.ts";

/** The short form. `npm run trial -- soak` makes a hundred thousand calls. */
const PLAN: Plan = { warmUp: { completions: 900, hangUps: 360 }, completions: 900, hangUps: 360, timed: 0 };
/** The share of a host other than Node: only its mount differs, and only that can leave something behind. */
const SHARE: Plan = { warmUp: { completions: 200, hangUps: 90 }, completions: 200, hangUps: 90, timed: 0 };

/** The short form. `npm run trial -- crowd` has twenty-five times as many streams, and takes ten minutes. */
const CROWD: CrowdPlan = {
  sockets: 400,
  idle: 200,
  unread: 25,
  uploads: 4,
  uploadBytes: 2 ** 22,
  completions: 100,
  replaced: 20,
  warmUpRounds: 1,
  goesOn: (rounds) => rounds < 4,
  seed: 1,
};

const MINUTES = 60_000;

/** Express 4 and Fastify hand Node's own request and response to the same mount as Express 5. The trial runs them too. */
const SAME_MOUNT = ["express 4", "fastify"];

describe.each(soakHosts.filter(({ name }) => !SAME_MOUNT.includes(name)))("$name", (host) => {
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

it("lets go of a crowd of idle streams, unread streams and uploads, and grows by nothing while it stands", async () => {
  const [node] = soakHosts;
  if (!node) throw new Error("There is no host.");
  const crowded = await crowd(node, CROWD);
  expect(crowded).toMatchObject({ rounds: 4, uploads: 12 });
  expect(Object.entries(crowdLeftOf(crowded)).filter(([, count]) => count !== 0)).toEqual([]);
});
