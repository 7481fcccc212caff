/** Holds the event stream to its word: no frame before it is read, no silence, no end without its settling. */

import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { eventStream } from "../../src/http/event-stream.ts";
import { manualClock, type ManualClock } from "../contracts/manual-clock.ts";

const QUIET_MS = 1_000;

/** Frames that come when a test gives them, and a count of how often they were asked for. */
class Source implements AsyncIterator<string, undefined> {
  pulls = 0;
  done = false;
  readonly #given: (string | Error | undefined)[] = [];
  #waiting: PromiseWithResolvers<IteratorResult<string, undefined>> | undefined;

  /** A frame; a failure; or, undefined, the end. */
  give(...steps: readonly (string | Error | undefined)[]): void {
    this.#given.push(...steps);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (waiting) this.#take().then(waiting.resolve, waiting.reject);
  }

  next(): Promise<IteratorResult<string, undefined>> {
    this.pulls++;
    if (this.#given.length > 0) return this.#take();
    this.#waiting = Promise.withResolvers();
    return this.#waiting.promise;
  }

  async #take(): Promise<IteratorResult<string, undefined>> {
    const step = this.#given.shift();
    if (typeof step === "string") return { done: false, value: step };
    this.done = true;
    if (step) throw step;
    return { done: true, value: undefined };
  }
}

interface Bench {
  readonly source: Source;
  readonly clock: ManualClock;
  readonly call: AbortController;
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  /** What the stream has told: `cancelled`, `ended`. */
  readonly told: string[];
  /** The next chunk as text; undefined at the end. */
  readonly read: () => Promise<string | undefined>;
}

function bench(waitedMs = 0): Bench {
  const [source, clock, call, told] = [new Source(), manualClock(), new AbortController(), [] as string[]];
  const stream = eventStream({
    events: source,
    encode: (frame) => frame,
    signal: call.signal,
    clock,
    silentSince: clock.now() - waitedMs,
    keepAlive: { frame: "(quiet)", afterMs: QUIET_MS },
    failed: (error) => `(failed: ${(error as Error).message})`,
    cancelled: () => {
      told.push("cancelled");
      call.abort(new Error("gone"));
    },
    ended: () => void told.push("ended"),
  });
  const reader = stream.getReader();
  const read = async (): Promise<string | undefined> => {
    const { done, value } = await reader.read();
    return done ? undefined : new TextDecoder().decode(value);
  };
  return { source, clock, call, reader, told, read };
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
    expect(told).toEqual(["ended"]);
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

describe("a reader that does not read", () => {
  it("keeps the frames from being made", async () => {
    const { source, read } = bench();
    source.give("a", "b", "c", "d", undefined);
    await turn();
    expect(source.pulls).toBe(1);
    await read();
    await turn();
    expect(source.pulls).toBe(2);
    await turn();
    expect(source.pulls).toBe(2);
  });

  it("gets no keep-alives piled up", async () => {
    const { source, clock, read } = bench();
    source.give("a", "b");
    await turn();
    await clock.advance(10 * QUIET_MS);
    expect(await read()).toBe("a");
    expect(await read()).toBe("b");
  });

  it("does not hold up the end of a call that is cut short", async () => {
    const { source, call, told } = bench();
    source.give("a", "b", "c");
    await turn();
    call.abort(new Error("deadline"));
    source.give(undefined);
    await turn();
    expect(source.done).toBe(true);
    expect(told).toEqual(["ended"]);
  });

  it("does not hold it up either while a frame is on its way", async () => {
    const { source, call, told } = bench();
    await turn();
    expect(source.pulls).toBe(1);
    call.abort(new Error("deadline"));
    source.give("a", "b", undefined);
    await turn();
    expect(source.done).toBe(true);
    expect(told).toEqual(["ended"]);
  });
});

describe("a reader that hangs up", () => {
  it("ends the call, and the frames are run to their end", async () => {
    const { source, reader, told, read } = bench();
    source.give("a", "b", "c", undefined);
    await read();
    await turn();
    await reader.cancel();
    await turn();
    expect(source.done).toBe(true);
    expect(told).toEqual(["cancelled", "ended"]);
  });

  it("does so while the next frame is awaited", async () => {
    const { source, reader, told, read } = bench();
    source.give("a");
    await read();
    await turn();
    await reader.cancel();
    source.give(new Error("gone"));
    await turn();
    expect(told).toEqual(["cancelled", "ended"]);
  });

  it("does so while the next frame is on its way", async () => {
    const { source, reader, told, read } = bench();
    source.give("a");
    await read();
    await turn();
    await reader.cancel();
    source.give("b", "c", undefined);
    await turn();
    expect(source.done).toBe(true);
    expect(told).toEqual(["cancelled", "ended"]);
  });
});

describe("silence", () => {
  it("counts from before the stream began", async () => {
    const { clock, read } = bench(QUIET_MS - 1);
    await clock.advance(1);
    expect(await read()).toBe("(quiet)");
  });

  it("that was long before the stream began is ended at once", async () => {
    const { clock, read } = bench(3 * QUIET_MS);
    await clock.advance(0);
    expect(await read()).toBe("(quiet)");
  });

  it("is broken after its time, and again", async () => {
    const { source, clock, read } = bench();
    source.give("a");
    await read();
    await clock.advance(QUIET_MS);
    expect(await read()).toBe("(quiet)");
    await clock.advance(QUIET_MS);
    expect(await read()).toBe("(quiet)");
    source.give("b", undefined);
    expect([await read(), await read()]).toEqual(["b", undefined]);
  });

  it("is not broken before", async () => {
    const { source, clock, read } = bench();
    source.give("a");
    await read();
    await clock.advance(QUIET_MS - 1);
    source.give("b");
    expect(await read()).toBe("b");
  });

  it("is measured from the last frame", async () => {
    const { source, clock, read } = bench();
    await clock.advance(QUIET_MS - 1);
    source.give("a");
    await read();
    await clock.advance(QUIET_MS - 1);
    source.give("b");
    expect(await read()).toBe("b");
    await clock.advance(QUIET_MS);
    expect(await read()).toBe("(quiet)");
  });

  it("after the end is for ever", async () => {
    const { source, clock, read } = bench();
    source.give("a", undefined);
    expect([await read(), await read()]).toEqual(["a", undefined]);
    await clock.advance(10 * QUIET_MS);
    expect(await read()).toBeUndefined();
  });
});
