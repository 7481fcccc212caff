/** The one error type of the gateway: a code that every dialect can encode, a message fit for the wire, and the cause kept inside. */

/**
 * Why a call was refused or failed, in words that belong to no wire format. Each dialect maps every code to its own
 * status and body (spec 7), so a new code does not compile until each dialect has decided how it looks.
 */
export const GATEWAY_ERROR_CODES = [
  "invalid_request", // a field is wrong; `path` names it
  "malformed_body", // empty, not JSON, or nested beyond reason
  "unsupported_media_type",
  "body_too_large",
  "failed_precondition", // well-formed, but what it asks for is not there or not supported
  "not_found", // the route is the gateway's, but there is no such thing
  "method_not_allowed",
  "missing_api_key",
  "malformed_credential", // an Authorization header of another scheme
  "invalid_api_key",
  "expired_api_key",
  "model_not_found",
  "model_not_allowed",
  "quota_exhausted", // nothing is left
  "quota_insufficient", // something is left, but too little for this request
  "quota_held", // what is left is held by other calls, which may give some of it back; `retryAfterMs` says when to come back
  "rate_limited",
  "idempotency_key_reused", // another request was sent under it, or its answer is not there to be given again
  "idempotency_key_in_use", // the request of that key is still being answered; `retryAfterMs` says when to come back
  "busy", // the gateway itself is full or closing; `retryAfterMs` says when to come back
  "client_closed",
  "deadline_exceeded",
  "backend_unavailable",
  "backend_overloaded", // it is there, but takes no more for now
  "backend_refused", // it does not take the host's own credential or account for this request
  "backend_failed",
  "store_unavailable", // a store of the host's failed
  "internal",
] as const;

/** Why a call was refused or failed, in words that belong to no wire format. */
export type GatewayErrorCode = (typeof GATEWAY_ERROR_CODES)[number];

const KNOWN_CODES: ReadonlySet<string> = new Set(GATEWAY_ERROR_CODES);

/** What a host injects, by the name of its port: which of them failed. */
export type Port = "model-backend" | "quota-store" | "image-store" | "rate-limiter" | "replay-store" | "code-runner";

/** What an error carries beside its code and message. */
export interface GatewayErrorDetails {
  /** The field at fault, in the caller's own spelling, as keys from the body's root: `["messages", 2, "content"]`. */
  readonly path?: readonly (string | number)[];
  /** How long the caller should wait before trying again, in milliseconds. */
  readonly retryAfterMs?: number;
  /** The methods that a route takes, where another one was used. */
  readonly allow?: readonly string[];
  /** What of the host's failed. Reported to the host, never to the caller. */
  readonly port?: Port;
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
  readonly port: Port | undefined;

  constructor(code: GatewayErrorCode, message: string, details: GatewayErrorDetails = {}) {
    super(message, { cause: details.cause });
    this.code = code;
    this.path = details.path;
    this.retryAfterMs = details.retryAfterMs;
    this.allow = details.allow;
    this.port = details.port;
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

const STORES: ReadonlySet<Port> = new Set<Port>(["quota-store", "image-store", "rate-limiter", "replay-store"]);

/**
 * Normalises any thrown value. What is no GatewayError keeps its own message in `cause`, because that may hold addresses,
 * queries or keys.
 *
 * @param port What of the host's threw it; undefined where it was the gateway itself.
 */
export function toGatewayError(thrown: unknown, port?: Port): GatewayError {
  if (isKnown(thrown)) return thrown;
  if (port === "model-backend") return backendError(thrown);
  if (port && STORES.has(port))
    return new GatewayError("store_unavailable", "A store of this service is not available.", { cause: thrown, port });
  return new GatewayError("internal", "The gateway had an internal error.", { cause: thrown, ...(port && { port }) });
}

function isKnown(thrown: unknown): thrown is GatewayError {
  try {
    // A code of another version of this library, or of a caller without types, is one that no dialect can encode.
    return thrown instanceof GatewayError && KNOWN_CODES.has(thrown.code);
  } catch {
    return false;
  }
}

function backendError(thrown: unknown): GatewayError {
  const details = { cause: thrown, port: "model-backend" } as const;
  const { codes, name } = namesOf(thrown);
  if (codes.some((one) => UNREACHABLE.has(one)))
    return new GatewayError("backend_unavailable", "The model backend cannot be reached.", details);
  if (codes.some((one) => TIMED_OUT.has(one)) || name === "TimeoutError")
    return new GatewayError("deadline_exceeded", "The model backend took too long.", details);
  return new GatewayError("backend_failed", "The model backend failed.", details);
}

/** By what the failures of a connection are known: the codes of the error and of its cause, and the error's name. */
function namesOf(thrown: unknown): { codes: string[]; name: unknown } {
  try {
    const { cause, code, name } = (thrown ?? {}) as { cause?: unknown; code?: unknown; name?: unknown };
    return { codes: [code, (cause as { code?: unknown } | null | undefined)?.code].map(String), name };
  } catch {
    // Getters may throw, and what is no text may not become one.
    return { codes: [], name: undefined };
  }
}

/** How many causes of causes are described: a chain may be endless, or lead back into itself. */
const MAX_CAUSES = 8;

/** An error and what caused it, each with its stack, for a log. Never throws. */
export function describeError(error: unknown): string {
  const described: string[] = [];
  for (let cause: unknown = error; cause !== undefined && described.length <= MAX_CAUSES;) {
    described.push(described.length === MAX_CAUSES ? "…" : stackOf(cause));
    cause = causeOf(cause);
  }
  return described.join("\ncaused by ");
}

function stackOf(error: unknown): string {
  try {
    return error instanceof Error ? String(error.stack ?? error) : String(error);
  } catch {
    return "a value that cannot be shown";
  }
}

function causeOf(error: unknown): unknown {
  try {
    return error instanceof Error ? error.cause : undefined;
  } catch {
    return undefined;
  }
}
