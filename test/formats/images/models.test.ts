/** Which model a request for images is for, where it names one and where it names none (spec 2.1, 2.2). */

import { describe, expect, it } from "vitest";
import { ImageModels } from "../../../src/formats/images/request.models.ts";
import type { ImageOperation } from "../../../src/index.ts";

type Fields = Readonly<Record<string, string | number>>;

const models = new ImageModels({});
const choose = (operation: ImageOperation, fields: Fields, catalog = models): { readonly id: string } =>
  catalog.choose({
    operation,
    fields: { prompt: "A fox", ...fields },
    originals: operation === "generate" ? 0 : 1,
    masked: false,
  });

/** What only image-model-multi takes, for generations as for edits. */
const MULTI_ONLY: readonly Fields[] = [
  { size: "1536x1024" },
  { size: "auto" },
  { quality: "high" },
  { background: "opaque" },
  { moderation: "low" },
  { output_format: "webp" },
  { output_compression: 50 },
  { partial_images: 1 },
];

describe("without a model", () => {
  it.each(MULTI_ONLY)("a generation with %o is held to image-model-2", (fields) => {
    expect(() => choose("generate", fields)).toThrow('for the model "image-model-2"; image-model-multi takes it');
  });

  it.each(MULTI_ONLY)("an edit with %o is image-model-multi's", (fields) => {
    expect(choose("edit", fields).id).toBe("image-model-multi");
  });

  it.each<[ImageOperation, Fields]>([
    ["generate", {}],
    ["generate", { quality: "standard", size: "512x512" }],
    ["edit", {}],
    ["edit", { quality: "standard", size: "1024x1024" }],
    ["edit", { quality: "auto" }],
    ["vary", { size: "256x256" }],
  ])("a request to %s with %o is image-model-2's", (operation, fields) => {
    expect(choose(operation, fields).id).toBe("image-model-2");
  });
});

describe("an alias", () => {
  it("is what errors name the model by", () => {
    const fields = { model: "dall-e-2", background: "opaque" } as const;
    expect(() => choose("generate", fields)).toThrow('for the model "dall-e-2"; image-model-multi takes it');
    expect(() => choose("vary", { model: "dall-e-3" })).toThrow('model: "dall-e-3" does not ');
  });

  it.each([
    ["dall-e-2", "image-model-2"],
    ["dall-e-3", "image-model-3"],
    ["gpt-image-1", "image-model-multi"],
    ["gpt-image-1-mini", "image-model-multi"],
    ["gpt-image-1.5", "image-model-multi"],
    ["gpt-image-2", "image-model-multi"],
  ])("%s is %s, and known as one of its names", (alias, model) => {
    expect(choose("generate", { model: alias }).id).toBe(model);
    expect(models.aliasesOf(model)).toContain(alias);
  });

  it("leads on where it names another alias", () => {
    const own = new ImageModels({ aliases: { house: "dall-e-2", home: "house" } });
    expect(choose("generate", { model: "home" }, own).id).toBe("image-model-2");
    expect(own.aliasesOf("image-model-2")).toEqual(["dall-e-2", "house", "home"]);
  });

  it("does not hide a host's own model of that name", () => {
    const rules = { maxPromptLength: 10, maxCount: 1, sizes: ["64x64"] } as const;
    const profile = { delivery: "data", tellsUsage: false, operations: { generate: rules } } as const;
    const own = new ImageModels({ models: { "gpt-image-1": profile } });
    expect(choose("generate", { model: "gpt-image-1" }, own)).toMatchObject({ id: "gpt-image-1", profile });
    expect(own.aliasesOf("image-model-multi")).not.toContain("gpt-image-1");
  });

  it.each([
    ["no model", { house: "image-model-9" }],
    ["itself", { house: "house" }],
    ["itself by way of another", { house: "home", home: "house" }],
  ])("that leads to %s is refused when the gateway is made", (_what, aliases) => {
    expect(() => new ImageModels({ aliases })).toThrow(TypeError);
  });
});
