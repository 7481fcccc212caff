/** The one error type of the gateway: a code that every dialect can dress, a message fit for the wire, and the cause kept inside. */

/**
 * Why a call was refused or failed, in words that belong to no wire format. Each dialect maps every code to its own
 * status and body (spec 7), so a new code does not compile until each dialect has decided how it looks.
 */
export type GatewayErrorCode =
  | "invalid_request" // a field is wrong; `path` names it
  | "malformed_body" // empty, not JSON, or nested beyond reason
  | "unsupported_media_type"
  | "body_too_large"
  | "failed_precondition" // well-formed, but what it asks for is not there or not supported
  | "method_not_allowed"
  | "missing_api_key"
  | "malformed_credential" // an Authorization header of another scheme
  | "invalid_api_key"
  | "expired_api_key"
  | "model_not_found"
  | "model_not_allowed"
  | "quota_exhausted" // nothing is left
  | "quota_insufficient" // something is left, but too little for this request
  | "rate_limited"
  | "busy" // the gateway itself is full or closing; `retryAfterMs` says when to come back
  | "client_closed"
  | "deadline_exceeded"
  | "backend_unavailable"
  | "backend_failed"
  | "internal";

/** What an error carries beside its code and message. */
export interface GatewayErrorDetails {
  /** The field at fault, in the caller's own spelling, as keys from the body's root: `["messages", 2, "content"]`. */
  readonly path?: readonly (string | number)[];
  /** How long the caller should wait before trying again, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The methods that a route takes, where another one was used. */
  readonly allow?: readonly string[];
  /** What was thrown underneath. Reported to the host, never to the caller. */
  readonly cause?: unknown;
}

/** What every copy of this library knows its errors by. */
const BRAND = Symbol.for("polygate.GatewayError");

/**
 * The error that backends, stores and the gateway itself throw. Its `message` reaches the caller word for word, so it
 * must hold no secret and nothing of the host's inside.
 *
 * @example throw new GatewayError("rate_limited", "The upstream is busy.", { retryAfterMs: 2_000 });
 */
export class GatewayError extends Error {
  /** One that another copy of this library has made is one too: a bundle brings a copy of its own. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== GatewayError) return super[Symbol.hasInstance](value);
    return typeof value === "object" && value !== null && BRAND in value;
  }

  override readonly name = "GatewayError";
  readonly code: GatewayErrorCode;
  readonly path: readonly (string | number)[] | undefined;
  readonly retryAfterMs: number | undefined;
  readonly allow: readonly string[] | undefined;

  constructor(code: GatewayErrorCode, message: string, details: GatewayErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.code = code;
    this.path = details.path;
    this.retryAfterMs = details.retryAfterMs;
    this.allow = details.allow;
  }
}

Object.defineProperty(GatewayError.prototype, BRAND, { value: true });

const UNREACHABLE = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);
const TIMED_OUT = new Set(["ETIMEDOUT", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT", "UND_ERR_CONNECT_TIMEOUT"]);

/**
 * The one door for strangers: whatever was thrown becomes a GatewayError. A stranger's own message stays in `cause`,
 * because it may hold addresses, queries or keys.
 *
 * @param otherwise The code for a stranger of no known kind.
 */
export function toGatewayError(thrown: unknown, otherwise: "backend_failed" | "internal" = "internal"): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  const codes = [thrown, (thrown as { cause?: unknown } | undefined)?.cause].map(
    (error) => (error as { code?: unknown } | undefined)?.code,
  );
  if (codes.some((code) => UNREACHABLE.has(String(code))))
    return new GatewayError("backend_unavailable", "The model backend cannot be reached.", { cause: thrown });
  if (codes.some((code) => TIMED_OUT.has(String(code))) || (thrown as Error | undefined)?.name === "TimeoutError")
    return new GatewayError("deadline_exceeded", "The model backend took too long.", { cause: thrown });
  return otherwise === "backend_failed"
    ? new GatewayError("backend_failed", "The model backend failed.", { cause: thrown })
    : new GatewayError("internal", "The gateway had an internal error.", { cause: thrown });
}

/** An error and what caused it, each with its stack, for a log. */
export function accountOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const account = error.stack ?? String(error);
  return error.cause === undefined ? account : `${account}\ncaused by ${accountOf(error.cause)}`;
}
