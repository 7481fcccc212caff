/** Embeddings by the `ai` SDK, whichever provider asks for them. */

import { embed, embedMany, type EmbeddingModel } from "ai";
import { describe, expect, it } from "vitest";
import { near, nearnessOf, TEXTS } from "../nearness.ts";

export function embeddingSuite(model: () => EmbeddingModel): void {
  describe("embedding", () => {
    it("embeds one text", async () => {
      const { embedding } = await embed({ model: model(), value: "A lighthouse", maxRetries: 0 });
      expect(embedding).toHaveLength(256);
    });

    it("embeds many texts, in their order", async () => {
      const { embeddings } = await embedMany({ model: model(), values: [...TEXTS], maxRetries: 0 });
      expect(nearnessOf(embeddings)).toEqual(near());
    });

    it("embeds more texts than one request takes", async () => {
      const values = Array.from({ length: 250 }, (_, index) => TEXTS[index % TEXTS.length] ?? "");
      const { embeddings } = await embedMany({ model: model(), values, maxRetries: 0 });
      expect(embeddings).toHaveLength(250);
      expect(nearnessOf(embeddings.slice(-4, -1))).toEqual(near());
    });
  });
}
