/** What a key may ask for: its models, the models there are, and its quota (spec 7.3: 403, 404 and 429). */

import { describe, expect, it } from "vitest";
import type { ApiKeyOptions } from "../../../src/index.ts";
import { type Mount, openStage, sharedStage } from "../../hosts/stage.ts";
import { configured, MINIMAL } from "./bodies.ts";
import { type Changes, GENERATE, METHODS, pathOf, posting } from "./calls.ts";
import { invalidField, refusal, refusalOf } from "./refusal.ts";

const GRANTED = 500;

const KEYS = {
  limited: { apiKey: "sk-limited", models: ["model-a", "org/model-c", "tunedModels/mine"] },
  none: { apiKey: "sk-none", models: [] },
  metered: { apiKey: "sk-metered", granted: GRANTED },
} as const satisfies Record<string, ApiKeyOptions>;

const as = (key: keyof typeof KEYS): Changes => ({ "x-goog-api-key": KEYS[key].apiKey });

export function permissionSuite(mount: Mount): void {
  const keys = Object.values(KEYS);

  describe("model limits", () => {
    const stage = sharedStage(mount, { keys });

    it.each([
      "models/model-a",
      "models/models/model-a",
      "models/org/model-c",
      "models/org%2Fmodel-c",
      "tunedModels/mine",
    ])("let %s through", async (tail) => {
      const response = await stage().request(`/v1beta/${tail}:generateContent`, posting(MINIMAL, as("limited")));
      expect(await response.json()).toMatchObject({ candidates: [{}] });
    });

    it.each([
      ["another model", "limited", "model-b"],
      ["a model whose name only begins alike", "limited", "model-a-2"],
      ["a tuned model's name without its prefix", "limited", "mine"],
      ["a name that every object has", "limited", "constructor"],
      ["every model where none is listed", "none", "model-a"],
    ] as const)("refuse %s", async (_name, key, model) => {
      for (const method of [
        "generateContent",
        "streamGenerateContent?alt=sse",
        "streamGenerateContent",
        "countTokens",
      ]) {
        const response = await stage().request(pathOf(method, model), posting(MINIMAL, as(key)));
        const told = await refusalOf(response);
        expect(told).toEqual(refusal(403, "PERMISSION_DENIED"));
        expect(told.message).toContain(model);
      }
    });
  });

  describe("the models of the backend", () => {
    const models = [{ id: "model-a", maxOutputTokens: 1000 }, { id: "model-b" }];
    const stage = sharedStage(mount, { keys, models });

    const asking = (maxOutputTokens: number, model = "model-a"): Promise<Response> =>
      stage().request(pathOf("generateContent", model), posting(configured({ maxOutputTokens })));

    it("are all there is", async () => {
      for (const method of [
        "generateContent",
        "streamGenerateContent?alt=sse",
        "streamGenerateContent",
        "countTokens",
      ]) {
        const told = await refusalOf(await stage().request(pathOf(method, "model-z"), posting(MINIMAL)));
        expect(told).toEqual(refusal(404, "NOT_FOUND"));
        expect(told.message).toContain("model-z");
      }
    });

    it("have a limit to maxOutputTokens", async () => {
      expect((await asking(1000)).status).toBe(200);
      expect(await refusalOf(await asking(1001))).toEqual(invalidField("generationConfig.maxOutputTokens"));
      expect((await asking(128_000, "model-b")).status).toBe(200);
    });
  });

  it("models lower the limit of the output for callers who name none", async () => {
    await using stage = await openStage(mount, { models: [{ id: "model-a", maxOutputTokens: 1000 }] });
    for (const [, path] of METHODS) {
      const response = await stage.request(path, posting(MINIMAL));
      await response.text();
      expect(response.status).toBe(200);
      expect(stage.backend.asked.maxOutputTokens).toBe(1000);
    }
  });

  describe("quota", () => {
    it("lowers it to what it affords for every candidate", async () => {
      await using stage = await openStage(mount, { keys });
      const response = await stage.request(GENERATE, posting(configured({ candidateCount: 4 }), as("metered")));
      expect(response.status).toBe(200);
      expect(stage.backend.asked.maxOutputTokens).toBeLessThan(GRANTED / 4);
    });
  });
}
