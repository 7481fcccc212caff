/** The messages dialect: `POST /v1/messages`, complete and streamed, and its token count (spec 2.6, 2.7, 6.1, 7.2). */

import { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import { readJson } from "../../http/json-body.ts";
import { assertValid } from "../../http/validation.ts";
import type { Limits } from "../../limits.ts";
import { estimateInputTokens } from "../../metering/estimate.ts";
import type { ChatRequest } from "../../model/chat.ts";
import { isJsonObject } from "../../model/json.ts";
import type { Dialect } from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { decodeRequest, DIALECT, type MessagesHeaders } from "./request.ts";
import { messagesRequest } from "./schema.ts";
import { collect, encodeStream, frameText, PING, type StreamFrame } from "./stream.ts";

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

  async function parse(request: Request, limits: Limits, defaults: object = {}): Promise<ChatRequest> {
    const headers = readHeaders(request.headers);
    const json = await readJson(request, limits);
    const body: unknown = isJsonObject(json) ? { ...defaults, ...json } : json;
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
        parse,
        complete: (events, { requestId }) => collect(encodeStream(events, messageId(requestId))),
        stream: (events, { requestId }) => ({
          contentType: "text/event-stream; charset=utf-8",
          frames: texts(encodeStream(events, messageId(requestId))),
          keepAlive: PING,
          error: (error) => frameText(encodeError(error, requestId)),
        }),
      },
      {
        ...route,
        kind: "query",
        path: "/v1/messages/count_tokens",
        expiredKeysMayAsk: false,
        // A count generates nothing, so its callers send no max_tokens.
        answer: async ({ request, limits, countTokens }) => ({
          input_tokens: estimateInputTokens(
            await parse(request, limits, { max_tokens: Number.MAX_SAFE_INTEGER }),
            countTokens,
          ),
        }),
      },
    ],
  };
}

/** Ids of the gateway's answers follow its request ids, so that one finds the other. */
const messageId = (requestId: string): string => requestId.replace(/^req_/, "msg_");

async function* texts(frames: AsyncIterable<StreamFrame>): AsyncGenerator<string, void, undefined> {
  for await (const frame of frames) yield frameText(frame);
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
