/** Clients that send back only the ids of tool calls: the upstream still gets its signatures and its reasoning. */

import { describe, expect, it } from "vitest";
import { createGateway, type Gateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay, type RelayFormat, type RelayOptions } from "../../../src/upstreams/relay/index.ts";

type ChatFormat = Exclude<RelayFormat, "images">;

/** What an upstream says in its first answer, complete and as a stream. Its calls have the names `look` and `feel`. */
interface Script {
  readonly complete: object;
  readonly frames: readonly (readonly [event: string | undefined, data: object | string])[];
}

const BLOCKS = [
  { type: "thinking", thinking: "First I look.", signature: "sig-a" },
  { type: "redacted_thinking", data: "cmVkYWN0ZWQ" },
  { type: "text", text: "Let me look." },
  { type: "tool_use", id: "toolu_0123456789abcdefghij01", name: "look", input: { at: "sky" } },
  { type: "thinking", thinking: "Then I feel.", signature: "sig-b" },
  { type: "tool_use", id: "toolu_0123456789abcdefghij02", name: "feel", input: {} },
];
const MESSAGE = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_sequence: null };

const halves = (text: string): string[] => [text.slice(0, 5), text.slice(5)];

/** The frames of a block, with its texts in two deltas. */
function blockFrames(block: (typeof BLOCKS)[number], index: number): Script["frames"] {
  const deltas = [
    ...halves(block.thinking ?? "").map((thinking) => ({ type: "thinking_delta", thinking })),
    ...(block.signature === undefined ? [] : [{ type: "signature_delta", signature: block.signature }]),
    ...halves(block.text ?? "").map((text) => ({ type: "text_delta", text })),
    ...(block.input ? halves(JSON.stringify(block.input)) : []).map((json) => ({
      type: "input_json_delta",
      partial_json: json,
    })),
  ];
  const begun = {
    ...block,
    ...(block.thinking !== undefined && { thinking: "", signature: "" }),
    ...(block.text !== undefined && { text: "" }),
    ...(block.input && { input: {} }),
  };
  return [
    ["content_block_start", { type: "content_block_start", index, content_block: begun }],
    ...deltas.map((delta) => ["content_block_delta", { type: "content_block_delta", index, delta }] as const),
    ["content_block_stop", { type: "content_block_stop", index }],
  ];
}

const CONTENT = {
  role: "model",
  parts: [
    { text: "First I look.", thought: true },
    { text: "Let me look." },
    { functionCall: { name: "look", args: { at: "sky" } }, thoughtSignature: "c2lnLWE=" },
    { functionCall: { name: "feel", args: {} } },
  ],
};
const GENERATED = {
  responseId: "0123456789abcdefghij",
  modelVersion: "m",
  usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 5, totalTokenCount: 10 },
};

const SCRIPTS: Readonly<Partial<Record<ChatFormat, Script>>> = {
  messages: {
    complete: {
      ...MESSAGE,
      content: BLOCKS,
      stop_reason: "tool_use",
      usage: { input_tokens: 5, output_tokens: 5 },
    },
    frames: [
      [
        "message_start",
        {
          type: "message_start",
          message: { ...MESSAGE, content: [], stop_reason: null, usage: { input_tokens: 5, output_tokens: 1 } },
        },
      ],
      ...BLOCKS.flatMap(blockFrames),
      [
        "message_delta",
        {
          type: "message_delta",
          delta: { stop_reason: "tool_use", stop_sequence: null },
          usage: { output_tokens: 5 },
        },
      ],
      ["message_stop", { type: "message_stop" }],
    ],
  },
  "generate-content": {
    complete: { ...GENERATED, candidates: [{ content: CONTENT, finishReason: "STOP" }] },
    frames: [
      ...CONTENT.parts.map((part) => {
        const content = { role: "model", parts: [part] };
        return [undefined, { ...GENERATED, candidates: [{ content }] }] as const;
      }),
      [undefined, { ...GENERATED, candidates: [{ content: { role: "model", parts: [] }, finishReason: "STOP" }] }],
    ],
  },
};

interface Body {
  readonly messages?: readonly { readonly content: readonly object[] }[];
  readonly contents?: readonly { readonly parts: readonly object[] }[];
}

/** A gateway with a relay before an upstream that gives the same answer to all. */
function staged(format: ChatFormat, more: Partial<RelayOptions> = {}): { gateway: Gateway; asked: Body[] } {
  const asked: Body[] = [];
  const script = SCRIPTS[format];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    const text = await request.text();
    asked.push(JSON.parse(text) as Body);
    if (!/"stream":true/.test(text) && !request.url.includes("stream")) return Response.json(script?.complete);
    const frames = (script?.frames ?? []).map(([event, data]) => {
      const name = event === undefined ? "" : `event: ${event}\n`;
      return `${name}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
    });
    return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
  };
  const backend = relay({ format, baseUrl: "http://up.test/v1", fetch, ...more });
  const quotas = memoryQuotaStore([{ apiKey: "sk-one" }, { apiKey: "sk-two" }]);
  return { gateway: createGateway({ backend, quotas }), asked };
}

interface Caller {
  readonly path: (stream: boolean) => string;
  readonly ask: object;
  /** The second turn of a client that has dropped everything but the text and the calls. */
  readonly answer: (look: string, feel: string) => object;
}

const CALLERS: Readonly<Record<ChatFormat, Caller>> = {
  messages: {
    path: () => "/v1/messages",
    ask: { model: "m", max_tokens: 99, messages: [{ role: "user", content: "Go." }] },
    answer: (look, feel) => ({
      model: "m",
      max_tokens: 99,
      messages: [
        { role: "user", content: "Go." },
        {
          role: "assistant",
          content: [
            { type: "text", text: "Let me look." },
            { type: "tool_use", id: look, name: "look", input: { at: "sky" } },
            { type: "tool_use", id: feel, name: "feel", input: {} },
          ],
        },
        {
          role: "user",
          content: [look, feel].map((id) => ({ type: "tool_result", tool_use_id: id, content: "blue" })),
        },
      ],
    }),
  },
  "generate-content": {
    path: (stream) => `/v1beta/models/m:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    ask: { contents: [{ role: "user", parts: [{ text: "Go." }] }] },
    answer: (look, feel) => ({
      contents: [
        { role: "user", parts: [{ text: "Go." }] },
        {
          role: "model",
          parts: [
            { text: "Let me look." },
            { functionCall: { id: look, name: "look", args: { at: "sky" } } },
            { functionCall: { id: feel, name: "feel", args: {} } },
          ],
        },
        {
          role: "user",
          parts: [
            { functionResponse: { id: look, name: "look", response: { output: "blue" } } },
            { functionResponse: { id: feel, name: "feel", response: { output: "blue" } } },
          ],
        },
      ],
    }),
  },
  "chat-completions": {
    path: () => "/v1/chat/completions",
    ask: { model: "m", messages: [{ role: "user", content: "Go." }] },
    answer: (look, feel) => ({
      model: "m",
      messages: [
        { role: "user", content: "Go." },
        {
          role: "assistant",
          content: "Let me look.",
          // Some clients send reasoning back as text only.
          reasoning_content: "First I look.Then I feel.",
          tool_calls: [
            { type: "function", id: look, function: { name: "look", arguments: '{"at":"sky"}' } },
            { type: "function", id: feel, function: { name: "feel", arguments: "{}" } },
          ],
        },
        { role: "tool", tool_call_id: look, content: "blue" },
        { role: "tool", tool_call_id: feel, content: "blue" },
      ],
    }),
  },
  responses: {
    path: () => "/v1/responses",
    ask: { model: "m", input: "Go." },
    answer: (look, feel) => ({
      model: "m",
      input: [
        { role: "user", content: "Go." },
        { role: "assistant", content: [{ type: "output_text", text: "Let me look." }] },
        { type: "function_call", call_id: look, name: "look", arguments: '{"at":"sky"}' },
        { type: "function_call", call_id: feel, name: "feel", arguments: "{}" },
        { type: "function_call_output", call_id: look, output: "blue" },
        { type: "function_call_output", call_id: feel, output: "blue" },
      ],
    }),
  },
};

async function ask(gateway: Gateway, path: string, body: object, key = "sk-one"): Promise<string> {
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}`, "anthropic-version": "1" };
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
  expect(response.status).toBe(200);
  return response.text();
}

/** Asks the first question, and returns the ids of the two calls in the answer. */
async function firstTurn(gateway: Gateway, { path, ask: body }: Caller, stream: boolean): Promise<[string, string]> {
  const text = await ask(gateway, path(stream), { ...body, ...("model" in body && { stream }) });
  const ids = [...new Set(Array.from(text.matchAll(/"(?:call_)?id":"((?:call|toolu)_[^"]+)"/g), ([, id = ""]) => id))];
  expect(ids).toHaveLength(2);
  return ids as [string, string];
}

const PAIRS = (["messages", "generate-content"] as const).flatMap((upstream) =>
  (["messages", "generate-content", "chat-completions", "responses"] as const)
    .filter((caller) => caller !== upstream)
    .flatMap((caller) => [false, true].map((stream) => [upstream, caller, stream] as const)),
);

/** What a request to an upstream has of the answer: all blocks, or the calls with their signatures. */
const sentBack = (body: Body | undefined): readonly object[] | undefined =>
  body?.messages?.[1]?.content ?? body?.contents?.[1]?.parts.filter((part) => "functionCall" in part);

const signedCalls = ([look, feel]: readonly [string, string]): object[] => [
  { functionCall: { id: look, name: "look", args: { at: "sky" } }, thoughtSignature: "c2lnLWE=" },
  { functionCall: { id: feel, name: "feel", args: {} } },
];

/** The seals in a request to an upstream of one format. */
const sealsIn = (body: Body | undefined): string[] =>
  (JSON.stringify(body).match(/"(?:signature|data|thoughtSignature)":"[^"]+"/g) ?? []).map((seal) => seal);

describe.each(PAIRS)(
  "an upstream of %s and a caller of %s that sends back only ids (stream: %s)",
  (format, by, stream) => {
    const caller = CALLERS[by];

    it("gets its signatures and its reasoning back at their places", async () => {
      const { gateway, asked } = staged(format);
      const ids = await firstTurn(gateway, caller, stream);
      await ask(gateway, caller.path(false), caller.answer(...ids));
      expect(sentBack(asked[1])).toEqual(format === "messages" ? BLOCKS : signedCalls(ids));
    });

    it("gives nothing of it to another key", async () => {
      const { gateway, asked } = staged(format);
      const ids = await firstTurn(gateway, caller, stream);
      await ask(gateway, caller.path(false), caller.answer(...ids), "sk-two");
      expect(sealsIn(asked[1]).join()).not.toMatch(/sig-|c2lnLWE|cmVkYWN0ZWQ/);
    });

    it.each([{ maxRememberedChars: 0 }, { rememberedMs: 0 }])("remembers nothing with %o", async (limits) => {
      const { gateway, asked } = staged(format, { limits });
      const ids = await firstTurn(gateway, caller, stream);
      await ask(gateway, caller.path(false), caller.answer(...ids));
      expect(sealsIn(asked[1]).join()).not.toMatch(/sig-|c2lnLWE|cmVkYWN0ZWQ/);
    });
  },
);
