/** Describes the generate-content format for the OpenAPI document. */

import * as v from "valibot";
import {
  BEARER,
  type FormatDescription,
  type FormatOperation,
  type JsonSchema,
  MODEL,
  modelOperations,
  pageSize,
  type Parameter,
  parameter,
  ref,
  TOOL,
} from "../shared/openapi.ts";
import * as errors from "./errors.ts";
import * as answers from "./schema.answer.ts";
import { GenerationConfig } from "./schema.config.ts";
import * as embed from "./schema.embed.ts";
import { OpenApiSchema } from "./schema.openapi.ts";
import * as content from "./schema.ts";

const HELLO = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
const SHAPE = {
  responseMimeType: "application/json",
  responseSchema: { type: "OBJECT", properties: { greeting: { type: "STRING" } } },
};
const FUNCTION = { ...TOOL, parameters: { type: "OBJECT", properties: { place: { type: "STRING" } } } };
const ANSWER = {
  candidates: [{ content: { role: "model", parts: [{ text: "Hello!" }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 2, totalTokenCount: 10 },
  modelVersion: MODEL,
  responseId: "resp_0123456789abcdef",
};
const LISTED = {
  name: `models/${MODEL}`,
  displayName: MODEL,
  supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
};
const PIECE_SCHEMA = v.union([answers.GenerateContentResponse, answers.GenerateContentStreamError]);
const RULES =
  "Each field may also be written in snake_case: `inline_data` for `inlineData`. Rules beyond the schema: a part is of one " +
  "kind; a `responseSchema` needs a `responseMimeType` of JSON or of an enum. Unknown fields are passed on.";
const PAGES: readonly Parameter[] = [
  pageSize("pageSize", 50),
  parameter("query", "pageToken", "The `nextPageToken` of the page before."),
];
const ALT = parameter("query", "alt", "`sse` asks for server-sent events; without it, the stream is one JSON array.", {
  type: "string",
  enum: ["sse", "json"],
});

const CALL = { request: "GenerateContentRequest", rules: RULES };

/** Google's own models are in the first two collections; tuned models are in all. */
const TUNED_COLLECTIONS = ["v1/models", "v1beta/tunedModels", "v1/tunedModels"];

const VECTOR = [0.6, -0.8];
const EMBEDDED = { parts: [{ text: "A red hat" }] };
const ONE = { content: EMBEDDED, taskType: "RETRIEVAL_DOCUMENT", title: "Hats", outputDimensionality: 2 };
const USAGE_METADATA = { promptTokenCount: 3, totalTokenCount: 3 };

export const generateContentDescription: FormatDescription = {
  name: "generate-content",
  tag: { name: "Generate content", description: "Content made of parts, by a model that the path names." },
  security: [{ queryKey: [] }, { googApiKey: [] }, BEARER],
  errorSchema: "GenerateContentError",
  errors: errors,
  schemas: () => ({
    GenerateContentRequest: content.GenerateContentRequest,
    Content: content.Content,
    Part: content.Part,
    Tool: content.Tool,
    GenerationConfig,
    Schema: OpenApiSchema,
    CountTokensRequest: content.CountTokensRequest,
    CountTokensAnswer: answers.CountTokensAnswer,
    GenerateContentResponse: answers.GenerateContentResponse,
    GenerateContentError: answers.GenerateContentError,
    GenerateContentModel: answers.GenerateContentModel,
    GenerateContentModelList: answers.GenerateContentModelList,
    GenerateContentPiece: PIECE_SCHEMA,
    GenerateContentStream: v.array(PIECE_SCHEMA),
    EmbedContentRequest: embed.EmbedContentRequest,
    EmbedContentResponse: embed.EmbedContentResponse,
    BatchEmbedContentsRequest: embed.BatchEmbedContentsRequest,
    BatchEmbedContentsResponse: embed.BatchEmbedContentsResponse,
    ContentEmbedding: embed.ContentEmbedding,
  }),
  jsonSchemas({ Schema = {} }) {
    // Remove the property named `$ref`: tools would read it as a reference. A property without a schema may hold any value.
    const { $ref: _, $defs: Schemas = {}, ...properties } = Schema["properties"] as Record<string, JsonSchema>;
    // Generated clients name types after properties, and take `defs` and `$defs` for the same name.
    const named = { $defs: ref("Schemas"), defs: ref("Schemas") };
    return { Schemas, Schema: { ...Schema, properties: { ...properties, ...named } } };
  },
  examples: {
    GenerateContentRequest: {
      "A question": HELLO,
      "An answer of a shape": { ...HELLO, generationConfig: SHAPE },
      "A function": { ...HELLO, tools: [{ functionDeclarations: [FUNCTION] }] },
      "Code that the service runs": { ...HELLO, tools: [{ codeExecution: {} }] },
    },
    GenerateContentResponse: { "An answer": ANSWER },
    GenerateContentPiece: { "A piece": ANSWER },
    GenerateContentStream: { "A stream of one piece": [ANSWER] },
    CountTokensRequest: { Contents: HELLO, "A request": { generateContentRequest: HELLO } },
    CountTokensAnswer: { "An estimate": { totalTokens: 8 } },
    GenerateContentModel: { "A model": LISTED },
    GenerateContentModelList: { "A page": { models: [LISTED] } },
    EmbedContentRequest: { "A text": { content: EMBEDDED }, "A short vector of a document": ONE },
    EmbedContentResponse: { "A vector": { embedding: { values: VECTOR }, usageMetadata: USAGE_METADATA } },
    BatchEmbedContentsRequest: { "Two texts": { requests: [ONE, { ...ONE, title: "More hats" }] } },
    BatchEmbedContentsResponse: {
      "Two vectors": { embeddings: [{ values: VECTOR }, { values: VECTOR }], usageMetadata: USAGE_METADATA },
    },
  },
  operations: [
    {
      ...methodOf("chat", "generateContent", TUNED_COLLECTIONS),
      summary: "Asks a model for content.",
      ...CALL,
      answer: "GenerateContentResponse",
    },
    {
      ...methodOf("chat", "streamGenerateContent", TUNED_COLLECTIONS),
      summary: "Asks a model for content, and gets it piece by piece.",
      parameters: [ALT],
      ...CALL,
      answer: "GenerateContentStream",
      events: "GenerateContentPiece",
      answerDescription:
        "The pieces of the answer. A server-sent event has no name, and its data is one piece; an empty object only keeps the " +
        "connection open. A failure on the way is the last piece.",
    },
    {
      ...methodOf("query", "countTokens", TUNED_COLLECTIONS),
      summary: "Estimates the tokens of contents or of a request, at no charge.",
      request: "CountTokensRequest",
      rules: "One of `contents` and `generateContentRequest`.",
      answer: "CountTokensAnswer",
      answerDescription: "The estimate.",
    },
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
    ...modelOperations("/v1beta/models", "V1beta", "GenerateContentModel", PAGES),
  ],
  models: {
    model: answers.GenerateContentModel,
    list: answers.GenerateContentModelList,
    examples: { model: LISTED, list: { models: [LISTED] } },
    parameters: PAGES,
    chosenBy: "`x-goog-api-key`, `x-goog-api-client` or the query's `key` selects generate-content.",
  },
};

/** Makes the address and the id of a model's method in generate-content. */
function methodOf(
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
