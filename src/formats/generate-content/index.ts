/** The generate-content format: complete and streamed answers, token counts, embeddings, models (spec 2.8, 2.9, 4, 6.2, 7.3). */

import { GatewayError, invalidField } from "../../errors.ts";
import { queryOf } from "../../http/request.ts";
import { shown } from "../../http/validation.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import { embedding } from "../../kinds/embedding/index.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { given } from "../../model/json.ts";
import { nearest } from "../../options.ts";
import { nextIteration } from "../../ports/clock.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { AnswerContext, Endpoint, EndpointOf, WholeFormat, Incoming, Query, QueryEndpoint } from "../format.ts";
import { CompleteAnswer, modelNamed, pageSize } from "../shared/answer.ts";
import { assertSchemaSize } from "../shared/schema.ts";
import { GenerateContentBuilder } from "./answer.ts";
import { conversionsOfEvent } from "./conversions.ts";
import { decodeEmbedRequest, embedCollector } from "./embed.ts";
import { decodeRequest, type GenerateContentNative, inCamelCase, modelIn, validRequest } from "./request.ts";
import {
  EMBEDDING_METHODS,
  FORMAT,
  METHOD_ROUTES,
  methodIn,
  type MethodRoutes,
  METHODS,
  MODEL_ROUTES,
  type ModelRoutes,
  TELEMETRY,
} from "./routes.ts";
import { GenerateContentStream, withContent } from "./stream.ts";

export const generateContent = (): WholeFormat => ({
  name: FORMAT,
  telemetry: TELEMETRY,
  endpoints: [...METHOD_ROUTES.flatMap(methodEndpoints), ...MODEL_ROUTES.flatMap(modelEndpoints)],
});

const QUERY = { kind: "query", expiredKeysMayAsk: false } as const;

/** Returns the endpoints for the methods of the models in one collection. */
function methodEndpoints({ isTuned, generate, stream, count, embed, unknown }: MethodRoutes): Endpoint[] {
  const answered = {
    kind: chat,
    maxOutputTokensPaths: ["generationConfig", "generation_config"].flatMap((config) => [
      [config, "maxOutputTokens"],
      [config, "max_output_tokens"],
    ]),
    conversionsOfEvent,
    modelIn: (wildcardPath: string) => modelIn(wildcardPath, isTuned),
    complete: (answer: AnswerContext) => new CompleteAnswer(FORMAT, new GenerateContentBuilder(answer), withContent),
    stream(answer: AnswerContext) {
      // The cast is safe: `decode` made this request, with a `native` part of this format.
      const { framing } = answer.request.native as GenerateContentNative;
      return new GenerateContentStream(answer, framing);
    },
  } as const;
  return [
    {
      ...generate,
      ...answered,
      decode: (body, incoming) => decode(body, incoming, { isTuned }),
    } satisfies EndpointOf<ChatKind>,
    {
      ...stream,
      ...answered,
      decode: (body, incoming) => decode(body, incoming, { isTuned, stream: true }),
    } satisfies EndpointOf<ChatKind>,
    {
      ...count,
      ...QUERY,
      body: "json",
      async answer({ body, authorize, countInput }, incoming) {
        const request = await decode(body, incoming, { isTuned, isCount: true });
        await authorize(chat, request.model);
        return { totalTokens: await countInput(chat, request) };
      },
    },
    ...Object.entries(embed).map(([method, route]): EndpointOf<typeof embedding> => {
      const isBatch = method === "batchEmbedContents";
      return {
        ...route,
        kind: embedding,
        modelIn: (wildcardPath) => modelIn(wildcardPath, isTuned),
        async decode(body, incoming) {
          if (incoming.json.isLarge) await nextIteration();
          return decodeEmbedRequest(body, modelIn(incoming.wildcardPath, isTuned), isBatch);
        },
        complete: () => embedCollector(isBatch),
      };
    }),
    {
      ...unknown,
      ...QUERY,
      body: "none",
      answer(_query, { wildcardPath }) {
        const method = methodIn(wildcardPath) ?? "";
        const all = isTuned ? METHODS : [...METHODS, ...EMBEDDING_METHODS];
        // This endpoint gets the methods of embeddings where the backend has none.
        if (all.includes(method)) throw new GatewayError("not_found", "This gateway offers no embeddings.");
        const meant = nearest(method, all);
        const hint = meant ? ` Did you mean ${meant}?` : "";
        throw new GatewayError("not_found", `A model has no method ${shown(method)}.${hint}`);
      },
    },
  ];
}

interface DecodeOptions {
  readonly isTuned: boolean;
  readonly stream?: boolean;
  readonly isCount?: boolean;
}

/** Decodes a body in steps. If the body is large, the event loop serves other calls between the steps. */
async function decode(
  raw: unknown,
  incoming: Incoming,
  { isTuned, stream = false, isCount = false }: DecodeOptions,
): Promise<ChatRequest> {
  const model = modelIn(incoming.wildcardPath, isTuned);
  if (incoming.json.isLarge) await nextIteration();
  assertSchemaSize(raw, SCHEMA_FIELDS, incoming);
  const body = inCamelCase(raw, isCount);
  if (incoming.json.isLarge) await nextIteration();
  const request = validRequest(raw, body, isCount);
  if (incoming.json.isLarge) await nextIteration();
  const framing = stream && asksForSse(incoming.request) ? "sse" : "array";
  const { defaultMaxOutputTokens } = incoming.limits;
  return decodeRequest(request, { model, stream, defaultMaxOutputTokens, framing, raw });
}

/** Tells whether the query asks for server-sent events. Clients send the parameter as `alt` or as `$alt`. */
function asksForSse({ url }: Request): boolean {
  const query = queryOf(url);
  return (query.get("alt") ?? query.get("$alt")) === "sse";
}

/** The fields that have tools and schemas, in both spellings. In a token count, a whole request may stand in a field of the body. */
const SCHEMA_FIELDS = ["", "generateContentRequest.", "generate_content_request."].flatMap((request) =>
  ["tools", "generationConfig", "generation_config"].map((field) => request + field),
);

function modelEndpoints({ list, read }: ModelRoutes): QueryEndpoint[] {
  return [
    { ...list, ...QUERY, body: "none", answer: listModels },
    {
      ...read,
      ...QUERY,
      body: "none",
      answer: async (asked, { wildcardPath }) =>
        encodeModel(await modelNamed(asked, wildcardPath.replace(/^models(?:\/|%2F)/i, ""))),
    },
  ];
}

const DEFAULT_PAGE = 50;
const MAX_PAGE = 1_000;

/** Returns a page of models. The token for the next page is the index of its first model. */
async function listModels({ models }: Query, { request }: Incoming): Promise<object> {
  const query = queryOf(request.url);
  const all = await models();
  // The official service takes a larger number as the largest.
  const size = Math.min(MAX_PAGE, pageSize(query.get("pageSize"), "pageSize", DEFAULT_PAGE));
  const start = Number(query.get("pageToken") || 0);
  if (!Number.isInteger(start) || start < 0) throw invalidField(["pageToken"], "is none that this service gave");
  const end = start + size;
  return {
    models: all.slice(start, end).map(encodeModel),
    ...(end < all.length && { nextPageToken: String(end) }),
  };
}

function encodeModel({ id, displayName, maxInputTokens, maxOutputTokens, kinds = [chat.name] }: ModelInfo): object {
  return {
    name: `models/${id}`,
    displayName: displayName ?? id,
    ...given({ inputTokenLimit: maxInputTokens, outputTokenLimit: maxOutputTokens }),
    supportedGenerationMethods: [
      ...(kinds.includes(chat.name) ? METHODS : []),
      ...(kinds.includes(embedding.name) ? EMBEDDING_METHODS : []),
    ],
  };
}
