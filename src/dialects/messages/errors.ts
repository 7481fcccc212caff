/** The messages format's errors (spec 7.2): four types on the wire, the fine reason in `code`. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";
import { isJsonObject } from "../../model/json.ts";
import { type ErrorRow, SHARED_ERRORS, type SharedErrorType, STATUS_OF_CODE } from "../shared/error-table.ts";
import { retryAfterOf, UNMET, upstreamError } from "../shared/upstream.ts";

const WIRE_ERROR: Readonly<Record<GatewayErrorCode, ErrorRow<SharedErrorType>>> = {
  ...SHARED_ERRORS,
  invalid_request: [400, "invalid_request_error", "invalid_request"],
  model_not_found: [400, "invalid_request_error", "model_not_found"],
  model_not_allowed: [400, "invalid_request_error", "model_not_allowed"],
  backend_overloaded: [529, "server_error", "overloaded"],
};

export interface MessagesErrorBody {
  type: "error";
  error: { type: SharedErrorType; message: string; code: string; details?: Readonly<Record<string, unknown>> };
  request_id: string;
}

/** By this the official client's tool runner learns to go on without a thread. */
const NO_THREADS = { error_code: "thread_unsupported_request", unsupported: ["thread"] };

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError, requestId: string): MessagesErrorBody {
  const [, type, code] = WIRE_ERROR[error.code];
  const details = error.path?.[0] === "thread" && { details: NO_THREADS };
  return { type: "error", error: { type, message: error.message, code, ...details }, request_id: requestId };
}

/** The status that an error's type stands for, where none comes with it: in the middle of a stream. */
const STATUS_OF: ReadonlyMap<unknown, number> = new Map([
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

/** The error that an upstream told of in the middle of its answer. */
export const decodeErrorBody = (body: unknown): GatewayError =>
  decoded(STATUS_OF.get(fieldOf(body, "type")) ?? 500, body, undefined);

/** The error that an upstream answered with. */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  const type = fieldOf(body, "type");
  // Some upstreams say so with another status; and an answer in no known form tells of another server than a model's.
  const meant = type === "overloaded_error" ? 529 : status === 404 && type === undefined ? 500 : status;
  return decoded(meant, body, retryAfterOf(headers));
}

function decoded(status: number, body: unknown, retryAfterMs: number | undefined): GatewayError {
  const code = fieldOf(body, "code");
  if (code === "failed_precondition") return upstreamError(status, body, retryAfterMs, UNMET);
  return upstreamError(STATUS_OF_CODE.get(code) ?? status, body, retryAfterMs);
}

function fieldOf(body: unknown, field: "type" | "code"): string | undefined {
  const error = isJsonObject(body) ? body["error"] : undefined;
  const value = isJsonObject(error) ? error[field] : undefined;
  return typeof value === "string" ? value : undefined;
}
