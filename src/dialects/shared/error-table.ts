/** How errors look where the messages format and OpenAI's say the same: a status, a type, a fine reason in `code`. */

import type { GatewayErrorCode } from "../../errors.ts";

export type SharedErrorType = "invalid_request_error" | "authentication_error" | "rate_limit_error" | "server_error";

export type ErrorRow<Type> = readonly [status: number, type: Type, code: string];

/** The codes that each of the formats has its own row for. */
type OwnCode = "invalid_request" | "model_not_found" | "model_not_allowed" | "backend_overloaded";

export const SHARED_ERRORS: Readonly<Record<Exclude<GatewayErrorCode, OwnCode>, ErrorRow<SharedErrorType>>> = {
  failed_precondition: [400, "invalid_request_error", "failed_precondition"],
  malformed_body: [400, "invalid_request_error", "malformed_body"],
  unsupported_media_type: [415, "invalid_request_error", "unsupported_media_type"],
  body_too_large: [413, "invalid_request_error", "request_too_large"],
  method_not_allowed: [405, "invalid_request_error", "method_not_allowed"],
  not_found: [404, "invalid_request_error", "not_found"],
  missing_api_key: [401, "authentication_error", "missing_api_key"],
  malformed_credential: [401, "authentication_error", "invalid_api_key"],
  invalid_api_key: [401, "authentication_error", "invalid_api_key"],
  expired_api_key: [401, "authentication_error", "expired_api_key"],
  quota_exhausted: [429, "rate_limit_error", "insufficient_quota"],
  quota_insufficient: [429, "rate_limit_error", "insufficient_quota"],
  rate_limited: [429, "rate_limit_error", "rate_limit_exceeded"],
  quota_held: [429, "rate_limit_error", "quota_held"],
  idempotency_key_reused: [409, "invalid_request_error", "idempotency_key_reused"],
  idempotency_key_in_use: [409, "invalid_request_error", "idempotency_key_in_use"],
  busy: [503, "server_error", "busy"],
  client_closed: [499, "invalid_request_error", "client_closed"],
  deadline_exceeded: [504, "server_error", "deadline_exceeded"],
  backend_unavailable: [503, "server_error", "backend_unavailable"],
  // Whose credential it was is none of the caller's business.
  backend_refused: [500, "server_error", "backend_failed"],
  backend_failed: [500, "server_error", "backend_failed"],
  store_unavailable: [503, "server_error", "store_unavailable"],
  internal: [500, "server_error", "internal_error"],
};

/**
 * The status that a fine reason stands for. It is more exact than the status of its answer, and in the middle of a stream there is
 * none: an upstream that is a gateway of this kind says so, and others use the same words.
 */
export const STATUS_OF_CODE: ReadonlyMap<unknown, number> = new Map([
  ["model_not_found", 404],
  ["model_not_allowed", 403],
  ["insufficient_quota", 402],
  ["request_too_large", 413],
  ["rate_limit_exceeded", 429],
  ["backend_unavailable", 503],
  ["store_unavailable", 503],
  ["busy", 503],
  ["deadline_exceeded", 504],
  ["overloaded", 529],
]);
