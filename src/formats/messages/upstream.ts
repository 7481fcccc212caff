/** The messages format as upstreams speak it: the codec of a relay. */

import { type JsonObject } from "../../model/json.ts";
import type { ChatCodec, CodecOptions } from "../format.ts";
import type { ConvertedFields } from "../shared/conversions.ts";
import { limitHeaders } from "../shared/errors.decode.ts";
import { MessagesDecoder } from "./answer.decode.ts";
import { conversionsOf } from "./conversions.ts";
import { decodeError } from "./errors.ts";
import { encodeMessages } from "./request.messages.ts";
import { nativeBody } from "./request.native.ts";
import { encodeRequest, fitted } from "./request.ts";
import { FORMAT } from "./routes.ts";

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
    limitsOf: (headers) => ({ format: FORMAT, headers: limitHeaders(headers, UNIFIED) }),
  };
}

/** The headers about a subscription by which clients wait. Others tell how far the host's account is used up. */
const UNIFIED: readonly string[] = ["status", "reset", "representative-claim"].map(
  (name) => `anthropic-ratelimit-unified-${name}`,
);

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
