/** Calls that a runtime has stopped without a word are not waited for, and hold nothing; closing waits for the others. */

import { describe, expect, it } from "vitest";
import type { Clock, LiveCall } from "../../src/index.ts";
import { CallAbort } from "../../src/pipeline/abort.ts";
import { type InFlightCall, InFlightCalls } from "../../src/pipeline/services.ts";
import { SharedRoom } from "../../src/ports/shared-room.ts";
import { manualClock } from "../../src/testing/laws/manual-clock.ts";

const DEADLINE_MS = 60_000;
const GRACE_MS = 30_000;

const callsBy = (clock: Clock, most = 100): InFlightCalls =>
  new InFlightCalls(clock, DEADLINE_MS, new SharedRoom(most));

/** The clock of requests whose timers died with them. */
const stopped = (clock: Clock): Clock => ({ now: () => clock.now(), after: () => () => {}, every: () => () => {} });

const LIVE: Omit<LiveCall, "beganAt"> = {
  requestId: "req_1",
  key: undefined,
  format: "messages",
  method: "POST",
  route: "/v1/messages",
  modelAsked: undefined,
  stream: false,
  usage: undefined,
  images: undefined,
  webSocket: false,
  upstream: undefined,
};

/** As much of a call as is looked at here, and why it was cut. */
function callOf(clock: Clock, hasWaitUntil = false): { readonly call: InFlightCall; readonly cuts: string[] } {
  const cuts: string[] = [];
  const abort = new CallAbort(stopped(clock), DEADLINE_MS);
  abort.listen({ cut: ({ code }) => cuts.push(code) });
  return {
    call: {
      id: "req_1",
      hasWaitUntil,
      isOver: false,
      cut: (reason) => abort.cut(reason),
      live: (beganAt) => ({ ...LIVE, beganAt }),
    },
    cuts,
  };
}

/** Which of the calls are known: those that closing cuts. */
async function known(calls: InFlightCalls, clock: ReturnType<typeof manualClock>): Promise<void> {
  void calls.close(0);
  await clock.advance(0);
}

describe("calls that were stopped without a word", () => {
  it("are let go of, once they are overdue", async () => {
    const clock = manualClock();
    const calls = callsBy(clock);
    const [first, second, third, fourth] = Array.from({ length: 4 }, () => callOf(clock)) as [
      ReturnType<typeof callOf>,
      ReturnType<typeof callOf>,
      ReturnType<typeof callOf>,
      ReturnType<typeof callOf>,
    ];
    calls.begin(first.call);
    await clock.advance(1);
    calls.begin(second.call);
    await clock.advance(DEADLINE_MS + GRACE_MS - 2);
    calls.begin(third.call);
    await clock.advance(1);
    calls.begin(fourth.call);
    await known(calls, clock);
    expect([first, second, third, fourth].map(({ cuts }) => cuts)).toEqual([[], ["busy"], ["busy"], ["busy"]]);
  });

  it("do not count as live", async () => {
    const clock = manualClock();
    const calls = callsBy(clock);
    const began = clock.now();
    calls.begin(callOf(clock).call);
    expect(calls.list()).toEqual([{ ...LIVE, beganAt: began }]);
    await clock.advance(1);
    calls.begin(callOf(clock).call);
    expect(calls.count()).toBe(2);
    await clock.advance(DEADLINE_MS + GRACE_MS - 1);
    expect(calls.list(1)).toEqual([{ ...LIVE, beganAt: began + 1 }]);
    expect(calls.count()).toBe(1);
    await clock.advance(1);
    expect(calls.list()).toEqual([]);
    expect(calls.count()).toBe(0);
  });

  it("do not keep a gateway from closing", async () => {
    const clock = manualClock();
    const calls = callsBy(clock);
    calls.begin(callOf(clock).call);
    let closed = false;
    const closing = calls.close(1_000).then(() => (closed = true));
    await clock.advance(1_000 + GRACE_MS - 1);
    expect(closed).toBe(false);
    await clock.advance(1);
    await closing;
    expect(clock.pending).toBe(0);
  });
});

describe("calls of one key", () => {
  it("are refused where it has as many as it may, while those of a key that has none are taken up", () => {
    const clock = manualClock();
    const calls = callsBy(clock, 8);
    const admitted = (keyId: string): boolean => {
      const place = calls.begin(callOf(clock).call);
      try {
        calls.admit(place, keyId);
        return true;
      } catch {
        calls.end(place);
        return false;
      }
    };
    const fill = (keyId: string): number => (admitted(keyId) ? 1 + fill(keyId) : 0);
    expect(["first", "second", "third", "fourth"].map(fill)).toEqual([4, 2, 1, 1]);
    expect(calls.size).toBe(8);
  });

  it("are counted until they end, or were stopped without a word", async () => {
    const clock = manualClock();
    const calls = callsBy(clock, 2);
    const admit = (): ReturnType<InFlightCalls["begin"]> => {
      const place = calls.begin(callOf(clock).call);
      calls.admit(place, "one");
      return place;
    };
    const first = admit();
    expect(admit).toThrow(expect.objectContaining({ code: "busy" }));
    calls.end(first);
    calls.end(first);
    admit();
    await clock.advance(DEADLINE_MS + GRACE_MS);
    admit();
    expect(admit).toThrow(expect.objectContaining({ code: "busy" }));
  });
});

describe("closing", () => {
  it("is done at once where nothing is in flight, and leaves no timer", async () => {
    const clock = manualClock();
    await callsBy(clock).close(1_000);
    expect(clock.pending).toBe(0);
  });

  it("waits for the calls there are, and takes up no more", async () => {
    const clock = manualClock();
    const calls = callsBy(clock);
    const { call, cuts } = callOf(clock);
    const place = calls.begin(call);
    const closing = calls.close(1_000);
    expect(calls.close(1)).toStrictEqual(expect.any(Promise));
    expect(() => calls.begin(callOf(clock).call)).toThrow(
      expect.objectContaining({ code: "busy", retryAfterMs: 1_000 }),
    );
    await clock.advance(999);
    calls.end(place);
    await closing;
    expect([cuts, clock.pending]).toEqual([[], 0]);
  });

  it.each([false, true])("cuts what lives on (in a context of its own: %s)", async (hasWaitUntil) => {
    const clock = manualClock();
    const calls = callsBy(clock);
    const { call, cuts } = callOf(clock, hasWaitUntil);
    const place = calls.begin(call);
    const closing = calls.close(1_000);
    await clock.advance(1_000);
    expect(cuts).toEqual(["busy"]);
    calls.end(place);
    await closing;
    expect(clock.pending).toBe(0);
  });

  it("cuts those that are left where one that is cut takes the next along", async () => {
    const clock = manualClock();
    const calls = callsBy(clock);
    const [second, third] = [callOf(clock), callOf(clock)];
    const ends: (() => void)[] = [];
    const first: InFlightCall = { ...second.call, cut: () => ends.forEach((end) => end()) };
    for (const call of [first, second.call]) {
      const place = calls.begin(call);
      ends.push(() => calls.end(place));
    }
    const last = calls.begin(third.call);
    const closing = calls.close(1_000);
    await clock.advance(1_000);
    expect([second.cuts, third.cuts]).toEqual([[], ["busy"]]);
    calls.end(last);
    await closing;
    expect(clock.pending).toBe(0);
  });

  it("waits for no call that its clock has jumped back under", async () => {
    const clock = manualClock();
    let back = 0;
    const calls = callsBy({ ...clock, now: () => clock.now() - back });
    const one = callOf(clock);
    const first = calls.begin(one.call);
    back = 3_600_000;
    const other = callOf(clock);
    const second = calls.begin(other.call);
    const closing = calls.close(1_000);
    await clock.advance(1_000);
    expect([one.cuts, other.cuts]).toEqual([["busy"], ["busy"]]);
    calls.end(first);
    calls.end(second);
    await closing;
    expect(clock.pending).toBe(0);
  });
});
