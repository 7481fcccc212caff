/** However a PNG is made, to look into it costs little, and others are served meanwhile. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/errors.ts";
import { inspectPng } from "../../src/media/png.ts";
import { type Bytes, chunk, data, END, file, header, joined, zeros } from "./png-file.ts";

const BOUNDS = { maxPixels: 5_000_000 };
const MIB = 1024 * 1024;

/** One gray pixel of eight bits, and the chunks that make it up. */
const HEADER = header({ width: 1, height: 1 });
const DATA = data(Uint8Array.of(0, 128));

/** Copies of a chunk. */
const copies = (piece: Bytes, count: number): Bytes => new Uint8Array(Buffer.alloc(piece.length * count, piece));

/** How often others had a turn while it was looked into. */
async function turnsOf(bytes: Uint8Array): Promise<number> {
  let turns = 0;
  const pause = (): Promise<void> => Promise.resolve(void turns++);
  await inspectPng(bytes, BOUNDS, { pause });
  return turns;
}

describe("a PNG of many chunks", () => {
  it.each([
    ["IDAT", 997],
    ["tEXt", 997],
  ])("of the kind %s may have a thousand, and one for each KiB", async (type, count) => {
    // 997 beside the three that it needs, and 11 of its own KiB.
    const own = Math.floor((997 * 12) / 1024);
    const taken = file(HEADER, copies(chunk(type), count + own), DATA, END);
    await expect(inspectPng(taken, BOUNDS)).resolves.toMatchObject({ width: 1 });
    const refused = file(HEADER, copies(chunk(type), count + own + 1), DATA, END);
    await expect(inspectPng(refused, BOUNDS)).rejects.toThrow(
      "The file is not a valid PNG: it has more than 1011 chunks, the most for a file of its size.",
    );
    const larger = joined(refused, new Uint8Array(1024));
    await expect(inspectPng(larger, BOUNDS)).resolves.toMatchObject({ width: 1 });
  });

  it("is left at the chunk that is too many, not at the last", async () => {
    const broken = file(HEADER, copies(chunk("IDAT"), 5_000), chunk("IDAT", new Uint8Array(), 7));
    await expect(inspectPng(broken, BOUNDS)).rejects.toThrow("more than 1058 chunks");
  });
});

describe("a large PNG", () => {
  it.each([
    ["in one chunk that nobody asked for", () => file(HEADER, chunk("teXt", new Uint8Array(20 * MIB)), DATA, END)],
    [
      "in many chunks",
      () => file(HEADER, copies(chunk("teXt"), 10_000), chunk("teXt", new Uint8Array(10 * MIB)), DATA, END),
    ],
    ["in its pixels", () => zeros(2_500, 2_000, 2_000 * 10_001)],
  ])("%s lets others have their turn", async (_what, make) => {
    const bytes = make();
    expect(await turnsOf(bytes)).toBeGreaterThanOrEqual(7);
    expect(await turnsOf(file(HEADER, DATA, END))).toBe(0);
  });

  it("is let go of at the turn in which the signal fires", async () => {
    const reason = new GatewayError("deadline_exceeded", "Too late.");
    const abort = new AbortController();
    let turns = 0;
    const pause = async (): Promise<void> => {
      if (++turns === 2) abort.abort(reason);
    };
    const bytes = file(HEADER, chunk("teXt", new Uint8Array(20 * MIB)), DATA, END);
    await expect(inspectPng(bytes, BOUNDS, { signal: abort.signal, pause })).rejects.toBe(reason);
    expect(turns).toBe(2);
  });
});
