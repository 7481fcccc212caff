/** Embeddings: one content and several, task types, errors. */

import type { EmbedContentParameters } from "@google/genai";
import { expect, it } from "vitest";
import { near, nearnessOf, TEXTS } from "../nearness.ts";
import { recordingFetch, type Stage } from "./sdk.ts";

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

  it("asks for all of it in one request", async () => {
    const { fetch, sent } = recordingFetch();
    await connect({ fetch }).models.embedContent({ model, contents: [...TEXTS] });
    expect(sent.map(({ url }) => url)).toEqual([
      `${playground().url}/${sdk.apiVersion}/models/${model}:batchEmbedContents`,
    ]);
  });
}
