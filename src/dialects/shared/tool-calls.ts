/** The tool calls of one answer: each begins once, goes on while it is open, and its arguments are one JSON object. */

import { GatewayError } from "../../errors.ts";
import type { FinishReason } from "../../model/event.ts";
import {
  isJsonObject,
  JsonBudget,
  JsonLimitError,
  type JsonLimits,
  type JsonObject,
  parseJson,
} from "../../model/json.ts";

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

/**
 * Returns the object that the JSON of a call's arguments says; white space alone means an empty object. Returns undefined for any
 * other text. Throws what `parseJson` throws for a text beyond the budget.
 */
export function argumentsIn(json: string, budget: JsonBudget): JsonObject | undefined {
  try {
    const parsed = parseText(json, budget);
    return isJsonObject(parsed) ? parsed : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

const parseText = (json: string, budget: JsonBudget): unknown => {
  const text = json.trim();
  return parseJson(text === "" ? "{}" : text, budget);
};

/** Reads the arguments of one answer's calls, whose values are counted together. Each method throws `backend_failed` beyond a limit. */
export class AnsweredArguments {
  readonly #budget: JsonBudget;

  constructor(limits?: JsonLimits) {
    this.#budget = new JsonBudget(limits);
  }

  /** Returns the arguments' object. Throws `backend_failed` for any text that says none. */
  parse(json: string): JsonObject {
    let parsed: unknown;
    try {
      parsed = parseText(json, this.#budget);
    } catch (cause) {
      if (cause instanceof JsonLimitError) throw beyondLimit(cause);
      throw failed("The model backend gave a tool call whose arguments are not valid JSON.", cause);
    }
    if (isJsonObject(parsed)) return parsed;
    throw failed("The model backend gave a tool call whose arguments are no JSON object.");
  }

  /** Returns the arguments' object; undefined for a text that says none, such as the beginning of one. */
  find(json: string): JsonObject | undefined {
    try {
      return argumentsIn(json, this.#budget);
    } catch (error) {
      throw error instanceof JsonLimitError ? beyondLimit(error) : error;
    }
  }
}

const beyondLimit = ({ message }: JsonLimitError): GatewayError =>
  failed(`The model backend gave a tool call whose arguments are too large: their JSON ${message}.`);

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
