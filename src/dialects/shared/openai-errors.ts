/** The errors that OpenAI's clients read, for chat completions and images (spec 7.4 is silent): a status, a type, a fine reason in `code`. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";
import { type ErrorRow, SHARED_ERRORS, type SharedErrorType } from "./error-table.ts";

type ErrorType = SharedErrorType | "permission_error";

const WIRE_ERROR: Readonly<Record<GatewayErrorCode, ErrorRow<ErrorType>>> = {
  ...SHARED_ERRORS,
  invalid_request: [400, "invalid_request_error", "invalid_value"],
  model_not_found: [404, "invalid_request_error", "model_not_found"],
  model_not_allowed: [403, "permission_error", "model_not_allowed"],
  backend_overloaded: [503, "server_error", "overloaded"],
};

export interface OpenAIErrorBody {
  error: { message: string; type: ErrorType; param: string | null; code: string };
}

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError): OpenAIErrorBody {
  const [, type, code] = WIRE_ERROR[isOfModel(error) ? "model_not_found" : error.code];
  const param = error.path && error.path.length > 0 ? error.path.join(".") : null;
  return { error: { message: error.message, type, param, code } };
}

/** A model that is looked up and one that is asked have the same code here, unlike in other formats. */
const isOfModel = ({ code, path }: GatewayError): boolean => code === "not_found" && path?.[0] === "model";
