/** Calls that are repeated to another process, which shares the store. */

import { describe, expect, it } from "vitest";
import { memoryReplayStore, type ReplayStore } from "../../src/index.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";
import { AT_REST, counted, errorCode, MINUTE, never, type Setup, type Step, WORD } from "./bench.ts";
import { once, repeating } from "./repeating.ts";

/** Two gateways that share a store, as two processes do. */
function twoProcesses(setup: Setup = {}, scripts: readonly (readonly Step[])[] = [once]) {
  let shared: ReplayStore | undefined;
  const one = repeating(scripts, setup, (clock) => (shared = memoryReplayStore({ clock })));
  const two = repeating([once], setup, () => shared ?? memoryReplayStore());
  return { one, two };
}

/** A call that ends when it is told to. */
const slow = () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { script: [WORD, promise, counted(7)] as const, open: resolve };
};

describe("a call that another process answers", () => {
  it("is waited for", async () => {
    const { script, open } = slow();
    const { one, two } = twoProcesses({}, [script]);
    const first = one.repeat();
    await one.clock.advance(0);
    const second = two.repeat();
    await two.clock.advance(MINUTE / 2);
    open();
    await one.clock.advance(0);
    await two.clock.advance(1_000);
    expect((await second).headers.get("polygate-replayed")).toBe((await first).headers.get("request-id"));
    expect([await (await second).text(), two.asked()]).toEqual([await (await first).text(), 0]);
    expect(two.report()).toMatchObject({ used: 0, ...AT_REST });
  });

  it("is waited for no longer than the own deadline", async () => {
    const { one, two } = twoProcesses({ limits: { deadlineMs: MINUTE } }, [[WORD, never]]);
    void one.repeat();
    await one.clock.advance(0);
    const second = two.repeat();
    await two.clock.advance(MINUTE);
    expect([(await second).status, two.asked(), two.clock.pending]).toEqual([504, 0, 0]);
  });

  it("is refused with a time to come back, where the host wants that", async () => {
    const { one, two } = twoProcesses({ replayInFlight: "refuse" }, [[WORD, never]]);
    void one.repeat();
    await one.clock.advance(0);
    const refused = await two.repeat();
    expect([refused.status, refused.headers.get("retry-after"), refused.headers.get("x-should-retry")]).toEqual([
      409,
      "1",
      null,
    ]);
    expect([await errorCode(refused), two.asked()]).toEqual(["idempotency_key_in_use", 0]);
  });

  it("and that dies with it is answered by the next once its lease has run out", async () => {
    const { script, open } = slow();
    const time = manualClock();
    const shared = memoryReplayStore({ clock: time });
    // The first process stands still: its clock does not run, so it renews nothing.
    const limits = { leaseMs: MINUTE, deadlineMs: 60 * MINUTE };
    const one = repeating([script], { limits }, () => shared);
    const two = repeating([[WORD, "anew", counted(9)]], { limits }, () => shared);
    const lost = one.repeat();
    await one.clock.advance(0);
    const second = two.repeat();
    await time.advance(MINUTE - 1);
    await two.clock.advance(2_000);
    expect(two.asked()).toBe(0);
    await time.advance(1);
    await two.clock.advance(2_000);
    expect([(await second).status, two.asked()]).toEqual([200, 1]);
    open();
    await lost;
    expect(await (await two.repeat()).text(), "what comes late replaces nothing").toContain("anew");
    expect([one.failures, two.failures]).toEqual([[], []]);
  });

  it("keeps its claim for as long as it lives", async () => {
    const { script, open } = slow();
    const limits = { leaseMs: MINUTE, deadlineMs: 60 * MINUTE };
    const { one, two } = twoProcesses({ limits }, [script]);
    const first = one.repeat();
    await one.clock.advance(30 * MINUTE);
    const second = two.repeat();
    await two.clock.advance(0);
    open();
    await first;
    await two.clock.advance(1_000);
    expect([(await second).status, two.asked()]).toEqual([200, 0]);
  });
});
