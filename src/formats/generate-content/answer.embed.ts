/** Encodes the answers of `embedContent` and `batchEmbedContents`, and decodes those of an upstream. */

import { RawJson } from "../../http/answer.ts";
import type { EmbeddingAnswerEvent, EmbeddingVector } from "../../kinds/embedding/request.ts";
import { isJsonObject, type JsonLimits } from "../../model/json.ts";
import { nativeUsage } from "../../model/usage.ts";
import type { AnswerCollector, EmbeddingAnswer } from "../format.ts";
import { vectorJson } from "../shared/embedding.ts";
import { parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { FORMAT } from "./schema.wire.ts";

/** Collects the vectors of one answer into its body. Each vector is written when it comes, because all of them at once take long. */
export function embedCollector(isBatch: boolean): AnswerCollector<EmbeddingAnswerEvent> {
  const vectors: string[] = [];
  let usage: object | undefined;
  return {
    add(event) {
      if (event.type === "embedding") vectors.push(`{"values":${vectorJson(event.vector)}}`);
      if (event.type !== "finish") return;
      const { inputTokens } = event.usage;
      usage = { ...nativeUsage(event, FORMAT), promptTokenCount: inputTokens, totalTokenCount: inputTokens };
    },
    body() {
      const field = isBatch ? `"embeddings":[${vectors.join(",")}]` : `"embedding":${vectors.join("")}`;
      return new RawJson(`{${field},"usageMetadata":${JSON.stringify(usage)}}`);
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
    native: isJsonObject(usageMetadata) ? { format: FORMAT, fields: usageMetadata } : undefined,
    model: typeof modelVersion === "string" ? modelVersion : undefined,
  };
}
