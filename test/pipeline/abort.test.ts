/** Holds the abort of a call to its word: at once, once, with its reason, never after a normal end; a signal only for who asks. */

import { setImmediate } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { CallAbort } from "../../src/pipeline/abort.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const DEADLINE_MS = 5_000;
const DRAIN_MS = 1_000;

interface Watched {
  readonly clock: ManualClock;
  readonly abort: CallAbort;
  /** What the listener was told: reasons, and `gone` for a client that has left its call going on. */
  readonly told: unknown[];
}

function watched(): Watched {
  const clock = manualClock();
  const told: unknown[] = [];
  const abort = new CallAbort(clock, DEADLINE_MS);
  abort.listen({ cut: (reason) => told.push(reason), clientGone: () => told.push("gone") });
  return { clock, abort, told };
}

const reason = (code: string): unknown => expect.objectContaining({ name: "GatewayError", code });

describe("a call", () => {
  it("goes on while nothing happens", async () => {
    const { clock, abort, told } = watched();
    await clock.advance(DEADLINE_MS - 1);
    expect([told, abort.signal.aborted, abort.reason]).toEqual([[], false, undefined]);
  });

  it("ends at the deadline", async () => {
    const { clock, abort, told } = watched();
    await clock.advance(DEADLINE_MS);
    expect(told).toEqual([reason("deadline_exceeded")]);
    expect(abort.reason).toBe(told[0]);
  });

  it("ends when the client is gone, at once", () => {
    const { abort, told } = watched();
    abort.disconnect();
    expect(told).toEqual([reason("client_closed")]);
    expect(abort.isClientGone).toBe(true);
  });

  it("ends when it is cut, for the reason given", () => {
    const { abort, told } = watched();
    const why = new GatewayError("backend_failed", "Broken.");
    abort.cut(why);
    expect(told).toEqual([why]);
  });

  it("ends once, for the first reason, and leaves no timer", async () => {
    const { clock, abort, told } = watched();
    abort.disconnect();
    abort.cut(new GatewayError("internal", "Late."));
    expect(clock.pending).toBe(0);
    await clock.advance(DEADLINE_MS);
    expect(told).toEqual([reason("client_closed")]);
    expect(abort.signal.reason).toEqual(reason("client_closed"));
  });

  it("does not end after it is over", async () => {
    const { clock, abort, told } = watched();
    abort.end();
    expect(clock.pending).toBe(0);
    abort.disconnect();
    abort.cut(new GatewayError("internal", "Late."));
    expect([told, abort.signal.aborted]).toEqual([[], false]);
  });

  it("tells the last step that listens, and no earlier one", () => {
    const { abort, told } = watched();
    const later: unknown[] = [];
    abort.listen({ cut: ({ code }) => later.push(code) });
    abort.disconnect();
    expect([told, later]).toEqual([[], ["client_closed"]]);
  });

  it("keeps no step that listens after it is over: its connection may keep the call's abort", async () => {
    const { abort } = watched();
    abort.end();
    const late = listensLate(abort);
    await setImmediate();
    collect();
    expect(late.deref()).toBeUndefined();
    expect(abort.isOver).toBe(true);
  });
});

/** In a function of its own, whose frame keeps the listener no longer. */
function listensLate(abort: CallAbort): WeakRef<object> {
  const listener = { cut: () => {} };
  abort.listen(listener);
  return new WeakRef(listener);
}

describe("a call that may drain", () => {
  it("goes on for so long after its client has gone, who is told of", async () => {
    const { clock, abort, told } = watched();
    abort.drainFor(DRAIN_MS);
    abort.disconnect();
    abort.disconnect();
    expect([told, abort.isClientGone, abort.signal.aborted]).toEqual([["gone"], true, false]);
    await clock.advance(DRAIN_MS - 1);
    expect(told).toEqual(["gone"]);
    await clock.advance(1);
    expect(told).toEqual(["gone", reason("client_closed")]);
    expect(clock.pending).toBe(0);
  });

  it("ends at the deadline all the same", async () => {
    const { clock, abort, told } = watched();
    abort.drainFor(2 * DEADLINE_MS);
    abort.disconnect();
    await clock.advance(DEADLINE_MS);
    expect(told).toEqual(["gone", reason("deadline_exceeded")]);
    expect(clock.pending).toBe(0);
  });

  it("leaves no timer when it is over before", async () => {
    const { clock, abort, told } = watched();
    abort.drainFor(DRAIN_MS);
    abort.disconnect();
    abort.end();
    expect(clock.pending).toBe(0);
    expect(told).toEqual(["gone"]);
  });
});

describe("the signal", () => {
  it("fires with the reason, before whoever listens to the call is told", () => {
    const { abort, told } = watched();
    abort.signal.addEventListener("abort", () => told.push("fired"));
    abort.disconnect();
    expect(told).toEqual(["fired", reason("client_closed")]);
    expect(abort.signal.reason).toBe(told[1]);
  });

  it("has fired where it is asked for after the end", () => {
    const { abort } = watched();
    abort.disconnect();
    expect(abort.signal).toMatchObject({ aborted: true, reason: reason("client_closed") });
  });

  it("is one, and is not made before somebody asks for it", () => {
    const made = vi.spyOn(globalThis, "AbortController");
    const { abort } = watched();
    abort.drainFor(DRAIN_MS);
    expect(made).not.toHaveBeenCalled();
    expect(abort.signal).toBe(abort.signal);
    expect(made).toHaveBeenCalledTimes(1);
    made.mockRestore();
  });
});
