/** Decodes the errors of upstreams, in the shapes of all formats, of proxies and of local servers. */

import {
  BACKEND_ERRORS,
  changedError,
  GatewayError,
  type GatewayErrorCode,
  inOwnWords,
  type VendorReason,
} from "../../errors.ts";
import { isJsonObject, type JsonLimits, type JsonObject, type JsonValue, parseJson } from "../../model/json.ts";
import { contextTokensIn, PROMPT_TOO_LONG } from "./context-length.ts";

/** The greatest depth at which an error is searched: an object, an array, or JSON in a message count as one level each. */
const MAX_DEPTH = 4;

/** The limits of JSON inside a message. Proxies put the body of their own upstream's error there. */
const INNER_JSON: JsonLimits = {
  maxJsonBytes: 64 * 1024,
  maxJsonDepth: 16,
  maxJsonValues: 1_000,
  maxJsonKeys: 100,
  maxJsonItems: 1_000,
};

/**
 * Returns the error object of a body or frame, whatever its shape: `{"error": {…}}`, `{"error": "text"}`, an array of such objects, an
 * object without `error`, or a text. Its `message` is a string or missing, also where the upstream names it `detail` or `msg`.
 */
export function errorObject(body: unknown, depth = 0): JsonObject {
  if (depth > MAX_DEPTH) return {};
  if (typeof body === "string") return withInnerError({ message: body }, body, depth);
  if (Array.isArray(body)) return errorObject(body[0], depth + 1);
  if (!isJsonObject(body)) return {};
  const { error, detail, code, status, param, metadata } = body;
  if (typeof error === "object" && error !== null)
    return { ...given({ code, status, param }), ...errorObject(error, depth + 1) };
  if (Array.isArray(detail) && isJsonObject(detail[0])) return { ...body, ...validationError(detail[0]) };
  if (isJsonObject(detail)) return errorObject(detail, depth + 1);
  const found = [body["message"], error, detail, body["msg"]].find((value) => typeof value === "string");
  const { message: _any, ...fields } = body;
  if (typeof found !== "string") return fields;
  // OpenRouter hides the provider's own error behind a fixed message.
  const raw = isJsonObject(metadata) && /^provider returned error$/i.test(found) ? metadata["raw"] : undefined;
  return withInnerError({ ...fields, message: found }, typeof raw === "string" ? raw : found, depth);
}

/** Replaces the message of an error by the error that `text` holds as JSON, or by `text`. */
function withInnerError(error: JsonObject, text: string, depth: number): JsonObject {
  if (!/^\s{0,16}[{[]/.test(text)) return { ...error, message: text };
  try {
    const inner = errorObject(parseJson(text, INNER_JSON), depth + 1);
    return typeof inner["message"] === "string" ? { ...error, ...inner } : error;
  } catch {
    // The text only looks like JSON.
    return error;
  }
}

/** Reads an element of FastAPI's `detail`: its `loc` is the path of the field, behind the part of the request. */
function validationError({ loc, msg }: JsonObject): JsonObject {
  const path = Array.isArray(loc) ? loc.slice(loc[0] === "body" ? 1 : 0, MAX_PATH + 1).map(String) : [];
  return {
    ...(typeof msg === "string" && { message: path.length > 0 ? `${path.join(".")}: ${msg}` : msg }),
    ...(path.length > 0 && { param: path.join(".") }),
  };
}

const given = (fields: Readonly<Record<string, JsonValue | undefined>>): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as JsonObject;

/** True for a frame or a body that is an error in place of an answer, in any of the shapes that upstreams send. */
export function isError(wire: unknown, event?: string): boolean {
  if (event === "error") return true;
  if (Array.isArray(wire)) return isJsonObject(wire[0]) && isError(wire[0]);
  if (!isJsonObject(wire)) return false;
  const { type, object, error, message } = wire;
  if (type === "error" || object === "error") return true;
  if (error != null && error !== false && error !== "") return true;
  // Some servers send the error object itself. No format has a text named `message` there.
  if (typeof message !== "string" || wire["choices"] !== undefined || wire["candidates"] !== undefined) return false;
  return type === undefined || (typeof type === "string" && /error$/i.test(type));
}

/**
 * The HTTP status that an upstream's error code means. The code is more exact than the status of the response, and an error in the
 * middle of a stream has no status. This gateway sends these codes itself, and other servers use the same words.
 */
const STATUS_OF_CODE: ReadonlyMap<unknown, number> = new Map([
  ["model_not_found", 404],
  ["model_not_allowed", 403],
  ["insufficient_quota", 402],
  ["request_too_large", 413],
  ["rate_limit_exceeded", 429],
  ["backend_unavailable", 503],
  ["store_unavailable", 503],
  ["busy", 503],
  ["deadline_exceeded", 504],
  ["overloaded", 529],
]);

const STATUS_OF_TYPE: ReadonlyMap<unknown, number> = new Map([
  ["invalid_request_error", 400],
  ["image_generation_user_error", 400],
  ["authentication_error", 401],
  ["billing_error", 402],
  ["permission_error", 403],
  ["not_found_error", 404],
  ["request_too_large", 413],
  ["rate_limit_error", 429],
  ["rate_limit_exceeded", 429],
  ["insufficient_quota", 429],
  ["timeout_error", 504],
  ["overloaded_error", 529],
]);

/** The statuses of generate-content by their names. */
const STATUS_OF_NAME: ReadonlyMap<unknown, number> = new Map([
  ["INVALID_ARGUMENT", 400],
  ["FAILED_PRECONDITION", 400],
  ["OUT_OF_RANGE", 400],
  ["UNAUTHENTICATED", 401],
  ["PERMISSION_DENIED", 403],
  ["NOT_FOUND", 404],
  ["RESOURCE_EXHAUSTED", 429],
  ["UNAVAILABLE", 503],
  ["DEADLINE_EXCEEDED", 504],
]);

/** Returns the HTTP status that an upstream's error object means, by its status, code or type; undefined if it has no known one. */
export function statusIn({ status, code, type }: Readonly<Record<string, unknown>>): number | undefined {
  const found = [status, code].find(isErrorStatus);
  if (found !== undefined) return Number(found);
  return STATUS_OF_CODE.get(code) ?? STATUS_OF_NAME.get(status) ?? STATUS_OF_TYPE.get(type);
}

const isErrorStatus = (value: unknown): boolean =>
  (typeof value === "number" || typeof value === "string") && /^[45]\d\d$/.test(String(value));

/** The error for the caller: its code, its message, and the field at fault if every format has this field. */
type Meaning = readonly [code: GatewayErrorCode, message: string, field?: "model"];

const REFUSED: Meaning = ["invalid_request", "The model backend does not take this request."];
const {
  failed: FAILED,
  refused: REFUSED_US,
  refusedContent: REFUSED_CONTENT,
  unavailable: UNAVAILABLE,
  late: TIMED_OUT,
} = BACKEND_ERRORS;

/** The error for a well-formed request that the upstream cannot answer. */
const UNMET: Meaning = ["failed_precondition", "The model backend cannot meet this request as it is asked."];

/**
 * The error for each status of an upstream. Any other 4xx means that the request is wrong. A 401, 402 or 403 is not the caller's error,
 * because the upstream's keys and accounts belong to the host; `refusesContent` finds the exception.
 */
const MEANING: Readonly<Record<number, Meaning>> = {
  401: REFUSED_US,
  402: REFUSED_US,
  403: REFUSED_US,
  404: ["model_not_found", "The model backend does not know this model.", "model"],
  405: FAILED,
  407: FAILED,
  408: TIMED_OUT,
  409: UNAVAILABLE,
  413: ["body_too_large", "The request is too large for the model backend."],
  415: FAILED,
  429: BACKEND_ERRORS.busy,
  502: UNAVAILABLE,
  503: UNAVAILABLE,
  504: TIMED_OUT,
  529: BACKEND_ERRORS.overloaded,
};

/** Matches messages about the host's key or balance, which some upstreams send with the status of a wrong request. */
const OWN_ACCOUNT =
  /credit balance|api[ _-]?key (?:is )?(?:not valid|not found|invalid|expired)|(?:incorrect|invalid|expired|missing) api[ _-]?key|insufficient (?:balance|credit|fund)|current quota/i;

/**
 * Matches the codes of content policies: Azure's `content_filter` and `ResponsibleAIPolicyViolation`, OpenAI's `content_policy_violation`,
 * `moderation_blocked` and `cyber_policy`, Google's `PROHIBITED_CONTENT`, Alibaba's `data_inspection_failed`, and Volcengine's
 * `InputTextSensitiveContentDetected`. OpenRouter passes on `refusal` and `safety`. Each may be written in one word.
 */
const CONTENT_CODE =
  /^(?:content_?(?:filter(?:ed)?|policy(?:_?violation)?)|moderation(?:_?(?:blocked|flagged))?|cyber_?policy|data_?inspection_?failed|prohibited_?content|refusal|safety|(?:prompt|content)_?blocked|responsible_?ai_?policy_?violation|\w{0,32}sensitive_?content_?detected(?:\.\w{1,64})?)$/i;

/** Matches the messages of content policies that have no code: those of xAI, Anthropic, DeepSeek, OpenRouter and Cloudflare. */
const CONTENT_MESSAGE =
  /^(?:content violates usage guidelines|output blocked by content filtering policy|content exists risk|request blocked: prompt injection|(?:prompt|response) blocked due to security configurations)/i;

/**
 * Tells whether an upstream's content policy refuses this request. Some upstreams answer such a request with 403 or 5xx. A block of the
 * host's whole account or region is no refusal of the content.
 */
function refusesContent({ code, type, status, innererror, metadata, details, message }: JsonObject): boolean {
  const { code: inner } = isJsonObject(innererror) ? innererror : {};
  // OpenRouter's moderation names the text that it has flagged.
  const { error_type, flagged_input } = isJsonObject(metadata) ? metadata : {};
  if (typeof flagged_input === "string") return true;
  const causes = Array.isArray(details) ? details.map((detail) => isJsonObject(detail) && detail["reason"]) : [];
  return (
    [code, type, status, inner, error_type, ...causes].some(
      (one) => typeof one === "string" && CONTENT_CODE.test(one),
    ) ||
    (typeof message === "string" && CONTENT_MESSAGE.test(message))
  );
}

/**
 * Decodes an upstream's error. The upstream's own message stays in `cause`.
 *
 * @param status The HTTP status; undefined in the middle of a stream, where the error's own status, code or type stands for it.
 * @param body Parsed JSON, or a text.
 */
export function decodeUpstreamError(
  status: number | undefined,
  body: unknown,
  retryAfterMs?: number,
  cause: unknown = body,
): GatewayError {
  const error = errorObject(body);
  const meant = meantStatus(status, error);
  const context = contextTokensIn(error, meant);
  if (context)
    return new GatewayError("context_length_exceeded", PROMPT_TOO_LONG, {
      port: "model-backend",
      cause,
      path: ["messages"],
      context,
    });
  if (meant === 402) return upstreamError(402, cause, undefined);
  if (meant !== 401 && refusesContent(error))
    return upstreamError(meant, cause, retryAfterMs, REFUSED_CONTENT, reasonIn(error));
  const isUnmet = error["code"] === "failed_precondition" || error["status"] === "FAILED_PRECONDITION";
  const reason = reasonIn(error);
  const decoded = upstreamError(meant, cause, retryAfterMs, isUnmet ? UNMET : undefined, reason);
  const path = decoded.code === "invalid_request" ? pathIn(error) : undefined;
  if (!path) return decoded;
  const message = `${path.join(".")}: the model backend does not take this.`;
  return changedError(decoded, message, { path });
}

/** Returns the vendor's own reason. OpenAI's errors have a `param`, which may be null. The `details` of Anthropic's name the class of the error. */
function reasonIn(error: JsonObject): VendorReason | undefined {
  const { code, details } = error;
  if (isJsonObject(details) && isWord(details["error_code"])) return { details };
  return "param" in error && isWord(code) ? { code } : undefined;
}

const isWord = (value: unknown): value is string => typeof value === "string" && /^[a-z]\w{0,63}$/i.test(value);

function meantStatus(status: number | undefined, error: JsonObject): number {
  const { code, type, message, details } = error;
  // The account is empty: the caller's own quota is not used up, and waiting does not help.
  if (code === "insufficient_quota" || type === "insufficient_quota") return 402;
  if (type === "overloaded_error") return 529;
  const found = status ?? statusIn(error) ?? 500;
  if (found !== 400) return found;
  const reasons = Array.isArray(details) ? details.map((detail) => isJsonObject(detail) && detail["reason"]) : [];
  // A message about a field may repeat the caller's words.
  const isAboutKey =
    typeof message === "string" && OWN_ACCOUNT.test(message.slice(0, MAX_SEARCHED_CHARS)) && !pathIn(error);
  if (isAboutKey || reasons.includes("API_KEY_INVALID")) return 402;
  return STATUS_OF_CODE.get(code) ?? STATUS_OF_TYPE.get(type) ?? found;
}

/** The most characters of a message that are searched for words about the host's account. */
const MAX_SEARCHED_CHARS = 4_096;

/** The most parts of a path. */
const MAX_PATH = 12;

/**
 * Returns the path of the field that the upstream names: as `param` (OpenAI), as a field violation (Google), or in front of the message
 * (Anthropic). Only names and numbers are taken, because a path may repeat what the caller sent.
 */
function pathIn({ param, details, message, type }: JsonObject): (string | number)[] | undefined {
  const violation = Array.isArray(details)
    ? details.flatMap((detail) => (isJsonObject(detail) ? (detail["fieldViolations"] ?? []) : []))[0]
    : undefined;
  const prefix =
    type === "invalid_request_error" && param === undefined && typeof message === "string"
      ? /^([a-z_]+(?:\.\w{1,64}){0,12}): /.exec(message.slice(0, 1_000))?.[1]
      : undefined;
  const named = [param, isJsonObject(violation) ? violation["field"] : undefined, prefix].find(
    (value) => typeof value === "string" && value !== "",
  );
  if (typeof named !== "string" || named.length > 256) return undefined;
  const parts = named.split(/[.[\]]+/).filter((part) => part !== "");
  if (parts.length > MAX_PATH || !/^[a-z]/i.test(named)) return undefined;
  return parts.every((part) => /^\w{1,64}$/.test(part))
    ? parts.map((part) => (/^\d{1,6}$/.test(part) ? Number(part) : part))
    : undefined;
}

/**
 * Makes the error for an upstream's status.
 *
 * @param meaning Default: by the status.
 */
export function upstreamError(
  status: number,
  cause: unknown,
  retryAfterMs: number | undefined,
  meaning: Meaning = MEANING[status] ?? (status >= 400 && status < 500 ? REFUSED : FAILED),
  reason?: VendorReason,
): GatewayError {
  const [code, message, field] = meaning;
  const path = field && [field];
  return inOwnWords(new GatewayError(code, message, { port: "model-backend", cause, path, retryAfterMs, reason }));
}

/** Matches the words, numbers and times of headers about limits. */
const LIMIT_VALUE = /^[\w.:-]{1,64}$/;

/** Returns the headers of a list whose values are words, numbers or times. */
export const limitHeaders = (headers: Headers, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = headers.get(name) ?? "";
      return LIMIT_VALUE.test(value) ? [[name, value]] : [];
    }),
  );

/** The longest wait that is reported to callers, in milliseconds: one day. */
const MAX_RETRY_AFTER_MS = 86_400_000;

const NUMBER = /^\d+(?:\.\d+)?$/;

/** Returns the wait that an upstream asks for, in milliseconds; undefined if the headers name none. */
export function retryAfterOf(headers: Headers): number | undefined {
  const [ms, after] = [headers.get("retry-after-ms"), headers.get("retry-after")];
  if (ms !== null && NUMBER.test(ms)) return bounded(Number(ms));
  if (after === null) return undefined;
  if (NUMBER.test(after)) return bounded(Number(after) * 1_000);
  // Subtract the upstream's own `date`: its clock may differ from the gateway's.
  return bounded(Date.parse(after) - Date.parse(headers.get("date") ?? ""));
}

const bounded = (ms: number): number | undefined => (ms >= 0 ? Math.min(MAX_RETRY_AFTER_MS, Math.ceil(ms)) : undefined);
