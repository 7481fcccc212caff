/** Decodes the errors of upstreams that speak chat completions. The upstream's own message stays in `cause`. */

import type { GatewayError } from "../../errors.ts";
import { isJsonObject } from "../../model/json.ts";
import { decodeUpstreamError, retryAfterOf } from "../shared/errors.decode.ts";

/**
 * Decodes an error response of an upstream.
 *
 * @param body Parsed JSON, or a text.
 */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 without a JSON object comes from another kind of server, so it does not mean an unknown model.
  const isOtherServer = status === 404 && !isJsonObject(body);
  return decodeUpstreamError(isOtherServer ? 500 : status, body, retryAfterOf(headers));
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
  let found = error;
  if (Array.isArray(choices)) for (const choice of choices) found ??= isJsonObject(choice) ? choice["error"] : null;
  if (found != null) return found;
  if (Array.isArray(errors) && errors.length > 0) return errors[0];
  // MiniMax answers with a status of its own; 0 is success.
  if (isJsonObject(status) && status["status_code"]) return { ...status, message: status["status_msg"] ?? "" };
  const isWhole = object === "error" || type === "error" || (choices === undefined && code != null && message != null);
  return isNamed || isWhole ? chunk : undefined;
}
