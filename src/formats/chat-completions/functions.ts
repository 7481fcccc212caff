/** The deprecated form of tools: `functions` in requests, `function_call` in answers. Requests are decoded as if they had `tools`. */

import type { ChatRequest } from "../../model/chat-request.ts";
import { isJsonObject, jsonLine, type JsonObject, PARSED_BEFORE, parseJson } from "../../model/json.ts";
import type {
  AssistantMessage,
  ChatCompletionsRequest,
  CompletionMessage,
  CompletionToolChoice,
  FunctionMessage,
} from "./schema.ts";

type WithTools = Pick<ChatCompletionsRequest, "tools" | "tool_choice" | "parallel_tool_calls"> & {
  readonly messages: readonly CompletionMessage[];
};

/**
 * Returns the fields of a body with `tools` in place of `functions`. The form has one call in each answer, so parallel calls are off. It has
 * no ids: a call gets one by its place, and a result belongs to the nearest call of its name before it.
 */
export function withTools(body: ChatCompletionsRequest): WithTools {
  const { functions, function_call, tool_choice, parallel_tool_calls } = body;
  const messages = messagesWithTools(body.messages);
  if (!functions?.length) return { messages, tools: body.tools, tool_choice, parallel_tool_calls };
  return {
    messages,
    tools: functions.map(({ name, description, parameters }) => ({
      type: "function",
      function: { name, description, parameters },
    })),
    tool_choice: choiceOf(function_call) ?? tool_choice,
    parallel_tool_calls: false,
  };
}

function choiceOf(choice: ChatCompletionsRequest["function_call"]): CompletionToolChoice | undefined {
  if (choice == null) return undefined;
  if (typeof choice !== "string") return { type: "function", function: choice };
  return choice === "none" ? "none" : "auto";
}

type AnyMessage = CompletionMessage | FunctionMessage;

type MessageWithCall = AssistantMessage & {
  readonly function_call: NonNullable<AssistantMessage["function_call"]>;
};

const isResult = (message: AnyMessage): message is FunctionMessage => message.role === "function";

/** Tells whether a message has a call in the deprecated form. Servers that send every field of their schema send one without a name. */
const hasCall = (message: AnyMessage): message is MessageWithCall =>
  message.role === "assistant" && Boolean(message.function_call?.name);

function messagesWithTools(messages: readonly AnyMessage[]): readonly CompletionMessage[] {
  // Return the same list, because calls may share it. The cast is safe: no message is a result.
  if (!messages.some((message) => isResult(message) || hasCall(message))) return messages as CompletionMessage[];
  const latest = new Map<string, string>();
  return messages.map((message, index): CompletionMessage => {
    const id = `function_call_${index}`;
    if (isResult(message)) {
      const { name, content } = message;
      return { role: "tool", tool_call_id: latest.get(name) ?? id, content: content ?? "", name };
    }
    if (!hasCall(message)) return message;
    const { function_call, ...others } = message;
    if (message.tool_calls?.length) return others;
    latest.set(function_call.name, id);
    return { ...message, tool_calls: [{ type: "function", id, function: function_call }] };
  });
}

/** Lists the calls that the neutral request lacks: those beside `tool_calls`. */
export const lostCallsIn = ({ messages }: ChatCompletionsRequest): readonly string[] =>
  messages.some((message) => hasCall(message) && message.tool_calls?.length) ? ["messages.function_call"] : [];

/** Tells whether the caller of a request expects a `function_call`. */
export function asksForFunctions({ native }: ChatRequest): boolean {
  return isFull(native?.body["functions"]);
}

/** Returns a body or a chunk with the first tool call of each choice as a `function_call`. */
export function withFunctionCalls<Answer extends object>(answer: Answer): Answer {
  const { choices } = answer as { readonly choices?: unknown };
  return Array.isArray(choices) ? { ...answer, choices: choices.map(choiceWithFunction) } : answer;
}

function choiceWithFunction(choice: unknown): unknown {
  if (!isJsonObject(choice)) return choice;
  const field = isJsonObject(choice["delta"]) ? "delta" : "message";
  const said = choice[field];
  const isCalled = choice["finish_reason"] === "tool_calls";
  return {
    ...choice,
    ...(isJsonObject(said) && isFull(said["tool_calls"]) && { [field]: messageWithFunction(said) }),
    ...(isCalled && { finish_reason: "function_call" }),
  };
}

const isFull = (list: unknown): boolean => Array.isArray(list) && list.length > 0;

function messageWithFunction({ tool_calls, ...message }: JsonObject): JsonObject {
  const [call] = tool_calls as readonly unknown[];
  const called = isJsonObject(call) && !call["index"] ? call["function"] : undefined;
  return { ...message, ...(called !== undefined && { function_call: called }) };
}

/**
 * Returns the data of an upstream of this format as a caller with `functions` gets it. The upstream answers with tool calls if a hook has
 * changed the request, or if the upstream makes tools of functions itself.
 */
export function passedToFunctions(data: string): string {
  if (!TOOL_CALLS.test(data)) return data;
  const answer = parseJson(data, PARSED_BEFORE);
  return isJsonObject(answer) ? jsonLine(withFunctionCalls(answer)) : data;
}

/** Matches a list of calls, and the finish reason. Lists without a call stay as they are. */
const TOOL_CALLS = /"tool_calls"\s*(?::\s*\[\s*\{|[,}])/;
