/** The known models of Anthropic, and what their service accepts of reasoning, sampling, schemas and prefills. */

import type { ChatRequest, ReasoningControl } from "../../model/chat-request.ts";
import type { ConvertedFields } from "./conversions.ts";

/** The properties of a model that decide which fields its service accepts. */
export interface ClaudeModel {
  readonly control: ReasoningControl;
  /** The accepted sampling fields. `one`: `temperature` or `top_p`, not both. */
  readonly sampling: "all" | "one" | "none";
  /** The model reasons only if the request asks for it, and refuses `disabled`. */
  readonly isOffByDefault: boolean;
  /** The model reasons always. It refuses `disabled` and forced tools. */
  readonly isAlwaysOn: boolean;
  /** The model can be held to a schema. Bedrock, whose names have `anthropic.`, does so only for 4.5 and 4.6. */
  readonly isStructured: boolean;
  /** The model goes on with a turn of the assistant at the end of a conversation. The others refuse such a turn. */
  readonly prefills: boolean;
}

/** Models of other makers than Anthropic, which speak the format as it was with the first models that reason. */
const OTHER: ClaudeModel = {
  control: "budget",
  sampling: "all",
  isOffByDefault: false,
  isAlwaysOn: false,
  isStructured: true,
  prefills: true,
};

/** Matches the version in a name: `claude-3-5-sonnet-20241022`, `claude-opus-4.1`, `anthropic.claude-sonnet-4-5-20250929-v1:0`. */
const VERSION = /claude-(?:[a-z]+-)?v?(\d+)(?:[.-](\d{1,2})(?!\d))?/;

export const isClaude = (name: string): boolean => name.toLowerCase().includes("claude-");

/** Returns the properties of a model by its name. A name of Claude without a known version is taken as new. */
export function claudeNamed(name: string): ClaudeModel {
  if (!isClaude(name)) return OTHER;
  const lower = name.toLowerCase();
  const [, major = Number.POSITIVE_INFINITY, minor = 0] = VERSION.exec(lower) ?? [];
  const version = Number(major) * 100 + Number(minor);
  return {
    control: version < 307 ? "none" : version < 406 ? "budget" : version < 407 ? "any" : "effort",
    sampling: version < 400 ? "all" : version < 407 ? "one" : "none",
    isOffByDefault: version < 500,
    isAlwaysOn: version >= 505 || /fable|mythos/.test(lower),
    isStructured: lower.includes("anthropic.") ? version >= 405 && version < 407 : version >= 401,
    prefills: version < 406,
  };
}

const GO_ON =
  "Your last message is the beginning of your answer. Go on with it without a break, and repeat nothing of it.";

/** Returns the request for a model that refuses a prefill: the user asks it to go on. Adds `messages.prefill`. */
export function withoutPrefill(
  request: ChatRequest,
  lost: ConvertedFields,
  model: string = request.model,
): ChatRequest {
  const { messages } = request;
  if (messages.at(-1)?.role !== "assistant" || claudeNamed(model).prefills) return request;
  lost.add("messages.prefill");
  return { ...request, messages: [...messages, { role: "user", parts: [{ type: "text", text: GO_ON }] }] };
}
