/** What a client that hangs up leaves behind: a backend that was told, a charge for what was made, and no hold. */

import { expect, it } from "vitest";
import type { GatewayError } from "../../../src/index.ts";
import { KEY, type Mount, type Play } from "../stage.ts";
import { type Cues, timedStage } from "../timed.ts";
import { having } from "./bodies.ts";
import { FrameReader } from "./frames.ts";

const STREAM = having({ stream: true });

const untilAborted = (cues: Cues): Play =>
  async function* (request, { signal }) {
    try {
      if (request.stream) yield "One";
      cues.give("asked");
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    } finally {
      cues.give(`ended: ${(signal.reason as GatewayError | undefined)?.code}`);
    }
  };

const twoOnCue = (cues: Cues): Play =>
  async function* () {
    yield "One";
    await cues.wait("two");
    yield "Two";
    yield "Three";
    await cues.wait("never");
  };

export function hangUpSuite(mount: Mount): void {
  it("aborts the backend of a complete answer", async () => {
    await using stage = await timedStage(mount, untilAborted);
    const hangUp = new AbortController();
    const sent = Promise.allSettled([stage.send(having({}), { signal: hangUp.signal })]);
    await stage.cues.wait("asked");
    hangUp.abort();
    await stage.cues.wait("ended: client_closed");
    await sent;
    await stage.settled;
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 0 });
    expect(stage.failures).toEqual([]);
  });

  it("aborts the backend of a stream, and what was generated is charged", async () => {
    await using stage = await timedStage(mount, untilAborted);
    const reader = new FrameReader(await stage.send(STREAM));
    for (let count = 0; count < 3; count++) await reader.next();
    await stage.cues.wait("asked");
    await reader.cancel();
    await stage.cues.wait("ended: client_closed");
    await stage.settled;
    const { liveHolds, used, estimated } = stage.quotas.report(KEY) ?? {};
    expect(liveHolds).toBe(0);
    expect(used).toBeGreaterThan(0);
    expect(estimated).toBe(used);
    expect(stage.failures).toEqual([]);
  });

  // A frame takes some steps from its backend to its reader, and the end may come at each of them. Over a socket the
  // moment is not ours to choose; wherever it falls, the hold must go.
  it.each(Array.from({ length: 16 }, (_, index) => index))(
    "settles, %i steps after a frame was made",
    async (steps) => {
      await using stage = await timedStage(mount, twoOnCue);
      const reader = new FrameReader(await stage.send(STREAM));
      for (let count = 0; count < 3; count++) await reader.next();
      await stage.clock.advance(0);
      stage.cues.give("two");
      for (let step = 0; step < steps; step++) await Promise.resolve();
      await reader.cancel();
      await stage.settled;
      await stage.clock.advance(0);
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
      expect(stage.clock.pending).toBe(0);
    },
  );
}
