/** What the AI SDK's providers throw, as errors of the gateway's. */

import { emptyAccount, retryAfterOf, upstreamError } from "../../dialects/shared/upstream.ts";
import { GatewayError, type GatewayErrorCode, toGatewayError } from "../../errors.ts";
import { isJsonObject } from "../../model/json.ts";

/** The longest that is kept of a provider's own words, in characters. */
const MAX_SHOWN_CHARS = 1_024;

/** The library's own errors by their names: what they mean, and what the caller is told. */
const NAMED: Readonly<Record<string, readonly [GatewayErrorCode, string]>> = {
  AI_UnsupportedFunctionalityError: ["failed_precondition", "The model does not support all of this request."],
  AI_InvalidPromptError: ["invalid_request", "The model backend does not take this request."],
  AI_InvalidArgumentError: ["invalid_request", "The model backend does not take this request."],
  AI_NoSuchModelError: ["model_not_found", "The model backend does not know this model."],
};

/** What an error's type or code means where no status comes with it: in the middle of a stream. */
const STATUS_OF: ReadonlyMap<unknown, number> = new Map([
  ["invalid_request_error", 400],
  ["authentication_error", 401],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["rate_limit_error", 429],
  ["rate_limit_exceeded", 429],
  ["overloaded_error", 529],
  ["timeout_error", 504],
]);

/**
 * The error that a provider threw, or told of in mid-stream. Its own words stay in `cause`, without the request that they came with.
 *
 * @param showMessages Whether callers may see those words.
 */
export function decodeError(thrown: unknown, showMessages = false): GatewayError {
  try {
    if (thrown instanceof GatewayError) return thrown;
    const error = errorOf(thrown);
    const said = messageOf(thrown);
    // Keys and accounts are the host's, and none of the caller's business.
    if (!showMessages || said === undefined || error.code === "backend_refused") return error;
    const { code, cause, retryAfterMs } = error;
    const details = { cause, port: "model-backend", ...(retryAfterMs !== undefined && { retryAfterMs }) } as const;
    return new GatewayError(code, said, details);
  } catch {
    // Getters may throw.
    return toGatewayError(new Error("The provider threw what cannot be read."), "model-backend");
  }
}

function errorOf(thrown: unknown): GatewayError {
  const { name, statusCode, isRetryable } = (thrown ?? {}) as Record<string, unknown>;
  const named = typeof name === "string" && Object.hasOwn(NAMED, name) ? NAMED[name] : undefined;
  if (named) return new GatewayError(named[0], named[1], { port: "model-backend", cause: shown(thrown) });
  if (name === "AI_APICallError" || typeof statusCode === "number") {
    if (typeof statusCode === "number") return ofStatus(statusCode, thrown);
    // Nothing was answered.
    if (isRetryable === true) return upstreamError(503, shown(thrown), undefined);
  }
  const inner = isJsonObject(thrown) && isJsonObject(thrown["error"]) ? thrown["error"] : thrown;
  const { type, code, status } = (inner ?? {}) as Record<string, unknown>;
  const told = STATUS_OF.get(code) ?? STATUS_OF.get(type) ?? (typeof status === "number" ? status : undefined);
  return told === undefined ? unknownError(thrown) : ofStatus(told, thrown);
}

function ofStatus(status: number, thrown: unknown): GatewayError {
  const cause = shown(thrown, ABOUT_KEYS.has(status));
  if (codesIn(thrown).includes("insufficient_quota")) return emptyAccount(cause);
  // An answer that could not be read has the status of its success.
  return upstreamError(status < 400 ? 500 : status, cause, retryAfterOf(headersOf(thrown)));
}

/** The codes and types of the error that the provider has read. */
function codesIn(thrown: unknown): unknown[] {
  const { data } = (thrown ?? {}) as { data?: unknown };
  const error = isJsonObject(data) && isJsonObject(data["error"]) ? data["error"] : {};
  return [error["code"], error["type"]];
}

function headersOf(thrown: unknown): Headers {
  const { responseHeaders } = (thrown ?? {}) as { responseHeaders?: unknown };
  const headers = new Headers();
  if (!isJsonObject(responseHeaders)) return headers;
  for (const name of ["retry-after", "retry-after-ms", "date"]) {
    const value = responseHeaders[name];
    if (typeof value === "string" && /^[\t\u0020-\u007e]*$/.test(value)) headers.set(name, value);
  }
  return headers;
}

/** Codes of a connection are the runtime's, wherever in the chain of causes they stand. */
function unknownError(thrown: unknown): GatewayError {
  const { code, message } = toGatewayError(thrown, "model-backend");
  return new GatewayError(code, message, { port: "model-backend", cause: shown(thrown) });
}

/** Statuses of errors about the host's key, which some providers say back; here nobody knows it, to blot it out. */
const ABOUT_KEYS: ReadonlySet<number> = new Set([401, 403]);

/**
 * A cause as the host may log it: its words, and neither the request nor the address that the library keeps beside them.
 *
 * @param mayHoldKey Whether the words are left out, because a key may stand in them.
 */
function shown(thrown: unknown, mayHoldKey = false): Error {
  const { name, statusCode } = (thrown ?? {}) as Record<string, unknown>;
  const status = typeof statusCode === "number" ? ` ${statusCode}` : "";
  const words = mayHoldKey ? "words in which your key may stand" : (messageOf(thrown) ?? "no words that can be shown");
  return new Error(`The provider failed: ${typeof name === "string" ? name : "error"}${status}: ${words}`);
}

function messageOf(thrown: unknown): string | undefined {
  if (typeof thrown === "string") return withoutKeys(thrown);
  const { message, error } = (thrown ?? {}) as { message?: unknown; error?: unknown };
  if (typeof message === "string") return withoutKeys(message);
  return isJsonObject(error) ? messageOf(error) : undefined;
}

/**
 * Texts that look like a key, or a piece of one: behind a prefix that providers give their keys, as a UUID, or as a run of eight characters
 * and more with a digit and a letter among them. Names of models and of parameters have few such runs.
 */
const KEY_LIKE =
  /\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx|csk|bearer|basic)[-_ ][\w+/=.~-]{8,}|\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b|\b(?=[a-z_]*\d)(?=[\d_]*[a-z])\w{8,}/gi;

/** The beginning of a provider's words without what may be a key: the provider has the host's, and nobody here knows it. */
const withoutKeys = (words: string): string =>
  words
    .slice(0, 2 * MAX_SHOWN_CHARS)
    .replaceAll(KEY_LIKE, "[redacted]")
    .slice(0, MAX_SHOWN_CHARS);
