/** Loops that a caller writes around the official clients' single calls. Each keeps its own history: all of each answer, or little of it. */

import Anthropic from "@anthropic-ai/sdk";
import { type Content, GoogleGenAI, type GenerateContentResponse, type Part, type Tool } from "@google/genai";
import OpenAI from "openai";
import type { JsonObject } from "../../src/model/json.ts";
import { type Call, QUESTIONS, resultOf, TOOLS } from "./script.ts";
import { type Asks, KEY } from "./stage.ts";

/** A loop, as a test runs it. */
export interface Site {
  readonly url: string;
  /** Returns the name of the model for the next request, by the number of requests before it. */
  readonly model: (step: number) => string;
  /** How the client asks for thinking. */
  readonly asks: Asks;
}

export interface IdentifiedCall extends Call {
  readonly id: string | undefined;
}

export interface Asked {
  readonly text: string;
  readonly calls: readonly IdentifiedCall[];
}

/** A conversation of a client. */
export interface Conversation {
  say(text: string): void;
  ask(model: string): Promise<Asked>;
  /** Adds the results of the calls to the history. */
  result(results: readonly (IdentifiedCall & { readonly result: string })[]): void;
}

export interface Loop {
  readonly caller: "messages" | "generate-content" | "chat-completions" | "responses";
  /** Runs both questions to their ends, and returns the texts that end them. */
  readonly run: (site: Site) => Promise<readonly string[]>;
}

/** The most requests of a loop. A loop that does not end is a failure of its own. */
const MAX_STEPS = 10;

/** Runs a loop of single calls. */
async function converse(conversation: Conversation, model: Site["model"]): Promise<string[]> {
  const ends: string[] = [];
  let step = 0;
  for (const question of QUESTIONS) {
    conversation.say(question);
    for (;;) {
      if (step >= MAX_STEPS) throw new Error(`The loop has not ended after ${step} requests.`);
      const { text, calls } = await conversation.ask(model(step));
      step += 1;
      if (calls.length === 0) {
        ends.push(text);
        break;
      }
      conversation.result(calls.map((call) => ({ ...call, result: resultOf(call) })));
    }
  }
  return ends;
}

const ROOM = 8_192;
const BUDGET = 2_048;

/** The settings of a messages request that ask for thinking. */
export const messagesThinking = (asks: Asks): Pick<Anthropic.MessageCreateParams, "thinking" | "output_config"> =>
  asks === "effort"
    ? { thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "medium" } }
    : { thinking: { type: "enabled", budget_tokens: BUDGET } };

/** The settings of a chat-completions request that ask for thinking. */
export const completionThinking = (asks: Asks): { reasoning_effort?: "medium" } =>
  asks === "not" ? {} : { reasoning_effort: "medium" };

export const messagesTools = (): Anthropic.Tool[] =>
  TOOLS.map(({ name, description, schema }) => ({ name, description, input_schema: schema }));

export const completionTools = (): OpenAI.ChatCompletionFunctionTool[] =>
  TOOLS.map(({ name, description, schema }) => ({
    type: "function",
    function: { name, description, parameters: { ...schema } },
  }));

export const connectAnthropic = (url: string): Anthropic => new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });

export const connectOpenAi = (url: string): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });

function anthropic({ url, asks }: Site, isStreamed: boolean, forgets = false): Conversation {
  const client = connectAnthropic(url);
  const messages: Anthropic.MessageParam[] = [];
  return {
    say: (content) => void messages.push({ role: "user", content }),
    async ask(model) {
      const asked = { model, max_tokens: ROOM, messages, tools: messagesTools(), ...messagesThinking(asks) };
      const { role, content } = isStreamed
        ? await client.messages.stream(asked).finalMessage()
        : await client.messages.create(asked);
      messages.push({ role, content: forgets ? content.flatMap(remembered) : content });
      return {
        text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
        calls: content.flatMap((block) =>
          block.type === "tool_use" ? { id: block.id, name: block.name, args: block.input as JsonObject } : [],
        ),
      };
    },
    result: (results) =>
      void messages.push({
        role: "user",
        content: results.map(({ id = "", result }) => ({ type: "tool_result", tool_use_id: id, content: result })),
      }),
  };
}

/** Only texts and calls, as clients keep them that were written before thinking. */
function remembered(block: Anthropic.ContentBlock): Anthropic.ContentBlockParam[] {
  if (block.type === "text") return [{ type: "text", text: block.text }];
  return block.type === "tool_use" ? [{ type: "tool_use", id: block.id, name: block.name, input: block.input }] : [];
}

function openai({ url, asks }: Site, isStreamed: boolean, forgets = false): Conversation {
  const { completions } = connectOpenAi(url).chat;
  const messages: OpenAI.ChatCompletionMessageParam[] = [];
  return {
    say: (content) => void messages.push({ role: "user", content }),
    async ask(model) {
      const asked = { model, messages, tools: completionTools(), ...completionThinking(asks) };
      const { choices } = isStreamed
        ? await completions.stream(asked).finalChatCompletion()
        : await completions.create(asked);
      const [choice] = choices;
      if (!choice) throw new Error("There is no answer.");
      messages.push(forgets ? rememberedMessage(choice.message) : sendable(choice.message));
      return {
        text: textOf(choice.message.content),
        calls: (choice.message.tool_calls ?? []).flatMap((call) =>
          call.type === "function"
            ? { id: call.id, name: call.function.name, args: JSON.parse(call.function.arguments) as JsonObject }
            : [],
        ),
      };
    },
    result: (results) =>
      void messages.push(
        ...results.map(({ id = "", result }) => ({ role: "tool" as const, tool_call_id: id, content: result })),
      ),
  };
}

type CompletionMessage = OpenAI.ChatCompletionMessage & { parsed?: unknown };

/** Returns a message without the field that the client adds to it. */
function sendable(message: CompletionMessage): OpenAI.ChatCompletionMessageParam {
  const fields = { ...message };
  delete fields.parsed;
  return fields;
}

function rememberedMessage({ content, tool_calls = [] }: CompletionMessage): OpenAI.ChatCompletionMessageParam {
  const calls = tool_calls.flatMap((call) =>
    call.type === "function"
      ? { id: call.id, type: call.type, function: { name: call.function.name, arguments: call.function.arguments } }
      : [],
  );
  return { role: "assistant", content: textOf(content), ...(calls.length > 0 && { tool_calls: calls }) };
}

/** Mistral's answers have parts, which the client's types do not know. */
export const textOf = (content: unknown): string =>
  Array.isArray(content)
    ? content.map((part: { readonly text?: string }) => part.text ?? "").join("")
    : ((content as string | null) ?? "");

export const responseTools = (): OpenAI.Responses.FunctionTool[] =>
  TOOLS.map(({ name, description, schema }) => ({
    type: "function",
    name,
    description,
    parameters: { ...schema },
    strict: false,
  }));

/** The settings of a Responses request that ask for thinking. */
export const responseThinking = (asks: Asks): { reasoning?: OpenAI.Reasoning } =>
  asks === "not" ? {} : { reasoning: { effort: "medium", summary: "auto" } };

/** How a client of Responses keeps its history: all items of each answer, none of the reasoning, or at the service. */
type ResponseHistory = "own" | "forgets" | "kept" | "referenced";

function openaiResponses({ url, asks }: Site, isStreamed: boolean, history: ResponseHistory = "own"): Conversation {
  const { responses } = connectOpenAi(url);
  let input: OpenAI.Responses.ResponseInputItem[] = [];
  let previous: string | undefined;
  return {
    say: (content) => void input.push({ role: "user", content }),
    async ask(model) {
      const isOwn = history === "own" || history === "forgets";
      const asked = {
        model,
        input,
        tools: responseTools(),
        store: !isOwn,
        ...(history === "own" && asks !== "not" && { include: ["reasoning.encrypted_content" as const] }),
        ...(history === "kept" && previous !== undefined && { previous_response_id: previous }),
        ...responseThinking(asks),
      };
      const response: OpenAI.Responses.Response = isStreamed
        ? await responses.stream(asked).finalResponse()
        : await responses.create(asked);
      const { id, output, store } = response as typeof response & { readonly store: boolean };
      if (store === isOwn) throw new Error(`The response says store: ${String(store)}.`);
      previous = id;
      if (history === "kept") input = [];
      else if (history === "referenced")
        input.push(...output.map((item) => ({ type: "item_reference" as const, id: item.id ?? "" })));
      else input.push(...output.filter(({ type }) => history === "own" || type !== "reasoning").map(unparsed));
      return {
        text: output
          .flatMap((item) => (item.type === "message" ? item.content : []))
          .map((part) => (part.type === "output_text" ? part.text : ""))
          .join(""),
        calls: output.flatMap((item) =>
          item.type === "function_call"
            ? { id: item.call_id, name: item.name, args: JSON.parse(item.arguments) as JsonObject }
            : [],
        ),
      };
    },
    result: (results) =>
      void input.push(
        ...results.map(({ id = "", result }) => ({
          type: "function_call_output" as const,
          call_id: id,
          output: result,
        })),
      ),
  };
}

/** Returns an item without the fields that the client adds to it. */
function unparsed(item: OpenAI.Responses.ResponseOutputItem): OpenAI.Responses.ResponseInputItem {
  const fields = { ...item } as Record<string, unknown>;
  delete fields["parsed_arguments"];
  if (item.type === "message")
    fields["content"] = item.content.map((part) => {
      const own = { ...part } as Record<string, unknown>;
      delete own["parsed"];
      return own;
    });
  return fields as unknown as OpenAI.Responses.ResponseInputItem;
}

export const googleTools = (): Tool[] => [
  {
    functionDeclarations: TOOLS.map(({ name, description, schema }) => ({
      name,
      description,
      parametersJsonSchema: schema,
    })),
  },
];

const googleConfig = (asks: Asks) => ({
  tools: googleTools(),
  thinkingConfig: asks === "effort" ? { includeThoughts: true } : { includeThoughts: true, thinkingBudget: BUDGET },
});

const connectGoogle = (url: string): GoogleGenAI =>
  new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url, apiVersion: "v1beta" } });

const partsOf = ({ candidates }: GenerateContentResponse): Part[] => candidates?.[0]?.content?.parts ?? [];

const askedOf = (parts: readonly Part[]): Asked => ({
  text: parts.map(({ text, thought }) => (thought ? "" : (text ?? ""))).join(""),
  calls: parts.flatMap(({ functionCall: call }) =>
    call ? { id: call.id, name: call.name ?? "", args: (call.args ?? {}) as JsonObject } : [],
  ),
});

const responsesOf: (results: Parameters<Conversation["result"]>[0]) => Part[] = (results) =>
  results.map(({ id, name, result }) => ({
    functionResponse: { ...(id !== undefined && { id }), name, response: { result } },
  }));

function google({ url, asks }: Site, isStreamed: boolean, forgets = false): Conversation {
  const { models } = connectGoogle(url);
  const contents: Content[] = [];
  return {
    say: (text) => void contents.push({ role: "user", parts: [{ text }] }),
    async ask(model) {
      const asked = { model, contents, config: googleConfig(asks) };
      const parts: Part[] = [];
      if (isStreamed)
        for await (const chunk of await models.generateContentStream(asked)) parts.push(...partsOf(chunk));
      else parts.push(...partsOf(await models.generateContent(asked)));
      contents.push({ role: "model", parts: forgets ? parts.flatMap(rememberedPart) : parts });
      return askedOf(parts);
    },
    result: (results) => void contents.push({ role: "user", parts: responsesOf(results) }),
  };
}

function rememberedPart({ text, thought, functionCall }: Part): Part[] {
  if (functionCall) return [{ functionCall }];
  return text && !thought ? [{ text }] : [];
}

/** A chat keeps its history itself. It is made anew with this history where the model changes. */
function googleChat({ url, asks }: Site, isStreamed: boolean): Conversation {
  const { chats } = connectGoogle(url);
  let history: Content[] = [];
  let next: Part[] = [];
  return {
    say: (text) => void (next = [{ text }]),
    async ask(model) {
      const chat = chats.create({ model, history, config: googleConfig(asks) });
      const parts: Part[] = [];
      if (isStreamed)
        for await (const chunk of await chat.sendMessageStream({ message: next })) parts.push(...partsOf(chunk));
      else parts.push(...partsOf(await chat.sendMessage({ message: next })));
      history = chat.getHistory(true);
      return askedOf(parts);
    },
    result: (results) => void (next = responsesOf(results)),
  };
}

const LOOPS: Readonly<Record<string, readonly [Loop["caller"], (site: Site, isStreamed: boolean) => Conversation]>> = {
  "@anthropic-ai/sdk": ["messages", anthropic],
  openai: ["chat-completions", openai],
  "openai responses": ["responses", openaiResponses],
  "openai responses with previous_response_id": [
    "responses",
    (site, isStreamed) => openaiResponses(site, isStreamed, "kept"),
  ],
  "openai responses with references": [
    "responses",
    (site, isStreamed) => openaiResponses(site, isStreamed, "referenced"),
  ],
  "@google/genai": ["generate-content", google],
  "@google/genai chats": ["generate-content", googleChat],
  "a forgetful client of messages": ["messages", (site, isStreamed) => anthropic(site, isStreamed, true)],
  "a forgetful client of chat-completions": ["chat-completions", (site, isStreamed) => openai(site, isStreamed, true)],
  "a forgetful client of responses": ["responses", (site, isStreamed) => openaiResponses(site, isStreamed, "forgets")],
  "a forgetful client of generate-content": ["generate-content", (site, isStreamed) => google(site, isStreamed, true)],
};

/** The loops by their names, each complete and streamed. */
export const CALL_LOOPS: ReadonlyMap<string, Loop> = new Map(
  Object.entries(LOOPS).flatMap(([name, [caller, open]]) =>
    [false, true].map((isStreamed): [string, Loop] => [
      `${name}, ${isStreamed ? "streamed" : "complete"}`,
      { caller, run: (site) => converse(open(site, isStreamed), site.model) },
    ]),
  ),
);

/** The names of the loops that differ from others only in where the history is kept: in the client, or at the gateway. */
export const KEEPS_ELSEWHERE: RegExp = /chats|with (?:previous_response_id|references)/;
