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

export const SHARED_ERRORS: Readonly<Record<Exclude<GatewayErrorCode, OwnCode>, ErrorRow<SharedErrorType>>> = {
  context_length_exceeded: [400, "invalid_request_error", "context_length_exceeded"],
  failed_precondition: [400, "invalid_request_error", "failed_precondition"],
  malformed_body: [400, "invalid_request_error", "malformed_body"],
  unsupported_media_type: [415, "invalid_request_error", "unsupported_media_type"],
  body_too_large: [413, "invalid_request_error", "request_too_large"],
  method_not_allowed: [405, "invalid_request_error", "method_not_allowed"],
  upgrade_required: [426, "invalid_request_error", "upgrade_required"],
  not_found: [404, "invalid_request_error", "not_found"],
  missing_api_key: [401, "authentication_error", "missing_api_key"],
  malformed_credential: [401, "authentication_error", "invalid_api_key"],
  invalid_api_key: [401, "authentication_error", "invalid_api_key"],
  paused_api_key: [401, "authentication_error", "paused_api_key"],
  expired_api_key: [401, "authentication_error", "expired_api_key"],
  quota_exhausted: [429, "rate_limit_error", "insufficient_quota"],
  quota_insufficient: [429, "rate_limit_error", "insufficient_quota"],
  rate_limited: [429, "rate_limit_error", "rate_limit_exceeded"],
  quota_held: [429, "rate_limit_error", "quota_held"],
  idempotency_key_reused: [409, "invalid_request_error", "idempotency_key_reused"],
  idempotency_key_in_use: [409, "invalid_request_error", "idempotency_key_in_use"],
  busy: [503, "server_error", "busy"],
  client_closed: [499, "invalid_request_error", "client_closed"],
  call_stopped: [403, "invalid_request_error", "call_stopped"],
  deadline_exceeded: [504, "server_error", "deadline_exceeded"],
  backend_unavailable: [503, "server_error", "backend_unavailable"],
  // Hide the reason: the refused credential belongs to the host, not to the caller.
  backend_refused: [500, "server_error", "backend_failed"],
  backend_failed: [500, "server_error", "backend_failed"],
  store_unavailable: [503, "server_error", "store_unavailable"],
  misconfigured: [500, "server_error", "misconfigured"],
  internal: [500, "server_error", "internal_error"],
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
  return { error: { message, type, param, code } };
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
 * The errors that a retry cannot fix: waiting neither refills a quota nor corrects a credential or a setting, and a stopped call must not go on. For
 * these errors, the header `x-should-retry: false` stops the official SDKs. Without the header, the SDKs retry a 429 or a 409 three
 * times, and agents that use the SDKs retry a 401 ten times.
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

/** The fields that all endpoints for OpenAI's clients share: the credential, the errors, and the headers about rate limits. */
export const openaiEndpoint: Pick<QueryEndpoint, "rateHeaders" | "credential" | "keyPlace" | "encodeError"> = {
  rateHeaders: openaiRateHeaders,
  credential: (request) => bearerToken(request.headers),
  keyPlace: 'the header authorization, as "Bearer sk-…"',
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
