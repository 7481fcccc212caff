/** What a stream does while its backend is quiet: it pings, and begins without it when it must (spec 6.1). */

import { expect, it } from "vitest";
import { GatewayError } from "../../../src/index.ts";
import type { Mount, Play, Stage } from "../stage.ts";
import { answersOnCue, type Cues, QUIET_MS, timedStage } from "../timed.ts";
import { having } from "./bodies.ts";
import { FrameReader, start, textBlock } from "./frames.ts";
import { refusalOf } from "./refusal.ts";

const STREAM = having({ stream: true });
const PING = { type: "ping" };

const textsOnCue = (cues: Cues): Play =>
  async function* () {
    yield { type: "start", id: "msg_1", usage: { inputTokens: 7 } };
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
async function readOne(stage: Stage): Promise<FrameReader> {
  const reader = new FrameReader(await stage.send(STREAM));
  for (const frame of [start(), ...textBlock(0, "One").slice(0, 2)]) expect(await reader.next()).toEqual(frame);
  return reader;
}

export function quietSuite(mount: Mount): void {
  it("is covered by pings", async () => {
    await using stage = await timedStage(mount, textsOnCue);
    const reader = await readOne(stage);
    for (let silence = 0; silence < 3; silence++) {
      await stage.clock.advance(QUIET_MS);
      expect(await reader.next()).toEqual(PING);
    }
    stage.cues.give("two");
    expect(await reader.next()).toMatchObject({ delta: { text: "Two" } });
  });

  it("is not covered before its time", async () => {
    await using stage = await timedStage(mount, textsOnCue);
    const reader = await readOne(stage);
    await stage.clock.advance(QUIET_MS - 1);
    stage.cues.give("two");
    expect(await reader.next()).toMatchObject({ delta: { text: "Two" } });
  });

  it("is quiet from its last word on", async () => {
    await using stage = await timedStage(mount, textsOnCue);
    const reader = await readOne(stage);
    await stage.clock.advance(QUIET_MS - 100);
    stage.cues.give("two");
    expect(await reader.next()).toMatchObject({ delta: { text: "Two" } });
    await stage.clock.advance(QUIET_MS - 1);
    stage.cues.give("three");
    expect(await reader.next()).toMatchObject({ delta: { text: "Three" } });
  });

  it("gets its stream begun without it", async () => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = stage.send(STREAM);
    await stage.cues.wait("asked");
    await stage.clock.advance(QUIET_MS);
    const response = await sent;
    expect(response.status).toBe(200);
    const reader = new FrameReader(response);
    expect(await reader.next()).toMatchObject({ type: "message_start", message: { model: "model-a", content: [] } });
    await stage.clock.advance(QUIET_MS);
    expect(await reader.next()).toEqual(PING);
    stage.cues.give("answer");
    expect(await reader.next()).toMatchObject({ type: "content_block_start" });
    expect(await reader.next()).toMatchObject({ delta: { text: "At last." } });
  });

  it("that fails after its stream has begun is told in the stream", async () => {
    await using stage = await timedStage(mount, failsOnCue);
    const sent = stage.send(STREAM);
    await stage.cues.wait("asked");
    await stage.clock.advance(QUIET_MS);
    const response = await sent;
    stage.cues.give("fail");
    const reader = new FrameReader(response);
    expect(await reader.next()).toMatchObject({ type: "message_start" });
    expect(await reader.next()).toMatchObject({ type: "error", error: { code: "backend_unavailable" } });
    expect(await reader.next()).toBeUndefined();
  });

  it("that fails before that has its true status", async () => {
    await using stage = await timedStage(mount, failsOnCue);
    const sent = stage.send(STREAM);
    await stage.cues.wait("asked");
    await stage.clock.advance(QUIET_MS - 1);
    stage.cues.give("fail");
    expect(await refusalOf(await sent)).toMatchObject({ status: 503, code: "backend_unavailable" });
  });

  it("may be quiet before a complete answer", async () => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = stage.send(having({}));
    await stage.cues.wait("asked");
    await stage.clock.advance(10 * QUIET_MS);
    stage.cues.give("answer");
    expect(await (await sent).json()).toMatchObject({ content: [{ text: "At last." }] });
  });
}
