/** The generate-content format as upstreams speak it: the codecs of a relay. */

import { limitWithoutReasoning } from "../../kinds/chat/reasoning.ts";
import type { ChatRequest, NativeRequest } from "../../model/chat-request.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { ChatCodec, CodecOptions, EmbeddingCodec } from "../format.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { GOOGLE_TOOL_NAMES } from "../shared/tool-names.ts";
import { GenerateContentDecoder } from "./answer.decode.ts";
import { conversionsOf, removedFrom } from "./conversions.ts";
import {
  decodeEmbedAnswer,
  decodeEmbedCounts,
  embedConversionsOf,
  encodeEmbedRequest,
  maxEmbedInputs,
} from "./embed.ts";
import { decodeError } from "./errors.ts";
import { budgetInLimit, controlOf, withOwnSeals } from "./reasoning.ts";
import { encodeRequest, pathOf, resourceOf } from "./request.ts";
import { FORMAT } from "./routes.ts";

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
    toolNames: GOOGLE_TOOL_NAMES,
    runsCode: true,
    encodeRequest: encode,
    answerDecoder: (limits) => new GenerateContentDecoder(limits),
    answerFields: /^(?:candidates|usage_?metadata|prompt_?feedback)$/i,
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
  decodeCounts: decodeEmbedCounts,
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
  if (config[limitName] === maxOutputTokens) return native;
  const limited = { ...native, [configName]: { ...config, [limitName]: maxOutputTokens } };
  const thinkingName = spellingIn(config, "thinkingConfig", "thinking_config");
  const thinking = config[thinkingName];
  if (!isJsonObject(thinking)) return limited;
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
