/** The limits of a key to models, in messages words (spec 2.5, 8). Every format's are held by `permission` and `quota` in `test/suites`. */

import { describe, expect, it } from "vitest";
import { headersWith, type Mount, sharedStage } from "../../hosts/stage.ts";
import { having } from "./bodies.ts";
import { invalidField, refusalOf } from "./refusal.ts";

const LIMITED = { apiKey: "sk-limited", models: ["model-a", "model-c"] };
const headers = headersWith({ "x-api-key": LIMITED.apiKey });

export function permissionSuite(mount: Mount): void {
  describe("model limits", () => {
    const stage = sharedStage(mount, { keys: [LIMITED] });

    it("let the last model of the list through", async () => {
      const response = await stage().send(having({ model: "model-c" }), { headers });
      expect(await response.json()).toMatchObject({ type: "message", model: "model-c" });
    });

    it.each([
      ["another model", "model-b"],
      ["a model whose name only begins alike", "model-a-2"],
      ["a name that every object has", "constructor"],
    ])("refuse %s", async (_name, model) => {
      expect(await refusalOf(await stage().send(having({ model }), { headers }))).toEqual({
        ...invalidField("model"),
        code: "model_not_allowed",
        message: expect.stringContaining(model),
      });
    });
  });

  describe("the models of the backend", () => {
    const stage = sharedStage(mount, { models: [{ id: "model-a", maxOutputTokens: 1000 }, { id: "model-b" }] });

    it("are all there is", async () => {
      expect(await refusalOf(await stage().send(having({ model: "model-z" })))).toEqual({
        status: 400,
        type: "invalid_request_error",
        code: "model_not_found",
        message: expect.stringContaining("model-z"),
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
}
