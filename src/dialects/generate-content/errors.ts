/** The generate-content format's errors (spec 7.3): a number, a status name, a message, and details that name the field. */

import type { GatewayError, GatewayErrorCode } from "../../errors.ts";
import { isJsonObject } from "../../model/json.ts";
import { retryAfterOf, UNMET, upstreamError } from "../shared/upstream.ts";
import { fieldName } from "./schema.base.ts";

type ErrorStatus =
  | "INVALID_ARGUMENT"
  | "FAILED_PRECONDITION"
  | "UNAUTHENTICATED"
  | "PERMISSION_DENIED"
  | "NOT_FOUND"
  | "METHOD_NOT_ALLOWED"
  | "PAYLOAD_TOO_LARGE"
  | "RESOURCE_EXHAUSTED"
  | "ALREADY_EXISTS"
  | "ABORTED"
  | "CANCELLED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DEADLINE_EXCEEDED";

const WIRE_ERROR = {
  invalid_request: [400, "INVALID_ARGUMENT"],
  malformed_body: [400, "INVALID_ARGUMENT"],
  unsupported_media_type: [400, "INVALID_ARGUMENT"],
  failed_precondition: [400, "FAILED_PRECONDITION"],
  missing_api_key: [401, "UNAUTHENTICATED"],
  malformed_credential: [401, "UNAUTHENTICATED"],
  invalid_api_key: [401, "UNAUTHENTICATED"],
  expired_api_key: [401, "UNAUTHENTICATED"],
  model_not_allowed: [403, "PERMISSION_DENIED"],
  // The spec names quota twice: nothing left is 403, something left but too little for this request is 429.
  quota_exhausted: [403, "PERMISSION_DENIED"],
  quota_insufficient: [429, "RESOURCE_EXHAUSTED"],
  rate_limited: [429, "RESOURCE_EXHAUSTED"],
  model_not_found: [404, "NOT_FOUND"],
  not_found: [404, "NOT_FOUND"],
  // What other calls hold may come back, so waiting helps.
  quota_held: [429, "RESOURCE_EXHAUSTED"],
  // Not in the spec's table: the names follow those that are.
  method_not_allowed: [405, "METHOD_NOT_ALLOWED"],
  idempotency_key_reused: [409, "ALREADY_EXISTS"],
  idempotency_key_in_use: [409, "ABORTED"],
  client_closed: [499, "CANCELLED"],
  body_too_large: [413, "PAYLOAD_TOO_LARGE"],
  backend_refused: [500, "INTERNAL"],
  backend_failed: [500, "INTERNAL"],
  internal: [500, "INTERNAL"],
  busy: [503, "UNAVAILABLE"],
  backend_unavailable: [503, "UNAVAILABLE"],
  backend_overloaded: [503, "UNAVAILABLE"],
  store_unavailable: [503, "UNAVAILABLE"],
  deadline_exceeded: [504, "DEADLINE_EXCEEDED"],
} as const satisfies Record<GatewayErrorCode, readonly [code: number, status: ErrorStatus]>;

/** What is told beside the message; each kind names itself. */
export type ErrorDetail =
  | {
      "@type": "type.googleapis.com/google.rpc.BadRequest";
      fieldViolations: { field: string; description: string }[];
    }
  | { "@type": "type.googleapis.com/google.rpc.RetryInfo"; retryDelay: string };

export interface GenerateContentErrorBody {
  error: { code: number; message: string; status: ErrorStatus; details: ErrorDetail[] };
}

export const errorStatus = (error: GatewayError): number => WIRE_ERROR[error.code][0];

export function encodeError(error: GatewayError): GenerateContentErrorBody {
  const [code, status] = WIRE_ERROR[error.code];
  return { error: { code, message: error.message, status, details: [...detailsOf(error, code)] } };
}

function* detailsOf({ path = [], message, retryAfterMs }: GatewayError, code: number): Generator<ErrorDetail> {
  const field = fieldName(path);
  if (code === 400 && field !== "")
    yield {
      "@type": "type.googleapis.com/google.rpc.BadRequest",
      fieldViolations: [{ field, description: withoutPrefix(message, `${field}: `) }],
    };
  if (retryAfterMs !== undefined)
    yield { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: `${retryAfterMs / 1000}s` };
}

/** A text without what it begins with, if it does. */
export const withoutPrefix = (text: string, prefix: string): string =>
  text.startsWith(prefix) ? text.slice(prefix.length) : text;

/** The error that an upstream told of in the middle of its answer, as the object that `error` holds. */
export const decodeErrorBody = (error: unknown): GatewayError =>
  decoded(Number(fieldOf(error, "code")), error, undefined);

/** The error that an upstream answered with. */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A stream that is framed as an array tells its error as the only element.
  const error = fieldOf(Array.isArray(body) ? body[0] : body, "error");
  // An answer in no known form tells of another server than a model's.
  const meant = status === 404 && fieldOf(error, "status") === undefined ? 500 : status;
  return decoded(meant, error ?? body, retryAfterOf(headers));
}

function decoded(status: number, error: unknown, retryAfterMs: number | undefined): GatewayError {
  const wait = retryAfterMs ?? retryDelayOf(error);
  // The upstream's key is the host's, and this format says so with the status of a wrong field.
  if (detailsIn(error).some((detail) => fieldOf(detail, "reason") === "API_KEY_INVALID"))
    return upstreamError(401, error, wait);
  if (fieldOf(error, "status") === "FAILED_PRECONDITION") return upstreamError(status, error, wait, UNMET);
  return upstreamError(status, error, wait);
}

/** How long the upstream asks to wait, in milliseconds: `RetryInfo` has it in seconds, `1.5s`. */
function retryDelayOf(error: unknown): number | undefined {
  const delay = detailsIn(error)
    .map((detail) => fieldOf(detail, "retryDelay"))
    .find((one) => typeof one === "string");
  const seconds = /^(\d{1,5}(?:\.\d+)?)s$/.exec(delay ?? "")?.[1];
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000);
}

function detailsIn(error: unknown): readonly unknown[] {
  const details = fieldOf(error, "details");
  return Array.isArray(details) ? details : [];
}

const fieldOf = (value: unknown, key: string): unknown => (isJsonObject(value) ? value[key] : undefined);
