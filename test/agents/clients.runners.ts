/** The loops that clients run themselves: tool runners, and the AI SDK. */

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { generateText, isStepCount, jsonSchema, type LanguageModel, type ModelMessage, streamText, tool } from "ai";
import type OpenAI from "openai";
import type { JsonObject } from "../../src/model/json.ts";
import {
  completionThinking,
  completionTools,
  connectAnthropic,
  connectOpenAi,
  type Loop,
  messagesThinking,
  type Site,
  textOf,
} from "./clients.ts";
import { QUESTIONS, resultOf, TOOLS } from "./script.ts";
import { type Asks, KEY } from "./stage.ts";

async function toolRunner({ url, model, asks }: Site, stream: boolean): Promise<string[]> {
  const tools = TOOLS.map(({ name, description, schema }) =>
    betaTool({ name, description, inputSchema: schema, run: (args) => resultOf({ name, args }) }),
  );
  const settings = { model: model(0), max_tokens: 8_192, max_iterations: 10, ...messagesThinking(asks) };
  const ends: string[] = [];
  const { messages: client } = connectAnthropic(url).beta;
  let messages: Parameters<typeof client.toolRunner>[0]["messages"] = [];
  for (const content of QUESTIONS) {
    messages.push({ role: "user", content });
    // Without a thread: the gateway keeps no conversations.
    const runner = client.toolRunner({ ...settings, messages, tools, stream, thread: false });
    const last = await runner.runUntilDone();
    ends.push(last.content.map((block) => (block.type === "text" ? block.text : "")).join(""));
    messages = [...runner.params.messages];
    if (messages.at(-1)?.role !== "assistant") messages.push({ role: "assistant", content: last.content });
  }
  return ends;
}

async function runTools({ url, model, asks }: Site, isStreamed: boolean): Promise<string[]> {
  const { completions } = connectOpenAi(url).chat;
  const tools = completionTools().map(({ type, function: declared }) => ({
    type,
    function: {
      ...declared,
      parse: JSON.parse,
      function: (args: JsonObject) => resultOf({ name: declared.name, args }),
    },
  })) as never[];
  const ends: string[] = [];
  let messages: OpenAI.ChatCompletionMessageParam[] = [];
  for (const content of QUESTIONS) {
    messages.push({ role: "user", content });
    const asked = { model: model(0), messages, tools, ...completionThinking(asks) };
    const runner = isStreamed ? completions.runTools({ ...asked, stream: true }) : completions.runTools(asked);
    ends.push(textOf(await runner.finalContent()));
    messages = [...runner.messages];
  }
  return ends;
}

const aiTools = Object.fromEntries(
  TOOLS.map(({ name, description, schema }) => [
    name,
    tool({
      description,
      inputSchema: jsonSchema<JsonObject>(schema),
      execute: (args) => resultOf({ name, args }),
    }),
  ]),
);

type ProviderOptions = NonNullable<Parameters<typeof generateText>[0]["providerOptions"]>;

interface Provided {
  readonly caller: Loop["caller"];
  readonly model: (site: Site) => LanguageModel;
  readonly options: (asks: Asks) => ProviderOptions;
}

const PROVIDERS: Readonly<Record<string, Provided>> = {
  "@ai-sdk/anthropic": {
    caller: "messages",
    model: ({ url, model }) => createAnthropic({ baseURL: `${url}/v1`, apiKey: KEY })(model(0)),
    options: (asks) => ({
      anthropic:
        asks === "effort"
          ? { thinking: { type: "adaptive" }, effort: "medium" }
          : { thinking: { type: "enabled", budgetTokens: 2_048 } },
    }),
  },
  "@ai-sdk/google": {
    caller: "generate-content",
    model: ({ url, model }) => createGoogle({ baseURL: `${url}/v1beta`, apiKey: KEY })(model(0)),
    options: () => ({ google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 2_048 } } }),
  },
  "@ai-sdk/openai": {
    caller: "chat-completions",
    model: ({ url, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY }).chat(model(0)),
    options: (asks) => (asks === "not" ? {} : { openai: { reasoningEffort: "medium" } }),
  },
};

/** The AI SDK's usual model of OpenAI, which stores its responses and sends references, or stores nothing and sends all back. */
const RESPONSES: Readonly<Record<string, Provided>> = Object.fromEntries(
  [true, false].map((store) => [
    `@ai-sdk/openai responses${store ? "" : " that store nothing"}`,
    {
      caller: "responses",
      model: ({ url, model }) => createOpenAI({ baseURL: `${url}/v1`, apiKey: KEY })(model(0)),
      options: (asks) => ({
        openai: {
          store,
          ...(asks !== "not" && { forceReasoning: true, reasoningEffort: "medium", reasoningSummary: "auto" }),
        },
      }),
    },
  ]),
);

const runsProvider =
  ({ model, options }: Provided) =>
  async (site: Site, isStreamed: boolean): Promise<string[]> => {
    const ends: string[] = [];
    const messages: ModelMessage[] = [];
    const settings = {
      model: model(site),
      tools: aiTools,
      stopWhen: isStepCount(10),
      maxRetries: 0,
      providerOptions: options(site.asks),
    };
    for (const content of QUESTIONS) {
      messages.push({ role: "user", content });
      const asked = { ...settings, messages };
      const errors: unknown[] = [];
      const result = isStreamed
        ? streamText({ ...asked, onError: ({ error }) => void errors.push(error) })
        : await generateText(asked);
      const text = await Promise.resolve(result.text).catch((error: unknown) => {
        throw errors[0] ?? error;
      });
      ends.push(text);
      messages.push(...(await result.responseMessages));
    }
    return ends;
  };

/** The loops by their names, each complete and streamed. */
export const RUNNER_LOOPS: ReadonlyMap<string, Loop> = new Map(
  [
    ["@anthropic-ai/sdk toolRunner", "messages", toolRunner] as const,
    ["openai runTools", "chat-completions", runTools] as const,
    ...Object.entries({ ...PROVIDERS, ...RESPONSES }).map(
      ([name, provided]) => [`ai with ${name}`, provided.caller, runsProvider(provided)] as const,
    ),
  ].flatMap(([name, caller, run]) =>
    [false, true].map((isStreamed): [string, Loop] => [
      `${name}, ${isStreamed ? "streamed" : "complete"}`,
      { caller, run: (site) => run(site, isStreamed) },
    ]),
  ),
);
