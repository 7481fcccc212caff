/** Describes the embeddings format for the OpenAPI document. */

import * as errors from "../shared/errors.ts";
import { OPENAI_SECURITY, type FormatDescription } from "../shared/openapi.ts";
import { OpenAIError } from "../shared/schema.ts";
import { EmbeddingObject, EmbeddingsAnswer, EmbeddingsRequest } from "./schema.ts";

const MODEL = "demo-embedding";
const VECTOR = [0.6, -0.8];
const USAGE = { prompt_tokens: 3, total_tokens: 3 };
const answerOf = (embedding: readonly number[] | string): object => ({
  object: "list",
  data: [{ object: "embedding", index: 0, embedding }],
  model: MODEL,
  usage: USAGE,
});

export const embeddingsDescription: FormatDescription = {
  name: "embeddings",
  tag: { name: "Embeddings", description: "Vectors of texts, in the form of OpenAI's clients." },
  security: OPENAI_SECURITY,
  errorSchema: "OpenAIError",
  errors,
  schemas: () => ({ EmbeddingsRequest, EmbeddingsAnswer, EmbeddingObject, OpenAIError }),
  examples: {
    EmbeddingsRequest: {
      "A text": { model: MODEL, input: "A red hat" },
      "Several texts, as short vectors": { model: MODEL, input: ["A red hat", "A blue hat"], dimensions: 2 },
      "A list of tokens, in base64": { model: MODEL, input: [32, 2579, 9072], encoding_format: "base64" },
    },
    EmbeddingsAnswer: { Numbers: answerOf(VECTOR), Base64: answerOf("mpkZP83MTL8=") },
  },
  operations: [
    {
      endpoint: "embedding POST /v1/embeddings",
      operationId: "createEmbedding",
      summary: "Makes a vector of each input.",
      request: "EmbeddingsRequest",
      rules: "The elements of `input` are all texts, all tokens, or all lists of tokens. Unknown fields are passed on.",
      answer: "EmbeddingsAnswer",
    },
  ],
};
