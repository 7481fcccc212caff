/** The deprecated `functions`: in requests and history before upstreams of all formats, and in complete and streamed answers. */

import { describe, expect, it } from "vitest";
import {
  type CallRecord,
  type ChatEvent,
  createGateway,
  type GatewayOptions,
  memoryQuotaStore,
} from "../../../src/index.ts";
import { relay, type RelayFormat } from "../../../src/upstreams/relay/index.ts";
import { framesOf, having, openStage, plays } from "./stage.ts";

const ARGS = '{"zone":"Oslo"}';
const CALL = { name: "clock", arguments: ARGS };
const CLOCK = { name: "clock", description: "Tells the time", parameters: { type: "object", properties: {} } };
const HISTORY = [
  { role: "user", content: "Hi" },
  { role: "assistant", content: null, function_call: CALL },
  { role: "function", name: "clock", content: "12:00" },
];
const ASKED = having({ messages: HISTORY, functions: [CLOCK], function_call: { name: "clock" } });

const said = (text: string): object => ({ role: "user", parts: [{ type: "text", text }] });
const called = (id: string, name = "clock"): object => ({
  role: "assistant",
  parts: [{ type: "tool-call", id, name, input: { zone: "Oslo" } }],
});
const result = (callId: string, text = "12:00"): object => ({
  role: "user",
  parts: [{ type: "tool-result", callId, parts: [{ type: "text", text }] }],
});

describe("a request with functions", () => {
  const { ask, received } = openStage(plays("Hello."));

  it.each([
    [undefined, { type: "auto", parallel: false }],
    ["auto", { type: "auto", parallel: false }],
    ["none", { type: "none" }],
    [{ name: "clock" }, { type: "tool", name: "clock", parallel: false }],
  ])("and the choice %j has tools, and at most one call", async (function_call, toolChoice) => {
    const body = having({ functions: [CLOCK, { name: "now" }], function_call, parallel_tool_calls: true });
    expect((await ask(body)).status).toBe(200);
    const tools = [
      { type: "function", name: "clock", description: "Tells the time", inputSchema: CLOCK.parameters },
      { type: "function", name: "now", inputSchema: { type: "object", properties: {} } },
    ];
    expect(received.at(-1)).toMatchObject({ tools, toolChoice });
    expect(received.at(-1)?.native?.body).toEqual(JSON.parse(JSON.stringify(body)));
    expect(received.at(-1)?.native?.unsupported?.()).toEqual([]);
  });

  it("has the calls of its history with ids by their place, and each result with the nearest call of its name", async () => {
    const now = { role: "assistant", content: "", function_call: { name: "now", arguments: ARGS } };
    const messages = [...HISTORY, now, HISTORY[1], HISTORY[2], { role: "function", name: "now", content: null }];
    await ask(having({ messages }));
    expect(received.at(-1)?.messages).toEqual([
      said("Hi"),
      called("function_call_1"),
      result("function_call_1"),
      {
        role: "assistant",
        parts: [
          { type: "tool-call", id: "function_call_3", name: "now", input: { zone: "Oslo" } },
          { type: "tool-call", id: "function_call_4", name: "clock", input: { zone: "Oslo" } },
        ],
      },
      {
        role: "user",
        parts: [
          { type: "tool-result", callId: "function_call_4", parts: [{ type: "text", text: "12:00" }] },
          { type: "tool-result", callId: "function_call_3", parts: [] },
        ],
      },
    ]);
    expect(received.at(-1)?.native?.unsupported?.()).toEqual([]);
  });

  it("may have calls of both forms in its history; beside tool calls, only an empty one is no loss", async () => {
    const tool_calls = [{ id: "a", type: "function", function: CALL }];
    const messages = (function_call: object): object[] => [
      { role: "user", content: "Hi" },
      { role: "assistant", content: null, tool_calls, function_call },
      { role: "tool", tool_call_id: "a", content: "12:00" },
    ];
    for (const [function_call, lost] of [
      [{ name: "", arguments: "" }, []],
      [CALL, ["messages.function_call"]],
    ] as const) {
      expect((await ask(having({ messages: messages(function_call) }))).status).toBe(200);
      expect(received.at(-1)?.messages).toEqual([said("Hi"), called("a"), result("a")]);
      expect(received.at(-1)?.native?.unsupported?.()).toEqual(lost);
    }
  });

  it("names the arguments that are beyond the limit of JSON values", async () => {
    const stage = openStage(plays("Hello."), { limits: { maxJsonValues: 100 } });
    const call = { name: "clock", arguments: JSON.stringify({ list: Array.from({ length: 200 }, () => 1) }) };
    const response = await stage.ask(having({ messages: [{ role: "assistant", content: null, function_call: call }] }));
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { param: "messages.0.function_call.arguments" } },
    ]);
  });
});

const ANSWER = {
  id: "a",
  choices: [{ index: 0, message: { role: "assistant", function_call: CALL }, finish_reason: "function_call" }],
};
const usage = { input_tokens: 1, output_tokens: 9 };

/** For each upstream: its answer, and the tool, the choice, the earlier call and its result in the request that it gets. */
const UPSTREAMS: readonly (readonly [RelayFormat, answer: object, sent: readonly unknown[], dropped: string | null])[] =
  [
    [
      "messages",
      {
        type: "message",
        content: [{ type: "tool_use", id: "c_2", name: "clock", input: { zone: "Oslo" } }],
        stop_reason: "tool_use",
        usage,
      },
      [
        { name: "clock", description: "Tells the time", input_schema: CLOCK.parameters },
        { type: "tool", name: "clock", disable_parallel_tool_use: true },
        { type: "tool_use", id: "function_call_1", name: "clock", input: { zone: "Oslo" } },
        { type: "tool_result", tool_use_id: "function_call_1", content: [{ type: "text", text: "12:00" }] },
      ],
      null,
    ],
    [
      "generate-content",
      {
        candidates: [
          {
            content: { role: "model", parts: [{ functionCall: { name: "clock", args: { zone: "Oslo" } } }] },
            finishReason: "STOP",
          },
        ],
      },
      [
        { name: "clock", description: "Tells the time" },
        { mode: "ANY", allowedFunctionNames: ["clock"] },
        { functionCall: expect.objectContaining({ name: "clock", args: { zone: "Oslo" } }) as unknown },
        { functionResponse: expect.objectContaining({ name: "clock" }) as unknown },
      ],
      "toolChoice.parallel",
    ],
    [
      "responses",
      {
        id: "r",
        status: "completed",
        output: [{ type: "function_call", id: "i", call_id: "c_2", name: "clock", arguments: ARGS }],
      },
      [
        { type: "function", name: "clock", description: "Tells the time" },
        { type: "function", name: "clock" },
        { parallel_tool_calls: false },
        { type: "function_call", call_id: "function_call_1", name: "clock", arguments: ARGS },
        { type: "function_call_output", call_id: "function_call_1", output: "12:00" },
      ],
      null,
    ],
    ["chat-completions", ANSWER, [CLOCK, { function_call: { name: "clock" } }, { messages: HISTORY }], null],
  ];

interface Opened {
  readonly sent: string[];
  readonly ask: (body: object) => Promise<Response>;
}

function openRelay(format: RelayFormat, answer: string, options: Partial<GatewayOptions> = {}): Opened {
  const sent: string[] = [];
  const gateway = createGateway({
    backend: relay({
      format,
      baseUrl: "http://up.test/v1",
      async fetch(_url, init) {
        sent.push(init?.body as string);
        const type = answer.startsWith("data:") ? "text/event-stream" : "application/json";
        return new Response(answer, { headers: { "content-type": type } });
      },
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-test" }]),
    ...options,
  });
  const ask = (body: object): Promise<Response> =>
    gateway.fetch(
      new Request("http://gateway.test/v1/chat/completions", {
        method: "POST",
        headers: { authorization: "Bearer sk-test", "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
  return { sent, ask };
}

interface Choice {
  readonly delta: { readonly function_call?: { readonly name?: string; readonly arguments: string } };
  readonly finish_reason: string | null;
}

const choicesIn = (frames: readonly string[]): Choice[] =>
  frames.filter((data) => data !== "[DONE]").flatMap((data) => (JSON.parse(data) as { choices: Choice[] }).choices);

/** Lists all objects inside a value. */
const deepIn = (value: unknown): unknown[] =>
  typeof value === "object" && value !== null ? [value, ...Object.values(value).flatMap(deepIn)] : [];

const chunk = (choice: object): string => `data: ${JSON.stringify({ id: "x", own: 1, choices: [choice] })}\n\n`;

const piece = (index: number, call: object): string =>
  chunk({ index: 0, delta: { tool_calls: [{ index, ...call }] }, finish_reason: null });

const callOf = (candidate: number): ChatEvent => ({
  type: "tool-call",
  id: `c_${candidate}`,
  name: "clock",
  input: { zone: "Oslo" },
  candidate,
});

describe("functions before an upstream", () => {
  it.each(UPSTREAMS)("of %s are sent and called", async (format, answer, expected, dropped) => {
    const { sent, ask } = openRelay(format, JSON.stringify(answer));
    const whole = await ask(ASKED);
    const [choice] = ((await whole.json()) as { choices: { message: object }[] }).choices;
    expect(choice).toMatchObject({ message: { function_call: CALL }, finish_reason: "function_call" });
    expect(choice?.message).not.toHaveProperty("tool_calls");
    expect(whole.headers.get("polygate-dropped")).toBe(dropped);
    expect(deepIn(JSON.parse(sent[0] ?? ""))).toEqual(
      expect.arrayContaining(expected.map((one) => expect.objectContaining(one as object) as unknown)),
    );
    const choices = choicesIn(await framesOf(await ask({ ...ASKED, stream: true })));
    const pieces = choices.flatMap(({ delta }) => delta.function_call ?? []);
    expect(pieces[0]).toMatchObject({ name: "clock" });
    expect(pieces.map((piece) => piece.arguments).join("")).toBe(ARGS);
    expect(choices.at(-1)?.finish_reason).toBe("function_call");
  });

  it("of this format pass in its own text, both ways", async () => {
    const answer = `{"id":"x", "choices":[{"index":0,"message":{"role":"assistant","tool_calls":null,"function_call":${JSON.stringify(CALL)}},"finish_reason":"function_call"}],"own":1}`;
    const { sent, ask } = openRelay("chat-completions", answer);
    expect(await (await ask(ASKED)).text()).toBe(answer);
    expect(JSON.parse(sent[0] ?? "")).toEqual({ ...ASKED, max_completion_tokens: expect.any(Number) as number });
  });

  const other = { id: "b", type: "function", function: { name: "now", arguments: "{}" } };

  it("of this format that answers with tool calls has them in the caller's form, and its own fields", async () => {
    const first = { id: "a", type: "function", function: CALL };
    const message = { role: "assistant", content: null, tool_calls: [first, other] };
    const whole = { id: "x", own: 1, choices: [{ index: 0, message, finish_reason: "tool_calls" }] };
    expect(await (await openRelay("chat-completions", JSON.stringify(whole)).ask(ASKED)).json()).toEqual({
      ...whole,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: null, function_call: CALL },
          finish_reason: "function_call",
        },
      ],
    });

    const streamed =
      piece(0, { id: "a", type: "function", function: { name: "clock", arguments: "" } }) +
      piece(0, { function: { arguments: ARGS } }) +
      piece(1, other) +
      `${chunk({ index: 0, delta: {}, finish_reason: "tool_calls" })}data: [DONE]\n\n`;
    const frames = await framesOf(await openRelay("chat-completions", streamed).ask({ ...ASKED, stream: true }));
    expect(choicesIn(frames).map(({ delta, finish_reason }) => [delta, finish_reason])).toEqual([
      [{ role: "assistant", function_call: { name: "clock", arguments: "" } }, null],
      [{ function_call: { arguments: ARGS } }, null],
      [{}, null],
      [{}, "function_call"],
    ]);
    expect(frames[0]).toContain('"own":1');
    expect(frames.at(-1)).toBe("[DONE]");
  });

  it("of this format that answers with very many likelihoods, within the limits of the relay, are called", async () => {
    const tool_calls = [{ index: 0, id: "a", type: "function", function: CALL }];
    const content = Array.from({ length: 65_000 }, () => {
      const likely = { token: "a", logprob: -1, bytes: [97, 97, 97, 97] };
      return { ...likely, top_logprobs: [likely] };
    });
    const choice = { index: 0, logprobs: { content }, finish_reason: "tool_calls" };
    const whole = { id: "x", choices: [{ ...choice, message: { role: "assistant", content: null, tool_calls } }] };
    const asked = { ...ASKED, max_tokens: 200_000 };
    expect(await (await openRelay("chat-completions", JSON.stringify(whole)).ask(asked)).json()).toMatchObject({
      choices: [{ message: { function_call: CALL }, finish_reason: "function_call" }],
    });
    const streamed = `${chunk({ ...choice, delta: { tool_calls } })}data: [DONE]\n\n`;
    const frames = await framesOf(await openRelay("chat-completions", streamed).ask({ ...asked, stream: true }));
    expect(choicesIn(frames)).toMatchObject([{ delta: { function_call: CALL }, finish_reason: "function_call" }]);
  });

  it("have results of no call refused, except by an upstream of this format", async () => {
    const messages = [HISTORY[0], { ...HISTORY[2], name: "now" }];
    const refused = await openRelay("messages", "{}").ask(having({ messages }));
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { message: expect.stringContaining("messages.tool-result.unasked") as unknown } },
    ]);
    const { sent, ask } = openRelay("chat-completions", JSON.stringify(ANSWER));
    expect((await ask(having({ messages }))).status).toBe(200);
    expect(JSON.parse(sent[0] ?? "")).toMatchObject({ messages });
  });

  it("are sent as tools where a hook has changed the request", async () => {
    const message = { role: "assistant", content: null, tool_calls: [{ id: "a", type: "function", function: CALL }] };
    const answer = JSON.stringify({ id: "x", choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
    const { sent, ask } = openRelay("chat-completions", answer, {
      hooks: [{ before: (request) => ({ ...request, temperature: 0 }) }],
    });
    expect(await (await ask(ASKED)).json()).toMatchObject({
      choices: [{ message: { function_call: CALL }, finish_reason: "function_call" }],
    });
    expect(JSON.parse(sent[0] ?? "")).toMatchObject({
      tools: [{ type: "function", function: { name: "clock" } }],
      parallel_tool_calls: false,
    });
  });
});

describe("an answer to functions", () => {
  const signed = { signature: "s", maker: "generate-content" } as const;
  const EVENTS: readonly ChatEvent[] = [
    { type: "text-delta", text: "Let me see." },
    { type: "tool-call-start", id: "a", name: "clock" },
    { type: "tool-call-delta", id: "a", json: '{"zone":' },
    { type: "tool-call-start", id: "b", name: "now" },
    { type: "tool-call-delta", id: "a", json: '"Oslo"}' },
    { type: "tool-call-end", id: "a", ...signed },
    { type: "tool-call-end", id: "b" },
    { type: "finish", reason: "tool-calls" },
  ];
  const body = having({ functions: [CLOCK, { name: "now" }] });

  it("shows the first call, and the record names what is left out", async () => {
    const records: CallRecord[] = [];
    const { ask } = openStage(plays(...EVENTS), { onCall: (record) => void records.push(record) });
    expect(await (await ask(body)).json()).toMatchObject({
      choices: [
        {
          message: { role: "assistant", content: "Let me see.", refusal: null, function_call: CALL },
          finish_reason: "function_call",
        },
      ],
    });
    const lost = records[0]?.droppedFromAnswer.map(({ field, conversion }) => [field, conversion]);
    expect(lost).toEqual([
      ["answer.tool-call", "dropped"],
      ["answer.signature", "dropped"],
    ]);
  });

  it("streams its name, and then its arguments", async () => {
    const { ask } = openStage(plays(...EVENTS.slice(1)));
    const choices = choicesIn(await framesOf(await ask({ ...body, stream: true })));
    expect(choices.map(({ delta, finish_reason }) => [delta, finish_reason])).toEqual([
      [{ role: "assistant", content: null, refusal: null }, null],
      [{ function_call: { name: "clock", arguments: "" } }, null],
      [{ function_call: { arguments: '{"zone":' } }, null],
      [{ function_call: { arguments: '"Oslo"}' } }, null],
      [{ function_call: { arguments: "" } }, null],
      [{}, "function_call"],
    ]);
  });

  it("has one call in each choice", async () => {
    const { ask } = openStage(plays(callOf(0), callOf(1), { type: "finish", reason: "tool-calls" }));
    const choice = { message: { content: null, function_call: CALL } };
    expect(await (await ask({ ...body, n: 2 })).json()).toMatchObject({ choices: [choice, choice] });
  });

  it("that is a text ends as any other", async () => {
    const { ask } = openStage(plays("Hello."));
    const choices = [{ message: { content: "Hello." }, finish_reason: "stop" }];
    expect(await (await ask(body)).json()).toMatchObject({ choices });
  });

  it("can be sent back as it is", async () => {
    const { ask, received } = openStage(plays(...EVENTS.slice(1)));
    const answer = (await (await ask(body)).json()) as { choices: [{ message: object }] };
    const messages = [{ role: "user", content: "Hi" }, answer.choices[0].message, HISTORY[2]];
    await ask({ ...body, messages });
    expect(received[1]?.messages).toEqual([said("Hi"), called("function_call_1"), result("function_call_1")]);
  });
});
