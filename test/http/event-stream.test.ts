/** Holds the event stream to its word: no frame before it is read, no silence, one end, whatever ends it. */

import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { EventStream } from "../../src/http/event-stream.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";

const QUIET_MS = 1_000;

/** What a source is given: a frame, its last frame, a failure, or, undefined, its end. */
type Given = string | { readonly last: string } | Error | undefined;

/** Frames that come when a test gives them, and a count of how often they were asked for. */
class Source {
  pulls = 0;
  done = false;
  isLast = false;
  readonly #given: Given[] = [];
  #waiting: PromiseWithResolvers<string | undefined> | undefined;

  give(...steps: readonly Given[]): void {
    this.#given.push(...steps);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) this.#take().then(waiting.resolve, waiting.reject);
  }

  next(): Promise<string | undefined> {
    this.pulls++;
    if (this.#given.length > 0) return this.#take();
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  async #take(): Promise<string | undefined> {
    const step = this.#given.shift();
    if (typeof step === "string") return step;
    this.done = true;
    if (step instanceof Error) throw step;
    this.isLast = step !== undefined;
    return step?.last;
  }
}

interface Bench {
  readonly source: Source;
  readonly clock: ManualClock;
  readonly stream: EventStream;
  /** What the stream has told: failures, `cancelled`, `ended`. */
  readonly told: string[];
  /** The next chunk; undefined at the end. */
  readonly read: () => Promise<string | undefined>;
  /** Has the clock stand so many milliseconds behind what its timers follow. */
  readonly setBack: (ms: number) => void;
}

/** @param policy What a reader that stops means: the call is cut, or goes on unread. */
function bench(waitedMs = 0, policy: "cut" | "drain" = "cut"): Bench {
  const [source, clock, told] = [new Source(), manualClock(), [] as string[]];
  let behindMs = 0;
  const stream: EventStream = new EventStream({
    frames: async (write) => {
      const frame = await source.next();
      if (frame !== undefined) write(frame);
      return frame !== undefined;
    },
    isLast: () => source.isLast,
    clock: { ...clock, now: () => clock.now() - behindMs },
    silentSince: clock.now() - waitedMs,
    keepAlive: { frame: "(quiet)", afterMs: QUIET_MS },
    failed: (error) => {
      told.push((error as Error).message);
      return `(failed: ${(error as Error).message})`;
    },
    cancelled: () => {
      told.push("cancelled");
      if (policy === "cut") stream.fail(new Error("gone"));
      else stream.drain();
    },
    ended: () => void told.push("ended"),
  });
  const read = async (): Promise<string | undefined> => (await stream.next()).value;
  return { source, clock, stream, told, read, setBack: (ms) => void (behindMs = ms) };
}

describe("frames", () => {
  it("come one by one, and the end after them", async () => {
    const { source, read, told } = bench();
    source.give("a", "ü𝄞", "c", undefined);
    expect([await read(), await read(), await read(), await read()]).toEqual(["a", "ü𝄞", "c", undefined]);
    expect(told).toEqual(["ended"]);
  });

  it("that fail end with the failure, and cleanly", async () => {
    const { source, read, told } = bench();
    source.give("a", new Error("broken"));
    expect([await read(), await read(), await read()]).toEqual(["a", "(failed: broken)", undefined]);
    expect(told).toEqual(["broken", "ended"]);
  });

  it("may fail at once", async () => {
    const { source, read } = bench();
    source.give(new Error("broken"));
    expect([await read(), await read()]).toEqual(["(failed: broken)", undefined]);
  });

  it("may be none", async () => {
    const { source, read, told } = bench();
    source.give(undefined);
    expect(await read()).toBeUndefined();
    expect(told).toEqual(["ended"]);
  });
});

/** A stream of a source that makes frames for as long as they are taken; `made` counts them. */
function eager(frames: readonly (string | Promise<string>)[]): { stream: EventStream; made: () => number } {
  const left = [...frames];
  const stream = new EventStream({
    async frames(write) {
      for (let frame = left.shift(); frame !== undefined; frame = left.shift()) if (!write(await frame)) return true;
      return false;
    },
    isLast: () => false,
    clock: manualClock(),
    silentSince: 0,
    keepAlive: { frame: "(quiet)", afterMs: QUIET_MS },
    failed: () => "",
    cancelled: () => {},
    ended: () => {},
  });
  return { stream, made: () => frames.length - left.length };
}

describe("frames of one turn", () => {
  it("are one piece", async () => {
    const later = turn().then(() => "d");
    const { stream } = eager(["a", "b", "c", later, "e"]);
    expect((await stream.next()).value).toBe("abc");
    expect((await stream.next()).value).toBe("de");
    expect((await stream.next()).done).toBe(true);
  });

  it("are cut where a piece is long enough, and no more of them are made than one piece holds", async () => {
    const { stream, made } = eager(Array.from({ length: 100 }, () => "x".repeat(10_000)));
    await turn();
    expect(made()).toBe(0);
    expect((await stream.next()).value).toHaveLength(70_000);
    await turn();
    expect(made()).toBe(7);
  });

  it("are one piece also where the first of them comes late", async () => {
    const first = Promise.withResolvers<string>();
    const { stream, made } = eager([first.promise, "b", "c"]);
    const reading = stream.next();
    first.resolve("a");
    expect((await reading).value).toBe("abc");
    expect(made()).toBe(3);
  });
});

describe("the last frame", () => {
  it("ends the stream when it is made, and the source is asked no more", async () => {
    const { source, read, told, clock } = bench();
    source.give("a", { last: "b" });
    expect([await read(), await read(), await read()]).toEqual(["a", "b", undefined]);
    expect([told, source.pulls, clock.pending]).toEqual([["ended"], 2, 0]);
  });

  it("ends it also where nobody comes to read it", async () => {
    const { source, stream, told, clock } = bench();
    void stream.next();
    await turn();
    // The reader is gone before the frame is made, and the call is over: nothing else would end the stream.
    source.give({ last: "a" });
    await turn();
    expect([told, clock.pending]).toEqual([["ended"], 0]);
  });
});

describe("a reader that does not read", () => {
  it("keeps the frames from being made", async () => {
    const { source, read } = bench();
    source.give("a", "b", "c", "d", undefined);
    await turn();
    expect(source.pulls).toBe(0);
    await read();
    await turn();
    expect(source.pulls).toBe(1);
    await read();
    await turn();
    expect(source.pulls).toBe(2);
  });

  it("has no timer", async () => {
    const { clock } = bench();
    await turn();
    expect(clock.pending).toBe(0);
  });

  it("gets no keep-alives piled up", async () => {
    const { source, clock, read } = bench();
    source.give("a", "b");
    expect(await read()).toBe("a");
    await clock.advance(10 * QUIET_MS);
    expect(await read()).toBe("b");
  });

  it("does not hold up the end of a call that is cut short", async () => {
    const { source, stream, told, read, clock } = bench();
    source.give("a", "b", "c");
    await read();
    stream.fail(new Error("deadline"));
    expect([told, clock.pending]).toEqual([["deadline", "ended"], 0]);
    expect([await read(), await read()]).toEqual(["(failed: deadline)", undefined]);
  });

  it("does not hold it up before it has begun", async () => {
    const { stream, told, read, source } = bench();
    stream.fail(new Error("deadline"));
    expect(told).toEqual(["deadline", "ended"]);
    expect([await read(), await read(), source.pulls]).toEqual(["(failed: deadline)", undefined, 0]);
  });

  it("does not hold it up either while a frame is on its way", async () => {
    const { source, stream, told } = bench();
    const reading = stream.next();
    await turn();
    expect(source.pulls).toBe(1);
    stream.fail(new Error("deadline"));
    source.give("a", "b", undefined);
    await turn();
    expect(told).toEqual(["deadline", "ended"]);
    expect(await reading).toEqual({ done: false, value: "(failed: deadline)" });
    expect(source.pulls).toBe(1);
  });
});

describe("a second end", () => {
  it("changes nothing", async () => {
    const { source, stream, told, read } = bench();
    source.give("a", undefined);
    expect([await read(), await read()]).toEqual(["a", undefined]);
    stream.fail(new Error("late"));
    stream.drain();
    expect(await read()).toBeUndefined();
    expect([told, source.pulls]).toEqual([["ended"], 2]);
  });
});

describe("a reader that hangs up", () => {
  const ended = ["cancelled", "gone", "ended"];

  it("ends the call", async () => {
    const { source, stream, told, read, clock } = bench();
    source.give("a", "b", "c", undefined);
    await read();
    expect(await stream.return()).toEqual({ done: true, value: undefined });
    expect([told, clock.pending]).toEqual([ended, 0]);
  });

  it("does so before it has read anything", async () => {
    const { stream, told, source, clock } = bench();
    await stream.return();
    expect([told, source.pulls, clock.pending]).toEqual([ended, 0, 0]);
  });

  it("does so while the next frame is awaited", async () => {
    const { source, stream, told, read } = bench();
    source.give("a");
    await read();
    void stream.next();
    await stream.return();
    source.give(new Error("late"));
    await turn();
    expect(told).toEqual(ended);
  });

  it("does so while the next frame is on its way", async () => {
    const { source, stream, told, read } = bench();
    source.give("a");
    await read();
    void stream.next();
    await stream.return();
    source.give("b", "c", undefined);
    await turn();
    expect(told).toEqual(ended);
  });
});

describe("a stream that drains", () => {
  it("runs its source to the end, unread", async () => {
    const { source, stream, told, read, clock } = bench(0, "drain");
    source.give("a", "b", "c", undefined);
    await read();
    await stream.return();
    await turn();
    expect([source.done, told, clock.pending]).toEqual([true, ["cancelled", "ended"], 0]);
    expect(await read()).toBeUndefined();
  });

  it("does so before anything was read", async () => {
    const { source, stream, told } = bench(0, "drain");
    source.give("a", { last: "b" });
    await stream.return();
    await turn();
    expect([source.done, told]).toEqual([true, ["cancelled", "ended"]]);
  });

  it("tells of a failure, though nobody reads it", async () => {
    const { source, stream, told, read } = bench(0, "drain");
    source.give("a", new Error("broken"));
    await stream.return();
    await turn();
    expect(told).toEqual(["cancelled", "broken", "ended"]);
    expect(await read()).toBeUndefined();
  });
});

describe("silence", () => {
  it("counts from before the stream began", async () => {
    const { clock, read } = bench(QUIET_MS - 1);
    const reading = read();
    await clock.advance(1);
    expect(await reading).toBe("(quiet)");
  });

  it("that was long before the stream began is ended at once", async () => {
    const { clock, read } = bench(3 * QUIET_MS);
    const reading = read();
    await clock.advance(0);
    expect(await reading).toBe("(quiet)");
  });

  it("is broken after its time, and again", async () => {
    const { source, clock, read } = bench();
    source.give("a");
    await read();
    for (let time = 0; time < 2; time++) {
      const reading = read();
      await clock.advance(QUIET_MS);
      expect(await reading).toBe("(quiet)");
    }
    source.give("b", undefined);
    expect([await read(), await read()]).toEqual(["b", undefined]);
  });

  it("is not broken before", async () => {
    const { source, clock, read } = bench();
    source.give("a");
    await read();
    const reading = read();
    await clock.advance(QUIET_MS - 1);
    source.give("b");
    expect(await reading).toBe("b");
  });

  it("is measured from the last frame", async () => {
    const { source, clock, read } = bench();
    for (const frame of ["a", "b"]) {
      const reading = read();
      await clock.advance(QUIET_MS - 1);
      source.give(frame);
      expect(await reading).toBe(frame);
    }
    const reading = read();
    await clock.advance(QUIET_MS - 1);
    expect(clock.pending).toBe(1);
    await clock.advance(1);
    expect(await reading).toBe("(quiet)");
  });

  it("after the end is for ever", async () => {
    const { source, clock, read } = bench();
    source.give("a", undefined);
    expect([await read(), await read()]).toEqual(["a", undefined]);
    await clock.advance(10 * QUIET_MS);
    expect(await read()).toBeUndefined();
  });

  it.each([60_000, 86_400_000])(
    "is broken in time by a clock that jumps back by %d ms, and in no storm",
    async (jump) => {
      const { source, clock, read, setBack } = bench();
      source.give("a");
      await read();
      const quiet = read();
      setBack(jump);
      // The first timer was set by the clock as it was; from there on the new time counts.
      await clock.advance(2 * QUIET_MS);
      expect(await quiet).toBe("(quiet)");
      const next = read();
      await clock.advance(QUIET_MS - 1);
      expect(clock.pending).toBe(1);
      source.give("b", { last: "c" });
      expect([await next, await read(), clock.pending]).toEqual(["b", "c", 0]);
    },
  );
});
