/** The chat-completions dialect: `POST /v1/chat/completions`, complete and streamed, as most providers and local servers speak it. */

import type { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import { assertValid } from "../../http/validation.ts";
import type { AnswerEvent } from "../../model/event.ts";
import type { Clock } from "../../ports/clock.ts";
import type { AnswerCollector, AnswerContext, AnswerStream, Dialect } from "../dialect.ts";
import { encodeError, errorStatus } from "../shared/openai-errors.ts";
import { assertSchemaSize } from "../shared/schema-size.ts";
import { openaiRateHeaders } from "../shared/rate-headers.ts";
import { WholeAnswer } from "../shared/whole-answer.ts";
import { lossesOf } from "./fates.answer.ts";
import { ChunkCollector } from "./answer.collect.ts";
import { modelEndpoints } from "./models.ts";
import { decodeRequest } from "./request.ts";
import { ChatCompletionsRequest } from "./schema.ts";
import { DIALECT } from "./schema.base.ts";
import { StreamWriter } from "./stream.native.ts";
import { type Answering, frameText, KEEP_ALIVE, StreamEncoder } from "./stream.ts";

const route = {
  dialect: DIALECT,
  rateHeaders: openaiRateHeaders,
  credential: (request: Request) => bearerToken(request.headers),
  encodeError: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
} as const;

export function chatCompletions({ clock }: { readonly clock: Clock }): Dialect {
  const answering = (answer: AnswerContext): Answering => ({ ...answer, created: Math.floor(clock.now() / 1000) });
  return {
    name: DIALECT,
    endpoints: [
      {
        kind: "chat",
        method: "POST",
        path: "/v1/chat/completions",
        maxOutputTokensPath: ["max_completion_tokens"],
        ...route,
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
        lossesOf,
        complete: (answer) => complete(answering(answer)),
        stream: (answer) => stream(answering(answer)),
      },
      ...modelEndpoints(route),
    ],
  };
}

function complete(answering: Answering): AnswerCollector<AnswerEvent> {
  const encoder = new StreamEncoder(answering, true);
  return new WholeAnswer(DIALECT, (event) => encoder.chunks(event), new ChunkCollector());
}

function stream(answering: Answering): AnswerStream<AnswerEvent> {
  const writer = new StreamWriter(answering);
  return {
    contentType: "text/event-stream; charset=utf-8",
    encode: (event) => writer.write(event),
    keepAlive: KEEP_ALIVE,
    error: (error) => frameText(encodeError(error)),
  };
}
