/** What a call that takes too long ends with: 504 where nothing was said yet, else an error chunk and a clean end. */

import { describe, expect, it } from "vitest";
import type { GatewayError } from "../../../src/index.ts";
import type { Mount, Play } from "../stage.ts";
import { answersOnCue, type Cues, DEADLINE_MS, timedStage } from "../timed.ts";
import { MINIMAL } from "./bodies.ts";
import { GENERATE, METHODS, posting, send, STREAMS } from "./calls.ts";
import { ChunkReader } from "./chunks.ts";
import { refusal, refusalOf } from "./refusal.ts";

/** No stream begins, and no keep-alive is written, before the deadline. */
const NO_KEEP_ALIVE = { keepAliveMs: 2 * DEADLINE_MS };

const exceeded = refusal(504, "DEADLINE_EXCEEDED");

// It goes on waiting when its signal fires: the gateway must not depend on its backend's manners.
const hangs = (cues: Cues): Play =>
  async function* (_request, { signal }) {
    signal.addEventListener("abort", () => cues.give((signal.reason as GatewayError).code));
    cues.give("asked");
    await cues.wait("never");
    yield "Never.";
  };

const hangsAfterOne = (cues: Cues): Play =>
  async function* () {
    yield "One";
    await cues.wait("never");
  };

export function deadlineSuite(mount: Mount): void {
  it.each(METHODS)("ends an answer that has not begun with 504 and aborts the backend: %s", async (_name, path) => {
    await using stage = await timedStage(mount, hangs, NO_KEEP_ALIVE);
    const sent = send(stage, path, MINIMAL);
    await stage.cues.wait("asked");
    await stage.clock.advance(DEADLINE_MS);
    expect(await refusalOf(await sent)).toEqual(exceeded);
    await stage.cues.wait("deadline_exceeded");
  });

  it("is not passed a moment before", async () => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = send(stage, GENERATE, MINIMAL);
    await stage.cues.wait("asked");
    await stage.clock.advance(DEADLINE_MS - 1);
    stage.cues.give("answer");
    expect((await sent).status).toBe(200);
  });

  describe.each(STREAMS)("of a stream of %s", (_name, path, framing) => {
    it("that has begun is an error chunk and a clean end", async () => {
      await using stage = await timedStage(mount, hangsAfterOne, NO_KEEP_ALIVE);
      const reader = new ChunkReader(await send(stage, path, MINIMAL), framing);
      expect(await reader.next()).toMatchObject({ candidates: [{ content: { parts: [{ text: "One" }] } }] });
      await stage.clock.advance(DEADLINE_MS);
      expect(await reader.next()).toEqual({ error: exceeded });
      expect(await reader.next()).toBeUndefined();
    });
  });

  it("ends a request whose body does not come", async () => {
    await using stage = await timedStage(mount, hangs);
    // The first byte makes a client send its headers; the second never comes.
    const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
    const sent = stage.request(GENERATE, { ...posting({}), body, duplex: "half" });
    await stage.looked;
    await stage.clock.advance(DEADLINE_MS);
    expect(await refusalOf(await sent)).toEqual(exceeded);
  });

  it.each(METHODS)("does not reach an answer that is over: %s", async (_name, path) => {
    let signal: AbortSignal | undefined;
    const play: Play = async function* (_request, call) {
      signal = call.signal;
      yield "Done.";
    };
    await using stage = await timedStage(mount, () => play);
    await (await send(stage, path, MINIMAL)).text();
    await stage.clock.advance(DEADLINE_MS);
    expect(signal?.aborted).toBe(false);
    expect(stage.clock.pending).toBe(0);
  });
}
