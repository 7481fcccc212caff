/** Many waits of one length behind one timer: each is over in its time, and a cancelled one never. */

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { SharedTimer } from "../../src/ports/clock.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

interface Bench {
  readonly timer: SharedTimer;
  readonly called: string[];
  readonly wait: (name: string) => () => void;
  readonly emptied: () => number;
}

function bench(ms: number): Bench {
  const called: string[] = [];
  let emptied = 0;
  const timer = new SharedTimer(ms, () => emptied++);
  return { timer, called, wait: (name) => timer.add(() => called.push(name)), emptied: () => emptied };
}

it("calls each back when its own time is over, with one timer at any moment", () => {
  const { called, wait, emptied } = bench(100);
  wait("one");
  vi.advanceTimersByTime(40);
  wait("two");
  vi.advanceTimersByTime(59);
  expect([called, vi.getTimerCount()]).toEqual([[], 1]);
  vi.advanceTimersByTime(1);
  expect([called, vi.getTimerCount()]).toEqual([["one"], 1]);
  vi.advanceTimersByTime(39);
  expect(called).toEqual(["one"]);
  vi.advanceTimersByTime(1);
  expect([called, vi.getTimerCount(), emptied()]).toEqual([["one", "two"], 0, 1]);
});

it("calls nothing back that was cancelled, be it the first, the last or one between, or twice", () => {
  const { called, wait } = bench(100);
  const cancels = ["one", "two", "three", "four"].map(wait);
  for (const at of [0, 1, 3, 0, 1]) cancels[at]?.();
  vi.advanceTimersByTime(100);
  expect(called).toEqual(["three"]);
  cancels[2]?.();
  expect(called).toEqual(["three"]);
});

it("stops where all are cancelled, and says so", () => {
  const { wait, emptied } = bench(100);
  wait("one")();
  vi.advanceTimersByTime(100);
  expect([vi.getTimerCount(), emptied()]).toEqual([0, 1]);
});

it("lets a callback cancel one that is due with it, and wait anew", () => {
  const { timer, called } = bench(0);
  const cancels: (() => void)[] = [];
  timer.add(() => {
    called.push("one");
    for (const cancel of cancels) cancel();
    timer.add(() => called.push("later"));
  });
  cancels.push(timer.add(() => called.push("never")));
  vi.advanceTimersByTime(1);
  expect(called).toEqual(["one"]);
  vi.advanceTimersByTime(1);
  expect(called).toEqual(["one", "later"]);
});

it("has the others called back where one throws", () => {
  const { timer, called, wait } = bench(100);
  timer.add(() => {
    throw new Error("broken");
  });
  wait("two");
  expect(() => vi.advanceTimersByTime(100)).toThrow("broken");
  vi.advanceTimersByTime(1);
  expect(called).toEqual(["two"]);
});
