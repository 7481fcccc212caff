/** The token usage query's errors (spec 7.1), word for word. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";

export interface TokenUsageErrorBody {
  success: false;
  message: string;
}

/** The spec gives a text for three of them; the others keep their own. */
const MESSAGE: Partial<Record<GatewayErrorCode, string>> = {
  missing_api_key: "No Authorization header",
  malformed_credential: "Invalid Bearer token",
  invalid_api_key: "token not found",
};

// A query takes no body and no model, so the codes about those cannot come up: they would be the gateway's own fault.
const STATUS: Partial<Record<GatewayErrorCode, number>> = {
  missing_api_key: 401,
  malformed_credential: 401,
  invalid_api_key: 401,
  method_not_allowed: 405,
  rate_limited: 429,
  busy: 503,
  store_unavailable: 503,
  client_closed: 499,
  deadline_exceeded: 504,
};

export const errorStatus = (error: GatewayError): number => STATUS[error.code] ?? 500;

export const encodeError = (error: GatewayError): TokenUsageErrorBody => ({
  success: false,
  message: MESSAGE[error.code] ?? error.message,
});
