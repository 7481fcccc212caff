/** A shared stream keeps no more for a slow reader than it may, and goes on alone only while nobody reads. */

import { describe, expect, it } from "vitest";
import { SharedStream } from "../../src/http/shared-stream.ts";

const PIECE = "x".repeat(100);

/** A source of so many pieces, and how many of them were asked for. */
function shared(pieces: number, maxBytes: number) {
  const source = { asked: 0 };
  async function* texts(): AsyncGenerator<string, undefined> {
    for (; source.asked < pieces; source.asked++) yield PIECE;
    return undefined;
  }
  return { source, stream: new SharedStream(texts(), { maxBytes, keepAlive: ": ping\n\n" }) };
}

async function readAll(reader: AsyncIterable<string> | undefined): Promise<number> {
  let length = 0;
  for await (const text of reader ?? []) length += text.length;
  return length;
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 1_000; turn++) await Promise.resolve();
};

describe("SharedStream", () => {
  it("breaks off a reader who falls behind by more than is kept, and no other", async () => {
    const { stream } = shared(50, 1_000);
    const left: boolean[] = [];
    const [slow, fast] = [stream.reader((isThrough) => left.push(isThrough)), stream.reader(() => {})];
    expect((await slow?.next())?.value).toBe(PIECE);
    expect(await readAll(fast)).toBe(50 * PIECE.length);
    await expect(slow?.next()).rejects.toMatchObject({ code: "client_closed" });
    expect(left).toEqual([false]);
  });

  it("keeps what a slow reader has not read yet up to that", async () => {
    const { stream } = shared(10, 1_000);
    const [slow, fast] = [stream.reader(() => {}), stream.reader(() => {})];
    expect(await readAll(fast)).toBe(10 * PIECE.length);
    expect(await readAll(slow)).toBe(10 * PIECE.length);
  });

  it("gives one piece that is larger than all that is kept to those who wait for it", async () => {
    const { stream } = shared(5, 10);
    const [one, two] = [stream.reader(() => {}), stream.reader(() => {})];
    expect(await Promise.all([readAll(one), readAll(two)])).toEqual([5 * PIECE.length, 5 * PIECE.length]);
  });

  it("runs on for nobody, at a reader's pace while there is one, and on again when that has left", async () => {
    const { stream, source } = shared(50, 1_000);
    const reader = stream.reader(() => {});
    await reader?.next();
    void stream.runOn();
    await turns();
    expect(source.asked).toBeLessThan(5);
    await reader?.return();
    await turns();
    expect([source.asked, stream.isDone]).toEqual([50, true]);
  });
});
