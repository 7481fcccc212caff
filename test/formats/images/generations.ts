/** Which generations are answered and which are refused, with the field that is at fault (spec 2.1, 8). */

import { describe, expect, it } from "vitest";
import { type Mount, sharedStage } from "../../hosts/stage.ts";
import { requestIdOf } from "../messages/refusal.ts";
import { ACCEPTED } from "./generations.accepted.ts";
import { REFUSED } from "./generations.refused.ts";
import { anyText, invalidField, refusalOf } from "./refusal.ts";
import { generate, GENERATIONS, generating, jsonOf } from "./requests.ts";

const NO_OBJECT = [[[]], [null], ["A red hat"], [1], [true]] as const;

export function generationsSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  it.each(ACCEPTED)("answers %s", async (_name, fields, asked) => {
    const response = await generate(stage(), fields);
    requestIdOf(response);
    expect(await response.json()).toMatchObject({ created: expect.any(Number), data: expect.any(Array) });
    expect(response.status).toBe(200);
    const { askedForImages: request } = stage().backend;
    expect(request).toMatchObject({ operation: "generate", prompt: fields["prompt"], images: [], ...asked });
    expect(request.mask).toBeUndefined();
    // Whatever the gateway understood of it, a backend that speaks the format gets the fields as they came.
    expect(request.native).toEqual({ format: "images", body: JSON.parse(JSON.stringify(fields)), betas: [] });
  });

  it.for(REFUSED)("refuses %s", async ([_name, fields, param, message]) => {
    const before = stage().backend.receivedForImages.length;
    expect(await refusalOf(await generate(stage(), fields))).toEqual(invalidField(param, message));
    expect(stage().backend.receivedForImages).toHaveLength(before);
  });

  it.each(["image-model-4", "dall-e-4", "IMAGE-MODEL-2", "constructor", "__proto__", "m".repeat(256)])(
    "knows no model %s",
    async (model) => {
      expect(await refusalOf(await generate(stage(), generating({ model })))).toEqual({
        status: 404,
        type: "invalid_request_error",
        code: "model_not_found",
        param: "model",
        message: expect.stringContaining(model),
      });
    },
  );

  it.each(NO_OBJECT)("refuses JSON that is %j", async (body) => {
    const refusal = await refusalOf(await generate(stage(), body));
    expect(refusal).toEqual({ ...invalidField(""), param: null, message: expect.not.stringContaining("prompt") });
  });

  describe("a host's own models", () => {
    const own = sharedStage(mount, {
      images: {
        models: {
          "house-model": {
            delivery: "data",
            tellsUsage: false,
            operations: { generate: { maxPromptLength: 5, maxCount: 2, sizes: ["64x64", "32x32"], styles: ["ink"] } },
          },
        },
        aliases: { house: "house-model", "dall-e-2": "house-model" },
      },
    });

    it.each(["house-model", "house", "dall-e-2"])("answer by the name %s", async (model) => {
      const response = await generate(own(), { model, prompt: "hello", n: 2 });
      expect(await response.json()).toMatchObject({ data: [{ b64_json: anyText }, { b64_json: anyText }] });
      const asked = { model: "house-model", size: "64x64", style: "ink", delivery: "data" };
      expect(own().backend.askedForImages).toMatchObject(asked);
    });

    it("have rules of their own", async () => {
      const refusal = await refusalOf(await generate(own(), { model: "house", prompt: "hello!" }));
      expect(refusal).toEqual(invalidField("prompt"));
      expect(refusal.message).toContain("must be at most 5 characters");
    });

    it("are named where they take what another does not", async () => {
      const refusal = await refusalOf(await generate(own(), generating({ style: "ink" })));
      expect(refusal).toEqual(
        invalidField("style", 'is not supported for the model "image-model-2"; house-model takes it'),
      );
    });
  });

  it("takes a slash at the end, and a query", async () => {
    for (const path of [`${GENERATIONS}/`, `${GENERATIONS}?x=1`])
      expect((await stage().request(path, jsonOf(generating()))).status).toBe(200);
  });
}
