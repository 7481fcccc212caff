/** Converts the errors of the messages format (spec 7.2) in both directions. `type` has one of four values; `code` is more exact. */

import type { ContextTokens, GatewayError, GatewayErrorCode } from "../../errors.ts";
import { withClientWords } from "../shared/context-length.ts";
import { decodeUpstreamError, errorObject, retryAfterOf } from "../shared/errors.decode.ts";
import { type ErrorRow, SHARED_ERRORS, type SharedErrorType } from "../shared/errors.ts";
import type { MessagesError } from "./schema.answer.ts";

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

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError, requestId: string): MessagesError {
  const [, type, code] = WIRE_ERROR[error.code];
  const details = error.path?.[0] === "thread" ? NO_THREADS : error.reason?.details;
  const isTooLong = error.code === "context_length_exceeded";
  const message = isTooLong ? withClientWords(error, tooLongWords(error.context)) : error.message;
  return { type: "error", error: { type, message, code, ...(details && { details }) }, request_id: requestId };
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
