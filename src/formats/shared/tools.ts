/** Tool calls, their arguments and ids, and the tools that a provider runs itself. */

import { backendFailed, type GatewayError } from "../../errors.ts";
import type { FinishReason } from "../../model/chat-event.ts";
import type { ChatMessage, CodePart, CodeResultPart, Part, ProviderTool, Tool } from "../../model/chat-request.ts";
import {
  isJsonObject,
  JsonBudget,
  JsonLimitError,
  type JsonLimits,
  type JsonObject,
  parseJson,
} from "../../model/json.ts";

/**
 * Parses the arguments of a tool call, which must be a JSON object. An empty text or white space means an empty object. Returns undefined
 * for any other text. Throws a `JsonLimitError` if the budget is exceeded.
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

const parseText = (json: string, budget: JsonBudget): unknown => parseJson(json.trim() || "{}", budget);

/** The schema of a tool whose input is one text. */
export const ONE_TEXT: JsonObject = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

/** Returns the names of the tools whose input is one text. */
export const customNames = (tools: readonly Tool[]): ReadonlySet<string> =>
  new Set(tools.flatMap((tool) => (tool.type === "function" && tool.custom ? tool.name : [])));

/** Parses the arguments of all tool calls of one answer, under one limit. Each method throws `backend_failed` if the limit is exceeded. */
export class AnsweredArguments {
  readonly #budget: JsonBudget;

  constructor(limits?: JsonLimits) {
    this.#budget = new JsonBudget(limits);
  }

  /** Returns the object of a call's arguments. Throws `backend_failed` for any other text. */
  parse(json: string): JsonObject {
    let parsed: unknown;
    try {
      parsed = parseText(json, this.#budget);
    } catch (cause) {
      if (cause instanceof JsonLimitError) throw beyondLimit(cause);
      throw backendFailed("The model backend gave a tool call whose arguments are not valid JSON.", cause);
    }
    if (isJsonObject(parsed)) return parsed;
    throw backendFailed("The model backend gave a tool call whose arguments are no JSON object.");
  }

  /** Returns the object of a call's arguments; undefined for any other text, such as the beginning of an object. */
  find(json: string): JsonObject | undefined {
    try {
      return argumentsIn(json, this.#budget);
    } catch (error) {
      throw error instanceof JsonLimitError ? beyondLimit(error) : error;
    }
  }
}

const beyondLimit = ({ message }: JsonLimitError): GatewayError =>
  backendFailed(`The model backend gave a tool call whose arguments are too large: their JSON ${message}.`);

/**
 * The tool calls of one answer by their ids, and the limit of all their arguments. Each method throws `backend_failed` if the backend sent the
 * events of a call out of order.
 */
export class ToolCalls<Call extends { readonly ended: boolean }> extends AnsweredArguments {
  readonly #calls: Map<string, Call> = new Map();

  begin(id: string, call: Call): Call {
    if (this.#calls.has(id)) throw backendFailed("The model backend began the same tool call twice.");
    this.#calls.set(id, call);
    return call;
  }

  get(id: string): Call {
    const call = this.#calls.get(id);
    if (!call) throw backendFailed("The model backend went on with a tool call that it had not begun.");
    return call;
  }

  /** Returns a call that has begun and has not ended. */
  open(id: string): Call {
    const call = this.get(id);
    if (call.ended) throw backendFailed("The model backend went on with a tool call that had ended.");
    return call;
  }
}

/** The finish reasons after which a tool call may be incomplete. */
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

/** Replaces the ids of tool calls that a format does not accept. A call and its result get the same id. */
export class ToolIds {
  readonly #isAccepted: (id: string) => boolean;
  readonly #nameOf: (id: string, number: number) => string;
  readonly #replaced: Map<string, string> = new Map();

  /**
   * @param isAccepted Tells whether the format accepts an id.
   * @param nameOf Makes a replacement. `number` counts the replacements from 1.
   */
  constructor(isAccepted: (id: string) => boolean, nameOf: (id: string, number: number) => string = replacementOf) {
    this.#isAccepted = isAccepted;
    this.#nameOf = nameOf;
  }

  /** Returns the id or its replacement. The same conversation gets the same replacements again, so that its prompt can be cached. */
  of(id: string): string {
    if (this.#isAccepted(id)) return id;
    const known = this.#replaced.get(id);
    if (known !== undefined) return known;
    const replaced = this.#nameOf(id, this.#replaced.size + 1);
    this.#replaced.set(id, replaced);
    return replaced;
  }
}

const replacementOf = (id: string, number: number): string => `call_${id.slice(-20).replaceAll(/\W/g, "_")}_${number}`;

/**
 * Tells whether a tool's result stands behind a text or a file since its call. Turns of the user and instructions between two turns of the
 * assistant count as one turn, because upstreams join them.
 */
export function hasLateResults(messages: readonly ChatMessage[]): boolean {
  let hasSaid = false;
  for (const { role, parts } of messages)
    if (role === "assistant") hasSaid = false;
    else
      for (const { type } of parts)
        if (type !== "tool-result") hasSaid ||= type !== "provider";
        else if (hasSaid) return true;
  return false;
}

/**
 * Returns the turns with the results of tools directly behind their calls, before all else that was said since: most vendors refuse any other
 * order. Returns the same list if no result is late.
 */
export function withResultsFirst(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  if (!hasLateResults(messages)) return messages;
  const turns: ChatMessage[] = [];
  let said: ChatMessage[] = [];
  for (const turn of messages) {
    if (turn.role !== "assistant") said.push(turn);
    else {
      for (const one of resultsFirst(said)) turns.push(one);
      turns.push(turn);
      said = [];
    }
  }
  return [...turns, ...resultsFirst(said)];
}

const isResult = ({ type }: Part): boolean => type === "tool-result";

function resultsFirst(said: readonly ChatMessage[]): readonly ChatMessage[] {
  if (!hasLateResults(said)) return said;
  const results = said.flatMap(({ parts }) => parts.filter(isResult));
  const others = said.flatMap((turn) => {
    const parts = turn.parts.filter((part) => !isResult(part));
    return parts.length > 0 ? { ...turn, parts } : [];
  });
  const [first, ...later] = others;
  return first?.role === "user"
    ? [{ ...first, parts: [...results, ...first.parts] }, ...later]
    : [{ role: "user", parts: results }, ...others];
}

/** Writes code or its output as a Markdown code block. The fences are longer than any fence inside the text. */
export function fenced(
  part: Pick<CodePart, "type" | "code" | "language"> | Pick<CodeResultPart, "type" | "output">,
): string {
  const [text, language] = part.type === "code" ? [part.code, part.language] : [part.output ?? "", "unspecified"];
  let longest = 2;
  for (const [ticks] of text.matchAll(/^`+/gm)) longest = Math.max(longest, ticks.length);
  const fence = "`".repeat(longest + 1);
  return `\n${fence}${language === "unspecified" ? "" : language}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}\n`;
}

const HOSTED_FORMAT = "responses";

export const isHosted = ({ format }: ProviderTool): boolean => format === HOSTED_FORMAT;

/** Tells whether a tool is a search of the web as it is now. A search of the provider's own copies has no like elsewhere. */
export const isWebSearch = ({ format, definition }: ProviderTool): boolean =>
  format === HOSTED_FORMAT &&
  typeof definition["type"] === "string" &&
  definition["type"].startsWith("web_search") &&
  definition["external_web_access"] !== false;

/** Returns the limits of a web search: the domains that it may read, and the place of its user. */
export function webSearchLimits({ definition }: ProviderTool): {
  readonly allowedDomains: readonly string[];
  readonly userLocation: JsonObject | undefined;
} {
  const { filters, user_location } = definition;
  const domains = isJsonObject(filters) ? filters["allowed_domains"] : undefined;
  return {
    allowedDomains: Array.isArray(domains) ? domains.filter((domain) => typeof domain === "string") : [],
    userLocation: isJsonObject(user_location) ? user_location : undefined,
  };
}
