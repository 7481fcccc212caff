/**
 * Converts the errors of the messages format (spec 7.2) in both directions. `type` has one of four values, or with `errors: "vendor"` one of
 * Anthropic's; `code` is more exact.
 */

import type { ContextTokens, GatewayError, GatewayErrorCode } from "../../errors.ts";
import { withClientWords } from "../shared/context-length.ts";
import { decodeUpstreamError, errorObject, retryAfterOf } from "../shared/errors.decode.ts";
import { type ErrorRow, SHARED_ERRORS, type SharedErrorType } from "../shared/errors.ts";
import type { MessagesError, VendorMessagesError } from "./schema.answer.ts";

/** Tells a caller without an API key where this format reads it. */
export const keyPlace: string = "This route reads it from the header x-api-key.";

const WIRE_ERROR: Readonly<Record<GatewayErrorCode, ErrorRow<SharedErrorType>>> = {
  ...SHARED_ERRORS,
  invalid_request: [400, "invalid_request_error", "invalid_request"],
  model_not_found: [400, "invalid_request_error", "model_not_found"],
  model_not_allowed: [400, "invalid_request_error", "model_not_allowed"],
  backend_overloaded: [529, "server_error", "overloaded"],
};

/** The error details that make the official client's tool runner continue without a thread. */
const NO_THREADS = { error_code: "thread_unsupported_request", unsupported: ["thread"] };

/** Anthropic's own statuses, where those of the spec differ. */
const VENDOR_STATUS: Partial<Readonly<Record<GatewayErrorCode, number>>> = {
  model_not_found: 404,
  model_not_allowed: 403,
};

type VendorErrorType = VendorMessagesError["error"]["type"];

/** Anthropic's own types, where those of the spec differ. From 500 on, every other error is an `api_error`. */
const VENDOR_TYPES: Readonly<Record<number, VendorErrorType>> = {
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  504: "timeout_error",
  529: "overloaded_error",
};

function rowOf(errorCode: GatewayErrorCode, isVendor: boolean): ErrorRow<VendorErrorType | SharedErrorType> {
  const [specStatus, specType, code] = WIRE_ERROR[errorCode];
  if (!isVendor) return [specStatus, specType, code];
  const status = VENDOR_STATUS[errorCode] ?? specStatus;
  return [status, VENDOR_TYPES[status] ?? (status < 500 ? specType : "api_error"), code];
}

/** @param isVendor True for Anthropic's own statuses and types. */
export const errorStatus = (error: GatewayError, isVendor = false): number => rowOf(error.code, isVendor)[0];

/** @param isVendor True for Anthropic's own statuses and types. */
export function encodeError(
  error: GatewayError,
  requestId: string,
  isVendor = false,
): MessagesError | VendorMessagesError {
  const [, type, code] = rowOf(error.code, isVendor);
  const details = error.path?.[0] === "thread" ? NO_THREADS : error.reason?.details;
  const isTooLong = error.code === "context_length_exceeded";
  const message = isTooLong ? withClientWords(error, tooLongWords(error.context)) : error.message;
  const told = { type, message, code, ...(details && { details }) };
  return { type: "error", error: told, request_id: requestId } as MessagesError | VendorMessagesError;
}

/**
 * Returns Anthropic's own sentences. Claude Code compacts the conversation when it reads the first one, with or without counts, and
 * lowers its output limit by the counts of the second one.
 */
function tooLongWords({ inputTokens, outputTokens, maxTokens }: ContextTokens = {}): string {
  if (inputTokens !== undefined && outputTokens !== undefined && maxTokens !== undefined)
    return `input length and \`max_tokens\` exceed context limit: ${inputTokens} + ${outputTokens} > ${maxTokens}, decrease input length or \`max_tokens\` and try again`;
  if (maxTokens === undefined) return `prompt is too long${inputTokens === undefined ? "" : `: ${inputTokens} tokens`}`;
  return inputTokens === undefined
    ? `prompt is too long: the maximum is ${maxTokens} tokens`
    : `prompt is too long: ${inputTokens} tokens > ${maxTokens} maximum`;
}

export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 without a type comes from a server without this route, so it does not mean an unknown model.
  const isOtherServer = status === 404 && errorObject(body)["type"] === undefined;
  return decodeUpstreamError(isOtherServer ? 500 : status, body, retryAfterOf(headers));
}
