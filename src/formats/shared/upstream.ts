/** Reads the answers and errors of upstreams, for all formats. */

import { GatewayError, type GatewayErrorCode } from "../../errors.ts";
import { isJsonObject, JsonLimitError, type JsonLimits, type JsonObject, parseJson } from "../../model/json.ts";

/** Parses an upstream's JSON. Throws `backend_failed` for a text that is not JSON, and for JSON beyond the limits. */
export function parseAnswer(text: string, limits?: JsonLimits): unknown {
  try {
    return parseJson(text, limits);
  } catch (cause) {
    if (cause instanceof JsonLimitError)
      throw upstreamFailed(`The model backend's answer is too large: its JSON ${cause.message}.`);
    throw upstreamFailed("The model backend's answer is not valid JSON.", cause);
  }
}

/** Parses an upstream's JSON object. Throws `backend_failed` for any other text. */
export function parseAnswerObject(text: string, limits?: JsonLimits): JsonObject {
  const parsed = parseAnswer(text, limits);
  if (isJsonObject(parsed)) return parsed;
  throw upstreamFailed("The model backend's answer is no JSON object.");
}

export const upstreamFailed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("backend_failed", message, { port: "model-backend", cause });

/** The largest number of events in one frame of a stream or in one complete answer. A model calls tens of tools at once, not thousands. */
const MAX_EVENTS = 10_000;

/** Adds an event to the list of one frame or complete answer. Throws `backend_failed` if the list already has `MAX_EVENTS`. */
export function addEvent<Event>(events: Event[], event: Event): void {
  if (events.length === MAX_EVENTS)
    throw upstreamFailed(`The model backend said more than ${MAX_EVENTS} things at once.`);
  events.push(event);
}

/** Collects the events of a frame or a complete answer into a list. Stops and throws `backend_failed` after `MAX_EVENTS`. */
export function collected<Event>(events: Iterable<Event>): Event[] {
  const list: Event[] = [];
  for (const event of events) addEvent(list, event);
  return list;
}

/** The longest part of an answer that a decoder holds back, in characters. */
const MAX_HELD_CHARS = 16 * 1024 ** 2;

/**
 * Counts the characters that a decoder holds back until a piece of the stream is complete. No output limit counts them, so an upstream
 * that never completes the piece could fill the memory.
 */
export class HeldBack {
  #chars = 0;

  /** Adds characters. Throws `backend_failed` beyond the limit. */
  take(chars: number): void {
    this.#chars += chars;
    if (this.#chars > MAX_HELD_CHARS) throw upstreamFailed("The model backend does not end what it has begun.");
  }

  letGo(chars: number): void {
    this.#chars -= chars;
  }
}

/** The error for the caller: its code, its message, and the field at fault if every format has this field. */
type Meaning = readonly [code: GatewayErrorCode, message: string, field?: "model"];

const FAILED: Meaning = ["backend_failed", "The model backend failed."];
const REFUSED: Meaning = ["invalid_request", "The model backend does not take this request."];
const REFUSED_US: Meaning = ["backend_refused", "The model backend refused this service."];
const UNAVAILABLE: Meaning = ["backend_unavailable", "The model backend is not available."];
const TIMED_OUT: Meaning = ["deadline_exceeded", "The model backend took too long."];

/** The error for a well-formed request that the upstream cannot answer. */
export const UNMET: Meaning = ["failed_precondition", "The model backend cannot meet this request as it is asked."];

/**
 * The error for each status of an upstream. Any other 4xx means that the request is wrong. A 401, 402 or 403 is not the caller's error,
 * because the upstream's keys and accounts belong to the host.
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
  429: ["rate_limited", "The model backend is busy."],
  502: UNAVAILABLE,
  503: UNAVAILABLE,
  504: TIMED_OUT,
  529: ["backend_overloaded", "The model backend is overloaded."],
};

/** Makes the error for an upstream's status. The upstream's own message stays in `cause`, and no caller sees it. */
export function upstreamError(
  status: number,
  cause: unknown,
  retryAfterMs: number | undefined,
  meaning: Meaning = MEANING[status] ?? (status >= 400 && status < 500 ? REFUSED : FAILED),
): GatewayError {
  const [code, message, field] = meaning;
  return new GatewayError(code, message, {
    port: "model-backend",
    cause,
    ...(field && { path: [field] }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

/**
 * Makes the error for an account at the upstream that is empty. The account belongs to the host: the caller's own quota is not used up,
 * and waiting does not help.
 */
export const emptyAccount = (cause: unknown): GatewayError => upstreamError(402, cause, undefined);

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
