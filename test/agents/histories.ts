/** Good histories: a strict upstream is asked step by step, and each answer goes back as it came. */

import type { JsonObject } from "../../src/model/json.ts";
import { completionTools, messagesThinking, messagesTools, responseThinking, responseTools } from "./clients.ts";
import { type Call, QUESTIONS, resultOf, TOOLS } from "./script.ts";
import { type Asks, asksOf, MAKERS, type MakerName } from "./stage.ts";
import { type StrictUpstream, UPSTREAM_KEY } from "./strict.ts";

type Json = Record<string, unknown>;

interface Wire {
  readonly path: (model: string) => string;
  readonly headers: Readonly<Record<string, string>>;
  readonly settings: (model: string, asks: Asks) => Json;
  /** The name of the field with the conversation. */
  readonly history: string;
  readonly say: (text: string) => Json;
  /** Returns the answer as it goes back, and its calls. */
  readonly read: (answer: Json) => {
    readonly turn: Json | readonly Json[];
    readonly calls: readonly (Call & { readonly id: string })[];
  };
  readonly results: (calls: readonly (Call & { readonly id: string })[]) => Json[];
}

const WIRES: Readonly<Record<string, Wire>> = {
  messages: {
    path: () => "/messages",
    headers: { "x-api-key": UPSTREAM_KEY, "anthropic-version": "2023-06-01" },
    settings: (model, asks) => ({
      model,
      max_tokens: 8_192,
      tools: messagesTools(),
      ...messagesThinking(asks),
    }),
    history: "messages",
    say: (content) => ({ role: "user", content }),
    read(answer) {
      const content = answer["content"] as { type: string; id: string; name: string; input: JsonObject }[];
      const calls = content.filter(({ type }) => type === "tool_use");
      return {
        turn: { role: "assistant", content },
        calls: calls.map(({ id, name, input }) => ({ id, name, args: input })),
      };
    },
    results: (calls) => [
      {
        role: "user",
        content: calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: resultOf(call) })),
      },
    ],
  },
  "generate-content": {
    path: (model) => `/models/${model}:generateContent`,
    headers: { "x-goog-api-key": UPSTREAM_KEY },
    settings: () => ({
      generationConfig: { thinkingConfig: { includeThoughts: true } },
      tools: [
        {
          functionDeclarations: TOOLS.map(({ name, description, schema }) => ({
            name,
            description,
            parametersJsonSchema: schema,
          })),
        },
      ],
    }),
    history: "contents",
    say: (text) => ({ role: "user", parts: [{ text }] }),
    read(answer) {
      const [{ content }] = answer["candidates"] as [
        { content: { parts: { functionCall?: Call & { id: string } }[] } },
      ];
      return { turn: content, calls: content.parts.flatMap(({ functionCall }) => functionCall ?? []) };
    },
    results: (calls) => [
      {
        role: "user",
        parts: calls.map((call) => ({
          functionResponse: { id: call.id, name: call.name, response: { result: resultOf(call) } },
        })),
      },
    ],
  },
  "chat-completions": {
    path: () => "/chat/completions",
    headers: { authorization: `Bearer ${UPSTREAM_KEY}` },
    settings: (model) => ({ model, tools: completionTools() }),
    history: "messages",
    say: (content) => ({ role: "user", content }),
    read(answer) {
      const [{ message }] = answer["choices"] as [{ message: Json }];
      const calls = (message["tool_calls"] ?? []) as { id: string; function: { name: string; arguments: string } }[];
      return {
        turn: message,
        calls: calls.map(({ id, function: { name, arguments: json } }) => ({
          id,
          name,
          args: JSON.parse(json) as JsonObject,
        })),
      };
    },
    results: (calls) => calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: resultOf(call) })),
  },
  responses: {
    path: () => "/responses",
    headers: { authorization: `Bearer ${UPSTREAM_KEY}` },
    settings: (model, asks) => ({
      model,
      store: false,
      tools: responseTools(),
      ...(asks !== "not" && { include: ["reasoning.encrypted_content"] }),
      ...responseThinking(asks),
    }),
    history: "input",
    say: (content) => ({ role: "user", content }),
    read(answer) {
      const output = answer["output"] as { type: string; call_id: string; name: string; arguments: string }[];
      return {
        turn: output,
        calls: output
          .filter(({ type }) => type === "function_call")
          .map(({ call_id: id, name, arguments: json }) => ({ id, name, args: JSON.parse(json) as JsonObject })),
      };
    },
    results: (calls) =>
      calls.map((call) => ({ type: "function_call_output", call_id: call.id, output: resultOf(call) })),
  },
  "bedrock-converse": {
    path: (model) => `/model/${encodeURIComponent(model)}/converse`,
    headers: { authorization: `Bearer ${UPSTREAM_KEY}` },
    settings: (model) => ({
      inferenceConfig: { maxTokens: 8_192 },
      toolConfig: {
        tools: TOOLS.map(({ name, description, schema }) => ({
          toolSpec: { name, description, inputSchema: { json: schema } },
        })),
      },
      additionalModelRequestFields: model.includes("claude-")
        ? { thinking: { type: "enabled", budget_tokens: 2_048 } }
        : { reasoningConfig: { type: "enabled", maxReasoningEffort: "low" } },
    }),
    history: "messages",
    say: (text) => ({ role: "user", content: [{ text }] }),
    read(answer) {
      const { message } = answer["output"] as { message: { role: string; content: ConverseBlock[] } };
      // Reasoning without a signature does not go back.
      const content = message.content.filter(
        ({ reasoningContent: { reasoningText } = {} }) => !reasoningText || "signature" in reasoningText,
      );
      return {
        turn: { ...message, content },
        calls: content.flatMap(({ toolUse }) =>
          toolUse ? [{ id: toolUse.toolUseId, name: toolUse.name, args: toolUse.input }] : [],
        ),
      };
    },
    results: (calls) => [
      {
        role: "user",
        content: calls.map((call) => ({ toolResult: { toolUseId: call.id, content: [{ text: resultOf(call) }] } })),
      },
    ],
  },
};

interface ConverseBlock {
  readonly toolUse?: { readonly toolUseId: string; readonly name: string; readonly input: JsonObject };
  readonly reasoningContent?: { readonly reasoningText?: object };
}

export interface History {
  /** The request for each answer in its order, as it was accepted. */
  readonly bodies: readonly Json[];
  /** Sends a request, and returns the answer's status and body. */
  readonly send: (body: Json) => Promise<{ readonly status: number; readonly answer: Json }>;
}

/** Asks both questions to their ends. Throws for a refusal. */
export async function goodHistory(name: MakerName, upstream: StrictUpstream): Promise<History> {
  const { model } = MAKERS[name];
  const wire = WIRES[upstream.format];
  if (!wire) throw new Error(`There is no wire of ${upstream.format}.`);
  const send: History["send"] = async (body) => {
    const url = `http://upstream.test${upstream.version}${wire.path(model)}`;
    const request = new Request(url, { method: "POST", headers: wire.headers, body: JSON.stringify(body) });
    const response = await upstream.fetch(request);
    return { status: response.status, answer: (await response.json()) as Json };
  };
  const bodies: Json[] = [];
  const turns: Json[] = [];
  for (const question of QUESTIONS) {
    turns.push(wire.say(question));
    for (;;) {
      const body = { ...wire.settings(model, asksOf(name, upstream.format)), [wire.history]: [...turns] };
      bodies.push(structuredClone(body));
      const { status, answer } = await send(body);
      if (status !== 200) throw new Error(JSON.stringify(answer));
      const { turn, calls } = wire.read(answer);
      turns.push(...(Array.isArray(turn) ? (turn as readonly Json[]) : [turn as Json]));
      if (calls.length === 0) break;
      turns.push(...wire.results(calls));
    }
  }
  return { bodies, send };
}
