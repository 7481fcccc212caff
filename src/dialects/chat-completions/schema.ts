/** The chat-completions request on the wire; what clients add beyond it passes through. */

import * as v from "valibot";
import { array, crossCheck, object, type RuleBreach, shown, textOr, variant } from "../../http/validation.ts";
import { atMost, text } from "../shared/schema.parts.ts";
import { unsaid, unsaidFinder } from "../shared/schema.unsaid.ts";
import { between, integer, jsonObject } from "./schema.base.ts";
import { Message } from "./schema.message.ts";
import { nameOf, Tool, ToolChoice } from "./schema.tool.ts";

const ResponseFormat = variant([
  object({ type: v.literal("text") }),
  object({ type: v.literal("json_object") }),
  object({
    type: v.literal("json_schema"),
    json_schema: object({
      name: atMost(text, 64),
      description: unsaid(v.nullish(v.string())),
      schema: v.nullish(jsonObject),
      strict: v.nullish(v.boolean()),
    }),
  }),
]);
export type ResponseFormat = v.InferOutput<typeof ResponseFormat>;

/** The most stop sequences that the format takes. */
export const MAX_STOPS = 4;

const Stop = textOr(v.pipe(array(v.string()), v.maxLength(MAX_STOPS, `must hold at most ${MAX_STOPS} texts`)));

const Audio = object({
  // A voice of the caller's own is known to its provider alone.
  voice: unsaid(v.nullish(textOr(object({ id: v.nullish(v.string()) }))), (voice) => typeof voice !== "string"),
  format: unsaid(v.nullish(v.string())),
});

/** 64 bits, of which JSON's numbers keep the first 53. */
const seed = v.pipe(
  v.number(),
  v.integer("must be an integer"),
  v.minValue(-(2 ** 63), "must be an integer of 64 bits"),
  v.maxValue(2 ** 63, "must be an integer of 64 bits"),
);

const Body = object({
  model: atMost(text, 256),
  messages: v.pipe(array(Message), v.minLength(1, "must hold at least one message")),
  max_completion_tokens: v.nullish(integer(1)),
  max_tokens: v.nullish(integer(1)),
  stream: v.nullish(v.boolean()),
  stream_options: v.nullish(object({ include_usage: v.nullish(v.boolean()) })),
  stop: v.nullish(Stop),
  temperature: v.nullish(between(0, 2)),
  top_p: v.nullish(between(0, 1)),
  presence_penalty: v.nullish(between(-2, 2)),
  frequency_penalty: v.nullish(between(-2, 2)),
  seed: v.nullish(seed),
  n: v.nullish(integer(1, 128)),
  logprobs: v.nullish(v.boolean()),
  top_logprobs: v.nullish(integer(0, 20)),
  tools: v.nullish(array(Tool)),
  tool_choice: v.nullish(ToolChoice),
  parallel_tool_calls: v.nullish(v.boolean()),
  response_format: v.nullish(ResponseFormat),
  reasoning_effort: v.nullish(v.picklist(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
  modalities: v.nullish(array(v.picklist(["text", "audio", "image"]))),
  audio: v.nullish(Audio),
  service_tier: v.nullish(v.string()),
  user: v.nullish(v.string()),
  safety_identifier: v.nullish(v.string()),
  metadata: unsaid(v.nullish(jsonObject)),
  logit_bias: unsaid(v.nullish(jsonObject)),
  prediction: unsaid(v.nullish(jsonObject)),
  web_search_options: unsaid(v.nullish(jsonObject)),
  store: unsaid(v.nullish(v.boolean())),
  verbosity: unsaid(v.nullish(v.string())),
});
export type ChatCompletionsRequest = v.InferOutput<typeof Body>;

export const ChatCompletionsRequest = v.pipe(Body, crossCheck<ChatCompletionsRequest>(breaches));

/** The paths of what the neutral model has no words for. */
export const unsaidIn = unsaidFinder(Body);

/** The rules that look at several fields. */
function* breaches({ messages, tools, tool_choice, ...request }: ChatCompletionsRequest): Generator<RuleBreach> {
  if (request.top_logprobs != null && request.logprobs !== true)
    yield { path: ["top_logprobs"], message: "needs logprobs to be true" };
  const names = new Set<string>();
  for (const [index, tool] of (tools ?? []).entries()) {
    const name = nameOf(tool);
    if (names.has(name))
      yield { path: ["tools", index, tool.type, "name"], message: `is used by an earlier tool: ${shown(name)}` };
    names.add(name);
  }
  if (tool_choice != null) yield* choiceBreaches(tool_choice, names);
  yield* resultBreaches(messages);
}

function* choiceBreaches(choice: ToolChoice, names: ReadonlySet<string>): Generator<RuleBreach> {
  if (choice === "required" && names.size === 0)
    yield { path: ["tool_choice"], message: '"required" needs at least one tool in tools' };
  if (typeof choice === "string") return;
  const chosen =
    choice.type === "allowed_tools"
      ? choice.allowed_tools.tools.map((tool, index) => ({ tool, path: ["allowed_tools", "tools", index] }))
      : [{ tool: choice, path: [] }];
  for (const { tool, path } of chosen)
    if (!names.has(nameOf(tool)))
      yield {
        path: ["tool_choice", ...path, tool.type, "name"],
        message: `must name one of the tools: there is no ${shown(nameOf(tool))}`,
      };
}

function* resultBreaches(messages: ChatCompletionsRequest["messages"]): Generator<RuleBreach> {
  const calls = new Set<string>();
  for (const [index, message] of messages.entries()) {
    if (message.role === "assistant") for (const { id } of message.tool_calls ?? []) calls.add(id);
    if (message.role === "tool" && !calls.has(message.tool_call_id))
      yield { path: ["messages", index, "tool_call_id"], message: "answers no tool call of an earlier message" };
  }
}
