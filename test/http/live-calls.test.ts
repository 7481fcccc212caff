/** Calls that a runtime has stopped without a word are not waited for, and hold nothing. */

import { expect, it } from "vitest";
import { LiveCalls } from "../../src/http/live-calls.ts";
import type { Clock } from "../../src/index.ts";
import { manualClock } from "../contracts/manual-clock.ts";

const DEADLINE_MS = 60_000;
const GRACE_MS = 30_000;

/** A client that is never heard of again. */
const gone = (): AbortSignal => new AbortController().signal;

/** The clock of requests whose timers died with them. */
const stopped = (clock: Clock): Clock => ({ now: () => clock.now(), after: () => () => {}, every: () => () => {} });

it("lets go of what they held, once they are overdue", async () => {
  const clock = manualClock();
  const calls = new LiveCalls(stopped(clock), DEADLINE_MS);
  const released: string[] = [];
  const call = (name: string): void => calls.begin(gone(), undefined).atEnd(() => void released.push(name));
  call("first");
  await clock.advance(1);
  call("second");
  await clock.advance(DEADLINE_MS + GRACE_MS - 2);
  call("third");
  expect(released).toEqual([]);
  await clock.advance(1);
  call("fourth");
  expect(released).toEqual(["first"]);
  await clock.advance(1);
  call("fifth");
  expect(released).toEqual(["first", "second"]);
});

it("closes without them", async () => {
  const clock = manualClock();
  const calls = new LiveCalls(clock, DEADLINE_MS);
  calls.begin(gone(), undefined);
  let closed = false;
  const closing = calls.close(1_000).then(() => (closed = true));
  await clock.advance(1_000 + GRACE_MS - 1);
  expect(closed).toBe(false);
  await clock.advance(1);
  await closing;
  expect(clock.pending).toBe(0);
});
