/** The official clients before a gateway that redacts and relays to a second one, over real sockets, in every pair of chat formats. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toNodeHandler } from "../../adapters/node.ts";
import { toUpgradeHandler } from "../../adapters/websocket.ts";
import {
  type CallRecord,
  type ChatEvent,
  createGateway,
  memoryQuotaStore,
  type ModelBackend,
} from "../../src/index.ts";
import { redactor } from "../../src/redactor/index.ts";
import { relay, type RelayFormat } from "../../src/upstreams/relay/index.ts";

const EMAIL = "ada.lovelace@example.org";
const NAME = 'Ada "Byron" Lovelace';
const KEY = "sk-live-0123456789abcdef";
const SECRETS = [EMAIL, NAME, JSON.stringify(NAME).slice(1, -1), KEY];

const QUESTION = `Write to ${NAME} <${EMAIL}>, from [EMAIL_1]: the key is ${KEY}, and ${EMAIL} knows.`;
const SYSTEM = `You are the assistant of ${NAME}.`;
const TOOL = { name: "send", description: `Sends to ${EMAIL}.` };
const SCHEMA = { type: "object", properties: { to: { type: "string" }, [NAME]: { type: "string" } } } as const;
const INPUT = { to: QUESTION, [NAME]: KEY };

const OUTPUT_TOKENS = 77;

/** Says back the question in small pieces, and calls the tool with it. */
const echo: ModelBackend = {
  models: () => [{ id: "any" }],
  async *chat({ messages, tools }): AsyncGenerator<ChatEvent> {
    const [text = ""] = (messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === "text" ? part.text : []));
    for (let at = 0; at < text.length; at += 3) yield { type: "text-delta", text: text.slice(at, at + 3) };
    const [tool] = tools;
    const [, name = ""] = Object.keys((tool?.type === "function" && tool.inputSchema["properties"]) || {});
    const key = /the key is ([^,]+),/.exec(text)?.[1];
    yield { type: "tool-call-start", id: "call_1", name: "send" };
    const json = JSON.stringify({ to: text, [name]: key }).replaceAll("[", String.raw`\u005b`);
    for (let at = 0; at < json.length; at += 4)
      yield { type: "tool-call-delta", id: "call_1", json: json.slice(at, at + 4) };
    yield { type: "tool-call-end", id: "call_1" };
    yield { type: "finish", reason: "tool-calls", usage: { inputTokens: 100, outputTokens: OUTPUT_TOKENS } };
  },
};

const FORMATS: readonly [RelayFormat, version: string][] = [
  ["messages", "/v1"],
  ["generate-content", "/v1beta"],
  ["chat-completions", "/v1"],
  ["responses", "/v1"],
];

interface Answer {
  readonly text: string;
  readonly input: unknown;
}

/** Asks by an official client, complete or streamed. */
const CLIENTS: readonly [name: string, ask: (url: string, stream: boolean) => Promise<Answer>][] = [
  [
    "messages",
    async (url, stream) => {
      const client = new Anthropic({ apiKey: "sk-one", baseURL: url, maxRetries: 0 });
      const asked = {
        model: "any",
        max_tokens: 5_000,
        system: SYSTEM,
        messages: [{ role: "user" as const, content: QUESTION }],
        tools: [{ ...TOOL, input_schema: SCHEMA }],
      };
      const { content } = await (stream ? client.messages.stream(asked).finalMessage() : client.messages.create(asked));
      return {
        text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
        input: content.find((block) => block.type === "tool_use")?.input,
      };
    },
  ],
  [
    "generate-content",
    async (url, stream) => {
      const client = new GoogleGenAI({ apiKey: "sk-one", httpOptions: { baseUrl: url } });
      const asked = {
        model: "any",
        contents: QUESTION,
        config: {
          systemInstruction: SYSTEM,
          tools: [{ functionDeclarations: [{ ...TOOL, parametersJsonSchema: SCHEMA }] }],
        },
      };
      let [text, input] = ["", undefined as unknown];
      const chunks = stream
        ? await client.models.generateContentStream(asked)
        : [await client.models.generateContent(asked)];
      for await (const chunk of chunks)
        for (const part of chunk.candidates?.[0]?.content?.parts ?? []) {
          text += part.text ?? "";
          input ??= part.functionCall?.args;
        }
      return { text, input };
    },
  ],
  [
    "chat-completions",
    async (url, stream) => {
      const client = new OpenAI({ apiKey: "sk-one", baseURL: `${url}/v1`, maxRetries: 0 });
      const asked = {
        model: "any",
        messages: [
          { role: "system" as const, content: SYSTEM },
          { role: "user" as const, content: QUESTION },
        ],
        tools: [{ type: "function" as const, function: { ...TOOL, parameters: SCHEMA } }],
      };
      const { choices } = await (stream
        ? client.chat.completions.stream(asked).finalChatCompletion()
        : client.chat.completions.create(asked));
      const [choice] = choices;
      const [call] = choice?.message.tool_calls ?? [];
      return {
        text: choice?.message.content ?? "",
        input: JSON.parse(call?.type === "function" ? call.function.arguments : "null") as unknown,
      };
    },
  ],
  [
    "responses",
    async (url, stream) => {
      const client = new OpenAI({ apiKey: "sk-one", baseURL: `${url}/v1`, maxRetries: 0 });
      const asked = { model: "any", instructions: SYSTEM, input: QUESTION, tools: [responsesTool] };
      const { output, output_text } = await (stream
        ? client.responses.stream(asked).finalResponse()
        : client.responses.create(asked));
      return { text: output_text, input: argumentsIn(output) };
    },
  ],
];

const responsesTool = { type: "function" as const, strict: false, ...TOOL, parameters: SCHEMA };

const argumentsIn = (output: readonly OpenAI.Responses.ResponseOutputItem[]): unknown => {
  const call = output.find((item) => item.type === "function_call");
  return JSON.parse(call?.arguments ?? "null") as unknown;
};

const listen = async (server: Server): Promise<string> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const resources = new AsyncDisposableStack();
/** The bodies that were sent to the upstream. */
const bodies: string[] = [];
const failures: string[] = [];
let upstream: string;

beforeAll(async () => {
  const gateway = createGateway({
    backend: echo,
    quotas: memoryQuotaStore([{ apiKey: "sk-upstream" }]),
    onFailure: ({ text }) => failures.push(text),
  });
  const server = createServer(toNodeHandler(gateway));
  upstream = await listen(server);
  resources.defer(() => void server.close());
});

afterAll(() => resources.disposeAsync());

describe.each(FORMATS)("relayed as %s", (format, version) => {
  const records: CallRecord[] = [];
  let url: string;

  beforeAll(async () => {
    const backend = relay({
      format,
      baseUrl: `${upstream}${version}`,
      apiKey: "sk-upstream",
      fetch: async (input, init) => {
        const request = new Request(input, init);
        bodies.push(await request.clone().text());
        return fetch(request);
      },
    });
    const gateway = createGateway({
      backend,
      quotas: memoryQuotaStore([{ apiKey: "sk-one", granted: 1_000_000 }]),
      hooks: [redactor({ find: { email: /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/, name: [NAME], key: /sk-live-\w+/ } })],
      onFailure: ({ text }) => failures.push(text),
      onCall: (record) => records.push(record),
    });
    const server = createServer(toNodeHandler(gateway)).on("upgrade", toUpgradeHandler(gateway));
    url = await listen(server);
    resources.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    resources.defer(() => backend.close());
  });

  const seen = (answer: Answer): object => {
    const body = bodies.at(-1) ?? "";
    const record = records.at(-1);
    return {
      answer,
      // The question has `[EMAIL_1]` in it, so other numbers are taken.
      isNumbered: body.includes("[NAME_1000001]"),
      shown: SECRETS.filter((secret) =>
        [secret, JSON.stringify(secret).slice(1, -1)].some((one) => body.includes(one)),
      ),
      failures,
      outputTokens: record?.usage?.outputTokens,
      certainty: record?.certainty,
    };
  };

  /** The caller pays for what the model has made. */
  const all = {
    answer: { text: QUESTION, input: INPUT },
    isNumbered: true,
    shown: [],
    failures: [],
    outputTokens: OUTPUT_TOKENS,
    certainty: "exact",
  };

  it.each(CLIENTS)(
    "to a client of %s, complete and streamed: nothing is shown, and all is restored",
    async (_name, ask) => {
      for (const stream of [false, true]) expect(seen(await ask(url, stream))).toEqual(all);
    },
  );

  it("to a client of responses over a WebSocket, also in a turn that names the one before", async () => {
    const ws = new ResponsesWS(new OpenAI({ apiKey: "sk-one", baseURL: `${url}/v1` }));
    let previous_response_id: string | undefined;
    for (let turn = 0; turn < 2; turn++) {
      const done = Promise.withResolvers<OpenAI.Responses.Response>();
      ws.once("response.completed", ({ response }) => done.resolve(response));
      ws.once("error", done.reject);
      ws.send({
        type: "response.create",
        model: "any",
        store: false,
        instructions: SYSTEM,
        input: previous_response_id
          ? [
              { type: "function_call_output", call_id: "call_1", output: `Sent to ${EMAIL}.` },
              { role: "user", content: QUESTION },
            ]
          : QUESTION,
        tools: [responsesTool],
        ...(previous_response_id !== undefined && { previous_response_id }),
      });
      const { id, output } = await done.promise;
      previous_response_id = id;
      const [message] = output.flatMap((item) => (item.type === "message" ? item.content : []));
      const text = message?.type === "output_text" ? message.text : "";
      expect(seen({ text, input: argumentsIn(output) })).toEqual(all);
    }
    ws.close();
  });
});
