/** The generate-content format: complete and streamed answers, token counts, embeddings, models (spec 2.8, 2.9, 4, 6.2, 7.3). */

import { GatewayError } from "../../errors.ts";
import { bearerToken, queryOf } from "../../http/request.ts";
import { shown } from "../../http/validation.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import { limitWithoutReasoning } from "../../kinds/chat/reasoning.ts";
import { embedding } from "../../kinds/embedding/index.ts";
import type { ChatRequest, NativeRequest } from "../../model/chat-request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { TelemetryNames } from "../../ports/observer.ts";
import type {
  AnswerContext,
  ChatCodec,
  CodecOptions,
  EmbeddingCodec,
  Endpoint,
  EndpointOf,
  Format,
  Incoming,
  Query,
  QueryEndpoint,
} from "../format.ts";
import { isModelAddress, modelNamed, pageSize } from "../shared/answer.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { assertSchemaSize } from "../shared/tools.ts";
import { GenerateContentDecoder } from "./answer.decode.ts";
import { conversionsOf, conversionsOfEvent, removedFrom } from "./conversions.ts";
import {
  decodeEmbedAnswer,
  decodeEmbedRequest,
  embedCollector,
  embedConversionsOf,
  encodeEmbedRequest,
  maxEmbedInputs,
} from "./embed.ts";
import { decodeError, encodeError, errorStatus } from "./errors.ts";
import { budgetInLimit, controlOf, withOwnSeals } from "./reasoning.ts";
import {
  decodeRequest,
  encodeRequest,
  type GenerateContentNative,
  inCamelCase,
  methodIn,
  modelIn,
  pathOf,
  resourceOf,
  validRequest,
} from "./request.ts";
import { FORMAT, given } from "./schema.wire.ts";
import { completeAnswer, GenerateContentStream } from "./stream.ts";

export const TELEMETRY: TelemetryNames = { provider: "gcp.gen_ai", operations: { chat: "generate_content" } };

/** The paths of models: `v1beta` is the spec's version, `v1` is used by newer official clients. Both have tuned models too. */
const COLLECTIONS = ["/v1beta/models/", "/v1/models/", "/v1beta/tunedModels/", "/v1/tunedModels/"];

export const generateContent = (): Format => ({
  name: FORMAT,
  telemetry: TELEMETRY,
  endpoints: [
    ...COLLECTIONS.flatMap(methodEndpoints),
    ...modelEndpoints("/v1beta/models", () => true),
    // Other formats have this path too.
    ...modelEndpoints("/v1/models", isOurs),
  ],
});

/** The fields that all endpoints have in common. */
const ENDPOINT = {
  format: FORMAT,
  credential,
  encodeError: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
} as const;

const QUERY = { ...ENDPOINT, kind: "query", expiredKeysMayAsk: false } as const;

/** Reads the API key from the official clients' header, the spec's query parameter, or a Bearer token. Skips empty values. */
function credential(request: Request): string | undefined {
  const keys = queryOf(request.url).getAll("key");
  return request.headers.get("x-goog-api-key") || keys.find((key) => key !== "") || bearerToken(request.headers);
}

const METHODS = ["generateContent", "streamGenerateContent", "countTokens"];
const EMBEDDING_METHODS = ["embedContent", "batchEmbedContents"];

/** Returns the endpoints for the methods of the models in one collection. */
function methodEndpoints(collection: string): Endpoint[] {
  const isTuned = collection.endsWith("/tunedModels/");
  const route = (method: string) =>
    ({
      method: "POST",
      path: `${collection}**`,
      owns: (wildcardPath: string) => methodIn(wildcardPath) === method,
    }) as const;
  const answered = {
    ...ENDPOINT,
    kind: chat,
    maxOutputTokensPath: ["generationConfig", "maxOutputTokens"],
    conversionsOfEvent,
    complete: completeAnswer,
    stream(answer: AnswerContext) {
      // The cast is safe: `decode` made this request, with a `native` part of this format.
      const { framing } = answer.request.native as GenerateContentNative;
      return new GenerateContentStream(answer, framing);
    },
  } as const;
  return [
    {
      ...answered,
      ...route("generateContent"),
      decode: (body, incoming) => decode(body, incoming, { isTuned }),
    } satisfies EndpointOf<ChatKind>,
    {
      ...answered,
      ...route("streamGenerateContent"),
      decode: (body, incoming) => decode(body, incoming, { isTuned, stream: true }),
    } satisfies EndpointOf<ChatKind>,
    {
      ...QUERY,
      ...route("countTokens"),
      body: "json",
      async answer({ body, authorize, countInput }, incoming) {
        const request = await decode(body, incoming, { isTuned, isCount: true });
        await authorize(chat, request.model);
        return { totalTokens: await countInput(chat, request) };
      },
    },
    // Only the official service's own models embed.
    ...(isTuned ? [] : EMBEDDING_METHODS).map((method): EndpointOf<typeof embedding> => {
      const isBatch = method === "batchEmbedContents";
      return {
        ...ENDPOINT,
        ...route(method),
        kind: embedding,
        async decode(body, incoming) {
          const turn = incoming.turn();
          if (turn) await turn;
          return decodeEmbedRequest(body, modelIn(incoming.wildcardPath, isTuned), isBatch);
        },
        complete: () => embedCollector(isBatch),
      };
    }),
    {
      ...QUERY,
      ...route("*"),
      // The last: owns the methods of embeddings as well, where the backend has no embeddings.
      owns(wildcardPath, request) {
        const method = methodIn(wildcardPath);
        // For other requests, a colon belongs to the name of a model, such as one that OpenAI's clients delete.
        const isMeant = request.method === "POST" || isOurs(request);
        return isMeant && method !== undefined && !METHODS.includes(method);
      },
      body: "none",
      answer(_query, { wildcardPath }) {
        throw new GatewayError("not_found", `A model has no method ${shown(methodIn(wildcardPath))}.`);
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
  let turn = incoming.turn();
  if (turn) await turn;
  assertSchemaSize(raw, SCHEMA_FIELDS, incoming);
  const body = inCamelCase(raw, isCount);
  turn = incoming.turn();
  if (turn) await turn;
  const request = validRequest(raw, body, isCount);
  turn = incoming.turn();
  if (turn) await turn;
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

/** Tells whether the caller uses this format. Needed for paths that several formats share. */
const isOurs = ({ headers, url }: Request): boolean =>
  headers.has("x-goog-api-key") || headers.has("x-goog-api-client") || queryOf(url).has("key");

/** Returns the endpoints for the list of models and for a single model. */
function modelEndpoints(path: string, owns: (request: Request) => boolean): QueryEndpoint[] {
  const query = { ...QUERY, method: "GET", body: "none" } as const;
  return [
    { ...query, path, owns: (_wildcardPath, request) => owns(request), answer: listModels },
    {
      ...query,
      path: `${path}/**`,
      owns: (wildcardPath, request) => isModelAddress(wildcardPath) && owns(request),
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
  if (!Number.isInteger(start) || start < 0)
    throw new GatewayError("invalid_request", "pageToken: is none that this service gave", { path: ["pageToken"] });
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

/** Makes the codec for upstreams that speak this format. */
export function generateContentCodec(options: CodecOptions = {}): ChatCodec {
  const { foreignReasoning = "drop" } = options;
  const encode: ChatCodec["encodeRequest"] = (request) => {
    const method = request.stream ? "streamGenerateContent?alt=sse" : "generateContent";
    const path = `${pathOf(request.model)}:${method}`;
    if (request.native?.format === FORMAT) {
      const fields: ConvertedFields = new Set();
      const native = withOutputLimit(request.native, request, options, fields);
      const own = withOwnSeals(native, request.model, foreignReasoning, fields, request.native.remembered);
      // Name the model again: the caller may have named another one than in the path.
      const body = "model" in own ? { ...own, model: resourceOf(request.model) } : own;
      return { body, path, headers: {}, conversions: removedFrom(fields, options) };
    }
    const body = encodeRequest(request, options);
    return { body: body as JsonObject, path, headers: {}, conversions: conversionsOf(request, body, options) };
  };
  return {
    format: FORMAT,
    runsCode: true,
    encodeRequest: encode,
    answerDecoder: (limits) => new GenerateContentDecoder(limits),
    count: {
      encode(request) {
        const { body, headers } = encode(request);
        const generateContentRequest = { model: resourceOf(request.model), ...body };
        return { path: `${pathOf(request.model)}:countTokens`, headers, body: { generateContentRequest } };
      },
      decode: ({ totalTokens }) => totalTokens,
    },
    decodeError,
  };
}

/** Encodes embedding requests to an upstream of this format, and decodes its answers and errors. */
export const generateContentEmbeddings: EmbeddingCodec = {
  maxInputs: maxEmbedInputs,
  conversionsOf: embedConversionsOf,
  encodeRequest: encodeEmbedRequest,
  decodeAnswer: decodeEmbedAnswer,
  decodeError,
};

/**
 * Returns the caller's own body with the gateway's output limit, and with a budget for which another limit than the caller's has room. The
 * field names keep the caller's spelling.
 */
function withOutputLimit(
  { body }: NativeRequest,
  request: ChatRequest,
  options: CodecOptions,
  fields: ConvertedFields,
): JsonObject {
  const { model } = request;
  const maxOutputTokens =
    controlOf(model, options) === "none" ? limitWithoutReasoning(request) : request.maxOutputTokens;
  const native = body as JsonObject;
  const configName = spellingIn(native, "generationConfig", "generation_config");
  const held = native[configName];
  const config = isJsonObject(held) ? held : {};
  const limitName = spellingIn(config, "maxOutputTokens", "max_output_tokens");
  const limited = { ...native, [configName]: { ...config, [limitName]: maxOutputTokens } };
  const thinkingName = spellingIn(config, "thinkingConfig", "thinking_config");
  const thinking = config[thinkingName];
  if (config[limitName] === maxOutputTokens || !isJsonObject(thinking)) return limited;
  const budgetName = spellingIn(thinking, "thinkingBudget", "thinking_budget");
  const budget = thinking[budgetName];
  if (typeof budget !== "number" || budget <= 0) return limited;
  const within = budgetInLimit(budget, { model, maxOutputTokens });
  if (within === budget) return limited;
  fields.add(within === 0 ? "reasoning" : "reasoning.budgetTokens");
  // The official service refuses to show thoughts where there are none.
  const { includeThoughts: _camel, include_thoughts: _snake, ...hidden } = thinking;
  const changed = { ...(within === 0 ? hidden : thinking), [budgetName]: within };
  return { ...native, [configName]: { ...config, [limitName]: maxOutputTokens, [thinkingName]: changed } };
}

const spellingIn = (object: JsonObject, camel: string, snake: string): string =>
  object[camel] == null && object[snake] != null ? snake : camel;
