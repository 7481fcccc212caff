/** Describes the embeddings of two formats for the document: `POST /v1/embeddings`, and the methods of generate-content. */

import { EmbeddingObject, EmbeddingsAnswer, EmbeddingsRequest } from "../formats/embeddings/schema.ts";
import {
  BatchEmbedContentsRequest,
  BatchEmbedContentsResponse,
  ContentEmbedding,
  EmbedContentRequest,
  EmbedContentResponse,
} from "../formats/generate-content/schema.embed.ts";
import * as errors from "../formats/shared/errors.ts";
import { OpenAIError } from "../formats/shared/schema.ts";
import { BEARER, type FormatDescription, type FormatOperation } from "./parts.ts";

const MODEL = "demo-embedding";
const VECTOR = [0.6, -0.8];
const USAGE = { prompt_tokens: 3, total_tokens: 3 };
const answerOf = (embedding: readonly number[] | string): object => ({
  object: "list",
  data: [{ object: "embedding", index: 0, embedding }],
  model: MODEL,
  usage: USAGE,
});

export const embeddings: FormatDescription = {
  name: "embeddings",
  tag: { name: "Embeddings", description: "Vectors of texts, in the form of OpenAI's clients." },
  security: [BEARER],
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

const CONTENT = { parts: [{ text: "A red hat" }] };
const ONE = { content: CONTENT, taskType: "RETRIEVAL_DOCUMENT", title: "Hats", outputDimensionality: 2 };
const USAGE_METADATA = { promptTokenCount: 3, totalTokenCount: 3 };

/** The part of generate-content's description that is about embeddings. */
export const contentEmbeddings: Pick<FormatDescription, "examples" | "operations"> & {
  readonly schemas: ReturnType<FormatDescription["schemas"]>;
} = {
  schemas: {
    EmbedContentRequest,
    EmbedContentResponse,
    BatchEmbedContentsRequest,
    BatchEmbedContentsResponse,
    ContentEmbedding,
  },
  examples: {
    EmbedContentRequest: { "A text": { content: CONTENT }, "A short vector of a document": ONE },
    EmbedContentResponse: { "A vector": { embedding: { values: VECTOR }, usageMetadata: USAGE_METADATA } },
    BatchEmbedContentsRequest: { "Two texts": { requests: [ONE, { ...ONE, title: "More hats" }] } },
    BatchEmbedContentsResponse: {
      "Two vectors": { embeddings: [{ values: VECTOR }, { values: VECTOR }], usageMetadata: USAGE_METADATA },
    },
  },
  operations: [
    {
      ...methodOf("embedding", "embedContent", ["v1/models"]),
      summary: "Makes a vector of a content.",
      request: "EmbedContentRequest",
      rules: "A part is a text or a file. Unknown fields are passed on.",
      answer: "EmbedContentResponse",
    },
    {
      ...methodOf("embedding", "batchEmbedContents", ["v1/models"]),
      summary: "Makes a vector of each content.",
      request: "BatchEmbedContentsRequest",
      rules:
        "A part is a text or a file. Each request may have a `taskType` and an `outputDimensionality` of its own. Unknown fields are passed on.",
      answer: "BatchEmbedContentsResponse",
    },
  ],
};

/** Makes the address and the id of a model's method in generate-content. */
export function methodOf(
  kind: "chat" | "embedding" | "query",
  method: string,
  otherCollections: readonly string[],
): Pick<FormatOperation, "endpoint" | "operationId" | "alsoAt"> {
  const pathIn = (collection: string): string => `/${collection}/{model}:${method}`;
  return {
    endpoint: `${kind} POST ${pathIn("v1beta/models")}`,
    operationId: method,
    alsoAt: otherCollections.map(pathIn),
  };
}
