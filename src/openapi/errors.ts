/** The error answers of an operation: by status, with an example of each code, as the format itself encodes them. */

import { NO_RETRY } from "../dialects/shared/no-retry.ts";
import { GatewayError, type GatewayErrorCode, type GatewayErrorDetails } from "../index.ts";
import { ALLOW_HEADERS, ID_HEADERS, jsonContent, NO_RETRY_HEADERS, RETRY_HEADERS } from "./shapes.ts";
import type { ApiResponse, Example, JsonSchema, Reference } from "./types.ts";

/** What can go wrong in a call; an operation names those that it can meet. */
export type Trouble =
  | "route"
  | "key"
  | "expiry"
  | "input"
  | "body"
  | "lookup"
  | "model"
  | "quota"
  | "replay"
  | "backend"
  | "gateway";

type ErrorExample = readonly [trouble: Trouble, message: string, details?: GatewayErrorDetails];

const RETRY = { retryAfterMs: 2_000 };

/** An example of each code. The messages are those of the gateway, or like them. */
const EXAMPLES = {
  invalid_request: ["input", "model: is required", { path: ["model"] }],
  malformed_body: ["body", "The body is not valid JSON."],
  unsupported_media_type: ["body", "The content-type must be the one that this route takes."],
  body_too_large: ["body", "The body is larger than this service takes."],
  failed_precondition: ["backend", "What the request refers to is not there."],
  not_found: ["lookup", 'There is no model "other".', { path: ["model"] }],
  method_not_allowed: ["route", "This route takes POST, not PUT.", { allow: ["POST"] }],
  missing_api_key: ["key", "An API key is required."],
  malformed_credential: ["key", "The Authorization header must hold a Bearer token."],
  invalid_api_key: ["key", "The API key is not known."],
  expired_api_key: ["expiry", "The API key has expired."],
  model_not_found: ["model", 'There is no model "other".', { path: ["model"] }],
  model_not_allowed: ["model", 'This API key may not use the model "other".', { path: ["model"] }],
  quota_exhausted: ["quota", "The quota of this API key is used up."],
  quota_insufficient: ["quota", "The quota of this API key is too small for this request."],
  quota_held: ["quota", "What is left of the quota is held by calls that are still running.", RETRY],
  rate_limited: ["quota", "There are too many requests.", RETRY],
  idempotency_key_reused: ["replay", "Another request was sent with this Idempotency-Key."],
  idempotency_key_in_use: ["replay", "The request of this Idempotency-Key is still being answered.", RETRY],
  busy: ["gateway", "This service is full.", RETRY],
  client_closed: ["gateway", "The caller has closed the connection."],
  deadline_exceeded: ["gateway", "The call took too long."],
  backend_unavailable: ["backend", "The model backend cannot be reached."],
  backend_overloaded: ["backend", "The model backend takes no more requests for now.", RETRY],
  backend_refused: ["backend", "The model backend refused this service."],
  backend_failed: ["backend", "The model backend failed."],
  store_unavailable: ["gateway", "A store of this service is not available."],
  internal: ["gateway", "The gateway had an internal error."],
} as const satisfies Record<GatewayErrorCode, ErrorExample>;

/** How a format says an error. */
export interface ErrorFormat {
  readonly schema: JsonSchema;
  readonly encode: (error: GatewayError, requestId: string) => { readonly status: number; readonly body: unknown };
}

interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, Reference>>;
  readonly code: string;
  readonly example: Example;
}

const REQUEST_ID = "req_0123456789abcdef";

/** The answers to what can go wrong in an operation. */
export function errorResponses(
  { schema, encode }: ErrorFormat,
  troubles: readonly Trouble[],
): Record<string, ApiResponse> {
  const met = Object.entries<ErrorExample>(EXAMPLES).filter(([, [trouble]]) => troubles.includes(trouble));
  const refusals = met.map(([code, [, message, details]]): Refusal => {
    const error = new GatewayError(code as GatewayErrorCode, message, details);
    const { status, body } = encode(error, REQUEST_ID);
    return { status, headers: headersOf(error), code, example: { summary: message, value: body } };
  });
  const statuses = [...new Set(refusals.map(({ status }) => status))].toSorted((a, b) => a - b);
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      responseOf(
        refusals.filter((refusal) => refusal.status === status),
        schema,
      ),
    ]),
  );
}

const responseOf = (refusals: readonly Refusal[], schema: JsonSchema): ApiResponse => ({
  description: refusals.map(({ code }) => `\`${code}\``).join(", "),
  headers: Object.assign({}, ID_HEADERS, ...refusals.map(({ headers }) => headers)) as Record<string, Reference>,
  content: jsonContent(schema, Object.fromEntries(refusals.map(({ code, example }) => [code, example]))),
});

const headersOf = ({ code, retryAfterMs, allow }: GatewayError): Record<string, Reference> => ({
  ...(allow && ALLOW_HEADERS),
  ...(retryAfterMs !== undefined && RETRY_HEADERS),
  ...(NO_RETRY.has(code) && NO_RETRY_HEADERS),
});

/** The troubles of a call that a model answers. */
export const MODEL_CALL: readonly Trouble[] = [
  "route",
  "key",
  "expiry",
  "input",
  "body",
  "model",
  "quota",
  "replay",
  "backend",
  "gateway",
];
/** The troubles of a token count. */
export const TOKEN_COUNT: readonly Trouble[] = [
  "route",
  "key",
  "expiry",
  "input",
  "body",
  "model",
  "replay",
  "gateway",
];
/** The troubles of a list, and of one entry of it. A list comes from the backend. */
export const LIST: readonly Trouble[] = ["route", "key", "expiry", "input", "backend", "gateway"];
export const LOOKUP: readonly Trouble[] = [...LIST, "lookup"];
