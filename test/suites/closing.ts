/** A gateway that closes: it refuses what is new, lets live calls end, then ends them itself, and settles every one. */

import { describe, expect, it } from "vitest";
import { ask, type Driver, type Pieces, streamsOf } from "../drivers/driver.ts";
import type { Cues } from "../hosts/cues.ts";
import { KEY, type Mount, openStage } from "../hosts/stage.ts";
import { answersOnCue, timedStage } from "./timed.ts";

const CLOSE_MS = 2_000;

const onceThenNever = (cues: Cues): Pieces =>
  async function* () {
    yield "One";
    await cues.wait("never");
  };

export function closingSuite(mount: Mount, driver: Driver): void {
  const [complete] = driver.forms;
  const busy = driver.refusal("busy");

  it("is done at once where no call is live", async () => {
    await using stage = await openStage(mount);
    await (await ask(stage, driver, complete)).text();
    await expect(stage.host.gateway.close()).resolves.toBeUndefined();
  });

  it("refuses new calls, and says when to come back", async () => {
    await using stage = await openStage(mount);
    await stage.host.gateway.close();
    for (const form of driver.forms) {
      const response = await ask(stage, driver, form);
      expect(response.headers.get("retry-after")).toBe("1");
      expect(await driver.refusalOf(response)).toEqual(busy);
    }
    expect(stage.backend.calls).toBe(0);
  });

  describe.each(driver.forms)("while an answer is made that is $name", (form) => {
    it("lets it end", async () => {
      await using stage = await timedStage(mount, driver, answersOnCue);
      const sent = ask(stage, driver, form);
      await stage.cues.wait("asked");
      const closed = stage.host.gateway.close({ deadlineMs: CLOSE_MS });
      expect((await ask(stage, driver, complete)).status).toBe(busy.status);
      await stage.clock.advance(CLOSE_MS - 1);
      stage.cues.give("answer");
      expect(await form.textOf(await sent)).toBe("At last.");
      await closed;
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
      await stage.clock.advance(0);
      expect(stage.clock.pending).toBe(0);
    });

    it("ends it where it lives on", async () => {
      await using stage = await timedStage(mount, driver, answersOnCue, { keepAliveMs: 2 * CLOSE_MS });
      const sent = ask(stage, driver, form);
      await stage.cues.wait("asked");
      const closed = stage.host.gateway.close({ deadlineMs: CLOSE_MS });
      await stage.clock.advance(CLOSE_MS);
      await closed;
      expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0, used: 0 });
      expect(await driver.refusalOf(await sent)).toEqual(busy);
    });
  });

  it.each(streamsOf(driver))("tells a stream that has begun: $name", async (form) => {
    await using stage = await timedStage(mount, driver, onceThenNever);
    const reader = form.read(await ask(stage, driver, form));
    expect(await reader.next()).toEqual({ type: "piece", text: "One" });
    const closed = stage.host.gateway.close({ deadlineMs: 1 });
    await stage.clock.advance(1);
    await closed;
    expect(await reader.next()).toEqual({ type: "error", error: busy.error });
    expect(await reader.next()).toBeUndefined();
    expect(stage.quotas.report(KEY)).toMatchObject({ liveHolds: 0 });
  });

  it("waits for a call whose client is gone until it is settled", async () => {
    const settling = Promise.withResolvers<void>();
    const more = { beforeSettling: () => settling.promise };
    await using stage = await timedStage(mount, driver, answersOnCue, {}, more);
    const hangUp = new AbortController();
    const sent = Promise.allSettled([ask(stage, driver, complete, {}, { signal: hangUp.signal })]);
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
