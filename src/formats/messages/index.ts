/** The messages format: `POST /v1/messages`, token counts, the list of models, and the codec for upstreams (spec 2.6, 2.7, 6.1, 7.2). */

import { GatewayError } from "../../errors.ts";
import { bearerToken, queryOf } from "../../http/request.ts";
import { assertValid } from "../../http/validation.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import type { ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { Shapes } from "../../options.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { TelemetryNames } from "../../ports/observer.ts";
import type { ChatCodec, CodecOptions, EndpointOf, Format, Incoming, Query } from "../format.ts";
import { isModelAddress, modelNamed, pageSize } from "../shared/answer.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { anthropicRateHeaders } from "../shared/errors.ts";
import { assertSchemaSize } from "../shared/tools.ts";
import { MessagesDecoder } from "./answer.decode.ts";
import { conversionsOf, conversionsOfEvent } from "./conversions.ts";
import { decodeError, encodeError, errorStatus } from "./errors.ts";
import { encodeMessages } from "./request.messages.ts";
import { nativeBody } from "./request.native.ts";
import { decodeRequest, encodeRequest, fitted, INTERLEAVED_THINKING, type MessagesHeaders } from "./request.ts";
import type { MessagesModel, MessagesModelList } from "./schema.answer.ts";
import { FORMAT, messagesRequest } from "./schema.ts";
import { completeAnswer, MessagesStream } from "./stream.ts";

export const TELEMETRY: TelemetryNames = { provider: "anthropic" };

/** The options of a host that make the messages format accept more than the spec allows. */
export interface MessagesOptions {
  /**
   * The ranges of numbers and lengths for which the spec (2.6, 8) is stricter than the official service. `spec` (default) has
   * `max_tokens` above 1, `top_p` between 0 and 1, `top_k` above 0, and a tool's `name` of 1 to 64 characters. `vendor` has the
   * official ranges: it also takes `max_tokens` 1, `top_p` 0 and 1, `top_k` 0, a `name` of up to 128 characters, and a thinking budget of
   * `max_tokens` and more. `spec` takes such a budget only with the beta `interleaved-thinking-2025-05-14`.
   */
  readonly ranges?: "spec" | "vendor";
  /** `spec` (default) accepts images only as base64. `vendor` also accepts URLs and file ids, which the backend must fetch. */
  readonly imageSources?: "spec" | "vendor";
}

const SPEC_OR_VENDOR = { optional: ["spec", "vendor"] } as const;

export const MESSAGES_SHAPES: Shapes<MessagesOptions> = { ranges: SPEC_OR_VENDOR, imageSources: SPEC_OR_VENDOR };

export function messages(options: MessagesOptions = {}): Format {
  const { ranges = "spec", imageSources = "spec" } = options;
  const rules = { vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" };
  const interleaved = messagesRequest({ ...rules, anyBudget: true });
  const schema = rules.vendorRanges ? interleaved : messagesRequest(rules);

  async function decode(body: unknown, incoming: Incoming): Promise<ChatRequest> {
    const headers = readHeaders(incoming.request.headers);
    const parsed = incoming.turn();
    if (parsed) await parsed;
    assertSchemaSize(body, ["tools", "output_config"], incoming);
    assertValid(headers.betas.includes(INTERLEAVED_THINKING) ? interleaved : schema, body);
    const valid = incoming.turn();
    if (valid) await valid;
    return decodeRequest(body, headers);
  }

  const route = {
    format: FORMAT,
    rateHeaders: anthropicRateHeaders,
    credential: (request: Request) => request.headers.get("x-api-key") || bearerToken(request.headers),
    encodeError: (error: GatewayError, requestId: string) => ({
      status: errorStatus(error),
      body: encodeError(error, requestId),
    }),
  } as const;
  const modelsRoute = { ...route, kind: "query", method: "GET", body: "none", expiredKeysMayAsk: false } as const;

  const generation: EndpointOf<ChatKind> = {
    ...route,
    kind: chat,
    method: "POST",
    path: "/v1/messages",
    maxOutputTokensPath: ["max_tokens"],
    decode,
    conversionsOfEvent,
    complete: completeAnswer,
    stream: (answer) => new MessagesStream(answer),
  };

  return {
    name: FORMAT,
    telemetry: TELEMETRY,
    endpoints: [
      generation,
      {
        ...route,
        kind: "query",
        method: "POST",
        path: "/v1/messages/count_tokens",
        expiredKeysMayAsk: false,
        body: "json",
        answer: async ({ body, authorize, countInput }, incoming) => {
          const counted = await decode(withMaxTokens(body), incoming);
          await authorize(chat, counted.model);
          return { input_tokens: await countInput(chat, counted) };
        },
      },
      { ...modelsRoute, path: "/v1/models", owns: (_tail, request) => isOurs(request), answer: listModels },
      {
        ...modelsRoute,
        path: "/v1/models/**",
        owns: (wildcardPath, request) => isModelAddress(wildcardPath) && isOurs(request),
        answer: async (query, { wildcardPath }) => encodeModel(await modelNamed(query, wildcardPath)),
      },
    ],
  };
}

/**
 * Reads the headers for the version, which is required, and for betas (spec 4, note 3). Several betas are separated by commas or come in
 * repeated headers. The header names of the official service are accepted too.
 */
function readHeaders(headers: Headers): MessagesHeaders {
  const version = headers.get("compat-version") || headers.get("anthropic-version");
  if (!version) {
    const message = "compat-version: the header is required (anthropic-version is read as well)";
    throw new GatewayError("invalid_request", message, { path: ["compat-version"] });
  }
  const betas = new Set<string>();
  for (const name of ["compat-beta", "anthropic-beta"])
    for (const beta of headers.get(name)?.split(",") ?? []) if (beta.trim() !== "") betas.add(beta.trim());
  return { version, betas: [...betas] };
}

/** Adds `max_tokens` to the body of a token count. Callers do not send it, because a count generates nothing; the schema requires it. */
const withMaxTokens = (body: unknown): unknown =>
  isJsonObject(body) && body["max_tokens"] == null ? { ...body, max_tokens: 2 ** 31 - 1 } : body;

/** Tells whether the caller uses this format, by its headers. Needed for paths that several formats share. */
const isOurs = ({ headers }: Request): boolean =>
  ["x-api-key", "compat-version", "anthropic-version"].some((name) => headers.has(name));

const DEFAULT_PAGE_SIZE = 20;
const MAX_PAGE_SIZE = 1_000;

/** Returns a page of at most `limit` models, after the model `after_id` or before the model `before_id`. */
async function listModels({ models }: Query, { request }: Incoming): Promise<MessagesModelList> {
  const query = queryOf(request.url);
  const all = await models();
  const size = pageSize(query.get("limit"), "limit", DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE);
  const after = all.findIndex(({ id }) => id === query.get("after_id")) + 1;
  const before = all.findIndex(({ id }) => id === query.get("before_id"));
  const [start, end] = before < 0 ? [after, after + size] : [Math.max(0, before - size), before];
  const data = all.slice(start, end).map(encodeModel);
  const hasMore = before < 0 ? end < all.length : start > 0;
  return { data, has_more: hasMore, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
}

/** Encodes a model. An unknown creation time becomes 1970-01-01, as in the official service. */
const encodeModel = ({
  id,
  displayName = id,
  createdAt = 0,
  maxInputTokens,
  maxOutputTokens,
}: ModelInfo): MessagesModel => ({
  type: "model",
  id,
  display_name: displayName,
  created_at: new Date(createdAt * 1000).toISOString().replace(".000Z", "Z"),
  max_input_tokens: maxInputTokens ?? null,
  max_tokens: maxOutputTokens ?? null,
  lifecycle: "active",
  capabilities: null,
  line: null,
  deprecated_at: null,
  retires_at: null,
});

/** The version header of requests that the gateway encodes for callers of other formats. */
const VERSION = "2023-06-01";

/** Makes the codec for upstreams that speak this format. */
export function messagesCodec(options: CodecOptions = {}): ChatCodec {
  const encode: ChatCodec["encodeRequest"] = (request) => {
    const native = request.native?.format === FORMAT ? request.native : undefined;
    const headers = {
      "anthropic-version": native?.version ?? VERSION,
      ...(native && native.betas.length > 0 && { "anthropic-beta": native.betas.join(",") }),
    };
    if (native) return { path: "/messages", headers, ...nativeBody({ ...request, native }, options) };
    const lost: ConvertedFields = new Set();
    const messages = encodeMessages(request.messages, options.foreignReasoning, lost);
    const body = encodeRequest(fitted(request, messages, options, lost), messages);
    const conversions = conversionsOf(request, body, lost, options);
    return { path: "/messages", headers, body: body as JsonObject, conversions };
  };
  return {
    format: FORMAT,
    encodeRequest: encode,
    answerDecoder: (limits) => new MessagesDecoder(limits),
    count: {
      encode(request) {
        const { body, headers } = encode(request);
        const counted = Object.entries(body).filter(([field]) => !ANSWER_FIELDS.has(field));
        return { path: "/messages/count_tokens", headers, body: Object.fromEntries(counted) };
      },
      decode: ({ input_tokens }) => input_tokens,
    },
    decodeError,
  };
}

/** The request fields about the answer. The official service refuses them in a token count. */
const ANSWER_FIELDS: ReadonlySet<string> = new Set([
  "container",
  "diagnostics",
  "fallback_credit_token",
  "fallbacks",
  "inference_geo",
  "max_tokens",
  "metadata",
  "service_tier",
  "stop_sequences",
  "stream",
  "temperature",
  "top_k",
  "top_p",
]);
