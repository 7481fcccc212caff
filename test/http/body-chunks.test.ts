/** A body is held to its least rate and to its longest silence, by the clock; whatever ends it, it is let go of. */

import { describe, expect, it } from "vitest";
import { type BodyIntake, chunksOf } from "../../src/http/body.ts";
import { BodyRoom } from "../../src/ports/shared-room.ts";
import { type ManualClock, manualClock } from "../../src/testing/laws/manual-clock.ts";
import { intakeOf, readJson } from "./intake.ts";

const STALL_MS = 30_000;
const RATE = 1_000;

const ofBytes = (length: number): Uint8Array<ArrayBuffer> => new Uint8Array(length).fill(0x20);

/** A body that comes in equal pieces, each so many milliseconds after the one before it. */
function dripping(clock: ManualClock, bytes: number, everyMs: number, pieces = Number.POSITIVE_INFINITY): Request {
  let sent = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) =>
        new Promise((resolve) => {
          const send = (): void => {
            if (sent++ < pieces) controller.enqueue(ofBytes(bytes));
            else controller.close();
            resolve();
          };
          if (sent < pieces) clock.after(everyMs, send);
          else send();
        }),
    },
    { highWaterMark: 0 },
  );
  return new Request("http://host/", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
    duplex: "half",
  } as RequestInit);
}

interface Read {
  bytes: number;
  error: unknown;
}

function reading(request: Request, intake: BodyIntake): Read {
  const read: Read = { bytes: 0, error: undefined };
  void (async () => {
    try {
      for await (const chunk of chunksOf(request, intake)) read.bytes += chunk.length;
    } catch (error) {
      read.error = error;
    }
  })();
  return read;
}

describe("a body", () => {
  it("of a byte every ten seconds is ended by its rate", async () => {
    const clock = manualClock();
    const room = new BodyRoom(1_000);
    const lease = room.lease("key");
    const request = dripping(clock, 1, 10_000);
    const read = reading(request, intakeOf({ clock, lease, stallMs: STALL_MS, minBytesPerSecond: RATE }));
    await clock.advance(10_000);
    // The first ten seconds are left to a connection to get going.
    expect(read).toEqual({ bytes: 1, error: undefined });
    await clock.advance(10_000);
    expect(read).toMatchObject({ bytes: 1, error: { code: "deadline_exceeded" } });
    expect(request.body?.locked).toBe(false);
    lease[Symbol.dispose]();
    expect(room.takenBytes).toBe(0);
  });

  it("that is as fast as it must be may take its time", async () => {
    const clock = manualClock();
    const read = reading(
      dripping(clock, RATE, 1_000, 120),
      intakeOf({ clock, stallMs: STALL_MS, minBytesPerSecond: RATE }),
    );
    await clock.advance(120_000);
    expect([read, clock.pending]).toEqual([{ bytes: 120 * RATE, error: undefined }, 0]);
  });

  it("that was fast may not be slow for long, however much has come before", async () => {
    const clock = manualClock();
    let bytes = 10_000 * RATE;
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          controller.enqueue(ofBytes(bytes));
          bytes = 1;
          await new Promise<void>((resolve) => clock.after(5_000, resolve));
        },
      },
      { highWaterMark: 0 },
    );
    const request = new Request("http://host/", { method: "POST", body, duplex: "half" } as RequestInit);
    const read = reading(request, intakeOf({ clock, stallMs: STALL_MS, minBytesPerSecond: RATE }));
    // What came in the first window is enough for it, and for nothing after it.
    await clock.advance(25_000);
    expect(read.error).toBeUndefined();
    await clock.advance(5_000);
    expect(read.error).toMatchObject({ code: "deadline_exceeded" });
  });

  it("that falls silent is ended after its time, and leaves no timer", async () => {
    const clock = manualClock();
    const request = new Request("http://host/", {
      method: "POST",
      body: new ReadableStream(),
      duplex: "half",
    } as RequestInit);
    const read = reading(request, intakeOf({ clock, stallMs: STALL_MS }));
    await clock.advance(STALL_MS - 1);
    expect(read.error).toBeUndefined();
    await clock.advance(1);
    expect([read.error, clock.pending]).toMatchObject([{ code: "deadline_exceeded" }, 0]);
  });

  it("is not ended by a clock that jumps back", async () => {
    const clock = manualClock();
    let back = 0;
    const jumping = { ...clock, now: () => clock.now() - back };
    const request = dripping(clock, RATE, 1_000, 30);
    const read = reading(request, intakeOf({ clock: jumping, stallMs: STALL_MS, minBytesPerSecond: RATE }));
    await clock.advance(15_000);
    back = 3_600_000;
    await clock.advance(15_000);
    expect([read, clock.pending]).toEqual([{ bytes: 30 * RATE, error: undefined }, 0]);
  });
});

const silent = (): Request =>
  new Request("http://host/", {
    method: "POST",
    headers: { "content-type": "application/json", "content-length": "10" },
    body: new ReadableStream({ start: (controller) => controller.enqueue(ofBytes(9)) }),
    duplex: "half",
  } as RequestInit);

describe("a small body that is never whole", () => {
  const limits = { maxJsonBytes: 1_000, maxJsonDepth: 5, maxJsonValues: 20, maxJsonKeys: 100, maxJsonItems: 100 };

  it("is ended after its time", async () => {
    const clock = manualClock();
    let error: unknown;
    readJson(silent(), limits, intakeOf({ clock, stallMs: STALL_MS })).catch((thrown: unknown) => (error = thrown));
    await clock.advance(STALL_MS - 1);
    expect(error).toBeUndefined();
    await clock.advance(1);
    const message = "The request body was not whole after 30 seconds.";
    expect([error, clock.pending]).toMatchObject([{ code: "deadline_exceeded", message }, 0]);
  });

  it("leaves no timer when nobody waits for it any more", async () => {
    const clock = manualClock();
    const releases: (() => void)[] = [];
    const intake = intakeOf({ clock, stallMs: STALL_MS, defer: (release) => void releases.push(release) });
    const read = readJson(silent(), limits, intake).catch(() => "let go of");
    await clock.advance(0);
    expect(clock.pending).toBe(1);
    for (const release of releases) release();
    expect(clock.pending).toBe(0);
    expect(await read).toBe("let go of");
  });
});
