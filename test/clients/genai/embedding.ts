/** Embeddings: one content and several, task types, errors. */

import type { EmbedContentParameters } from "@google/genai";
import { expect, it } from "vitest";
import { near, nearnessOf, TEXTS } from "../nearness.ts";
import { png } from "../png.ts";
import { errorOf, recordingFetch, type Stage, wireError } from "./sdk.ts";

const model = "demo-embedding";

export function embeddingSuite({ sdk, connect, playground }: Stage): void {
  const embed = (asked: Partial<EmbedContentParameters> = {}, apiKey = "sk-demo") =>
    connect({ apiKey }).models.embedContent({ model, contents: [...TEXTS], ...asked });

  it("embeds several contents, in their order", async () => {
    const { embeddings = [] } = await embed();
    expect(nearnessOf(embeddings.map(({ values }) => values))).toEqual(near());
  });

  it("embeds one content, of several parts", async () => {
    const [whole] = (await embed({ contents: "A lighthouse stands in the rain" })).embeddings ?? [];
    const parts = [{ text: "A lighthouse stands " }, { text: "in the rain" }];
    const [joined] = (await embed({ contents: [{ role: "user", parts }] })).embeddings ?? [];
    expect(joined?.values).toEqual(whole?.values);
  });

  it("takes a task type, a title and the length of the vectors", async () => {
    const config = { taskType: "RETRIEVAL_DOCUMENT", title: "Lights", outputDimensionality: 64 };
    const { embeddings = [] } = await embed({ config });
    expect(nearnessOf(embeddings.map(({ values }) => values))).toEqual(near(64));
  });

  it("embeds a picture", async () => {
    const inlineData = { mimeType: "image/png", data: png(8, 8).toString("base64") };
    const { embeddings } = await embed({ contents: [{ role: "user", parts: [{ inlineData }, { text: "A dot" }] }] });
    expect(embeddings?.[0]?.values).toHaveLength(256);
  });

  it("asks for all of it in one request", async () => {
    const { fetch, sent } = recordingFetch();
    await connect({ fetch }).models.embedContent({ model, contents: [...TEXTS] });
    expect(sent.map(({ url }) => url)).toEqual([
      `${playground().url}/${sdk.apiVersion}/models/${model}:batchEmbedContents`,
    ]);
  });

  it("lists the model with its methods", async () => {
    const response = await fetch(`${playground().url}/v1beta/models/${model}?key=sk-demo`);
    expect(await response.json()).toMatchObject({
      name: `models/${model}`,
      supportedGenerationMethods: ["embedContent", "batchEmbedContents"],
    });
  });

  it.each<[field: string, asked: Partial<EmbedContentParameters>]>([
    ["requests[0].content.parts", { contents: [{ parts: [{ text: "" }] }] }],
    ["requests[0].outputDimensionality", { config: { outputDimensionality: -1 } }],
    ["requests[0].content.parts[0]", { contents: [{ parts: [{ functionCall: { name: "f", args: {} } }] }] }],
  ])("a refusal names the field %s", async (field, asked) => {
    const error = await errorOf(embed(asked));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(wireError(error)).toMatchObject({
      code: 400,
      status: "INVALID_ARGUMENT",
      message: expect.stringContaining(`${field}: `),
    });
  });

  it.each([
    ["sk-demo", "demo-chat", 404, "NOT_FOUND"],
    ["sk-limited", model, 403, "PERMISSION_DENIED"],
    ["sk-nobody", model, 401, "UNAUTHENTICATED"],
  ])("refuses %s for %s", async (apiKey, asked, code, status) => {
    expect(wireError(await errorOf(embed({ model: asked }, apiKey)))).toMatchObject({ code, status });
  });
}
