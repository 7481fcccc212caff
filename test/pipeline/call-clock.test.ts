/** The clock of one call: its waits share a timer, and end when they are due. */

import { describe, expect, it, vi } from "vitest";
import { CallClock, steadyClock } from "../../src/ports/clock.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";

describe("the waits of a call", () => {
  it("share one timer in the first second, and end when they are due", async () => {
    const clock = manualClock();
    const call = new CallClock(clock);
    const ended: string[] = [];
    call.after(60_000, () => ended.push("deadline"));
    await clock.advance(400);
    call.after(1_500, () => ended.push("body"));
    const cancel = call.after(5_000, () => ended.push("store"));
    expect(clock.pending).toBe(1);
    await clock.advance(1_499);
    expect(ended).toEqual([]);
    await clock.advance(1);
    expect(ended).toEqual(["body"]);
    cancel();
    await clock.advance(58_100);
    expect(ended).toEqual(["body", "deadline"]);
    expect(clock.pending).toBe(0);
  });

  it("leave no timer when all are cancelled", () => {
    const clock = manualClock();
    const call = new CallClock(clock);
    const cancels = [call.after(60_000, () => {}), call.after(2_000, () => {})];
    for (const cancel of [...cancels, ...cancels]) cancel();
    expect(clock.pending).toBe(0);
  });

  it.each([-3_600_000, 3_600_000])("never end early when the wall clock jumps by %d ms", async (jump) => {
    const wound = manualClock();
    let shift = 0;
    const call = new CallClock({
      ...wound,
      now: () => wound.now() + shift,
      after: (ms, callback) => wound.after(ms, callback),
    });
    let ended = false;
    call.after(60_000, () => {});
    await wound.advance(990);
    call.after(1_000, () => (ended = true));
    shift = jump;
    await wound.advance(999);
    expect(ended).toBe(false);
    await wound.advance(1_001);
    expect(ended).toBe(true);
  });
});

it("a steady clock ignores a step back and small corrections, and counts what the machine has slept", () => {
  const steady = vi.spyOn(performance, "now").mockReturnValue(1_000);
  const wall = vi.spyOn(Date, "now").mockReturnValue(50_000);
  try {
    const clock = steadyClock();
    const nowAt = (atSteady: number, atWall: number): number => {
      steady.mockReturnValue(atSteady);
      wall.mockReturnValue(atWall);
      return clock.now();
    };
    expect(nowAt(1_000, 50_000)).toBe(1_000);
    expect(nowAt(1_000, 40_000)).toBe(1_000);
    expect(nowAt(1_500, 41_500)).toBe(1_500);
    expect(nowAt(1_500, 45_501)).toBe(6_501);
    expect(nowAt(1_600, 45_600)).toBe(6_601);
  } finally {
    steady.mockRestore();
    wall.mockRestore();
  }
});
