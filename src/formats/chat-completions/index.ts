/** The chat-completions format: `POST /v1/chat/completions`, complete and streamed, and the list of models. */

import { assertValid } from "../../http/validation.ts";
import { chat, type ChatKind } from "../../kinds/chat/index.ts";
import type { JsonObject } from "../../model/json.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ModelInfo } from "../../ports/model-backend.ts";
import type { ChatCodec, CodecOptions, EndpointOf, Format } from "../format.ts";
import { isModelAddress, modelNamed } from "../shared/answer.ts";
import { openaiEndpoint } from "../shared/errors.ts";
import { assertSchemaSize } from "../shared/tools.ts";
import { OPENAI_TELEMETRY } from "../shared/upstream.ts";
import { CompletionDecoder } from "./answer.decode.ts";
import { conversionsOfEvent } from "./conversions.ts";
import { decodeError } from "./errors.ts";
import { decodeRequest, encodeRequest, overlaidRequest } from "./request.ts";
import { ChatCompletionsRequest, FORMAT } from "./schema.ts";
import { completeAnswer, CompletionStream } from "./stream.ts";

/** Returns the format with its endpoints. Its list of models also serves the callers of formats that have no such list. */
export function chatCompletions({ clock }: { readonly clock: Clock }): Format {
  const nowInSeconds = (): number => Math.floor(clock.now() / 1000);
  const common = {
    format: FORMAT,
    ...openaiEndpoint,
  } as const;
  const query = { ...common, method: "GET", body: "none", expiredKeysMayAsk: false } as const;
  const generation: EndpointOf<ChatKind> = {
    ...common,
    kind: chat,
    method: "POST",
    path: "/v1/chat/completions",
    maxOutputTokensPath: ["max_completion_tokens"],
    async decode(body, incoming) {
      const { limits, json } = incoming;
      const parsed = incoming.turn();
      if (parsed) await parsed;
      assertSchemaSize(body, ["tools", "functions", "response_format"], incoming);
      assertValid(ChatCompletionsRequest, body);
      const valid = incoming.turn();
      if (valid) await valid;
      return decodeRequest(body, limits.defaultMaxOutputTokens, json);
    },
    conversionsOfEvent,
    complete: (answer) => completeAnswer(answer, nowInSeconds()),
    stream: (answer) => new CompletionStream(answer, nowInSeconds()),
  };

  return {
    name: FORMAT,
    telemetry: OPENAI_TELEMETRY,
    endpoints: [
      generation,
      {
        ...query,
        kind: "query",
        path: "/v1/models",
        answer: async ({ models }) => ({ object: "list", data: (await models()).map(encodeModel) }),
      },
      {
        ...query,
        kind: "query",
        path: "/v1/models/**",
        owns: isModelAddress,
        answer: async (asked, { wildcardPath }) => encodeModel(await modelNamed(asked, wildcardPath)),
      },
    ],
  };
}

const encodeModel = ({ id, createdAt = 0, ownedBy = "polygate" }: ModelInfo): object => ({
  id,
  object: "model",
  created: createdAt,
  owned_by: ownedBy,
});

/** Makes the codec for upstreams that speak this format: OpenAI, most other providers, local servers. */
export const chatCompletionsCodec = (options: CodecOptions = {}): ChatCodec => ({
  format: FORMAT,
  encodeRequest(request) {
    const { body, conversions } =
      request.native?.format === FORMAT
        ? overlaidRequest(request.native.body, request, options)
        : encodeRequest(request, options);
    // The cast is safe: the body is the caller's own JSON, or is built from values that came as JSON.
    return { path: "/chat/completions", headers: {}, body: body as JsonObject, conversions };
  },
  answerDecoder: (limits, model) => new CompletionDecoder(limits, model),
  decodeError,
});
