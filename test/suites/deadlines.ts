/** What a call that takes too long ends with: its true status where nothing was said yet, else an error and a clean end. */

import { describe, expect, it } from "vitest";
import type { GatewayError } from "../../src/index.ts";
import { ask, asking, type Driver, type Pieces, streamsOf } from "../drivers/driver.ts";
import type { Cues } from "../hosts/cues.ts";
import type { Mount } from "../hosts/stage.ts";
import { answersOnCue, DEADLINE_MS, NO_KEEP_ALIVE, QUIET_MS, timedStage } from "./timed.ts";

// It goes on waiting when its signal fires: the gateway must not depend on its backend's manners.
const hangs = (cues: Cues): Pieces =>
  async function* ({ signal }) {
    signal.addEventListener("abort", () => cues.give((signal.reason as GatewayError).code));
    cues.give("asked");
    await cues.wait("never");
    yield "Never.";
  };

const hangsAfterOne = (cues: Cues): Pieces =>
  async function* () {
    yield "One";
    await cues.wait("never");
  };

export function deadlinesSuite(mount: Mount, driver: Driver): void {
  const exceeded = driver.refusal("deadline_exceeded");
  const [complete] = driver.forms;

  describe.each(driver.forms)("of an answer that is $name", (form) => {
    it("ends what has not begun, and aborts the backend", async () => {
      await using stage = await timedStage(mount, driver, hangs, NO_KEEP_ALIVE);
      const sent = ask(stage, driver, form);
      await stage.cues.wait("asked");
      await stage.clock.advance(DEADLINE_MS);
      expect(await driver.refusalOf(await sent)).toEqual(exceeded);
      await stage.cues.wait("deadline_exceeded");
    });

    it("does not reach an answer that is over", async () => {
      let signal: AbortSignal | undefined;
      const done: Pieces = async function* (call) {
        signal = call.signal;
        yield "Done.";
      };
      await using stage = await timedStage(mount, driver, () => done);
      await (await ask(stage, driver, form)).text();
      await stage.clock.advance(DEADLINE_MS);
      expect(signal?.aborted).toBe(false);
      expect(stage.clock.pending).toBe(0);
    });
  });

  describe.each(streamsOf(driver))("of an answer that is $name", (form) => {
    it("ends what has begun with an error, and then a clean end", async () => {
      await using stage = await timedStage(mount, driver, hangsAfterOne, NO_KEEP_ALIVE);
      const reader = form.read(await ask(stage, driver, form));
      expect(await reader.next()).toEqual({ type: "piece", text: "One" });
      await stage.clock.advance(DEADLINE_MS);
      expect(await reader.next()).toEqual({ type: "error", error: exceeded.error });
      expect(await reader.next()).toBeUndefined();
    });

    it("ends what was begun without the backend in the same way", async () => {
      await using stage = await timedStage(mount, driver, hangs);
      const sent = ask(stage, driver, form);
      await stage.cues.wait("asked");
      await stage.clock.advance(QUIET_MS);
      const reader = form.read(await sent);
      await stage.clock.advance(DEADLINE_MS - QUIET_MS);
      let told = await reader.next();
      while (told?.type === "keep-alive") told = await reader.next();
      expect(told).toEqual({ type: "error", error: exceeded.error });
      expect(await reader.next()).toBeUndefined();
    });
  });

  it("is not passed a moment before", async () => {
    await using stage = await timedStage(mount, driver, answersOnCue);
    const sent = ask(stage, driver, complete);
    await stage.cues.wait("asked");
    await stage.clock.advance(DEADLINE_MS - 1);
    stage.cues.give("answer");
    expect((await sent).status).toBe(200);
  });

  it("ends a request whose body does not come", async () => {
    await using stage = await timedStage(mount, driver, hangs);
    // The first byte makes a client send its headers; the second never comes.
    const body = new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode("{")) });
    const { path, init } = asking(driver, complete);
    const sent = stage.request(path, { ...init, body, duplex: "half" });
    await stage.looked;
    await stage.clock.advance(DEADLINE_MS);
    expect(await driver.refusalOf(await sent)).toEqual(exceeded);
  });
}
