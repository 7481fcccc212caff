/** What an answer costs: it is held before its backend is asked, charged as it was, and refused where nothing is left. */

import { describe, expect, it } from "vitest";
import { GatewayError } from "../../src/index.ts";
import { ask, type Driver, type Pieces } from "../drivers/driver.ts";
import { Cues } from "../hosts/cues.ts";
import { type Mount, openStage, type StageOptions } from "../hosts/stage.ts";

const GRANTED = 500;
const METERED = "sk-metered";

const KEYS = [
  { apiKey: METERED, granted: GRANTED },
  { apiKey: "sk-empty", granted: 100, used: 100 },
  { apiKey: "sk-scarce", granted: 3 },
];

const texts = (...pieces: readonly string[]): Pieces =>
  async function* () {
    yield* pieces;
  };

const failsAtOnce: Pieces = async function* () {
  yield* [];
  throw new GatewayError("backend_unavailable", "Gone.");
};

export function quotaSuite(mount: Mount, driver: Driver): void {
  const options = (pieces: Pieces): StageOptions => ({ keys: KEYS, ...driver.plays(pieces) });

  describe.each(driver.forms)("of an answer that is $name", (form) => {
    it.each([
      ["is used up", "sk-empty", "quota_exhausted"],
      ["is too small", "sk-scarce", "quota_insufficient"],
    ] as const)("that %s is refused, and no client tries again", async (_name, apiKey, code) => {
      await using stage = await openStage(mount, options(texts("One")));
      const response = await ask(stage, driver, form, { apiKey, prompt: "A prompt of more than three tokens." });
      expect(response.headers.get("x-should-retry")).toBe("false");
      expect(response.headers.has("retry-after")).toBe(false);
      expect(await driver.refusalOf(response)).toEqual(driver.refusal(code));
      expect(stage.backend.calls).toBe(0);
    });

    it("is held while the answer is made, then charged as it was", async () => {
      const cues = new Cues();
      const pieces: Pieces = async function* () {
        cues.give("asked");
        yield "One";
        await cues.wait("go on");
        yield "Two";
      };
      await using stage = await openStage(mount, options(pieces));
      const sent = ask(stage, driver, form, { apiKey: METERED });
      await cues.wait("asked");
      const { liveHolds, held = 0, available } = stage.quotas.report(METERED) ?? {};
      expect(liveHolds).toBe(1);
      expect(held).toBeGreaterThanOrEqual(driver.cost(2));
      expect(held + (available ?? 0)).toBe(GRANTED);
      cues.give("go on");
      await (await sent).text();
      await stage.settled;
      const used = driver.cost(2);
      const charged = { used, available: GRANTED - used, held: 0, liveHolds: 0, estimated: 0 };
      expect(stage.quotas.report(METERED)).toMatchObject(charged);
    });

    it("is not charged for a call that failed before its answer began", async () => {
      await using stage = await openStage(mount, options(failsAtOnce));
      await (await ask(stage, driver, form, { apiKey: METERED })).text();
      await stage.settled;
      expect(stage.quotas.report(METERED)).toMatchObject({ used: 0, available: GRANTED, liveHolds: 0 });
    });

    it("is not charged for what was refused", async () => {
      await using stage = await openStage(mount, { ...options(texts("One")), models: [{ id: driver.models.one }] });
      await (await ask(stage, driver, form, { apiKey: METERED, model: driver.models.unknown })).text();
      expect(stage.quotas.report(METERED)).toMatchObject({ used: 0, available: GRANTED, liveHolds: 0 });
    });
  });
}
