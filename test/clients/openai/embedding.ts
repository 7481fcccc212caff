/** Embeddings: both encodings, texts and tokens, counts, errors. */

import type { EmbeddingCreateParams } from "openai/resources/embeddings";
import { expect, it } from "vitest";
import { near, nearnessOf, TEXTS } from "../nearness.ts";
import { usageOf } from "../playground.ts";
import { errorOf, type Stage } from "./sdk.ts";

const model = "demo-embedding";

export function embeddingSuite({ sdk, connect, playground }: Stage): void {
  const embed = (request: Partial<EmbeddingCreateParams>, apiKey = "sk-demo") =>
    connect({ apiKey }).embeddings.create({ model, input: [...TEXTS], ...request });

  it("embeds texts, in their order", async () => {
    const answer = await embed({});
    expect(answer).toMatchObject({ object: "list", model, usage: { prompt_tokens: expect.any(Number) } });
    expect(answer.usage.total_tokens).toBe(answer.usage.prompt_tokens);
    expect(answer.data.map(({ index, object }) => [index, object])).toEqual(
      TEXTS.map((_, index) => [index, "embedding"]),
    );
    expect(nearnessOf(answer.data.map(({ embedding }) => embedding))).toEqual(near());
  });

  it("gives the same vectors as numbers and as base64, which the client asks for by itself", async () => {
    const [encoded, plain] = [await embed({}), await embed({ encoding_format: "float" })];
    expect(encoded.data).toEqual(plain.data);
    const raw = (await embed({ encoding_format: "base64" })).data.map(({ embedding }) => embedding as unknown);
    expect(raw.every((embedding) => typeof embedding === "string")).toBe(true);
  });

  it("embeds one text, a list of tokens, and lists of tokens", async () => {
    expect((await embed({ input: "A lighthouse" })).data).toHaveLength(1);
    const one = await embed({ input: [1, 2, 3] });
    expect(one.usage.prompt_tokens).toBe(3);
    const several = await embed({ input: [[1, 2, 3], [4]] });
    expect(several.data).toHaveLength(2);
    expect(several.usage.prompt_tokens).toBe(4);
    expect(several.data[0]?.embedding).toEqual(one.data[0]?.embedding);
  });

  it.each([1, 8, 3_072])("makes vectors of %i numbers", async (dimensions) => {
    const { data } = await embed({ dimensions, user: "someone" });
    expect(data.map(({ embedding }) => embedding.length)).toEqual([dimensions, dimensions, dimensions]);
  });

  it("embeds 2,048 texts at once", async () => {
    const { data } = await embed({ input: Array.from({ length: 2_048 }, (_, index) => `Text ${index}`) });
    expect(data).toHaveLength(2_048);
  });

  it("charges the tokens", async () => {
    const before = await usageOf(playground().url, "sk-metered");
    const { usage } = await embed({}, "sk-metered");
    const after = await usageOf(playground().url, "sk-metered");
    expect(after.total_used - before.total_used).toBe(usage.prompt_tokens);
  });

  it.each<[param: string, request: Partial<EmbeddingCreateParams>]>([
    ["input", { input: "" }],
    ["input", { input: [] }],
    ["input.1", { input: ["A", ""] }],
    ["input.1", { input: ["A", 5] as never }],
    ["input.0", { input: [[]] }],
    ["input.0.1", { input: [[1, -1]] }],
    ["input", { input: Array.from({ length: 2_049 }, () => "A") }],
    ["dimensions", { dimensions: 0 }],
    ["dimensions", { dimensions: 65_537 }],
    ["encoding_format", { encoding_format: "hex" as never }],
  ])("BadRequestError names the field %s: %j", async (param, request) => {
    const error = await errorOf(embed({ encoding_format: "float", ...request }));
    expect(error).toBeInstanceOf(sdk.OpenAI.BadRequestError);
    expect(error).toMatchObject({ status: 400, param, code: "invalid_value" });
  });

  it("has no embeddings of other models, and no chat with this one", async () => {
    const wrong = [
      () => embed({ model: "demo-chat" }),
      () => connect().chat.completions.create({ model, messages: [{ role: "user", content: "Hi" }] }),
    ];
    for (const call of wrong) expect(await errorOf(call())).toMatchObject({ status: 404, code: "model_not_found" });
  });

  it("tells the failures of the model", async () => {
    expect(await errorOf(embed({ input: "/fail 429" }))).toBeInstanceOf(sdk.OpenAI.RateLimitError);
    expect(await errorOf(embed({ input: "/fail 500" }))).toBeInstanceOf(sdk.OpenAI.InternalServerError);
    expect(await errorOf(embed({}, "sk-empty"))).toMatchObject({ status: 429, code: "insufficient_quota" });
  });
}
