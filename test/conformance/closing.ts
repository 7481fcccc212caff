/** A gateway that closes: it refuses what is new, lets live calls end, then ends them itself, and settles every one. */

import { describe, expect, it } from "vitest";
import type { TestHost } from "../hosts/host.ts";
import { having, MINIMAL } from "./messages/bodies.ts";
import { framesOf } from "./messages/frames.ts";
import { refusalOf } from "./messages/refusal.ts";
import { headersWith, KEY, type Mount, openStage } from "./stage.ts";
import { answersOnCue, timedStage } from "./timed.ts";

const CLOSE_MS = 2_000;

export function closingSuite(host: TestHost): void {
  for (const prefix of host.mounts)
    describe(`closing at ${prefix || "the root"}`, () => {
      suite({ host, prefix });
    });
}

function suite(mount: Mount): void {
  it("is done at once where no call is live", async () => {
    await using stage = await openStage(mount);
    await (await stage.send(MINIMAL)).text();
    await expect(stage.host.gateway.close()).resolves.toBeUndefined();
  });

  it("refuses new calls, and says when to come back", async () => {
    await using stage = await openStage(mount);
    await stage.host.gateway.close();
    const response = await stage.send(MINIMAL);
    expect(response.headers.get("retry-after")).toBe("1");
    expect(await refusalOf(response)).toMatchObject({ status: 503, type: "server_error", code: "busy" });
    const query = await stage.request("/api/usage/token", { headers: headersWith({ authorization: `Bearer ${KEY}` }) });
    expect(query.status).toBe(503);
    expect(stage.backend.received).toEqual([]);
  });

  it.each([false, true])("lets live calls end, stream: %s", async (stream) => {
    await using stage = await timedStage(mount, answersOnCue);
    const sent = stage.send(having({ stream }));
    await stage.cues.wait("asked");
    const closed = stage.host.gateway.close({ deadlineMs: CLOSE_MS });
    expect((await stage.send(MINIMAL)).status).toBe(503);
    await stage.clock.advance(CLOSE_MS - 1);
    stage.cues.give("answer");
    expect(await (await sent).text()).toContain("At last.");
    await closed;
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
    await stage.clock.advance(0);
    expect(stage.clock.pending).toBe(0);
  });

  it.each([false, true])("ends those that live on, stream: %s", async (stream) => {
    await using stage = await timedStage(mount, answersOnCue, { keepAliveMs: 2 * CLOSE_MS });
    const sent = stage.send(having({ stream }));
    await stage.cues.wait("asked");
    const closed = stage.host.gateway.close({ deadlineMs: CLOSE_MS });
    await stage.clock.advance(CLOSE_MS);
    await closed;
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 0 });
    expect(await refusalOf(await sent)).toMatchObject({ status: 503, code: "busy" });
  });

  it("tells a stream that has begun", async () => {
    await using stage = await timedStage(
      mount,
      (cues) =>
        async function* () {
          yield "One";
          await cues.wait("never");
        },
    );
    const response = await stage.send(having({ stream: true }));
    const closed = stage.host.gateway.close({ deadlineMs: 1 });
    const frames = framesOf(response);
    await stage.clock.advance(1);
    await closed;
    expect((await frames).at(-1)).toMatchObject({ type: "error", error: { code: "busy" } });
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
  });

  it("waits for a call whose client is gone until it is settled", async () => {
    const settling = Promise.withResolvers<void>();
    await using stage = await timedStage(mount, answersOnCue, {}, { beforeSettling: () => settling.promise });
    const hangUp = new AbortController();
    const sent = Promise.allSettled([stage.send(MINIMAL, { signal: hangUp.signal })]);
    await stage.cues.wait("asked");
    hangUp.abort();
    await stage.settling;
    let done = false;
    const closed = stage.host.gateway.close().then(() => (done = true));
    await stage.clock.advance(0);
    expect(done).toBe(false);
    settling.resolve();
    await closed;
    await sent;
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
  });
}
