/** The limits of a key: its models, the models that exist, and its quota (spec 2.5, 8). */

import { describe, expect, it } from "vitest";
import type { ApiKeyOptions } from "../../../src/index.ts";
import { headersWith, type Mount, openStage, plays, sharedStage } from "../../hosts/stage.ts";
import { having } from "./bodies.ts";
import { invalidField, refusalOf } from "./refusal.ts";

const GRANTED = 500;

const KEYS = {
  limited: { apiKey: "sk-limited", models: ["model-a", "model-c"] },
  none: { apiKey: "sk-none", models: [] },
  empty: { apiKey: "sk-empty", granted: 100, used: 100 },
  scarce: { apiKey: "sk-scarce", granted: 3 },
  metered: { apiKey: "sk-metered", granted: GRANTED },
} as const satisfies Record<string, ApiKeyOptions>;

const as = (key: keyof typeof KEYS): { headers: Record<string, string> } => ({
  headers: headersWith({ "x-api-key": KEYS[key].apiKey }),
});

const insufficient = {
  status: 429,
  type: "rate_limit_error",
  code: "insufficient_quota",
  message: expect.any(String) as string,
};

export function permissionSuite(mount: Mount): void {
  const keys = Object.values(KEYS);

  describe("model limits", () => {
    const stage = sharedStage(mount, { keys });

    it.each(["model-a", "model-c"])("let %s through", async (model) => {
      const response = await stage().send(having({ model }), as("limited"));
      expect(await response.json()).toMatchObject({ type: "message", model });
    });

    it.each([
      ["another model", "limited", "model-b"],
      ["a model whose name only begins alike", "limited", "model-a-2"],
      ["a name that every object has", "limited", "constructor"],
      ["every model where none is listed", "none", "model-a"],
    ] as const)("refuse %s", async (_name, key, model) => {
      const refusal = await refusalOf(await stage().send(having({ model }), as(key)));
      expect(refusal).toEqual({
        ...invalidField("model"),
        code: "model_not_allowed",
        message: expect.stringContaining(model),
      });
    });

    it("hold for a stream too", async () => {
      const response = await stage().send(having({ model: "model-b", stream: true }), as("limited"));
      expect(await refusalOf(response)).toMatchObject({ status: 400, code: "model_not_allowed" });
    });
  });

  describe("the models of the backend", () => {
    const stage = sharedStage(mount, {
      keys,
      models: [{ id: "model-a", maxOutputTokens: 1000 }, { id: "model-b" }],
    });

    it("are known", async () => {
      expect(await (await stage().send(having({ model: "model-b" }))).json()).toMatchObject({ type: "message" });
    });

    it("are all there is", async () => {
      const refusal = await refusalOf(await stage().send(having({ model: "model-z" })));
      expect(refusal).toEqual({
        status: 400,
        type: "invalid_request_error",
        code: "model_not_found",
        message: expect.stringContaining("model-z"),
      });
    });

    it("are not told to a key that may not use them", async () => {
      expect(await refusalOf(await stage().send(having({ model: "model-z" }), as("limited")))).toMatchObject({
        code: "model_not_allowed",
      });
    });

    it("have a limit to max_tokens", async () => {
      const atLimit = await stage().send(having({ model: "model-a", max_tokens: 1000 }));
      expect(await atLimit.json()).toMatchObject({ type: "message" });
      const above = await stage().send(having({ model: "model-a", max_tokens: 1001 }));
      expect(await refusalOf(above)).toEqual(invalidField("max_tokens"));
      const unlimited = await stage().send(having({ model: "model-b", max_tokens: 128_000 }));
      expect(await unlimited.json()).toMatchObject({ type: "message" });
    });
  });

  describe("quota", () => {
    it.each([
      ["is used up", "empty"],
      ["is too small for the input alone", "scarce"],
    ] as const)("that %s is refused, and no client tries again", async (_name, key) => {
      await using stage = await openStage(mount, { keys });
      for (const stream of [false, true]) {
        const prompt = [{ role: "user", content: "A prompt of more than three tokens." }];
        const response = await stage.send(having({ stream, messages: prompt }), as(key));
        expect(response.headers.get("x-should-retry")).toBe("false");
        expect(response.headers.has("retry-after")).toBe(false);
        expect(await refusalOf(response)).toEqual(insufficient);
      }
      expect(stage.backend.received).toEqual([]);
    });

    it("lowers the output to what it affords", async () => {
      await using stage = await openStage(mount, {
        keys,
        play: plays({ type: "start", usage: { inputTokens: 1 } }, "Hi.", { type: "finish", reason: "stop" }),
      });
      const response = await stage.send(having({ max_tokens: 128_000 }), as("metered"));
      expect(response.status).toBe(200);
      const { maxOutputTokens } = stage.backend.asked;
      expect(maxOutputTokens).toBeLessThan(GRANTED);
      expect(maxOutputTokens).toBeGreaterThan(GRANTED / 2);
    });

    it("is charged what the answer says it used", async () => {
      const usage = { inputTokens: 11, outputTokens: 22 };
      await using stage = await openStage(mount, { keys, play: plays("x", { type: "finish", reason: "stop", usage }) });
      for (const [index, stream] of [false, true].entries()) {
        await (await stage.send(having({ stream }), as("metered"))).text();
        expect(stage.quotas.report(KEYS.metered.apiKey)).toMatchObject({
          used: 33 * (index + 1),
          liveHolds: 0,
          estimated: 0,
        });
      }
    });

    it("is not charged for what was refused", async () => {
      await using stage = await openStage(mount, { keys });
      await (await stage.send(having({ max_tokens: 1 }), as("metered"))).text();
      await (await stage.send(having({ model: "model-z" }), as("limited"))).text();
      expect(stage.quotas.report(KEYS.metered.apiKey)).toMatchObject({ used: 0, liveHolds: 0 });
      expect(stage.quotas.report(KEYS.limited.apiKey)).toMatchObject({ used: 0, liveHolds: 0 });
    });
  });
}
