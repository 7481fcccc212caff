/**
 * The parts of routes that several formats share: errors, as clients read them and as upstreams send them, headers about rate limits, and
 * addresses of models.
 */

import type { ContextTokens, GatewayError, GatewayErrorCode } from "../../errors.ts";
import { bearerToken } from "../../http/request.ts";
import type { RateLimit } from "../../ports/rate-limiter.ts";
import type { QueryEndpoint } from "../format.ts";
import { withClientWords } from "./context-length.ts";

export type SharedErrorType = "invalid_request_error" | "authentication_error" | "rate_limit_error" | "server_error";

/** An error on the wire. Its `code` gives the most exact reason. */
export type ErrorRow<Type> = readonly [status: number, type: Type, code: string];

/** The error codes that the messages format and OpenAI's formats write differently. */
type OwnCode = "invalid_request" | "model_not_found" | "model_not_allowed" | "backend_overloaded";

type SharedRow = ErrorRow<SharedErrorType>;

// Functions, because the words of each row would make a small Worker larger.
const invalid = (status: number, code: string): SharedRow => [status, "invalid_request_error", code];
const failed = (status: number, code: string): SharedRow => [status, "server_error", code];
const unauthenticated = (code: string): SharedRow => [401, "authentication_error", code];
const limited = (code: string): SharedRow => [429, "rate_limit_error", code];

export const SHARED_ERRORS: Readonly<Record<Exclude<GatewayErrorCode, OwnCode>, SharedRow>> = {
  context_length_exceeded: invalid(400, "context_length_exceeded"),
  // The word of OpenAI and OpenRouter.
  content_refused: invalid(400, "content_policy_violation"),
  failed_precondition: invalid(400, "failed_precondition"),
  malformed_body: invalid(400, "malformed_body"),
  unsupported_media_type: invalid(415, "unsupported_media_type"),
  body_too_large: invalid(413, "request_too_large"),
  method_not_allowed: invalid(405, "method_not_allowed"),
  upgrade_required: invalid(426, "upgrade_required"),
  not_found: invalid(404, "not_found"),
  missing_api_key: unauthenticated("missing_api_key"),
  malformed_credential: unauthenticated("invalid_api_key"),
  invalid_api_key: unauthenticated("invalid_api_key"),
  paused_api_key: unauthenticated("paused_api_key"),
  expired_api_key: unauthenticated("expired_api_key"),
  quota_exhausted: limited("insufficient_quota"),
  quota_insufficient: limited("insufficient_quota"),
  rate_limited: limited("rate_limit_exceeded"),
  quota_held: limited("quota_held"),
  idempotency_key_reused: invalid(409, "idempotency_key_reused"),
  idempotency_key_in_use: invalid(409, "idempotency_key_in_use"),
  busy: failed(503, "busy"),
  client_closed: invalid(499, "client_closed"),
  call_stopped: invalid(403, "call_stopped"),
  deadline_exceeded: failed(504, "deadline_exceeded"),
  backend_unavailable: failed(503, "backend_unavailable"),
  // Hide the reason: the refused credential belongs to the host, not to the caller.
  backend_refused: failed(500, "backend_failed"),
  backend_failed: failed(500, "backend_failed"),
  store_unavailable: failed(503, "store_unavailable"),
  misconfigured: failed(500, "misconfigured"),
  internal: failed(500, "internal_error"),
};

type OpenAIErrorType = SharedErrorType | "permission_error";

/** The errors of chat completions and images. Section 7.4 of the specification leaves their form open: OpenAI's clients read this form. */
const OPENAI_ERRORS: Readonly<Record<GatewayErrorCode, ErrorRow<OpenAIErrorType>>> = {
  ...SHARED_ERRORS,
  invalid_request: [400, "invalid_request_error", "invalid_value"],
  model_not_found: [404, "invalid_request_error", "model_not_found"],
  model_not_allowed: [403, "permission_error", "model_not_allowed"],
  backend_overloaded: [503, "server_error", "overloaded"],
};

export interface OpenAIErrorBody {
  error: { message: string; type: OpenAIErrorType; param: string | null; code: string };
}

export const errorStatus = (error: GatewayError): number => OPENAI_ERRORS[error.code][0];

export function encodeError(error: GatewayError): OpenAIErrorBody {
  // Use the same code for a missing model in a look-up of models and in a call of the model.
  const isModel = error.code === "not_found" && error.path?.[0] === "model";
  const [, type, ownCode] = OPENAI_ERRORS[isModel ? "model_not_found" : error.code];
  const code = error.path?.[0] === "previous_response_id" && ownCode === "not_found" ? PREVIOUS_NOT_FOUND : ownCode;
  const param = error.path && error.path.length > 0 ? error.path.join(".") : null;
  const isTooLong = error.code === "context_length_exceeded";
  const message = isTooLong ? withClientWords(error, tooLongWords(error.context)) : error.message;
  return { error: { message, type, param, code: error.reason?.code ?? code } };
}

/** The code of an unknown earlier response, which clients of Responses look for. */
const PREVIOUS_NOT_FOUND = "previous_response_not_found";

/** Returns OpenAI's own sentences, which clients search for besides the code. */
function tooLongWords({ inputTokens, outputTokens, maxTokens }: ContextTokens = {}): string {
  const advice = "Please reduce the length of the messages";
  if (maxTokens === undefined) return `Your input exceeds the context window of this model. ${advice}.`;
  const words = `This model's maximum context length is ${maxTokens} tokens.`;
  if (inputTokens === undefined) return `${words} ${advice}.`;
  if (outputTokens === undefined)
    return `${words} However, your messages resulted in ${inputTokens} tokens. ${advice}.`;
  const parts = `${inputTokens} in the messages, ${outputTokens} in the completion`;
  return `${words} However, you requested ${inputTokens + outputTokens} tokens (${parts}). ${advice} or completion.`;
}

/**
 * The errors that a retry cannot fix: waiting neither refills a quota nor corrects a credential or a setting, and a stopped call must not go on.
 * For these errors, and for all others that need the operator, the header `x-should-retry: false` stops the official SDKs. Without the header,
 * the SDKs retry a 429 or a 409 three times, and agents that use the SDKs retry a 401 ten times.
 */
export const NO_RETRY: ReadonlySet<GatewayErrorCode> = new Set([
  "missing_api_key",
  "malformed_credential",
  "invalid_api_key",
  "paused_api_key",
  "expired_api_key",
  "quota_exhausted",
  "quota_insufficient",
  "idempotency_key_reused",
  "call_stopped",
  "backend_refused",
  "misconfigured",
]);

/** Returns headers such as `anthropic-ratelimit-requests-limit`, `-remaining` and `-reset`. The reset is a time in RFC 3339. */
export function anthropicRateHeaders(limits: readonly RateLimit[], now: number): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { kind, limit, remaining, resetMs } of limits) {
    const name = `anthropic-ratelimit-${kind}`;
    headers[`${name}-limit`] = String(limit);
    headers[`${name}-remaining`] = String(remaining);
    // Round up to whole seconds, so that a client never retries too early.
    const reset = new Date(Math.min(Math.ceil((now + resetMs) / 1000) * 1000, MAX_DATE_MS));
    headers[`${name}-reset`] = reset.toISOString().replace(".000Z", "Z");
  }
  return headers;
}

/** The latest time that a `Date` can hold, in milliseconds. */
const MAX_DATE_MS = 8_640_000_000_000_000;

/** Tells a caller without an API key where this format reads it. */
export const keyPlace: string = 'This route reads it from the header authorization, as "Bearer sk-…".';

/** The fields that all endpoints for OpenAI's clients share: the credential, the errors, and the headers about rate limits. */
export const openaiEndpoint: Pick<QueryEndpoint, "rateHeaders" | "credential" | "keyPlace" | "encodeError"> = {
  rateHeaders: openaiRateHeaders,
  // Azure's clients send `api-key` alone.
  credential: ({ headers }) => bearerToken(headers) ?? (headers.get("api-key") || undefined),
  keyPlace,
  encodeError: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
};

/**
 * Returns headers such as `x-ratelimit-limit-requests`, `x-ratelimit-remaining-requests` and `x-ratelimit-reset-requests`. The reset is a
 * duration such as `6m0s`.
 */
export function openaiRateHeaders(limits: readonly RateLimit[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { kind, limit, remaining, resetMs } of limits) {
    headers[`x-ratelimit-limit-${kind}`] = String(limit);
    headers[`x-ratelimit-remaining-${kind}`] = String(remaining);
    headers[`x-ratelimit-reset-${kind}`] = durationOf(Math.ceil(resetMs));
  }
  return headers;
}

function durationOf(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const seconds = Math.ceil(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `${hours > 0 ? `${hours}h` : ""}${seconds >= 60 ? `${minutes}m` : ""}${seconds % 60}s`;
}

/**
 * Tells whether the end of an address names a model. It does not if it ends in a method of a model, such as `:countTokens`. Any other
 * colon belongs to the model's name.
 */
export const isModelAddress = (wildcardPath: string): boolean =>
  wildcardPath !== "" &&
  !/:(?:generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/.test(wildcardPath);
