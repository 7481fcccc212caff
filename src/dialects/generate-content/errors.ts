/** The generate-content format's errors (spec 7.3): a number, a status name, a message, and details that name the field. */

import { GatewayError, type GatewayErrorCode } from "../../errors.ts";
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
  // Not in the spec's table: the names follow those that are.
  method_not_allowed: [405, "METHOD_NOT_ALLOWED"],
  client_closed: [499, "CANCELLED"],
  body_too_large: [413, "PAYLOAD_TOO_LARGE"],
  backend_failed: [500, "INTERNAL"],
  internal: [500, "INTERNAL"],
  busy: [503, "UNAVAILABLE"],
  backend_unavailable: [503, "UNAVAILABLE"],
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

/** What an upstream's error means for the caller of the gateway, who has no part in the upstream's keys and quotas. */
const UPSTREAM: Readonly<Record<number, readonly [code: GatewayErrorCode, message: string]>> = {
  429: ["rate_limited", "The model backend is busy."],
  503: ["backend_unavailable", "The model backend is not available."],
  504: ["deadline_exceeded", "The model backend took too long."],
};

/** The error that an upstream told of in this format. Its own message stays inside, in `cause`. */
export function decodeError(error: unknown): GatewayError {
  const status = (error as { code?: unknown } | null)?.code;
  const [code, message] = UPSTREAM[Number(status)] ?? ["backend_failed", "The model backend failed."];
  return new GatewayError(code, message, { cause: error });
}
