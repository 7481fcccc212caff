/** The errors that OpenAI's clients read, for chat completions and images (spec 7.4 is silent): a status, a type, a fine reason in `code`. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";
import type { JsonObject } from "../../model/json.ts";
import { type ErrorRow, SHARED_ERRORS, type SharedErrorType, STATUS_OF_CODE } from "./error-table.ts";

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

const STATUS_OF_TYPE: ReadonlyMap<unknown, number> = new Map([
  ["invalid_request_error", 400],
  ["image_generation_user_error", 400],
  ["authentication_error", 401],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["rate_limit_error", 429],
  ["rate_limit_exceeded", 429],
  ["insufficient_quota", 429],
  ["overloaded_error", 529],
]);

/** The status that an upstream's error stands for in the middle of a stream: its own code or type says. */
export const statusOf = ({ status, code, type }: JsonObject): number =>
  Number([status, code].find(isErrorStatus) ?? STATUS_OF_CODE.get(code) ?? STATUS_OF_TYPE.get(type) ?? 500);

const isErrorStatus = (value: unknown): boolean =>
  (typeof value === "number" || typeof value === "string") && /^[45]\d\d$/.test(String(value));
