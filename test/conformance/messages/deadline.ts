/** What a call that takes too long ends with: 504 where nothing was said yet, else an error event and a clean end. */

import { expect, it } from "vitest";
import type { GatewayError } from "../../../src/index.ts";
import { type Mount, type Play, post } from "../stage.ts";
import { answersOnCue, type Cues, DEADLINE_MS, timedStage } from "../timed.ts";
import { having } from "./bodies.ts";
import { FrameReader } from "./frames.ts";
import { type Refusal, refusalOf } from "./refusal.ts";

const STREAM = having({ stream: true });

/** No stream begins, and no ping is written, before the deadline. */
const NO_PINGS = { keepAliveMs: 2 * DEADLINE_MS };

const exceeded: Refusal = {
  status: 504,
  type: "server_error",
  code: "deadline_exceeded",
  message: expect.any(String) as string,
};

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
  it("ends a complete answer with 504 and aborts the backend", async () => {
    await using stage = await timedStage(mount, hangs);
    const sent = stage.send(having({}));
    await stage.cues.wait("asked");
    await stage.clock.advance(DEADLINE_MS);
    expect(await refusalOf(await sent)).toEqual(exceeded);
    await stage.cues.wait("deadline_exceeded");
  });

  it("is not passed a moment before", async () => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = stage.send(having({}));
    await stage.cues.wait("asked");
    await stage.clock.advance(DEADLINE_MS - 1);
    stage.cues.give("answer");
    expect((await sent).status).toBe(200);
  });

  it("ends a stream that has not begun with 504", async () => {
    await using stage = await timedStage(mount, hangs, NO_PINGS);
    const sent = stage.send(STREAM);
    await stage.cues.wait("asked");
    await stage.clock.advance(DEADLINE_MS);
    expect(await refusalOf(await sent)).toEqual(exceeded);
  });

  it("ends a stream that has begun with an error event and a clean end", async () => {
    await using stage = await timedStage(mount, hangsAfterOne, NO_PINGS);
    const reader = new FrameReader(await stage.send(STREAM));
    for (let count = 0; count < 3; count++) await reader.next();
    await stage.clock.advance(DEADLINE_MS);
    const { type, code } = exceeded;
    expect(await reader.next()).toMatchObject({ type: "error", error: { type, code } });
    expect(await reader.next()).toBeUndefined();
  });

  it("ends a request whose body does not come", async () => {
    await using stage = await timedStage(mount, hangs);
    // The first byte makes a client send its headers; the second never comes.
    const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
    const sent = stage.request("/v1/messages", { ...post({}), body, duplex: "half" });
    await stage.looked;
    await stage.clock.advance(DEADLINE_MS);
    expect(await refusalOf(await sent)).toEqual(exceeded);
  });

  it.each([false, true])("does not reach an answer that is over, stream: %s", async (stream) => {
    let signal: AbortSignal | undefined;
    await using stage = await timedStage(
      mount,
      () =>
        async function* (_request, call) {
          signal = call.signal;
          yield "Done.";
        },
    );
    await (await stage.send(having({ stream }))).text();
    await stage.clock.advance(DEADLINE_MS);
    expect(signal?.aborted).toBe(false);
    expect(stage.clock.pending).toBe(0);
  });
}
