/** The error type of the gateway: a code that every format can encode, a message for the caller, and a cause for the host alone. */

import { meantHint, quoted } from "./options.ts";

/**
 * The codes of errors, independent of wire formats. Each format maps every code to a status and a body (spec 7), so a new code does not
 * compile until each format has a row for it.
 */
export const GATEWAY_ERROR_CODES = [
  "invalid_request", // a field has a wrong value; `path` names it
  "malformed_body", // empty, not JSON, or nested too deep
  "unsupported_media_type",
  "body_too_large",
  "context_length_exceeded", // the prompt is too long for the model; `context` has the counts that are known
  "content_refused", // the upstream's content policy refuses the prompt or the answer
  "failed_precondition", // the request is well-formed, but needs something that is missing or not supported
  "not_found", // the route exists, but the resource does not
  "method_not_allowed",
  "upgrade_required", // the route is a WebSocket, which the host has not wired
  "missing_api_key",
  "malformed_credential", // the Authorization header has another scheme than Bearer
  "invalid_api_key",
  "paused_api_key", // an operator has paused the key, and may resume it
  "expired_api_key",
  "model_not_found",
  "model_not_allowed",
  "quota_exhausted", // the key has no quota left
  "quota_insufficient", // the remaining quota is too small for this request
  "quota_held", // other calls hold the remaining quota and may return some of it; `retryAfterMs` says when to retry
  "rate_limited",
  "idempotency_key_reused", // a different request has used the key, or the first answer was not kept
  "idempotency_key_in_use", // the first request with the key is still in flight; `retryAfterMs` says when to retry
  "busy", // the gateway is full or closing; `retryAfterMs` says when to retry
  "client_closed",
  "call_stopped", // the host has stopped the call; a retry would go on with what it has stopped
  "deadline_exceeded",
  "backend_unavailable",
  "backend_overloaded", // the backend takes no more requests for now
  "backend_refused", // the backend rejects the host's own credential or account
  "backend_failed",
  "store_unavailable", // a store of the host failed
  "misconfigured", // a setting of the host has a mistake, which `cause` tells the host alone
  "internal",
] as const;

/** The message for callers of a key with a wrong setting. They are not told the host's names. */
export const WRONG_SETTING = "This service has a wrong setting for this API key. Its operator must correct it.";

/** The reason why a call was refused or failed. */
export type GatewayErrorCode = (typeof GATEWAY_ERROR_CODES)[number];

/**
 * The errors of a backend in the gateway's own words, each with its code. A record keeps these messages; all other messages of a backend may
 * quote the prompt.
 */
export const BACKEND_ERRORS = {
  failed: ["backend_failed", "The model backend failed."],
  brokeOff: ["backend_failed", "The model backend's answer broke off."],
  unreachable: ["backend_unavailable", "The model backend cannot be reached."],
  unavailable: ["backend_unavailable", "The model backend is not available."],
  overloaded: ["backend_overloaded", "The model backend is overloaded."],
  busy: ["rate_limited", "The model backend is busy."],
  refused: ["backend_refused", "The model backend refused this service."],
  refusedContent: ["content_refused", "The model backend refuses this content by its policy."],
  late: ["deadline_exceeded", "The model backend took too long."],
} as const;

type BackendFailure = keyof typeof BACKEND_ERRORS;

/** The errors whose message is a sentence of this library, without a part of the request or of an upstream's answer. */
const IN_OWN_WORDS = new WeakSet<GatewayError>();

/** Marks an error whose message quotes nothing but numbers, and returns the error. A record keeps the message. */
export function inOwnWords(error: GatewayError): GatewayError {
  IN_OWN_WORDS.add(error);
  return error;
}

/** True for an error of a backend whose message quotes nothing. */
export const isInOwnWords = (error: GatewayError): boolean =>
  IN_OWN_WORDS.has(error) || BACKEND_WORDS.has(error.message);

/** The messages of `BACKEND_ERRORS`. */
export const BACKEND_WORDS: ReadonlySet<string> = new Set(Object.values(BACKEND_ERRORS).map(([, message]) => message));

/** The errors of an upstream that lacks the model. */
export const LACKS_MODEL: ReadonlySet<unknown> = new Set<GatewayErrorCode>(["model_not_found", "model_not_allowed"]);

/**
 * Says that the host has named a model which an upstream lacks, and what to correct.
 *
 * @param place The place of the name in the host's code.
 */
export const lackedModel = (
  upstream: string,
  model: string,
  place: string = "in the route or in the models of the relay",
): string => `The upstream ${upstream} does not have the model ${model}. Correct this name ${place}.`;

const KNOWN_CODES: ReadonlySet<string> = new Set(GATEWAY_ERROR_CODES);

/** The parts that a host provides. An error names the part that failed. */
export type Port =
  | "model-backend"
  | "quota-store"
  | "image-store"
  | "rate-limiter"
  | "replay-store"
  | "response-store"
  | "code-runner"
  | "hook";

/** The token counts of a prompt that is too long, as far as they are known. */
export interface ContextTokens {
  /** The tokens of the prompt. */
  readonly inputTokens?: number;
  /** The output limit of the request. Set only if the limit counts input and output together. */
  readonly outputTokens?: number;
  /** The most tokens that the model takes: of the input, or together with `outputTokens`. */
  readonly maxTokens?: number;
}

/** The limit that refused a call, and its state at that moment. */
export interface RefusedBy {
  /**
   * The kind of limit: the rate of requests or of tokens, the calls at once, the key's own quota, or a budget. `needed` and `available`
   * are requests, tokens, calls or quota units.
   */
  readonly kind: "requests" | "tokens" | "calls" | "quota" | "budget";
  /** The least that the call needs. */
  readonly needed?: number | undefined;
  /** The most that the call could need, with its whole output limit. Absent for rate limits, and for a body that was not parsed. */
  readonly wanted?: number | undefined;
  /** The units or counts that were left. */
  readonly available?: number | undefined;
  /** The most that the limit allows: in one window, or at once. Absent for quota and budgets. */
  readonly limit?: number | undefined;
  /** The part of `available` that running calls may give back. */
  readonly held?: number | undefined;
  /** The length of the limit's window, in milliseconds. */
  readonly windowMs?: number | undefined;
  /** The end of the window, or of the budget's period: Unix time in milliseconds. Absent for a limit without an end. */
  readonly endsAt?: number | undefined;
  /** The model that the limit counts. Absent for a limit that counts all models together. */
  readonly model?: string | undefined;
  /** The group of keys that shares the limit. */
  readonly group?: string | undefined;
  /** The id of the budget. It may be a parent of the key's own budget. */
  readonly budget?: string | undefined;
}

/** The keys from a body's root to a field. */
export type FieldPath = readonly (string | number)[];

/** Headers about a vendor's limits, which tell the clients of a single format how long to wait. */
export interface VendorLimits {
  /** The wire format. Callers of other formats do not get the headers. */
  readonly format: string;
  /** The values by the names of the headers, in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The reason of a refused request in the words of a vendor, which the clients of its formats look for. */
export interface VendorReason {
  /** The `code` that callers of OpenAI's formats read. */
  readonly code?: string | undefined;
  /** The `details` that callers of messages read: Anthropic's clients find the class of the error by their `error_code`. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** The details of an error, beside its code and message. */
export interface GatewayErrorDetails {
  /** The path of the wrong field from the root of the body, in the caller's spelling: `["messages", 2, "content"]`. */
  readonly path?: FieldPath | undefined;
  /** The time that the caller should wait before a retry, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** The methods that the route supports, for the error of a request with another method. */
  readonly allow?: readonly string[] | undefined;
  /** The token counts for `context_length_exceeded`. */
  readonly context?: ContextTokens | undefined;
  /** The limit that refused the call. The caller is told its kind and its numbers, not the ids of groups and budgets. */
  readonly refusedBy?: RefusedBy | undefined;
  /** Further headers of the answer, for an error of a limit. */
  readonly limits?: VendorLimits | undefined;
  /** The vendor's own reason, for an error of the request. */
  readonly reason?: VendorReason | undefined;
  /** The part of the host that failed. Reported to the host, never to the caller. */
  readonly port?: Port | undefined;
  /** The original error. Reported to the host, never to the caller. */
  readonly cause?: unknown;
}

/** Marks a GatewayError, so that errors from another copy of this library are recognised too. */
const BRAND = Symbol.for("polygate.GatewayError");

/**
 * The error that backends, stores and the gateway throw. Its `message` reaches the caller word for word, so it must not contain secrets or
 * internals of the host. Its fields are those of `GatewayErrorDetails`.
 *
 * @example throw new GatewayError("rate_limited", "The upstream is busy.", { retryAfterMs: 2_000 });
 */
export class GatewayError extends Error {
  /** Makes `instanceof` true also for errors of other copies of this library. A bundle can contain its own copy. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (this !== GatewayError) return super[Symbol.hasInstance](value);
    return typeof value === "object" && value !== null && BRAND in value;
  }

  override readonly name = "GatewayError";
  readonly code: GatewayErrorCode;
  readonly path: FieldPath | undefined;
  readonly retryAfterMs: number | undefined;
  readonly allow: readonly string[] | undefined;
  readonly context: ContextTokens | undefined;
  readonly refusedBy: RefusedBy | undefined;
  readonly limits: VendorLimits | undefined;
  readonly reason: VendorReason | undefined;
  readonly port: Port | undefined;

  /** Throws a TypeError for an unknown code, which no format can encode. */
  constructor(code: GatewayErrorCode, message: string, details: GatewayErrorDetails = {}) {
    if (!KNOWN_CODES.has(code)) throw new TypeError(unknownCode(code));
    super(message, { cause: details.cause });
    this.code = code;
    this.path = details.path;
    this.retryAfterMs = details.retryAfterMs;
    this.allow = details.allow;
    this.context = details.context;
    this.refusedBy = details.refusedBy;
    this.limits = details.limits;
    this.reason = details.reason;
    this.port = details.port;
  }
}

function unknownCode(code: unknown): string {
  const hint = meantHint(String(code), GATEWAY_ERROR_CODES) || ` There are ${GATEWAY_ERROR_CODES.join(", ")}.`;
  return `GatewayError: there is no code ${quoted(code)}.${hint}`;
}

Object.defineProperty(GatewayError.prototype, BRAND, { value: true });

/** Tells whether `retryAfterMs` is a time that a caller can wait: a backend or a rate limiter of the host may give any number. */
export const isWait = (ms: number | undefined): ms is number =>
  ms !== undefined && ms >= 0 && ms < Number.POSITIVE_INFINITY;

/** Returns the error of a wrong field. Its message begins with the path of the field. */
export const invalidField = (path: FieldPath, message: string): GatewayError =>
  new GatewayError("invalid_request", `${path.join(".")}: ${message}`, { path });

/** Returns an error of the same code with another message, and with all other details but those that are given. */
export function changedError(error: GatewayError, message: string, details: GatewayErrorDetails): GatewayError {
  const changed = new GatewayError(error.code, message, Object.assign({ cause: error.cause }, error, details));
  return IN_OWN_WORDS.has(error) && message === error.message ? inOwnWords(changed) : changed;
}

/**
 * Makes an error of a backend whose answer is wrong. Only the message reaches the caller.
 *
 * @param message A sentence that quotes nothing but numbers: a record keeps it.
 */
export const backendFailed = (message: string, cause?: unknown): GatewayError =>
  inOwnWords(new GatewayError("backend_failed", message, { port: "model-backend", cause }));

/** Makes an error of a backend in the gateway's own words. */
export const backendError = (kind: BackendFailure, cause: unknown, details: GatewayErrorDetails = {}): GatewayError => {
  const [code, message] = BACKEND_ERRORS[kind];
  return wrapping(new GatewayError(code, message, { ...details, port: "model-backend", cause }));
};

/** Leaves the stack to the cause, which tells the place of the fault. */
function wrapping(error: GatewayError): GatewayError {
  if (isError(error.cause)) error.stack = String(error);
  return error;
}

/** Returns the cause of an error that a function of the host has thrown: names the function for the log, and leaves the stack to its own cause. */
export function failedIn(name: string, thrown: unknown): Error {
  const error = new Error(`${name} has failed.`, { cause: thrown });
  if (isError(thrown)) error.stack = String(error);
  return error;
}

/** Returns the error of a function of the host that has failed, where no caller reads the message. */
export const untoldFailure = (name: string, thrown: unknown): GatewayError =>
  wrapping(new GatewayError("internal", `${name} has failed.`, { cause: thrown, port: "hook" }));

/** Runs a function of the host. An error that it throws gets the name of the function. A GatewayError stays, because it is meant for callers. */
export function named<Result>(name: string, run: () => Result): Result {
  try {
    return run();
  } catch (thrown) {
    throw thrown instanceof GatewayError ? thrown : failedIn(name, thrown);
  }
}

/**
 * The cause of an error of an upstream whose settings have a mistake, so that every such call fails. Its message tells the operator the mistake
 * and the remedy, without secrets, and is recorded.
 */
export class SettingMistake extends Error {
  override readonly name = "SettingMistake";
}

/**
 * The cause of an error of a call that no upstream was asked for, because each rests. Its message names the upstreams for the operator. All calls
 * of the same rest have the same message.
 */
export class UpstreamsRest extends Error {
  override readonly name = "UpstreamsRest";
}

/** Returns the mistake in the settings that has caused an error. */
export const mistakeOf = (error: GatewayError): string | undefined => causeNamed("SettingMistake", error);

/**
 * Tells whether only the operator can mend an error of a backend: its upstream refuses this service, or a setting has a mistake. A connection that
 * fails may pass, also where a setting looks wrong: the name of a container that restarts does not resolve.
 */
export const needsOperator = (error: GatewayError): boolean =>
  error.code === "backend_refused" || (error.code !== "backend_unavailable" && mistakeOf(error) !== undefined);

/** Returns which upstreams rest, for an error that has this cause. */
export const restOf = (error: GatewayError): string | undefined => causeNamed("UpstreamsRest", error);

/** Returns the message of a cause. A cause may be a copy without secrets, so its name tells. */
function causeNamed(name: string, { cause }: GatewayError): string | undefined {
  try {
    return cause instanceof Error && cause.name === name ? cause.message : undefined;
  } catch {
    // Getters may throw.
    return undefined;
  }
}

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

const STORES: ReadonlySet<Port> = new Set<Port>([
  "quota-store",
  "image-store",
  "rate-limiter",
  "replay-store",
  "response-store",
]);

/** The pause before a retry while a store is away, in milliseconds: about the time in which a database restarts. */
export const STORE_RETRY_MS = 5_000;

/** The error of a store that is away. Its caller is not told the cause. */
export const storeUnavailable = (cause: unknown, port: Port, retryAfterMs: number = STORE_RETRY_MS): GatewayError =>
  wrapping(
    new GatewayError("store_unavailable", "A store of this service is not available.", { cause, port, retryAfterMs }),
  );

/**
 * Turns any thrown value into a GatewayError. The message of another error stays in `cause`, because it may contain addresses, queries or
 * keys.
 *
 * @param port The part of the host that threw the value; undefined for the gateway itself.
 */
export function toGatewayError(thrown: unknown, port?: Port): GatewayError {
  if (isKnown(thrown)) return thrown;
  if (port === "model-backend") return backendError(failureIn(thrown), thrown);
  if (port && STORES.has(port)) return storeUnavailable(thrown, port);
  return wrapping(new GatewayError("internal", "The gateway had an internal error.", { cause: thrown, port }));
}

function isKnown(thrown: unknown): thrown is GatewayError {
  try {
    // Another version of this library may have another code. No format can encode such a code.
    return thrown instanceof GatewayError && KNOWN_CODES.has(thrown.code);
  } catch {
    return false;
  }
}

function failureIn(thrown: unknown): BackendFailure {
  const { codes, name } = namesOf(thrown);
  if (codes.some((one) => UNREACHABLE.has(one))) return "unreachable";
  return codes.some((one) => TIMED_OUT.has(one)) || name === "TimeoutError" ? "late" : "failed";
}

/** Returns the values that identify a failed connection: the codes of the error and of its cause, and the name of the error. */
function namesOf(thrown: unknown): { codes: string[]; name: unknown } {
  try {
    const { cause, code, name } = (thrown ?? {}) as { cause?: unknown; code?: unknown; name?: unknown };
    return { codes: [code, (cause as { code?: unknown } | null | undefined)?.code].map(String), name };
  } catch {
    // A getter or the `toString` of the thrown value has thrown.
    return { codes: [], name: undefined };
  }
}

/** The most causes that `describeError` describes. A chain of causes may be endless or circular. */
const MAX_CAUSES = 8;

/**
 * Describes an error for a log: first its message and those of its causes, then their stacks. `caused by …` stands for causes that are left out.
 * Never throws.
 *
 * @param hasStacks False for an error whose messages tell all.
 */
export function describeError(error: unknown, hasStacks = true): string {
  const described: string[] = [];
  const stacks: string[] = [];
  const causes = [error];
  // The list grows while it is read.
  for (const cause of causes) {
    if (cause === undefined) continue;
    if (described.length === MAX_CAUSES) {
      described.push("…");
      break;
    }
    const text = stackOf(cause);
    const frames = text.search(/\n[ \t]+at /);
    described.push(frames < 0 ? text : text.slice(0, frames));
    if (frames >= 0 && hasStacks) stacks.push(`\nstack of ${/^[\w$.]*/.exec(text)?.[0]}:${text.slice(frames)}`);
    try {
      causes.push(
        (cause as Error).cause,
        ...(cause instanceof AggregateError ? cause.errors.slice(0, MAX_CAUSES) : []),
      );
    } catch {
      // A proxy or a getter has thrown.
    }
  }
  return described.join("\ncaused by ") + stacks.join("");
}

/** Words of failed connections, which runtimes tell by a TypeError without a code. */
const OF_CONNECTION = /fetch|request|network|connection|socket|load failed/i;

/** True for a mistake in the code of a host: a TypeError or ReferenceError of the language itself, which says nothing of a connection. */
export function isMistake(thrown: unknown): boolean {
  try {
    const { constructor, message, cause } = thrown as Partial<Error>;
    if (constructor !== TypeError && constructor !== ReferenceError) return false;
    return cause === undefined && Object.keys(thrown as Error).length === 0 && !OF_CONNECTION.test(String(message));
  } catch {
    return false;
  }
}

/** False for a proxy that throws. */
function isError(value: unknown): value is Error {
  try {
    return value instanceof Error;
  } catch {
    return false;
  }
}

/** The most characters of a thrown value that is no error. */
const MAX_VALUE_CHARS = 1_000;

function valueText(value: unknown): string {
  const text = typeof value === "string" ? JSON.stringify(value.slice(0, MAX_VALUE_CHARS)) : JSON.stringify(value);
  return (text ?? String(value)).slice(0, MAX_VALUE_CHARS);
}

function stackOf(error: unknown): string {
  try {
    if (error instanceof Error) return String(error.stack ?? error);
    return `${error === null ? "" : `the ${typeof error} `}${valueText(error)}, which is no Error`;
  } catch {
    return "a value that cannot be shown";
  }
}
