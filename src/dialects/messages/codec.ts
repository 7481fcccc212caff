/** The messages format in the direction of an upstream: requests are encoded, answers and errors decoded (spec 2.6, 2.7, 6.1). */

import type { ChatRequest, NativeRequest } from "../../model/chat.ts";
import type { JsonObject } from "../../model/json.ts";
import type { ChatCodec, EncodedRequest } from "../codec.ts";
import { decodeError } from "./errors.ts";
import { fatesOf } from "./fates.ts";
import { DIALECT, encodeRequest } from "./request.ts";
import { AnswerDecoder } from "./response.decode.ts";

/** The version of the format that is written here, for a caller who named none. */
const VERSION = "2023-06-01";

export const messagesCodec: ChatCodec = {
  dialect: DIALECT,
  encodeRequest(request) {
    const native = request.native?.dialect === DIALECT ? request.native : undefined;
    return {
      ...(native ? { body: overlaid(native, request), fates: [] } : translated(request)),
      path: "/messages",
      headers: {
        "anthropic-version": native?.version ?? VERSION,
        ...(native && native.betas.length > 0 && { "anthropic-beta": native.betas.join(",") }),
      },
    };
  },
  answerDecoder: (limits) => new AnswerDecoder(limits),
  count: {
    encode(request) {
      const { body, headers } = messagesCodec.encodeRequest(request);
      const counted = Object.entries(body).filter(([field]) => !OF_ANSWERS.has(field));
      return { path: "/messages/count_tokens", headers, body: Object.fromEntries(counted) };
    },
    decode: ({ input_tokens }) => input_tokens,
  },
  decodeError,
};

/** The fields that say how to answer, which the official service takes for a mistake where nothing is to be answered. */
const OF_ANSWERS: ReadonlySet<string> = new Set([
  "max_tokens",
  "metadata",
  "service_tier",
  "stop_sequences",
  "stream",
  "temperature",
  "top_k",
  "top_p",
]);

function translated(request: ChatRequest): Pick<EncodedRequest, "body" | "fates"> {
  const body = encodeRequest(request);
  return { body: body as JsonObject, fates: fatesOf(request, body) };
}

/** A native body with what the gateway decided: the model's name, the output limit, whether it is a stream. */
function overlaid({ body }: NativeRequest, { model, maxOutputTokens, stream }: ChatRequest): JsonObject {
  const said = body as JsonObject;
  const changed = { ...said, model, max_tokens: maxOutputTokens };
  // A request without the field already means no stream.
  return stream === (said["stream"] ?? false) ? changed : { ...changed, stream };
}
