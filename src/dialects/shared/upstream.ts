/** What every dialect says alike about an upstream: its JSON, and what its errors mean for the caller of the gateway. */

import { GatewayError, type GatewayErrorCode } from "../../errors.ts";
import { isJsonObject, JsonLimitError, type JsonLimits, type JsonObject, parseJson } from "../../model/json.ts";

/** Returns the value of an upstream's JSON. Throws `backend_failed` for a text that is none, or is beyond the limits. */
export function parseAnswer(text: string, limits?: JsonLimits): unknown {
  try {
    return parseJson(text, limits);
  } catch (cause) {
    if (cause instanceof JsonLimitError)
      throw upstreamFailed(`The model backend's answer is too large: its JSON ${cause.message}.`);
    throw upstreamFailed("The model backend's answer is not valid JSON.", cause);
  }
}

/** Returns an upstream's JSON object. Throws `backend_failed` for anything else. */
export function parseAnswerObject(text: string, limits?: JsonLimits): JsonObject {
  const parsed = parseAnswer(text, limits);
  if (isJsonObject(parsed)) return parsed;
  throw upstreamFailed("The model backend's answer is no JSON object.");
}

export const upstreamFailed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("backend_failed", message, { port: "model-backend", cause });

/** The most events that one frame of a stream, or one complete answer, may mean. A model calls tens of tools at once, not thousands. */
const MAX_EVENTS = 10_000;

/** Collects what a frame or a complete answer means. Throws `backend_failed`, and makes no more of it, beyond `MAX_EVENTS`. */
export function collected<Event>(events: Iterable<Event>): Event[] {
  const list: Event[] = [];
  for (const event of events) {
    if (list.length === MAX_EVENTS)
      throw upstreamFailed(`The model backend said more than ${MAX_EVENTS} things at once.`);
    list.push(event);
  }
  return list;
}

/** How much of an answer a decoder holds back at most, in characters. */
const MAX_HELD_CHARS = 16 * 1024 ** 2;

/**
 * Counts what a decoder holds of a stream until a piece of it is whole: until then, no output limit counts it, and an upstream that
 * never ends the piece must not fill the memory.
 */
export class HeldBack {
  #chars = 0;

  /** Throws `backend_failed` where too much is held. */
  take(chars: number): void {
    this.#chars += chars;
    if (this.#chars > MAX_HELD_CHARS) throw upstreamFailed("The model backend does not end what it has begun.");
  }

  letGo(chars: number): void {
    this.#chars -= chars;
  }
}

/** What the caller is told: a code, words, and the field that it is about, where every format has it. */
export type Meaning = readonly [code: GatewayErrorCode, message: string, field?: "model"];

const FAILED: Meaning = ["backend_failed", "The model backend failed."];
const REFUSED: Meaning = ["invalid_request", "The model backend does not take this request."];
const REFUSED_US: Meaning = ["backend_refused", "The model backend refused this service."];
const UNAVAILABLE: Meaning = ["backend_unavailable", "The model backend is not available."];
const TIMED_OUT: Meaning = ["deadline_exceeded", "The model backend took too long."];

/** What a request that is well-formed meets where it cannot be answered as it is asked. */
export const UNMET: Meaning = ["failed_precondition", "The model backend cannot meet this request as it is asked."];

/** Of what is not listed, 4xx is about the request. The upstream's keys and accounts are the host's and not the caller's. */
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

/** The error that an upstream's status stands for. What it said itself is kept in `cause`, and reaches no caller. */
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

/** The error of an upstream where the host's own account is empty: nothing that the caller has used up, and no time heals it. */
export const emptyAccount = (cause: unknown): GatewayError => upstreamError(402, cause, undefined);

/** The longest wait that is passed on, in milliseconds: a day. */
const MAX_RETRY_AFTER_MS = 86_400_000;

const NUMBER = /^\d+(?:\.\d+)?$/;

/** How long an upstream asks to wait, in milliseconds; undefined where it does not, or not in a way that can be read. */
export function retryAfterOf(headers: Headers): number | undefined {
  const [ms, after] = [headers.get("retry-after-ms"), headers.get("retry-after")];
  if (ms !== null && NUMBER.test(ms)) return bounded(Number(ms));
  if (after === null) return undefined;
  if (NUMBER.test(after)) return bounded(Number(after) * 1_000);
  // A date counts from the upstream's own clock.
  return bounded(Date.parse(after) - Date.parse(headers.get("date") ?? ""));
}

const bounded = (ms: number): number | undefined => (ms >= 0 ? Math.min(MAX_RETRY_AFTER_MS, Math.ceil(ms)) : undefined);
