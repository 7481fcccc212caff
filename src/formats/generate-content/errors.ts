/** Converts the generate-content errors (spec 7.3) in both directions. An error has a code, a status name, a message and details. */

import { type ContextTokens, type FieldPath, type GatewayError, type GatewayErrorCode, isWait } from "../../errors.ts";
import { isJsonObject } from "../../model/json.ts";
import { withClientWords } from "../shared/context-length.ts";
import { decodeUpstreamError, errorObject, retryAfterOf } from "../shared/errors.decode.ts";
import type { GenerateContentErrorBody } from "./schema.answer.ts";

/** Tells a caller without an API key where this format reads it. */
export const keyPlace: string = "This route reads it from the header x-goog-api-key, or from key= in the address.";

type WireError = GenerateContentErrorBody["error"];

/** Writes a path as this format does: `contents[0].parts[1].text`. */
export const fieldName = (path: FieldPath): string =>
  path.map((key, index) => (typeof key === "number" ? `[${key}]` : index === 0 ? key : `.${key}`)).join("");

const WIRE_ERROR = {
  invalid_request: [400, "INVALID_ARGUMENT"],
  malformed_body: [400, "INVALID_ARGUMENT"],
  unsupported_media_type: [400, "INVALID_ARGUMENT"],
  context_length_exceeded: [400, "INVALID_ARGUMENT"],
  content_refused: [400, "INVALID_ARGUMENT"],
  failed_precondition: [400, "FAILED_PRECONDITION"],
  missing_api_key: [401, "UNAUTHENTICATED"],
  malformed_credential: [401, "UNAUTHENTICATED"],
  invalid_api_key: [401, "UNAUTHENTICATED"],
  paused_api_key: [401, "UNAUTHENTICATED"],
  expired_api_key: [401, "UNAUTHENTICATED"],
  model_not_allowed: [403, "PERMISSION_DENIED"],
  // The spec has two rows for quota: 403 for an empty quota, 429 for a quota that is too small for the request.
  quota_exhausted: [403, "PERMISSION_DENIED"],
  quota_insufficient: [429, "RESOURCE_EXHAUSTED"],
  rate_limited: [429, "RESOURCE_EXHAUSTED"],
  model_not_found: [404, "NOT_FOUND"],
  not_found: [404, "NOT_FOUND"],
  // A retry may succeed, because running calls may release a part of their holds.
  quota_held: [429, "RESOURCE_EXHAUSTED"],
  // The spec's table lacks a part of the rows below. Their names are those of google.rpc.Code.
  method_not_allowed: [405, "UNIMPLEMENTED"],
  upgrade_required: [426, "UNIMPLEMENTED"],
  idempotency_key_reused: [409, "ALREADY_EXISTS"],
  idempotency_key_in_use: [409, "ABORTED"],
  client_closed: [499, "CANCELLED"],
  call_stopped: [403, "PERMISSION_DENIED"],
  body_too_large: [413, "PAYLOAD_TOO_LARGE"],
  backend_refused: [500, "INTERNAL"],
  backend_failed: [500, "INTERNAL"],
  misconfigured: [500, "INTERNAL"],
  internal: [500, "INTERNAL"],
  busy: [503, "UNAVAILABLE"],
  backend_unavailable: [503, "UNAVAILABLE"],
  backend_overloaded: [503, "UNAVAILABLE"],
  store_unavailable: [503, "UNAVAILABLE"],
  deadline_exceeded: [504, "DEADLINE_EXCEEDED"],
} as const satisfies Record<GatewayErrorCode, readonly [code: number, status: WireError["status"]]>;

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError): GenerateContentErrorBody {
  const { path = [], retryAfterMs } = error;
  const [code, status] = WIRE_ERROR[error.code];
  const details: WireError["details"] = [];
  const isTooLong = error.code === "context_length_exceeded";
  const message = isTooLong ? withClientWords(error, tooLongWords(error.context)) : error.message;
  const field = fieldName(path);
  if (code === 400 && field !== "" && !isTooLong)
    details.push({
      "@type": "type.googleapis.com/google.rpc.BadRequest",
      fieldViolations: [{ field, description: withoutPrefix(message, `${field}: `) }],
    });
  if (isWait(retryAfterMs))
    details.push({
      "@type": "type.googleapis.com/google.rpc.RetryInfo",
      retryDelay: `${Math.ceil(retryAfterMs) / 1000}s`,
    });
  return { error: { code, message, status, details } };
}

/** Returns Google's own sentence, which clients search for, with the counts that are known. */
function tooLongWords({ inputTokens, outputTokens, maxTokens }: ContextTokens = {}): string {
  const input = inputTokens === undefined ? "" : ` (${inputTokens})`;
  const output = outputTokens === undefined ? "" : ` plus the output limit (${outputTokens})`;
  const max = maxTokens === undefined ? "" : ` (${maxTokens})`;
  return `The input token count${input}${output} exceeds the maximum number of tokens allowed${max}.`;
}

export const withoutPrefix = (text: string, prefix: string): string =>
  text.startsWith(prefix) ? text.slice(prefix.length) : text;

/** Decodes an error in the middle of an upstream's answer. */
export const decodeErrorBody = (body: unknown): GatewayError =>
  decodeUpstreamError(undefined, body, retryDelayIn(errorObject(body)["details"]));

export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  const error = errorObject(body);
  // A 404 without a status name comes from another kind of server, so it does not mean an unknown model.
  const meant = status === 404 && typeof error["status"] !== "string" ? 500 : status;
  return decodeUpstreamError(meant, body, retryAfterOf(headers) ?? retryDelayIn(error["details"]));
}

/** Returns the wait that an upstream asks for, in milliseconds. `RetryInfo` has it in seconds: `1.5s`. */
function retryDelayIn(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined;
  const delay = details.map((detail) => fieldOf(detail, "retryDelay")).find((found) => typeof found === "string");
  const seconds = /^(\d{1,5}(?:\.\d+)?)s$/.exec(delay ?? "")?.[1];
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000);
}

const fieldOf = (value: unknown, key: string): unknown => (isJsonObject(value) ? value[key] : undefined);
