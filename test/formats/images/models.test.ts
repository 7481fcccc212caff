/** Which model a request for images is for, where it names one and where it names none (spec 2.1, 2.2). */

import type { ImageModel } from "openai/resources/images";
import { describe, expect, it } from "vitest";
import { ImageModels, maxPictureBytes } from "../../../src/formats/images/request.models.ts";
import { imagePriceTable, type ImageOperation, type ImageRequest } from "../../../src/index.ts";

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
    ["gpt-image-2-2026-04-21", "image-model-multi"],
    ["gpt-image-2.5-sunburst", "image-model-multi"],
    ["gpt-image-2.5-sunburst-2026-09-08", "image-model-multi"],
    ["gpt-image-2.5-flare", "image-model-multi"],
    ["gpt-image-2.5-flare-2026-09-08", "image-model-multi"],
    ["gpt-image-2.6-sunburst", "image-model-multi"],
    ["gpt-image-2.6-flare", "image-model-multi"],
    ["chatgpt-image-latest", "image-model-multi"],
  ] satisfies [ImageModel, string][])("%s is %s, and known as one of its names", (alias, model) => {
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

describe("a host's own model that takes any size", () => {
  const sizes = ["auto", "1024x1024", "landscape"] as const;
  const rules = { maxPromptLength: 10, maxCount: 1, sizes, maxPixels: 2_000_000, qualities: ["auto", "max"] } as const;
  const profile = { delivery: "data", tellsUsage: true, operations: { generate: rules } } as const;
  const own = new ImageModels({ models: { "gpt-image-2": profile } });
  const asking = (size: string) => () => choose("generate", { model: "gpt-image-2", size, quality: "max" }, own);

  it.each(["auto", "landscape", "1600x1250", "2000x1000", "1x2"])("takes %s", (size) => {
    expect(asking(size)().id).toBe("gpt-image-2");
  });

  it.each(["2000x1001", "0x5", "1600", "1600x", "-5x5", "portrait", "1600X900", "100000x1"])("refuses %s", (size) => {
    expect(asking(size)).toThrow(
      'size: must be "auto" or "1024x1024" or "landscape" or another size of at most 2000000 pixels',
    );
  });

  it("needs room for the largest one, where its backend chooses", () => {
    const [chosen, largest, usual] = ["auto", "2000x1000", "1024x1024"].map((size) =>
      maxPictureBytes({ size, count: 1 } as ImageRequest, rules),
    );
    expect(chosen).toBe(largest);
    expect(chosen).toBeGreaterThan(usual ?? 0);
  });

  it("is no rule of the built-in models", () => {
    expect(() => choose("generate", { model: "gpt-image-2", size: "2048x1152" })).toThrow(
      'or "1536x1024" or "1024x1536" or "auto" for the model "gpt-image-2"',
    );
  });
});

const priceOf = (quality: string | undefined): number =>
  imagePriceTable({ model: "image-model-multi", size: "1024x1024", quality });

describe("the default price", () => {
  it.each([undefined, "auto", "standard", "medium"])("takes the quality %s for the usual one", (quality) => {
    expect(priceOf(quality)).toBe(4_200);
  });

  it.each(["xhigh", "max", "constructor"])("takes the quality %s, which a host may add, for high", (quality) => {
    expect(priceOf(quality)).toBe(priceOf("high"));
  });
});
