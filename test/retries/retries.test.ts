/** Repeated calls over cut connections cost one call of the backend and one charge: the short form of `npm run trial -- retries`. */

import { describe, expect, it } from "vitest";
import { memoryReplayStore, type ReplayStore } from "../../src/index.ts";
import { type Plan, retries } from "./retries.ts";

const PLAN: Plan = { seed: 1, calls: 300, atOnce: 32, gateways: 1, cutShare: 0.7 };

describe("calls that are repeated after cut connections", () => {
  it.each<[where: string, plan: Partial<Plan>]>([
    ["to one gateway", {}],
    ["to any of two that share a store", { seed: 2, gateways: 2, calls: 150 }],
  ])("%s cost one call of the backend and one charge for each key", async (_where, plan) => {
    const account = await retries({ ...PLAN, ...plan }, memoryReplayStore());
    expect(account.violations).toEqual([]);
    expect(account).toMatchObject({
      backendCalls: account.calls,
      charges: account.calls,
      units: account.expectedUnits,
    });
    expect(account.cuts).toBeGreaterThan(account.calls / 2);
    expect(account.replayed).toBeGreaterThan(0);
  });

  it("cost more where the store forgets who claimed what", async () => {
    const forgetful: ReplayStore = {
      claim: () => Promise.resolve({ state: "claimed" }),
      record: () => Promise.resolve(),
      release: () => Promise.resolve(),
    };
    const { violations } = await retries({ ...PLAN, calls: 100 }, forgetful);
    expect(violations.length).toBeGreaterThan(0);
  });
});
