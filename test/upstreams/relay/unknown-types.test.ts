/** Types and words that only a vendor knows: they pass to an upstream of the caller's format and back, and are told as lost elsewhere. */

import { describe, expect, it, vi } from "vitest";
import {
  createGateway,
  memoryQuotaStore,
  memoryResponseStore,
  type CallRecord,
  type Hook,
  type ModelBackend,
} from "../../../src/index.ts";
import { aiSdk } from "../../../src/upstreams/ai-sdk/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { fakeModel } from "../ai-sdk/fake-models.ts";

const NEW = { type: "holo_deck", level: { of: [1.5, "x".repeat(3_000)] } };
const FUNCTION = { type: "function", name: "f", description: null, parameters: null, strict: null };

interface Case {
  readonly path: (isStream: boolean) => string;
  readonly ask: Readonly<Record<string, unknown>>;
  /** The requests that an own backend is refused, by the path of the first unknown type or word. */
  readonly changes: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** The path of the request that demands an unknown tool. */
  readonly demand?: string;
  readonly answer: string;
  readonly frames: readonly string[];
}

const event = (type: string, fields: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields }).replace("1.5", "1.50")}\n\n`;
const data = (value: object): string => `data: ${JSON.stringify(value).replace("1.5", "1.50")}\n\n`;
const text = JSON.stringify;

const user = (content: unknown): object => ({ role: "user", content });
const HI = { type: "text", text: "Hi" };
const MESSAGE_USAGE = {
  input_tokens: 11,
  output_tokens: 7,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cost: 0.5,
};
const MESSAGE = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "m",
  stop_reason: "bored",
  stop_sequence: null,
};
const response = (fields: object): object => ({
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "m",
  status: "completed",
  output: [],
  ...fields,
});
const RESPONSE_USAGE = { input_tokens: 11, output_tokens: 7, total_tokens: 18, cost: 0.5 };
const OUTPUT = [
  { id: "h_1", ...NEW },
  {
    id: "msg_1",
    type: "message",
    role: "assistant",
    status: "completed",
    content: [
      { ...NEW, text: { is: "no text" }, annotations: "none" },
      { type: "output_text", text: "Hi", annotations: [{ ...NEW, url: 7, title: {}, start_index: "x" }] },
    ],
  },
];
const COMPLETION = { id: "c_1", created: 1, model: "m" };
const COMPLETION_USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18, cost: 0.5 };
const NEW_CALL = { id: "call_1", type: "holo_deck", holo_deck: { name: "f", level: 1.5 } };
const CANDIDATE_USAGE = { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18, cost: 0.5 };

const CASES: Readonly<Record<Exclude<RelayFormat, "images">, Case>> = {
  messages: {
    path: () => "/v1/messages",
    ask: { model: "m", max_tokens: 50, messages: [user([HI])] },
    changes: {
      "messages.0.content.1.type": { messages: [user([HI, NEW])] },
      "messages.2.content.0.content.0.type": {
        messages: [
          user("Hi"),
          { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] },
          user([{ type: "tool_result", tool_use_id: "a", content: [NEW, HI] }]),
        ],
      },
      "messages.0.content.1.source.type": { messages: [user([HI, { type: "document", source: NEW }])] },
      "messages.0.content.1.source.content.0.type": {
        messages: [user([HI, { type: "document", source: { type: "content", content: [NEW] } }])],
      },
      "tools.0.type": { tools: [{ ...NEW, name: "deck" }] },
      "tool_choice.type": { tools: [{ name: "f", input_schema: {} }], tool_choice: NEW },
      "thinking.type": { thinking: NEW },
    },
    answer: text({ ...MESSAGE, content: [NEW, HI], usage: MESSAGE_USAGE }),
    frames: [
      event("message_start", {
        message: { ...MESSAGE, content: [], stop_reason: null, usage: { ...MESSAGE_USAGE, output_tokens: 0 } },
      }),
      event("holo_deck", NEW.level),
      event("content_block_start", { index: 0, content_block: NEW }),
      event("content_block_delta", { index: 0, delta: { ...NEW, text: { is: "no text" } } }),
      event("content_block_stop", { index: 0 }),
      event("content_block_start", { index: 1, content_block: { type: "text", text: "" } }),
      event("content_block_delta", { index: 1, delta: { type: "text_delta", text: "Hi" } }),
      event("content_block_stop", { index: 1 }),
      event("message_delta", {
        delta: { stop_reason: "bored", stop_sequence: null, usage: { input_tokens: 11, output_tokens: 7 } },
        usage: MESSAGE_USAGE,
      }),
      event("message_stop", {}),
    ],
  },
  "generate-content": {
    path: (isStream) => `/v1beta/models/m:${isStream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    ask: { contents: [{ role: "user", parts: [{ text: "Hi" }] }] },
    changes: {
      "contents.0.parts.1": { contents: [{ role: "user", parts: [{ text: "Hi" }, { holoDeck: NEW }] }] },
    },
    answer: text({
      candidates: [{ content: { role: "model", parts: [{ holoDeck: NEW }, { text: "Hi" }] }, finishReason: "BORED" }],
      usageMetadata: CANDIDATE_USAGE,
      modelVersion: "m",
      responseId: "r",
    }),
    frames: [
      data({ candidates: [{ content: { role: "model", parts: [{ holoDeck: NEW }] } }], holoDeck: NEW }),
      // A call whose arguments are streamed.
      ...[
        { name: "f", willContinue: true },
        { partialArgs: [{ jsonPath: "$.level", numberValue: 1.5 }], willContinue: true },
        {},
      ].map((functionCall) => data({ candidates: [{ content: { role: "model", parts: [{ functionCall }] } }] })),
      data({
        candidates: [{ content: { role: "model", parts: [{ text: "Hi" }] }, finishReason: "BORED" }],
        usageMetadata: CANDIDATE_USAGE,
      }),
    ],
  },
  "chat-completions": {
    path: () => "/v1/chat/completions",
    ask: { model: "m", max_tokens: 50, messages: [user("Hi")], stream_options: { include_usage: true } },
    changes: {
      "messages.0.content.1.type": { messages: [user([HI, NEW])] },
      "messages.0.content.0.type": { messages: [{ role: "system", content: [NEW] }, user("Hi")] },
      "messages.1.role": { messages: [user("Hi"), { ...NEW, role: "critic" }] },
      "messages.1.tool_calls.0.type": {
        messages: [
          user("Hi"),
          { role: "assistant", tool_calls: [NEW_CALL] },
          { role: "tool", tool_call_id: "call_1", content: "4" },
        ],
      },
      "tools.0.type": { tools: [NEW], tool_choice: "required" },
      "tool_choice.type": { tool_choice: NEW },
      tool_choice: { tool_choice: "eager" },
      "response_format.type": { response_format: NEW },
      reasoning_effort: { reasoning_effort: "galactic" },
      "modalities.1": { modalities: ["text", "smell"] },
    },
    demand: "tools.0.type",
    answer: text({
      ...COMPLETION,
      object: "chat.completion",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: [{ ...NEW, text: { is: "no text" } }, HI], tool_calls: [NEW_CALL] },
          finish_reason: "bored",
        },
      ],
      usage: COMPLETION_USAGE,
    }),
    frames: [
      data({ ...COMPLETION, choices: [{ index: 0, delta: { role: "assistant", content: "Hi", holo_deck: NEW } }] }),
      data({ ...COMPLETION, choices: [{ index: 0, delta: { tool_calls: [{ index: 0, ...NEW_CALL }] } }] }),
      data({ ...COMPLETION, choices: [{ index: 0, delta: {}, finish_reason: "bored" }] }),
      data({ ...COMPLETION, choices: [], usage: COMPLETION_USAGE }),
      "data: [DONE]\n\n",
    ],
  },
  responses: {
    path: () => "/v1/responses",
    ask: { model: "m", max_output_tokens: 50, input: [user("Hi")] },
    changes: {
      "input.1.type": {
        input: [
          user("Hi"),
          { ...NEW, type: "holo_deck_call", call_id: "a" },
          { type: "function_call_output", call_id: "a", output: "4" },
        ],
      },
      "input.0.content.1.type": { input: [user([{ type: "input_text", text: "Hi" }, NEW])] },
      "input.1.role": { input: [user("Hi"), { role: "critic", content: "No" }] },
      "input.2.output.0.type": {
        input: [
          user("Hi"),
          { type: "function_call", call_id: "a", name: "f", arguments: "{}" },
          { type: "function_call_output", call_id: "a", output: [NEW] },
        ],
      },
      "tools.0.type": { tools: [NEW] },
      "tool_choice.type": { tools: [FUNCTION], tool_choice: { type: "holo_desk" } },
      tool_choice: { tool_choice: "eager" },
      "text.format.type": { text: { format: NEW } },
      "reasoning.effort": { reasoning: { effort: "galactic" } },
      truncation: { truncation: "wild" },
    },
    demand: "tool_choice.type",
    answer: text(response({ output: OUTPUT, usage: RESPONSE_USAGE })),
    frames: [
      event("response.created", { sequence_number: 0, response: response({ status: "in_progress" }) }),
      event("response.holo_deck.opened", { sequence_number: 1, item: "door", output_index: "first", delta: NEW }),
      event("response.output_item.added", { sequence_number: 2, output_index: 0, item: OUTPUT[0] }),
      event("response.output_item.done", { sequence_number: 3, output_index: 0, item: OUTPUT[0] }),
      event("response.output_item.done", { sequence_number: 4, output_index: 1, item: OUTPUT[1] }),
      event("response.completed", {
        sequence_number: 5,
        response: response({ output: OUTPUT, usage: RESPONSE_USAGE }),
      }),
    ],
  },
};
/** The answer of a model of the AI SDK. */
const SPOKEN = {
  content: [{ type: "text", text: "Hi" }],
  finishReason: { unified: "stop" },
  usage: { inputTokens: { total: 11 }, outputTokens: { total: 7 } },
  warnings: [],
};
const FORMATS = Object.keys(CASES) as (keyof typeof CASES)[];

function open(of: keyof typeof CASES | ModelBackend, strict = false, hooks: readonly Hook[] = []) {
  const sent: Record<string, unknown>[] = [];
  const records: CallRecord[] = [];
  const upstream = (format: keyof typeof CASES): ModelBackend =>
    relay({
      format,
      baseUrl: "http://up.test/v1",
      strict,
      async fetch(url, init) {
        const body = JSON.parse(init?.body as string) as Record<string, unknown>;
        sent.push(body);
        const isStream = body["stream"] === true || url.includes("alt=sse");
        const { answer, frames } = CASES[format];
        const type = isStream ? "text/event-stream" : "application/json";
        return new Response(isStream ? frames.join("") : answer, { headers: { "content-type": type } });
      },
    });
  const gateway = createGateway({
    backend: typeof of === "string" ? upstream(of) : of,
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    messages: { imageSources: "vendor" },
    hooks,
    onCall: (record) => void records.push(record),
    onFailure: () => {},
  });
  const ask = (format: keyof typeof CASES, body: object, isStream = false): Promise<Response> =>
    gateway.fetch(
      new Request(`http://gateway.test${CASES[format].path(isStream)}`, {
        method: "POST",
        headers: {
          authorization: "Bearer sk-test",
          "content-type": "application/json",
          "anthropic-version": "2023-06-01",
        },
        body: JSON.stringify({
          ...CASES[format].ask,
          ...body,
          ...(isStream && format !== "generate-content" && { stream: true }),
        }),
      }),
    );
  return { ask, sent, records };
}

describe.each(FORMATS)("a caller of %s", (format) => {
  const { changes, answer, frames, demand } = CASES[format];
  const others = FORMATS.filter((other) => other !== format);

  it.each(Object.entries(changes))("has %s passed to an upstream of the format alone", async (path, change) => {
    const own = open(format);
    expect(await own.ask(format, change)).toMatchObject({ status: 200 });
    expect(own.sent[0]).toMatchObject(change);
    for (const other of others) {
      const response = await open(other).ask(format, change);
      // A tool that must be called cannot be left out.
      const isTold = response.headers.get("polygate-dropped") !== null;
      const strict = await open(other, true).ask(format, change);
      expect([other, response.status, isTold, strict.status]).toEqual(
        demand === path ? [other, 400, false, 400] : [other, 200, true, 400],
      );
    }
    const provider = await open(aiSdk({ chat: { m: fakeModel({ answer: () => SPOKEN }) } })).ask(format, change);
    const isTold = provider.headers.get("polygate-dropped") !== null;
    expect([provider.status, isTold]).toEqual(demand === path ? [400, false] : [200, true]);
    // A backend that does not know the type is not asked, and a wrapper of a relay may be.
    const backend: ModelBackend = {
      async *chat() {
        yield "Hi";
      },
    };
    const refused = await open(backend).ask(format, change);
    expect(refused.status).toBe(400);
    expect((await refused.text()).replaceAll("[", ".").replaceAll("]", "")).toContain(path);
    expect(await open({ ...backend, takesUnknown: true }).ask(format, change)).toMatchObject({ status: 200 });
  });

  it("gets the upstream's new types to the letter, and pays what it reports", async () => {
    const { ask, records } = open(format);
    expect(await (await ask(format, {})).text()).toBe(answer);
    expect(await (await ask(format, {}, true)).text()).toBe(frames.join(""));
    expect(records.map(({ usage }) => usage?.outputTokens)).toEqual([7, 7]);
  });

  it.each(others)("gets the rest of the answer of %s, and its record names what is lost", async (other) => {
    const { ask, records } = open(other);
    for (const isStream of [false, true]) expect(await (await ask(format, {}, isStream)).text()).toContain('"Hi"');
    for (const { droppedFromAnswer = [] } of records)
      expect(droppedFromAnswer.map(({ field }) => field)).toContain("answer.provider");
  });
});

it.each<[format: keyof typeof CASES, begin: string, piece: string]>([
  [
    "chat-completions",
    data({ choices: [{ delta: { role: "assistant" } }] }),
    data({ choices: [{ delta: { holo: "x" } }] }),
  ],
  [
    "responses",
    event("response.created", { sequence_number: 0, response: response({ status: "in_progress" }) }),
    event("response.holo.delta", { sequence_number: 1, delta: "x" }),
  ],
])("an answer of %s that breaks off is free until a delta of any type has come", async (format, begin, piece) => {
  for (const [frames, used] of [
    [begin, false],
    [begin + piece, true],
  ] as const) {
    const upstream = relay({
      format,
      baseUrl: "http://upstream.test",
      fetch: async () => new Response(frames, { headers: { "content-type": "text/event-stream" } }),
    });
    const { ask, records } = open(upstream);
    await (await ask(format, {}, true)).text();
    // The record is written beside the last frame.
    await vi.waitFor(() => expect(records).toHaveLength(1));
    expect([frames, records.map(({ usage }) => (usage?.inputTokens ?? 0) > 0)]).toEqual([frames, [used]]);
  }
});

it.each<[format: keyof typeof CASES, change: string, place: string, kept?: object]>([
  ["messages", "messages.0.content.1.type", "messages.0.content.1"],
  ["messages", "tools.0.type", "tools.0"],
  ["generate-content", "contents.0.parts.1", "contents.0.parts.1.holoDeck"],
  ["chat-completions", "messages.0.content.1.type", "messages.0.content.1"],
  ["chat-completions", "messages.1.role", "messages.1"],
  ["chat-completions", "messages.1.tool_calls.0.type", "messages.1.tool_calls.0", NEW_CALL],
  ["chat-completions", "tools.0.type", "tools.0"],
  ["responses", "input.1.role", "input.1", { role: "critic" }],
  ["responses", "input.0.content.1.type", "input.0.content.1"],
  ["responses", "input.2.output.0.type", "input.2.output.0"],
  ["responses", "tools.0.type", "tools.0"],
])("an unknown type of %s keeps its place when a hook changes the request: %s", async (format, change, place, kept) => {
  const cooling: Hook = { before: (request) => ({ ...request, temperature: 0.5 }) };
  const { ask, sent } = open(format, false, [cooling]);
  expect(await ask(format, CASES[format].changes[change] ?? {})).toMatchObject({ status: 200 });
  const found = place.split(".").reduce<unknown>((from, name) => (from as Record<string, unknown>)[name], sent[0]);
  expect(found).toMatchObject(kept ?? NEW);
});

it("a route asks only the upstreams that take an unknown type, whichever is drawn first", async () => {
  const asked: string[] = [];
  const named = (name: string, takes: boolean): ModelBackend => ({
    ...(takes && { takesUnknown: true }),
    async *chat() {
      asked.push(name);
      yield "Hi";
    },
  });
  const own = named("own", false);
  const mixed = { upstreams: [own, named("other", true)] };
  for (const draw of [0, 0.999])
    for (const format of FORMATS) {
      const random = (): number => draw;
      const inner = route({ routes: { "*": mixed }, random });
      const nested = route({ routes: { "*": { upstreams: [own, inner] } }, random });
      const alone = route({ routes: { "*": route({ routes: { "*": { upstreams: [own, own] } } }) } });
      for (const [path, change] of Object.entries(CASES[format].changes).slice(0, 1)) {
        for (const backend of [inner, nested]) {
          asked.length = 0;
          expect([path, (await open(backend).ask(format, change)).status, asked]).toEqual([path, 200, ["other"]]);
        }
        const refused = await open(alone).ask(format, change);
        expect(refused.status).toBe(400);
        expect((await refused.text()).replaceAll("[", ".").replaceAll("]", "")).toContain(path);
      }
    }
});

it("an unknown item that is kept is refused before a backend of one's own, as in the body", async () => {
  const own: ModelBackend = {
    async *chat() {
      yield "Hi";
    },
  };
  const gateway = createGateway({
    backend: route({ routes: { new: { ...own, takesUnknown: true }, own } }),
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    responseStore: memoryResponseStore(),
    onFailure: () => {},
  });
  const ask = async (path: string, body: object): Promise<{ status: number; text: string; id: string }> => {
    const headers = { authorization: "Bearer sk-test", "content-type": "application/json" };
    const request = { method: "POST", headers, body: JSON.stringify(body) };
    const response = await gateway.fetch(new Request(`http://gateway.test/v1/${path}`, request));
    const text = await response.text();
    return { status: response.status, text, id: (JSON.parse(text) as { id: string }).id };
  };
  const items = [user("Hi"), { ...NEW, id: "h_1" }];
  const { id: previous_response_id } = await ask("responses", { model: "new", input: items });
  const { id: conversation } = await ask("conversations", { items });
  for (const [path, body] of Object.entries({
    "previous_response_id.1.type": { input: "Hi", previous_response_id },
    "conversation.1.type": { input: "Hi", conversation },
    "input.1.type": { input: [user("Hi"), { type: "item_reference", id: "h_1" }] },
  })) {
    const refused = await ask("responses", { ...body, model: "own" });
    expect(refused).toMatchObject({ status: 400, text: expect.stringMatching(/holo_deck/) });
    expect(refused.text.replaceAll("[", ".").replaceAll("]", "")).toContain(path);
    expect(await ask("responses", { ...body, model: "new" })).toMatchObject({ status: 200 });
  }
});

it("content of an unknown type is counted by its size", async () => {
  for (const format of FORMATS) {
    const { ask, records } = open({
      takesUnknown: true,
      async *chat() {
        yield "Hi";
      },
    });
    const [change = {}] = Object.values(CASES[format].changes);
    for (const body of [{}, change]) await (await ask(format, body)).text();
    const [less = 0, more = 0] = records.map(({ usage }) => usage?.inputTokens);
    expect([format, more - less > 300]).toEqual([format, true]);
  }
});
