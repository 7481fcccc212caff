/** The messages dialect: `POST /v1/messages`, complete and streamed, and its token count (spec 2.6, 2.7, 6.1, 7.2). */

import { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import { readJson } from "../../http/json-body.ts";
import { assertValid } from "../../http/validation.ts";
import { estimateInputTokens } from "../../metering/estimate.ts";
import type { ChatRequest } from "../../model/chat.ts";
import type { AnswerEvent } from "../../model/event.ts";
import { isJsonObject } from "../../model/json.ts";
import type { AnswerCollector as Collector, AnswerContext, AnswerStream, Dialect, Incoming } from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { decodeRequest, DIALECT, type MessagesHeaders } from "./request.ts";
import { messagesRequest } from "./schema.ts";
import { AnswerCollector, frameText, PING, StreamEncoder } from "./stream.ts";

/** How far the messages format is widened beyond the spec's letter. */
export interface MessagesOptions {
  /**
   * `spec` (default) holds the stated ranges: `max_tokens` > 1, 0 < `top_p` < 1, `top_k` > 0. `vendor` takes what the official
   * service takes: `max_tokens` 1, `top_p` 0 and 1, `top_k` 0.
   */
  readonly ranges?: "spec" | "vendor";
  /** `spec` (default) takes images as base64 alone; `vendor` takes them by URL and file id too, which the backend must fetch. */
  readonly imageSources?: "spec" | "vendor";
}

export function messages({ ranges = "spec", imageSources = "spec" }: MessagesOptions = {}): Dialect {
  const schema = messagesRequest({ vendorRanges: ranges === "vendor", vendorSources: imageSources === "vendor" });

  async function parse({ request, limits }: Incoming, complete = identity): Promise<ChatRequest> {
    const headers = readHeaders(request.headers);
    const body = complete(await readJson(request, limits));
    assertValid(schema, body);
    return decodeRequest(body, headers);
  }

  const route = {
    method: "POST",
    credential: (request: Request) => request.headers.get("x-api-key") || bearerToken(request.headers),
    dress: (error: GatewayError, requestId: string) => ({
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
        parse: (incoming) => parse(incoming),
        complete,
        stream,
      },
      {
        ...route,
        kind: "query",
        path: "/v1/messages/count_tokens",
        expiredKeysMayAsk: false,
        answer: async ({ authorize, countTokens, ...incoming }) => {
          const counted = await parse(incoming, withMaxTokens);
          await authorize(counted);
          return { input_tokens: estimateInputTokens(counted, countTokens) };
        },
      },
    ],
  };
}

const identity = (body: unknown): unknown => body;

/** A count generates nothing, so its callers send no max_tokens. */
const withMaxTokens = (body: unknown): unknown =>
  isJsonObject(body) && body["max_tokens"] == null ? { ...body, max_tokens: 2 ** 31 - 1 } : body;

/** Ids of the gateway's answers follow its request ids, so that one finds the other. */
const messageId = (requestId: string): string => requestId.replace(/^req_/, "msg_");

function complete({ requestId }: AnswerContext): Collector<AnswerEvent> {
  const [encoder, collector] = [new StreamEncoder(messageId(requestId)), new AnswerCollector()];
  return {
    add: (event) => encoder.frames(event).forEach((frame) => collector.add(frame)),
    body: () => collector.message,
  };
}

function stream({ requestId }: AnswerContext): AnswerStream<AnswerEvent> {
  const encoder = new StreamEncoder(messageId(requestId));
  return {
    contentType: "text/event-stream; charset=utf-8",
    encode: (event) => encoder.frames(event).map(frameText).join(""),
    keepAlive: PING,
    error: (error) => frameText(encodeError(error, requestId)),
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
