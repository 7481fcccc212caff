/** Encodes the answers of `embedContent` and `batchEmbedContents`, and decodes those of an upstream. */

import { RawJson } from "../../http/answer.ts";
import type { EmbeddingAnswerEvent, EmbeddingVector } from "../../kinds/embedding/request.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import type { AnswerCollector, EmbeddingAnswer } from "../format.ts";
import { vectorJson } from "../shared/embedding.ts";
import { parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";

/** Collects the vectors of one answer into its body. Each vector is written when it comes, because all of them at once take long. */
export function embedCollector(isBatch: boolean): AnswerCollector<EmbeddingAnswerEvent> {
  const vectors: string[] = [];
  let tokens = 0;
  return {
    add(event) {
      if (event.type === "embedding") vectors.push(`{"values":${vectorJson(event.vector)}}`);
      if (event.type === "finish") tokens = event.usage.inputTokens;
    },
    body() {
      const field = isBatch ? `"embeddings":[${vectors.join(",")}]` : `"embedding":${vectors.join("")}`;
      const usage = JSON.stringify({ promptTokenCount: tokens, totalTokenCount: tokens });
      return new RawJson(`{${field},"usageMetadata":${usage}}`);
    },
  };
}

/** Decodes an answer to either method. Throws `backend_failed` for an answer without exactly one vector for each input. */
export function decodeEmbedAnswer(body: string, count: number, limits?: JsonLimits): EmbeddingAnswer {
  const { embedding, embeddings = [embedding ?? null], usageMetadata, modelVersion } = parseAnswerObject(body, limits);
  if (!Array.isArray(embeddings) || embeddings.length !== count)
    throw upstreamFailed("The model backend's answer does not have a vector for each input.");
  const vectors = embeddings.map((item): EmbeddingVector => {
    const values = isJsonObject(item) ? item["values"] : undefined;
    if (Array.isArray(values)) return values as number[];
    throw upstreamFailed("The model backend's answer has something that is no vector.");
  });
  const tokens = isJsonObject(usageMetadata) ? usageMetadata["promptTokenCount"] : undefined;
  return {
    vectors,
    inputTokens: tokens == null ? undefined : Number(tokens),
    model: typeof modelVersion === "string" ? modelVersion : undefined,
  };
}
