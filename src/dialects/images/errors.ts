/** The image endpoints' errors: the spec is silent (7.4), so they are those that the clients of this format read. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";

type ErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "permission_error"
  | "rate_limit_error"
  | "server_error";

const WIRE_ERROR = {
  invalid_request: [400, "invalid_request_error", "invalid_value"],
  failed_precondition: [400, "invalid_request_error", "failed_precondition"],
  malformed_body: [400, "invalid_request_error", "malformed_body"],
  unsupported_media_type: [415, "invalid_request_error", "unsupported_media_type"],
  body_too_large: [413, "invalid_request_error", "request_too_large"],
  method_not_allowed: [405, "invalid_request_error", "method_not_allowed"],
  missing_api_key: [401, "authentication_error", "missing_api_key"],
  malformed_credential: [401, "authentication_error", "invalid_api_key"],
  invalid_api_key: [401, "authentication_error", "invalid_api_key"],
  expired_api_key: [401, "authentication_error", "expired_api_key"],
  model_not_found: [404, "invalid_request_error", "model_not_found"],
  model_not_allowed: [403, "permission_error", "model_not_allowed"],
  quota_exhausted: [429, "rate_limit_error", "insufficient_quota"],
  quota_insufficient: [429, "rate_limit_error", "insufficient_quota"],
  rate_limited: [429, "rate_limit_error", "rate_limit_exceeded"],
  busy: [503, "server_error", "busy"],
  client_closed: [499, "invalid_request_error", "client_closed"],
  deadline_exceeded: [504, "server_error", "deadline_exceeded"],
  backend_unavailable: [503, "server_error", "backend_unavailable"],
  backend_failed: [500, "server_error", "backend_failed"],
  internal: [500, "server_error", "internal_error"],
} as const satisfies Record<GatewayErrorCode, readonly [status: number, type: ErrorType, code: string]>;

export interface ImagesErrorBody {
  error: { message: string; type: ErrorType; param: string | null; code: string };
}

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError): ImagesErrorBody {
  const [, type, code] = WIRE_ERROR[error.code];
  const param = error.path && error.path.length > 0 ? error.path.join(".") : null;
  return { error: { message: error.message, type, param, code } };
}
