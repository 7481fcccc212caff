/** The errors of upstreams that speak chat completions, as errors of the gateway's. Their own words stay in `cause`. */

import { GatewayError } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { statusOf } from "../shared/openai-errors.ts";
import { emptyAccount, retryAfterOf, UNMET, upstreamError } from "../shared/upstream.ts";

/** The error of an answer that is none: by its status, headers and body (parsed JSON, or a text). */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // An answer in no known form tells of another server than a model's.
  const meant = status === 404 && !isJsonObject(body) ? 500 : status;
  return decode(meant, body, retryAfterOf(headers));
}

/** The error that came in the middle of a stream, whose own code or type stands for its status. */
export function decodeStreamError(error: unknown): GatewayError {
  return decode(statusOf(isJsonObject(error) ? error : {}), { error }, undefined);
}

function decode(status: number, body: unknown, retryAfterMs: number | undefined): GatewayError {
  const wire = wireError(body);
  if (isTooLong(status, wire))
    return new GatewayError("invalid_request", "messages: are longer than the context window of the model", {
      cause: body,
      port: "model-backend",
      path: ["messages"],
    });
  if ([wire["code"], wire["type"]].includes("insufficient_quota")) return emptyAccount(body);
  if (wire["code"] === "failed_precondition") return upstreamError(status, body, retryAfterMs, UNMET);
  return upstreamError(status, body, retryAfterMs);
}

/** The error object, wherever servers put it. */
function wireError(body: unknown): JsonObject {
  if (typeof body === "string") return { message: body };
  if (!isJsonObject(body)) return {};
  const { error, detail } = body;
  if (isJsonObject(error)) return error;
  const message = [error, body["message"], detail].find((one) => typeof one === "string");
  return { ...body, ...(typeof message === "string" && { message }) };
}

const isTooLong = (status: number, { code, message }: JsonObject): boolean =>
  code === "context_length_exceeded" ||
  (status === 400 && typeof message === "string" && /context (?:length|window|size)/i.test(message.slice(0, 1_000)));
