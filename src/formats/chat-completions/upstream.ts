/** The chat-completions format as upstreams speak it: the codec of a relay. */

import type { JsonObject } from "../../model/json.ts";
import type { ChatCodec, CodecOptions } from "../format.ts";
import { TOOL_NAMES } from "../shared/tool-names.ts";
import { CompletionDecoder, decodeError } from "./answer.decode.ts";
import { encodeRequest, overlaidRequest } from "./request.ts";
import { FORMAT } from "./routes.ts";

/** Makes the codec for upstreams that speak this format: OpenAI, most other providers, local servers. */
export const chatCompletionsCodec = (options: CodecOptions = {}): ChatCodec => ({
  format: FORMAT,
  toolNames: TOOL_NAMES,
  encodeRequest(request) {
    const { body, conversions } =
      request.native?.format === FORMAT
        ? overlaidRequest(request.native.body, request, options)
        : encodeRequest(request, options);
    // The cast is safe: the body is the caller's own JSON, or is built from values that came as JSON.
    return { path: "/chat/completions", headers: {}, body: body as JsonObject, conversions };
  },
  answerDecoder: (limits, model) => new CompletionDecoder(limits, model),
  answerFields: /^choices$/,
  decodeError,
});
