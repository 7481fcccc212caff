/** What a stream does while its backend is quiet: it says nothing in its own form, and begins without it when it must. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../../src/index.ts";
import type { Mount, Play, Stage } from "../stage.ts";
import { answersOnCue, type Cues, QUIET_MS, timedStage } from "../timed.ts";
import { MINIMAL } from "./bodies.ts";
import { GENERATE, send, STREAM, STREAM_ARRAY, STREAMS } from "./calls.ts";
import { ChunkReader, elements, frames, textChunk } from "./chunks.ts";
import { refusal, refusalOf } from "./refusal.ts";

const textsOnCue = (cues: Cues): Play =>
  async function* () {
    yield { type: "start", id: "resp_1", usage: { inputTokens: 7 } };
    yield "One";
    await cues.wait("two");
    yield "Two";
    await cues.wait("three");
    yield "Three";
  };

const failsOnCue = (cues: Cues): Play =>
  async function* () {
    cues.give("asked");
    await cues.wait("fail");
    yield* [];
    throw new GatewayError("backend_unavailable", "Gone.");
  };

/** A reader that has read the first text. */
async function readOne(stage: Stage, path: string, framing: typeof frames): Promise<ChunkReader> {
  const reader = new ChunkReader(await send(stage, path, MINIMAL), framing);
  expect(await reader.next()).toEqual(textChunk("One"));
  return reader;
}

export function quietSuite(mount: Mount): void {
  it("is covered by empty chunks in server-sent events", async () => {
    await using stage = await timedStage(mount, textsOnCue);
    const reader = await readOne(stage, STREAM, frames);
    for (let silence = 0; silence < 3; silence++) {
      await stage.clock.advance(QUIET_MS);
      expect(await reader.nextText()).toBe("data: {}\n\n");
    }
    stage.cues.give("two");
    expect(await reader.next()).toEqual(textChunk("Two"));
  });

  it("is covered by white space in a JSON array", async () => {
    await using stage = await timedStage(mount, textsOnCue);
    const reader = await readOne(stage, STREAM_ARRAY, elements);
    for (let silence = 0; silence < 3; silence++) {
      await stage.clock.advance(QUIET_MS);
      expect(await reader.nextText()).toMatch(/^[ \n]+$/);
    }
    stage.cues.give("two");
    expect(await reader.next()).toEqual(textChunk("Two"));
  });

  it("is no chunk of an array, wherever it falls", async () => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = send(stage, STREAM_ARRAY, MINIMAL);
    await stage.cues.wait("asked");
    await stage.clock.advance(QUIET_MS);
    const text = (await sent).text();
    await stage.clock.advance(2 * QUIET_MS);
    stage.cues.give("answer");
    expect(JSON.parse(await text)).toMatchObject([
      { candidates: [{ content: { parts: [{ text: "At last." }] } }] },
      { candidates: [{ finishReason: "STOP" }] },
    ]);
  });

  describe.each(STREAMS)("of %s", (_name, path, framing) => {
    it("is not covered before its time", async () => {
      await using stage = await timedStage(mount, textsOnCue);
      const reader = await readOne(stage, path, framing);
      await stage.clock.advance(QUIET_MS - 1);
      stage.cues.give("two");
      expect(await reader.next()).toEqual(textChunk("Two"));
    });

    it("is quiet from its last word on", async () => {
      await using stage = await timedStage(mount, textsOnCue);
      const reader = await readOne(stage, path, framing);
      await stage.clock.advance(QUIET_MS - 100);
      stage.cues.give("two");
      expect(await reader.next()).toEqual(textChunk("Two"));
      await stage.clock.advance(QUIET_MS - 1);
      stage.cues.give("three");
      expect(await reader.next()).toEqual(textChunk("Three"));
    });

    it("gets its stream begun without it", async () => {
      await using stage = await timedStage(mount, answersOnCue);
      const sent = send(stage, path, MINIMAL);
      await stage.cues.wait("asked");
      await stage.clock.advance(QUIET_MS);
      const response = await sent;
      expect(response.status).toBe(200);
      stage.cues.give("answer");
      const reader = new ChunkReader(response, framing);
      const texts = [await reader.next(), await reader.next()].map(
        (chunk) => chunk?.candidates?.[0]?.content?.parts[0]?.text,
      );
      expect(texts).toContain("At last.");
    });

    it("that fails after its stream has begun is told in the stream", async () => {
      await using stage = await timedStage(mount, failsOnCue);
      const sent = send(stage, path, MINIMAL);
      await stage.cues.wait("asked");
      await stage.clock.advance(QUIET_MS);
      const reader = new ChunkReader(await sent, framing);
      stage.cues.give("fail");
      let chunk = await reader.next();
      if (!chunk?.["error"]) chunk = await reader.next();
      expect(chunk).toEqual({ error: { ...refusal(503, "UNAVAILABLE"), message: "Gone." } });
      expect(await reader.next()).toBeUndefined();
    });

    it("that fails before that has its true status", async () => {
      await using stage = await timedStage(mount, failsOnCue);
      const sent = send(stage, path, MINIMAL);
      await stage.cues.wait("asked");
      await stage.clock.advance(QUIET_MS - 1);
      stage.cues.give("fail");
      expect(await refusalOf(await sent)).toEqual(refusal(503, "UNAVAILABLE"));
    });
  });

  it("may be quiet before a complete answer", async () => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = send(stage, GENERATE, MINIMAL);
    await stage.cues.wait("asked");
    await stage.clock.advance(10 * QUIET_MS);
    stage.cues.give("answer");
    expect(await (await sent).json()).toMatchObject({ candidates: [{ content: { parts: [{ text: "At last." }] } }] });
  });
}
