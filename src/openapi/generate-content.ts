/** The generate-content format's part of the document (spec 2.8, 2.9, 4, 6.2, 7.3). */

import { encodeError, errorStatus } from "../dialects/generate-content/errors.ts";
import { GenerateContentResponse } from "../dialects/generate-content/schema.answer.ts";
import { GenerationConfig } from "../dialects/generate-content/schema.config.ts";
import {
  CountTokensAnswer,
  GenerateContentError,
  GenerateContentModel,
  GenerateContentModelList,
} from "../dialects/generate-content/schema.errors.ts";
import { OpenApiSchema } from "../dialects/generate-content/schema.openapi.ts";
import {
  Content,
  CountTokensRequest,
  GenerateContentRequest,
  Part,
  Tool,
} from "../dialects/generate-content/schema.ts";
import { type ErrorFormat, errorResponses, LIST, LOOKUP, MODEL_CALL, TOKEN_COUNT } from "./errors.ts";
import { answered, anyOfSchemes, examplesOf, jsonContent, MODEL_PARAMETER, parameter, schemaRef } from "./shapes.ts";
import type { Format, FormatOperation, JsonSchema, Operation } from "./types.ts";

const NAME = "Generate content";

/** The collections of models, each with what its operations' ids end in. */
const COLLECTIONS = [
  ["/v1beta/models", ""],
  ["/v1/models", "V1"],
  ["/v1beta/tunedModels", "Tuned"],
  ["/v1/tunedModels", "TunedV1"],
] as const;

/** Where the format lists models, and what stands for itself in the ids: the plain ones are another format's. */
const LISTS = [
  ["/v1beta/models", "V1beta", ""],
  [
    "/v1/models",
    "AsGenerateContent",
    "Several formats share this path; `x-goog-api-key`, `x-goog-api-client` or the query's `key` asks for this one.",
  ],
] as const;

export const generateContentFormat: Format = {
  name: "generate-content",
  part: () => ({
    tag: { name: NAME, description: "Content made of parts, by a model that the path names." },
    schemas: {
      GenerateContentRequest,
      Content,
      Part,
      Tool,
      GenerationConfig,
      Schema: OpenApiSchema,
      CountTokensRequest,
      GenerateContentResponse,
      GenerateContentError,
      CountTokensAnswer,
      GenerateContentModel,
      GenerateContentModelList,
    },
    derived: ({ Schema = {} }) => ({ Schema: withoutRefProperty(Schema) }),
    operations: [
      ...COLLECTIONS.flatMap(([collection, suffix]) => callsOf(collection, suffix)),
      ...LISTS.flatMap(([path, suffix, description]) => listsOf(path, suffix, description)),
    ],
  }),
};

/** Readers of OpenAPI take a property of this name for a reference. It holds anything, as every field that is not named does. */
function withoutRefProperty(schema: JsonSchema): JsonSchema {
  const { $ref: _, ...properties } = schema["properties"] as Record<string, JsonSchema>;
  return { ...schema, properties };
}

const ERRORS: ErrorFormat = {
  schema: schemaRef("GenerateContentError"),
  encode: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
};

const FORMAT = { tags: [NAME], security: anyOfSchemes("queryKey", "googApiKey", "bearer") };

const HELLO = { contents: [{ role: "user", parts: [{ text: "Hello" }] }] };
const REQUESTS = examplesOf(
  ["A question", HELLO],
  [
    "An answer of a shape",
    {
      ...HELLO,
      generationConfig: {
        responseMimeType: "application/json",
        responseSchema: { type: "OBJECT", properties: { greeting: { type: "STRING" } } },
      },
    },
  ],
  [
    "A function",
    {
      ...HELLO,
      tools: [
        {
          functionDeclarations: [
            { name: "get_weather", parameters: { type: "OBJECT", properties: { place: { type: "STRING" } } } },
          ],
        },
      ],
    },
  ],
  ["Code that the service runs", { ...HELLO, tools: [{ codeExecution: {} }] }],
);

const REQUEST: NonNullable<Operation["requestBody"]> = {
  required: true,
  description:
    "Each field may also be written in snake_case: `inline_data` for `inlineData`. Beyond the schema, a part is of one kind; a " +
    "`responseSchema` needs a `responseMimeType` of JSON or of an enum. Fields that are not known are passed on.",
  content: jsonContent(schemaRef("GenerateContentRequest"), REQUESTS),
};

const ANSWER = {
  candidates: [{ content: { role: "model", parts: [{ text: "Hello!" }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 8, candidatesTokenCount: 2, totalTokenCount: 10 },
  modelVersion: "demo-chat",
  responseId: "resp_0123456789abcdef",
};
const CHUNK = { anyOf: [schemaRef("GenerateContentResponse"), schemaRef("GenerateContentError")] };

function callsOf(collection: string, suffix: string): FormatOperation[] {
  const call = (method: string, operation: Omit<Operation, "operationId" | "tags" | "security">): FormatOperation => ({
    kind: method === "countTokens" ? "query" : "chat",
    method: "POST",
    endpoint: `${collection}/**`,
    path: `${collection}/{model}:${method}`,
    operation: { ...FORMAT, operationId: `${method}${suffix}`, ...operation },
  });
  return [
    call("generateContent", {
      summary: "Asks a model for content.",
      parameters: [MODEL_PARAMETER],
      requestBody: REQUEST,
      responses: {
        200: answered(
          "The answer.",
          jsonContent(schemaRef("GenerateContentResponse"), examplesOf(["An answer", ANSWER])),
        ),
        ...errorResponses(ERRORS, MODEL_CALL),
      },
    }),
    call("streamGenerateContent", {
      summary: "Asks a model for content, and gets it piece by piece.",
      parameters: [
        MODEL_PARAMETER,
        parameter("query", "alt", "`sse` asks for server-sent events; without it, the stream is one JSON array.", {
          enum: ["sse", "json"],
          type: "string",
        }),
      ],
      requestBody: REQUEST,
      responses: {
        200: answered(
          "The pieces of the answer. As server-sent events each is the data of one event, without a name; the schema is that of " +
            "one event's data, and an empty object only keeps the connection open. A failure on the way is the last piece.",
          {
            "text/event-stream": { schema: CHUNK, examples: examplesOf(["A piece", ANSWER]) },
            ...jsonContent({ type: "array", items: CHUNK }, examplesOf(["A stream of one piece", [ANSWER]])),
          },
        ),
        ...errorResponses(ERRORS, MODEL_CALL),
      },
    }),
    call("countTokens", {
      summary: "Estimates the tokens of contents or of a request, at no charge.",
      parameters: [MODEL_PARAMETER],
      requestBody: {
        required: true,
        description: "One of `contents` and `generateContentRequest`.",
        content: jsonContent(
          schemaRef("CountTokensRequest"),
          examplesOf(["Contents", HELLO], ["A request", { generateContentRequest: HELLO }]),
        ),
      },
      responses: {
        200: answered(
          "The estimate.",
          jsonContent(schemaRef("CountTokensAnswer"), examplesOf(["An estimate", { totalTokens: 8 }])),
        ),
        ...errorResponses(ERRORS, TOKEN_COUNT),
      },
    }),
  ];
}

const MODEL = {
  name: "models/demo-chat",
  displayName: "demo-chat",
  supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
};

const listsOf = (path: string, suffix: string, description: string): FormatOperation[] => [
  {
    kind: "query",
    method: "GET",
    endpoint: path,
    path,
    operation: {
      ...FORMAT,
      operationId: `listModels${suffix}`,
      summary: "Lists the models that the key may use.",
      ...(description !== "" && { description }),
      parameters: [
        parameter("query", "pageSize", "Most models of a page.", { type: "integer", minimum: 1, default: 50 }),
        parameter("query", "pageToken", "The `nextPageToken` of the page before."),
      ],
      responses: {
        200: answered(
          "A page of models.",
          jsonContent(schemaRef("GenerateContentModelList"), examplesOf(["A page", { models: [MODEL] }])),
        ),
        ...errorResponses(ERRORS, LIST),
      },
    },
  },
  {
    kind: "query",
    method: "GET",
    endpoint: `${path}/**`,
    path: `${path}/{model}`,
    operation: {
      ...FORMAT,
      operationId: `getModel${suffix}`,
      summary: "Tells of one model.",
      ...(description !== "" && { description }),
      parameters: [MODEL_PARAMETER],
      responses: {
        200: answered("The model.", jsonContent(schemaRef("GenerateContentModel"), examplesOf(["A model", MODEL]))),
        ...errorResponses(ERRORS, LOOKUP),
      },
    },
  },
];
