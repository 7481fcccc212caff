/** Converts the errors of the messages format (spec 7.2) in both directions. `type` has one of four values; `code` is more exact. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { type ErrorRow, SHARED_ERRORS, type SharedErrorType, STATUS_OF_CODE } from "../shared/errors.ts";
import { retryAfterOf, UNMET, upstreamError } from "../shared/upstream.ts";
import type { MessagesError } from "./schema.answer.ts";

const WIRE_ERROR: Readonly<Record<GatewayErrorCode, ErrorRow<SharedErrorType>>> = {
  ...SHARED_ERRORS,
  invalid_request: [400, "invalid_request_error", "invalid_request"],
  model_not_found: [400, "invalid_request_error", "model_not_found"],
  model_not_allowed: [400, "invalid_request_error", "model_not_allowed"],
  backend_overloaded: [529, "server_error", "overloaded"],
};

/** The error details that make the official client's tool runner continue without a thread. */
const NO_THREADS = { error_code: "thread_unsupported_request", unsupported: ["thread"] };

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError, requestId: string): MessagesError {
  const [, type, code] = WIRE_ERROR[error.code];
  const details = error.path?.[0] === "thread" && { details: NO_THREADS };
  return { type: "error", error: { type, message: error.message, code, ...details }, request_id: requestId };
}

/** The HTTP status that an error's type means. Needed for an error in the middle of a stream, which has no status. */
const STATUS_OF_TYPE: ReadonlyMap<unknown, number> = new Map([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["billing_error", 402],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
  ["api_error", 500],
  ["server_error", 500],
  ["timeout_error", 504],
  ["overloaded_error", 529],
]);

/**
 * Tells whether a frame or an answer is an error: in this format, in the formats of OpenAI (`{"error": …}`), or in that of some local
 * servers (`{"object": "error"}`).
 */
export const isErrorBody = (body: JsonObject): boolean =>
  body["type"] === "error" || body["object"] === "error" || (body["error"] != null && body["content"] === undefined);

/** Decodes an error in the middle of an upstream's answer. Other formats have its status in `code`. */
export function decodeErrorBody(body: JsonObject): GatewayError {
  const error = isJsonObject(body["error"]) ? body["error"] : body;
  const { type, code } = errorIn({ error });
  const status = Number(error["code"]);
  const isStatus = status >= 400 && status <= 599;
  return decoded(STATUS_OF_TYPE.get(type) ?? (isStatus ? status : 500), code, body, undefined);
}

/** Decodes an error response of an upstream. */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  const { type, code } = errorIn(body);
  // Some upstreams send `overloaded_error` with another status. A 404 without a type comes from a server without this route.
  const meant = type === "overloaded_error" ? 529 : status === 404 && type === undefined ? 500 : status;
  return decoded(meant, code, body, retryAfterOf(headers));
}

function decoded(status: number, code: unknown, body: unknown, retryAfterMs: number | undefined): GatewayError {
  if (code === "failed_precondition") return upstreamError(status, body, retryAfterMs, UNMET);
  return upstreamError(STATUS_OF_CODE.get(code) ?? status, body, retryAfterMs);
}

function errorIn(body: unknown): { readonly type?: string; readonly code?: string } {
  const error = isJsonObject(body) ? body["error"] : undefined;
  const { type, code } = isJsonObject(error) ? error : {};
  return { ...(typeof type === "string" && { type }), ...(typeof code === "string" && { code }) };
}
