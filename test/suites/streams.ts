/** A stream on its way: its headers hold nothing back, each piece leaves as it is made, and a complete answer is the same. */

import { describe, expect, it } from "vitest";
import { ask, type Driver, type Pieces, streamsOf } from "../drivers/driver.ts";
import { Cues } from "../hosts/cues.ts";
import { type Mount, openStage } from "../hosts/stage.ts";

const TEXTS = ["Grüße", " 世界", " 𝄞"];

const whole: Pieces = async function* () {
  yield* TEXTS;
};

export function streamsSuite(mount: Mount, driver: Driver): void {
  it.each(driver.forms)("holds all pieces in their order: $name", async (form) => {
    await using stage = await openStage(mount, driver.plays(whole));
    const response = await ask(stage, driver, form);
    expect(response.status).toBe(200);
    expect(await form.textOf(response)).toBe(TEXTS.join(""));
  });

  describe.each(streamsOf(driver))("that is $name", (form) => {
    it("has the headers of a stream that nothing on the way may hold back", async () => {
      await using stage = await openStage(mount, driver.plays(whole));
      const { headers, body } = await ask(stage, driver, form);
      expect(headers.get("request-id")).toMatch(/^req_[0-9a-f]{32}$/);
      expect(headers.get("cache-control")).toMatch(/no-cache.*no-transform/);
      expect(headers.get("x-accel-buffering")).toBe("no");
      expect(headers.has("content-length")).toBe(false);
      await body?.cancel();
    });

    it("has each piece as soon as it is made", async () => {
      const cues = new Cues();
      const pieces: Pieces = async function* () {
        for (const text of TEXTS) {
          yield text;
          await cues.wait(text);
        }
      };
      await using stage = await openStage(mount, driver.plays(pieces));
      const reader = form.read(await ask(stage, driver, form));
      for (const text of TEXTS) {
        expect(await reader.next()).toEqual({ type: "piece", text });
        // What has come until here came while the backend was still waiting.
        cues.give(text);
      }
      expect(await reader.next()).toBeUndefined();
    });
  });
}
