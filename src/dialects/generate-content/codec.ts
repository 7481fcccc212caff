/** The generate-content format in the direction of an upstream: requests are encoded, answers and errors decoded (spec 2.8, 2.9). */

import type { ChatRequest, NativeRequest } from "../../model/chat.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { ChatCodec, EncodedRequest } from "../codec.ts";
import { decodeError } from "./errors.ts";
import { fatesOf } from "./fates.ts";
import { encodeRequest } from "./request.ts";
import { AnswerDecoder } from "./response.decode.ts";
import { DIALECT } from "./schema.base.ts";

export const generateContentCodec: ChatCodec = {
  dialect: DIALECT,
  encodeRequest(request) {
    const native = request.native?.dialect === DIALECT ? request.native : undefined;
    return {
      ...(native ? { body: overlaid(native, request), fates: [] } : translated(request)),
      path: pathOf(request),
      headers: {},
    };
  },
  answerDecoder: (limits) => new AnswerDecoder(limits),
  count: {
    encode(request) {
      const { body, headers } = generateContentCodec.encodeRequest(request);
      const generateContentRequest = { model: resourceOf(request.model), ...body };
      return { path: `${resourcePath(request.model)}:countTokens`, headers, body: { generateContentRequest } };
    },
    decode: ({ totalTokens }) => totalTokens,
  },
  decodeError,
};

const TUNED = "tunedModels/";

const resourceOf = (model: string): string => (model.startsWith(TUNED) ? model : `models/${model}`);

/** A model's own slashes are part of the path, and its other characters are not. */
const resourcePath = (model: string): string => `/${resourceOf(model).split("/").map(encodeURIComponent).join("/")}`;

const pathOf = ({ model, stream }: ChatRequest): string =>
  `${resourcePath(model)}:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`;

function translated(request: ChatRequest): Pick<EncodedRequest, "body" | "fates"> {
  const body = encodeRequest(request);
  return { body: body as JsonObject, fates: fatesOf(request, body) };
}

/** A native body with the output limit that the gateway decided, in the spelling that its caller uses. */
function overlaid({ body }: NativeRequest, { maxOutputTokens }: ChatRequest): JsonObject {
  const said = body as JsonObject;
  const config = spelled(said, "generationConfig", "generation_config");
  const given = said[config];
  const within = isJsonObject(given) ? given : {};
  const limit = spelled(within, "maxOutputTokens", "max_output_tokens");
  return { ...said, [config]: { ...within, [limit]: maxOutputTokens } };
}

/** The one of two spellings that an object uses. */
const spelled = (object: JsonObject, camel: string, snake: string): string =>
  object[camel] == null && object[snake] != null ? snake : camel;
