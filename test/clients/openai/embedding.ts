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

  it("charges the tokens, at ten cents for a million", async () => {
    const before = await usageOf(playground().url, "sk-metered");
    const { usage } = await embed({}, "sk-metered");
    const after = await usageOf(playground().url, "sk-metered");
    expect(after.total_used - before.total_used).toBe(Math.ceil(usage.prompt_tokens / 10));
  });

  it("tells the failures of the model", async () => {
    expect(await errorOf(embed({ input: "/fail 429" }))).toBeInstanceOf(sdk.OpenAI.RateLimitError);
    expect(await errorOf(embed({ input: "/fail 500" }))).toBeInstanceOf(sdk.OpenAI.InternalServerError);
    expect(await errorOf(embed({}, "sk-empty"))).toMatchObject({ status: 429, code: "insufficient_quota" });
  });
}
