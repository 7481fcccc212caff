/** The chat-completions format in the direction of an upstream: OpenAI, most other providers, local servers. */

import type { ChatRequest } from "../../model/chat.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { ChatCodec, EncodedRequest } from "../codec.ts";
import { AnswerDecoder } from "./answer.decode.ts";
import { decodeError } from "./errors.ts";
import { encodeRequest } from "./request.ts";
import { DIALECT } from "./schema.base.ts";

export interface ChatCompletionsCodecOptions {
  /** How the upstream spells the limit on the output; some local servers know the older name alone. Default: the newer one. */
  readonly outputLimitField?: LimitField;
}

type LimitField = "max_completion_tokens" | "max_tokens";

export const chatCompletionsCodec = (options: ChatCompletionsCodecOptions = {}): ChatCodec => {
  const { outputLimitField = "max_completion_tokens" } = options;
  return {
    dialect: DIALECT,
    encodeRequest: (request) => encode(request, outputLimitField),
    answerDecoder: (limits) => new AnswerDecoder(limits),
    decodeError,
  };
};

function encode(request: ChatRequest, limitField: LimitField): EncodedRequest {
  const path = "/chat/completions";
  const { native } = request;
  if (native?.dialect === DIALECT)
    return { path, headers: {}, fates: [], body: overlay(native.body as JsonObject, request, limitField) };
  const { body, fates } = encodeRequest(request);
  const { max_completion_tokens, ...rest } = body;
  // What is built here of JSON alone is JSON.
  const wire = { ...rest, [limitField]: max_completion_tokens } as object as JsonObject;
  return { path, headers: {}, fates, body: wire };
}

/** The caller's own body, with what the gateway has decided laid over it. */
function overlay(
  body: JsonObject,
  { model, maxOutputTokens, stream }: ChatRequest,
  limitField: LimitField,
): JsonObject {
  const said = (["max_completion_tokens", "max_tokens"] as const).filter((field) => body[field] != null);
  const limits = Object.fromEntries((said.length > 0 ? said : [limitField]).map((field) => [field, maxOutputTokens]));
  const options = isJsonObject(body["stream_options"]) ? body["stream_options"] : {};
  return {
    ...body,
    model,
    ...limits,
    // The counts are always asked for; a caller who did not ask is not shown them.
    ...(stream && { stream: true, stream_options: { ...options, include_usage: true } }),
  };
}
