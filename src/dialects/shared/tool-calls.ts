/** The tool calls of one answer: each begins once, goes on while it is open, and its arguments are one JSON object. */

import { GatewayError } from "../../errors.ts";
import type { FinishReason } from "../../model/event.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";

/** The calls of one answer by their id. Each method throws `backend_failed` for a call that is out of order. */
export class ToolCalls<Call extends { readonly ended: boolean }> {
  readonly #calls: Map<string, Call> = new Map();

  begin(id: string, call: Call): Call {
    if (this.#calls.has(id)) throw failed("The model backend began the same tool call twice.");
    this.#calls.set(id, call);
    return call;
  }

  /** A call that has begun. */
  get(id: string): Call {
    const call = this.#calls.get(id);
    if (!call) throw failed("The model backend went on with a tool call that it had not begun.");
    return call;
  }

  /** A call that has begun and not ended. */
  open(id: string): Call {
    const call = this.get(id);
    if (call.ended) throw failed("The model backend went on with a tool call that had ended.");
    return call;
  }
}

/** The arguments of a tool call from their JSON; no JSON at all means none. Throws `backend_failed` for anything but an object. */
export function parseArguments(json: string): JsonObject {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json === "" ? "{}" : json);
  } catch (cause) {
    throw failed("The model backend gave a tool call whose arguments are not valid JSON.", cause);
  }
  if (isJsonObject(parsed)) return parsed;
  throw failed("The model backend gave a tool call whose arguments are no JSON object.");
}

/** The object that a text is the JSON of; a text of nothing but white space means an empty one. Undefined for any other text. */
export function argumentsIn(json: string): JsonObject | undefined {
  try {
    return parseArguments(json.trim());
  } catch {
    return undefined;
  }
}

/** Whether the JSON of a call's arguments is complete. */
export function isWholeArguments(json: string): boolean {
  try {
    parseArguments(json);
    return true;
  } catch {
    return false;
  }
}

/** Ends after which a tool call may be left half said. */
export const CUT_SHORT: ReadonlySet<FinishReason> = new Set<FinishReason>([
  "length",
  "context-window",
  "refusal",
  "content-filter",
  "recitation",
  "language",
  "blocklist",
  "prohibited-content",
  "personal-data",
  "unsafe-image",
  "malformed-tool-call",
  "other",
]);

const failed = (message: string, cause?: unknown): GatewayError =>
  new GatewayError("backend_failed", message, { port: "model-backend", cause });
