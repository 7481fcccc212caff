/** The messages dialect: `POST /v1/messages`, complete and streamed, and its token count (spec 2.6, 2.7, 6.1, 7.2). */

import { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import { assertValid } from "../../http/validation.ts";
import type { ChatRequest } from "../../model/chat.ts";
import type { AnswerEvent } from "../../model/event.ts";
import { isJsonObject } from "../../model/json.ts";
import type { AnswerCollector as Collector, AnswerContext, AnswerStream, Dialect, Incoming } from "../dialect.ts";
import { assertSchemaSize } from "../shared/schema-size.ts";
import { anthropicRateHeaders } from "../shared/rate-headers.ts";
import { WholeAnswer } from "../shared/whole-answer.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { lossesOf } from "./fates.answer.ts";
import { modelEndpoints } from "./models.ts";
import { decodeRequest, DIALECT, type MessagesHeaders } from "./request.ts";
import { messagesRequest } from "./schema.ts";
import { AnswerCollector } from "./response.collect.ts";
import { StreamWriter } from "./stream.native.ts";
import { frameText, PING } from "./stream.frames.ts";
import { StreamEncoder } from "./stream.ts";

/** How far the messages format is widened beyond the spec's letter. */
export interface MessagesOptions {
  /**
   * Every range of numbers and lengths that the spec (2.6, 8) states narrower than the official service. `spec` (default) holds
   * the stated ones: `max_tokens` > 1, 0 < `top_p` < 1, `top_k` > 0, and a tool's `name` of 1 to 64 characters. `vendor` takes
   * what the official service takes: `max_tokens` 1, `top_p` 0 and 1, `top_k` 0, and a `name` of up to 128 characters.
   */
  readonly ranges?: "spec" | "vendor";
  /** `spec` (default) takes images as base64 alone; `vendor` takes them by URL and file id too, which the backend must fetch. */
  readonly imageSources?: "spec" | "vendor";
}

export function messages({ ranges = "spec", imageSources = "spec" }: MessagesOptions = {}): Dialect {
  const schema = messagesRequest({ vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" });

  async function decode(body: unknown, incoming: Incoming): Promise<ChatRequest> {
    const headers = readHeaders(incoming.request.headers);
    const parsed = incoming.turn();
    if (parsed) await parsed;
    assertSchemaSize(body, ["tools", "output_config"], incoming);
    assertValid(schema, body);
    const valid = incoming.turn();
    if (valid) await valid;
    return decodeRequest(body, headers);
  }

  const route = {
    dialect: DIALECT,
    rateHeaders: anthropicRateHeaders,
    method: "POST",
    credential: (request: Request) => request.headers.get("x-api-key") || bearerToken(request.headers),
    encodeError: (error: GatewayError, requestId: string) => ({
      status: errorStatus(error),
      body: encodeError(error, requestId),
    }),
  } as const;

  return {
    name: DIALECT,
    endpoints: [
      {
        ...route,
        kind: "chat",
        path: "/v1/messages",
        maxOutputTokensPath: ["max_tokens"],
        decode,
        lossesOf,
        complete,
        stream,
      },
      {
        ...route,
        kind: "query",
        path: "/v1/messages/count_tokens",
        expiredKeysMayAsk: false,
        body: "json",
        answer: async ({ body, authorize, countInput }, incoming) => {
          const counted = await decode(withMaxTokens(body), incoming);
          await authorize(counted.model);
          return { input_tokens: await countInput(counted) };
        },
      },
      ...modelEndpoints(route),
    ],
  };
}

/** A count generates nothing, so its callers send no max_tokens. */
const withMaxTokens = (body: unknown): unknown =>
  isJsonObject(body) && body["max_tokens"] == null ? { ...body, max_tokens: 2 ** 31 - 1 } : body;

function complete(answer: AnswerContext): Collector<AnswerEvent> {
  const encoder = new StreamEncoder(answer);
  return new WholeAnswer(DIALECT, (event) => encoder.frames(event), new AnswerCollector());
}

function stream(answer: AnswerContext): AnswerStream<AnswerEvent> {
  const writer = new StreamWriter(answer);
  return {
    contentType: "text/event-stream; charset=utf-8",
    encode: (event) => writer.write(event),
    keepAlive: PING,
    error: (error) => frameText(encodeError(error, answer.requestId)),
  };
}

/** The version is required, the betas are comma-separated or repeated (spec 4, note 3); the official names are aliases. */
function readHeaders(headers: Headers): MessagesHeaders {
  const version = headers.get("compat-version") || headers.get("anthropic-version");
  if (!version)
    throw new GatewayError(
      "invalid_request",
      "compat-version: the header is required (anthropic-version is read as well)",
      {
        path: ["compat-version"],
      },
    );
  const betas = [headers.get("compat-beta"), headers.get("anthropic-beta")]
    .flatMap((header) => header?.split(",") ?? [])
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "");
  return { version, betas: [...new Set(betas)] };
}
