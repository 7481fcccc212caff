/** The scripted backend before the official SDKs: each word of a script is what its comment says on the wire, in records and in charges. */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import { type CallContext, type ChatRequest, GatewayError } from "../../src/index.ts";
import {
  delay,
  embedding,
  endless,
  failure,
  image,
  manualClock,
  refusal,
  reply,
  type Script,
  scriptedBackend,
  type ScriptedBackendOptions,
  silence,
  type TestGateway,
  testGateway,
  type TestGatewayOptions,
  toolCall,
} from "../../src/testing/index.ts";
import { route } from "../../src/upstreams/route/index.ts";
import { CLEAR } from "../formats/images/pictures.ts";

const messages = [{ role: "user" as const, content: "Hello" }];
const CHAT = { model: "small", messages };
const WEATHER = { type: "function" as const, function: { name: "weather", parameters: { type: "object" } } };

const openaiOf = ({ apiKey, fetch }: TestGateway): OpenAI => new OpenAI({ apiKey, fetch, maxRetries: 0 });
const anthropicOf = ({ apiKey, fetch }: TestGateway): Anthropic => new Anthropic({ apiKey, fetch, maxRetries: 0 });

const namesIn = (content: readonly { readonly type: string; readonly name?: string }[]): unknown[] =>
  content.map(({ type, name }) => name ?? type);

/** A gateway before a script, and OpenAI's client of it. */
function opened(script: Script, options: ScriptedBackendOptions = {}, gatewayOptions: TestGatewayOptions = {}) {
  const backend = scriptedBackend(script, options);
  const gateway = testGateway({ backend, ...gatewayOptions });
  const openai = openaiOf(gateway);
  const text = async (): Promise<string | null | undefined> =>
    (await openai.chat.completions.create(CHAT)).choices[0]?.message.content;
  return { backend, gateway, openai, text, [Symbol.asyncDispose]: gateway.close };
}

describe("a chat is answered", () => {
  it("by each turn in its order, with what the script reports", async () => {
    await using stage = opened([
      "Hi",
      reply("4", { reasoning: "2 + 2", usage: { inputTokens: 12, outputTokens: 3 }, finishReason: "length" }),
      toolCall("weather", { city: "Bern" }),
      refusal("No."),
    ]);
    const { gateway, backend } = stage;
    const openai = openaiOf(gateway);
    const asked = async () => (await openai.chat.completions.create({ ...CHAT, tools: [WEATHER] })).choices[0];
    expect(await asked()).toMatchObject({ finish_reason: "stop", message: { content: "Hi" } });
    expect(await anthropicOf(gateway).messages.create({ ...CHAT, max_tokens: 50 })).toMatchObject({
      stop_reason: "max_tokens",
      content: [
        { type: "thinking", thinking: "2 + 2" },
        { type: "text", text: "4" },
      ],
      usage: { input_tokens: 12, output_tokens: 3 },
    });
    expect(await asked()).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ id: "call_3_1", function: { name: "weather", arguments: '{"city":"Bern"}' } }] },
    });
    expect(backend.remaining).toBe(1);
    expect(await asked()).toMatchObject({ finish_reason: "content_filter", message: { refusal: "No." } });
    expect(backend.remaining).toBe(0);
    await gateway.settled();
    expect(gateway.records.map(({ units, certainty }) => [units > 0 && units !== 15, certainty])).toEqual([
      [true, "estimated"],
      [false, "exact"],
      [true, "estimated"],
      [true, "estimated"],
    ]);
  });

  it("by Google's client over a socket as well", async () => {
    await using gateway = testGateway({ backend: scriptedBackend(["Hi", toolCall("weather", { city: "Bern" })]) });
    const genai = new GoogleGenAI({ apiKey: gateway.apiKey, httpOptions: { baseUrl: await gateway.listen() } });
    const config = { tools: [{ functionDeclarations: [{ name: "weather" }] }] };
    const ask = () => genai.models.generateContent({ model: "small", contents: "Hello", config });
    expect((await ask()).text).toBe("Hi");
    expect((await ask()).functionCalls).toMatchObject([{ name: "weather", args: { city: "Bern" } }]);
  });

  it("by pieces of a turn: texts, events and other turns, whose end is that of the last word", async () => {
    const calls = ["Let me ", "look.", toolCall("weather", { city: "Bern" }), toolCall("weather", { city: "Basel" })];
    const event = { type: "text-delta", text: "!" } as const;
    const inner = reply("one", { usage: { inputTokens: 1, outputTokens: 2 }, finishReason: "length" });
    await using stage = opened([
      reply(calls, { usage: { inputTokens: 9, outputTokens: 8 } }),
      reply([inner, event], { finishReason: "stop" }),
    ]);
    const anthropic = anthropicOf(stage.gateway);
    const tools = [{ name: "weather", input_schema: { type: "object" as const } }];
    const message = await anthropic.messages.stream({ ...CHAT, max_tokens: 50, tools }).finalMessage();
    expect(message.content).toMatchObject([
      { type: "text", text: "Let me look." },
      { type: "tool_use", id: "call_1_3", input: { city: "Bern" } },
      { type: "tool_use", id: "call_1_4", input: { city: "Basel" } },
    ]);
    expect(message).toMatchObject({ stop_reason: "tool_use", usage: { input_tokens: 9, output_tokens: 8 } });
    expect(await anthropic.messages.create({ ...CHAT, max_tokens: 50 })).toMatchObject({
      content: [{ text: "one!" }],
      stop_reason: "end_turn",
      usage: { input_tokens: 1, output_tokens: 2 },
    });
  });

  it("by one turn again and again, and by a function of the request", async () => {
    await using same = opened(reply(["Hello", " there"]));
    expect([await same.text(), await same.text()]).toEqual(["Hello there", "Hello there"]);
    await using chosen = opened(async ({ model, prompt, number }) => `${number}: ${model} heard ${prompt}`);
    expect([await chosen.text(), await chosen.text()]).toEqual(["1: small heard Hello", "2: small heard Hello"]);
  });

  it("with only the models on offer", async () => {
    await using stage = opened("Hi", { models: ["small", { id: "large", displayName: "Large" }], name: "first" });
    const ids = (await stage.openai.models.list()).data.map(({ id }) => id);
    expect(ids).toEqual(["small", "large"]);
    const refused = stage.openai.chat.completions.create({ ...CHAT, model: "other" });
    await expect(refused).rejects.toMatchObject({ status: 404 });
    expect(stage.backend.requests).toEqual([]);
  });
});

describe("images and vectors are answered", () => {
  it("with as many pictures as are asked for, or with those of the script", async () => {
    await using stage = opened([image(), image([CLEAR], { usage: { inputTextTokens: 4, outputTokens: 6 } })]);
    const { openai, backend, gateway } = stage;
    const draw = async (n: number) =>
      (await openai.images.generate({ model: "gpt-image-1", prompt: "A boat", n })).data ?? [];
    const [one, other] = await draw(2);
    expect(one?.b64_json).toBe(other?.b64_json);
    expect(Buffer.from(one?.b64_json ?? "", "base64").toString("latin1")).toMatch(/^\x89PNG/);
    expect((await draw(1))[0]?.b64_json).toBe(Buffer.from(CLEAR).toString("base64"));
    expect(backend.requests.map(({ kind, prompt }) => [kind, prompt])).toEqual([
      ["image", "A boat"],
      ["image", "A boat"],
    ]);
    await gateway.settled();
    expect(gateway.records[1]?.images).toMatchObject({ count: 1, usage: { inputTextTokens: 4, outputTokens: 6 } });
  });

  it("with a vector for each input: equal ones for equal inputs, of the length that is asked for", async () => {
    await using stage = opened([embedding(), embedding([[1, 0]], { usage: { inputTokens: 7 } })]);
    const { openai, gateway, backend } = stage;
    const made = await openai.embeddings.create({ model: "e", input: ["a", "b", "a"], dimensions: 4 });
    const [a, b, again] = made.data.map((one) => one.embedding);
    expect(a).toHaveLength(4);
    expect(Math.hypot(...(a ?? []))).toBeCloseTo(1);
    expect(again).toEqual(a);
    expect(b).not.toEqual(a);
    const given = await openai.embeddings.create({ model: "e", input: "c" });
    expect([given.data[0]?.embedding, given.usage.prompt_tokens]).toEqual([[1, 0], 7]);
    await gateway.settled();
    expect(gateway.records[1]).toMatchObject({ units: 7, certainty: "exact" });
    expect(backend.requests[1]).toMatchObject({ kind: "embedding", prompt: "c" });
  });
});

describe("a failure", () => {
  it.each([
    ["backend_overloaded", 503],
    ["rate_limited", 429],
    ["context_length_exceeded", 400],
  ] as const)("of the code %s reaches the caller as %d, and costs nothing", async (code, status) => {
    await using stage = opened(failure(code, "Not now."));
    await expect(stage.text()).rejects.toMatchObject({ status, message: expect.stringContaining("Not now.") });
    expect(await stage.gateway.charged()).toBe(0);
  });

  it("of the host's own reaches the caller with its wait, and any other error without its message", async () => {
    await using stage = opened([
      failure(new GatewayError("rate_limited", "Slow down.", { retryAfterMs: 2_000 })),
      failure(new Error("secret")),
    ]);
    const limited = await stage.text().catch((error: InstanceType<typeof OpenAI.APIError>) => error.headers);
    expect((limited as Headers).get("retry-after")).toBe("2");
    const failed = await stage.text().catch((error: Error) => error.message);
    expect(failed).not.toContain("secret");
    expect(stage.gateway.failures.map(({ text }) => text)).toEqual([expect.stringContaining("secret")]);
  });

  it("in an answer, or after some events, breaks the stream there, and charges what came", async () => {
    await using stage = opened([
      reply(["one ", failure("backend_overloaded"), "two"]),
      reply(["one ", "two"], { breakAfter: 1 }),
      reply("one", { breakAfter: 0 }),
    ]);
    for (const code of ["backend_overloaded", "backend_unavailable"]) {
      const stream = await stage.openai.chat.completions.create({ ...CHAT, stream: true });
      const texts: string[] = [];
      const reading = (async () => {
        for await (const chunk of stream) texts.push(chunk.choices[0]?.delta.content ?? "");
      })();
      await expect(reading).rejects.toThrow(/script fails|cannot be reached/);
      expect(texts.join("")).toBe("one ");
      await stage.gateway.settled();
      expect(stage.gateway.records.at(-1)).toMatchObject({ status: 200, outcome: "failed", errorCode: code });
      expect(stage.gateway.records.at(-1)?.units).toBeGreaterThan(0);
    }
    await expect(stage.text()).rejects.toMatchObject({ status: 503 });
    expect(stage.gateway.records.at(-1)?.units).toBe(0);
  });

  it("after some events reports its usage before it breaks off", async () => {
    const usage = { inputTokens: 7, outputTokens: 5 };
    await using stage = opened([reply(["one ", "two"], { breakAfter: 1, usage })]);
    await expect(stage.text()).rejects.toMatchObject({ status: 503 });
    expect(stage.gateway.records).toMatchObject([{ errorCode: "backend_unavailable", usage }]);
  });

  it("lets a route go on to the next backend", async () => {
    const [first, second] = [scriptedBackend([failure("backend_overloaded")]), scriptedBackend(["Hi"])];
    const backend = route({ routes: { "*": { upstreams: [first, { backend: second, weight: 0 }] } } });
    await using gateway = testGateway({ backend });
    const answer = await openaiOf(gateway).chat.completions.create(CHAT);
    expect(answer.choices[0]?.message.content).toBe("Hi");
    expect([first.remaining, second.remaining]).toEqual([0, 0]);
  });

  it("of a code that does not exist names the code that was meant", () => {
    expect(() => failure("overloaded" as "busy")).toThrow(
      'failure: there is no error code "overloaded"; did you mean "backend_overloaded"?',
    );
  });
});

describe("a script that does not fit", () => {
  it.each<[what: string, script: Script, message: string]>([
    ["has ended", ["Hi"], 'The script has ended after 1 turn, but request 2 came: chat by the model small, "Hello".'],
    ["is a function that returns nothing", ({ number }) => (number === 1 ? "Hi" : undefined), "returns undefined, but"],
    ["is a function that returns no turn", ({ number }) => (number === 1 ? "Hi" : (["Hi"] as never)), "a list, but"],
    ["answers another kind", ["Hi", image()], "The script answers image here, but request 2 came: chat by the model"],
    ["answers another kind in a reply", ["Hi", reply(["a", embedding()])], "The script answers embedding here, but"],
  ])("since it %s says what was asked, with a status that no SDK repeats", async (_what, script, message) => {
    const backend = scriptedBackend(script);
    await using gateway = testGateway({ backend });
    // The SDK's own retries are on.
    const openai = new OpenAI({ apiKey: gateway.apiKey, fetch: gateway.fetch });
    await openai.chat.completions.create(CHAT);
    const refused = openai.chat.completions.create(CHAT);
    await expect(refused).rejects.toMatchObject({ status: 400, message: expect.stringContaining(message) });
    expect(backend.requests).toHaveLength(2);
  });

  it.each<[script: unknown, message: string]>([
    [undefined, "the script must be a turn, such as reply"],
    [["Hi", 4], "script[1] must be a turn or a text, not a number"],
    [[["Hi"]], "script[0] must be a turn or a text, not a list"],
    [{ type: "text-delta" }, "not an object"],
  ])("because it is %o is refused", (script, message) => {
    expect(() => scriptedBackend(script as Script)).toThrow(message);
  });

  it.each<[turn: () => unknown, message: string]>([
    [() => reply(5 as never), "reply: expects a text or pieces, not a number"],
    [() => reply({ text: "Hi" } as never), "reply: expects a text or pieces, not an object"],
    [() => image("iVBOR" as never), "image: expects bytes or pieces, not a text"],
    [() => embedding("Hi" as never), "embedding: expects vectors or pieces, not a text"],
    [() => failure(500 as never), "failure: expects an error code or an error, not a number"],
    [() => failure(undefined as never), "failure: expects an error code or an error, not undefined"],
    [() => toolCall(undefined as never), "toolCall: name must be a text, not undefined."],
    [() => toolCall({ city: "Bern" } as never), "toolCall: name must be a text, not an object."],
    [() => toolCall("weather", "Bern" as never), "toolCall: input must be an object, not a text."],
    [() => refusal(5 as never), "refusal: text must be a text, not a number."],
    [() => endless(5 as never), "endless: text must be a text, not a number."],
  ])("because its turn %o gets something else is refused", (turn, message) => {
    expect(turn).toThrow(message);
  });

  it("because its bytes are no picture, or its time no time, is refused", () => {
    expect(() => image(new Uint8Array(9))).toThrow("image: the bytes must be those of a PNG, JPEG or WebP.");
    expect(() => delay(-1)).toThrow(new RangeError("delay: the time must be milliseconds from 0 up, not -1."));
    expect(() => delay("1s" as never)).toThrow(
      new TypeError("delay: the time must be milliseconds from 0 up, not a text."),
    );
  });
});

describe("a scripted tool call", () => {
  const LINES = 'chat by the model small, "Hello". ';

  it.each<[what: string, asked: object, line: string]>([
    ["no tool is offered", {}, "It offers no tool."],
    ["another tool is offered", { tools: [WEATHER] }, 'It offers "weather".'],
    ["the tool choice is none", { tools: [WEATHER], tool_choice: "none" }, "Its tool choice allows no tool."],
    [
      "another tool is chosen",
      { tools: [WEATHER], tool_choice: { type: "function", function: { name: "weather" } } },
      'Its tool choice allows "weather".',
    ],
  ])("fails when %s, and names the tools that can be called", async (_what, asked, line) => {
    const events = [
      toolCall("wether"),
      reply([{ type: "tool-call-start", id: "c", name: "wether" }]),
      reply(["Let me look.", toolCall("wether")]),
    ];
    await using stage = opened(events);
    for (const number of [1, 2, 3]) {
      const refused = stage.openai.chat.completions.create({ ...CHAT, ...asked });
      const message = `400 The script calls the tool "wether", but request ${number} came: ${LINES}${line}`;
      await expect(refused).rejects.toMatchObject({ status: 400, message });
      // The text before the third call is charged.
      expect((await stage.gateway.charged()) > 0).toBe(number === 3);
    }
  });

  it("fails in a stream, too", async () => {
    await using stage = opened(reply(["Let me look.", toolCall("wether")]));
    const stream = anthropicOf(stage.gateway).messages.stream({ ...CHAT, max_tokens: 50 });
    await expect(stream.finalMessage()).rejects.toThrow("The script calls the tool");
  });

  it("may be one of a tool that the provider defines or brings, or follow a tool that the provider runs", async () => {
    const found = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "Bern" } };
    await using stage = opened([
      reply([{ type: "provider", format: "messages", value: found }, toolCall("bash", { command: "ls" })]),
      toolCall("web_search"),
      toolCall("of_the_server"),
      toolCall("code_interpreter"),
    ]);
    const { gateway, openai } = stage;
    const { content } = await anthropicOf(gateway).messages.create({
      ...CHAT,
      max_tokens: 50,
      tools: [
        { type: "bash_20250124", name: "bash" },
        { type: "web_search_20250305", name: "web_search" },
      ],
    });
    expect(namesIn(content)).toEqual(["web_search", "bash"]);
    const server = { type: "mcp", server_label: "s", server_url: "https://s.example" } as const;
    const code = { type: "code_interpreter", container: { type: "auto" } } as const;
    for (const [tool, name] of [
      [{ type: "web_search" }, "web_search"],
      [server, "of_the_server"],
      [code, "code_interpreter"],
    ] as const) {
      const { output } = await openai.responses.create({ model: "small", input: "Hello", tools: [tool] });
      expect(namesIn(output)).toEqual([name]);
    }
  });

  it("fails behind a choice of none even where a server of tools is offered", async () => {
    await using stage = opened(toolCall("of_the_server"));
    const tools = [{ type: "mcp" as const, server_label: "s", server_url: "https://s.example" }];
    const refused = stage.openai.responses.create({ model: "small", input: "Hello", tools, tool_choice: "none" });
    await expect(refused).rejects.toThrow("Its tool choice allows no tool.");
  });
});

describe("time", () => {
  it("passes on the clock of the test, and only there", async () => {
    const clock = manualClock();
    await using stage = opened(reply([delay(500), "late"]), { clock }, { clock });
    const answer = stage.text();
    await stage.backend.asked();
    await clock.advance(499);
    expect(stage.gateway.records).toEqual([]);
    await clock.advance(1);
    expect(await answer).toBe("late");
    await stage.gateway.settled();
    expect(stage.gateway.records).toMatchObject([{ firstEventMs: 500, endMs: 500 }]);
    expect(clock.pending).toBe(0);
  });

  it("passes on the machine's clock without one", async () => {
    await using stage = opened(reply([delay(1), "late"]));
    expect(await stage.text()).toBe("late");
  });

  it("stands still at a promise until the test resolves it", async () => {
    const gate = Promise.withResolvers<void>();
    await using stage = opened(reply(["one ", gate.promise, "two"]));
    const stream = await stage.openai.chat.completions.create({ ...CHAT, stream: true });
    const texts: string[] = [];
    for await (const { choices } of stream) {
      texts.push(choices[0]?.delta.content ?? "");
      if (texts.at(-1) === "one ") gate.resolve();
    }
    expect(texts.join("")).toBe("one two");
  });

  it.each([
    ["silence", silence()],
    ["a promise that never settles", reply(["one ", new Promise(() => {})])],
    ["a delay", reply([delay(60_000), "late"])],
    ["an endless answer", endless()],
    ["a function that never chooses", () => new Promise<string>(() => {})],
  ])("of %s ends when the client hangs up", async (_what, script: Script) => {
    const clock = manualClock();
    await using stage = opened(script, { clock }, { clock });
    const controller = new AbortController();
    const { signal } = controller;
    const answer = stage.openai.chat.completions.create({ ...CHAT, stream: true }, { signal });
    const { call } = await stage.backend.asked();
    controller.abort();
    await Promise.allSettled([answer]);
    await stage.gateway.settled();
    expect([call.signal.aborted, stage.gateway.records[0]?.outcome]).toEqual([true, "client-closed"]);
    expect(clock.pending).toBe(0);
  });

  it("ends a silence at the deadline, which the test lets pass", async () => {
    const clock = manualClock();
    await using stage = opened(silence(), { clock }, { clock, limits: { deadlineMs: 5_000 } });
    const answer = stage.text().catch((error: { status: number }) => error.status);
    await stage.backend.asked();
    await clock.advance(5_000);
    expect(await answer).toBe(504);
    await stage.gateway.settled();
    expect(stage.gateway.records).toMatchObject([{ outcome: "deadline", endMs: 5_000 }]);
  });
});

describe("what was asked", () => {
  it("is kept with its call, and a test can wait for it", async () => {
    await using stage = opened("Hi");
    const third = stage.backend.asked(3);
    const answers = await Promise.all([stage.text(), stage.text(), stage.text()]);
    expect(answers).toEqual(["Hi", "Hi", "Hi"]);
    const { request, call, number } = await third;
    expect(number).toBe(3);
    expect((request as ChatRequest).messages).toMatchObject([{ parts: [{ text: "Hello" }] }]);
    expect(call.key.id).toBe("test");
    expect(await stage.backend.asked()).toBe(stage.backend.requests[0]);
    expect(stage.backend.requests.map(({ number }) => number)).toEqual([1, 2, 3]);
  });

  it("is the text of the last message alone", async () => {
    await using stage = opened(["It is warm."]);
    await stage.openai.chat.completions.create({
      model: "small",
      messages: [
        { role: "system", content: "Be brief." },
        ...messages,
        { role: "assistant", content: "Hi" },
        { role: "user", content: "How is it?" },
      ],
    });
    expect(stage.backend.requests[0]?.prompt).toBe("How is it?");
  });

  it("can be asked of the backend without a gateway", async () => {
    const backend = scriptedBackend(["Hi"]);
    const call = { signal: new AbortController().signal } as CallContext;
    const request = { model: "small", messages: [] } as unknown as ChatRequest;
    const events: unknown[] = [];
    for await (const event of backend.chat(request, call)) events.push(event);
    expect(events).toEqual(["Hi", { type: "finish", reason: "stop" }]);
  });
});
