/** Decodes the errors of upstreams that speak chat completions. The upstream's own message stays in `cause`. */

import { GatewayError } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { statusOf } from "../shared/errors.ts";
import { emptyAccount, retryAfterOf, UNMET, upstreamError } from "../shared/upstream.ts";

/**
 * Decodes an error response of an upstream.
 *
 * @param body Parsed JSON, or a text.
 */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 without a JSON object comes from another kind of server, so it does not mean an unknown model.
  const isOtherServer = status === 404 && !isJsonObject(body);
  return decode(isOtherServer ? 500 : status, body, retryAfterOf(headers));
}

/**
 * Finds the error in an answer or a chunk that was sent with the status of a success; undefined if there is none. Servers put the error
 * into a field, into a choice or into a list, or send the error as the whole object.
 *
 * @param isNamed True for an event of the name `error`.
 */
export function errorIn(answer: unknown, isNamed: boolean): unknown {
  const chunk: unknown = Array.isArray(answer) ? answer[0] : answer;
  if (!isJsonObject(chunk)) return isNamed ? chunk : undefined;
  const { error, choices, object, type, message, code, errors, base_resp: status } = chunk;
  const inChoice = Array.isArray(choices) && choices.find((choice) => isJsonObject(choice) && choice["error"] != null);
  const found = error ?? (isJsonObject(inChoice) ? inChoice["error"] : undefined);
  if (found != null) return found;
  if (Array.isArray(errors) && errors.length > 0) return errors[0];
  // MiniMax answers with a status of its own; 0 is success.
  if (isJsonObject(status) && status["status_code"]) return { ...status, message: status["status_msg"] ?? "" };
  const isWhole = object === "error" || type === "error" || (choices === undefined && code != null && message != null);
  return isNamed || isWhole ? chunk : undefined;
}

/** Decodes an error in the middle of a stream. The error has no HTTP status, so its code or type stands for one. */
export function decodeStreamError(error: unknown): GatewayError {
  return decode(statusOf(isJsonObject(error) ? error : {}), { error }, undefined);
}

function decode(status: number, body: unknown, retryAfterMs: number | undefined): GatewayError {
  const { code, type, message } = errorObject(body);
  const isTooLong =
    code === "context_length_exceeded" ||
    (status === 400 && typeof message === "string" && /context (?:length|window|size)/i.test(message.slice(0, 1_000)));
  if (isTooLong)
    return new GatewayError("invalid_request", "messages: are longer than the context window of the model", {
      cause: body,
      port: "model-backend",
      path: ["messages"],
    });
  if (code === "insufficient_quota" || type === "insufficient_quota") return emptyAccount(body);
  if (code === "failed_precondition") return upstreamError(status, body, retryAfterMs, UNMET);
  return upstreamError(status, body, retryAfterMs);
}

/** Finds the error object. Some servers put it in `error`, some send it as the body, and some send only a message. */
function errorObject(body: unknown): JsonObject {
  if (typeof body === "string") return { message: body };
  if (!isJsonObject(body)) return {};
  const { error, detail } = body;
  if (isJsonObject(error)) return error;
  const message = [error, body["message"], detail].find((value) => typeof value === "string");
  return { ...body, ...(typeof message === "string" && { message }) };
}
