/** What a client that hangs up leaves behind: a backend that was told, a charge for what was made, and no hold. */

import { describe, expect, it } from "vitest";
import type { GatewayError } from "../../../src/index.ts";
import { KEY, type Mount, type Play } from "../stage.ts";
import { type Cues, timedStage } from "../timed.ts";
import { MINIMAL } from "./bodies.ts";
import { GENERATE, posting, send, STREAMS } from "./calls.ts";
import { ChunkReader } from "./chunks.ts";

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
    const sent = Promise.allSettled([stage.request(GENERATE, { ...posting(MINIMAL), signal: hangUp.signal })]);
    await stage.cues.wait("asked");
    hangUp.abort();
    await stage.cues.wait("ended: client_closed");
    await sent;
    await stage.settled;
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 0 });
    expect(stage.failures).toEqual([]);
  });

  describe.each(STREAMS)("from a stream of %s", (_name, path, framing) => {
    it("aborts the backend, and what was generated is charged", async () => {
      await using stage = await timedStage(mount, untilAborted);
      const reader = new ChunkReader(await send(stage, path, MINIMAL), framing);
      await reader.next();
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

    // A chunk takes some steps from its backend to its reader, and the end may come at each of them.
    it.each([0, 1, 2, 3, 5, 8])("settles, %i steps after a chunk was made", async (steps) => {
      await using stage = await timedStage(mount, twoOnCue);
      const reader = new ChunkReader(await send(stage, path, MINIMAL), framing);
      await reader.next();
      await stage.clock.advance(0);
      stage.cues.give("two");
      for (let step = 0; step < steps; step++) await Promise.resolve();
      await reader.cancel();
      await stage.settled;
      await stage.clock.advance(0);
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
      expect(stage.clock.pending).toBe(0);
    });
  });
}
