/** The errors of AWS, as responses and in event streams. */

import type { GatewayError } from "../errors.ts";
import { decodeUpstreamError, errorObject, retryAfterOf } from "../formats/shared/errors.decode.ts";
import { isJsonObject, type JsonObject } from "../model/json.ts";

/** The types of errors by the exceptions of Bedrock. */
const ERROR_TYPES: Readonly<Record<string, string>> = {
  accessDenied: "permission_error",
  expiredToken: "authentication_error",
  internalServer: "api_error",
  invalidSignature: "authentication_error",
  modelError: "api_error",
  modelNotReady: "rate_limit_error",
  modelStreamError: "api_error",
  modelTimeout: "timeout_error",
  resourceNotFound: "not_found_error",
  serviceQuotaExceeded: "rate_limit_error",
  serviceUnavailable: "overloaded_error",
  throttling: "rate_limit_error",
  unrecognizedClient: "authentication_error",
  validation: "invalid_request_error",
};

const typeOf = (exception: string): string => {
  const name = exception.replace(/^.*#|:.*$/g, "").replace(/Exception$/, "");
  const type = name.charAt(0).toLowerCase() + name.slice(1);
  return Object.hasOwn(ERROR_TYPES, type) ? (ERROR_TYPES[type] ?? "api_error") : "api_error";
};

/** Returns an exception as the messages format writes an error. */
export const errorOf = (exception: string, message: unknown): JsonObject => ({
  type: "error",
  error: { type: typeOf(exception), message: typeof message === "string" ? message : "The model failed." },
});

/** Decodes an error response of Bedrock. */
export function decodeAwsError(status: number, headers: Headers, body: unknown): GatewayError {
  const exception = headers.get("x-amzn-errortype");
  const isOfAws = exception !== null && isJsonObject(body);
  const error = isOfAws ? errorOf(exception, body["message"] ?? body["Message"]) : body;
  // 424 means that the model has failed: the request is not at fault. A 404 without a type comes from another server.
  const isFailure = status === 424 || (status === 404 && errorObject(error)["type"] === undefined);
  return decodeUpstreamError(isFailure ? 500 : status, error, retryAfterOf(headers));
}
