/** Holds the JSON inside bodies, answers and backends' events to the limits of the body around it. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChatEvent } from "../../src/index.ts";
import { DEFAULT_JSON_LIMITS, JsonBudget, JsonLimitError, type JsonLimits, parseJson } from "../../src/model/json.ts";
import { relay } from "../../src/upstreams/relay/index.ts";
import { errorCode, opened, type Opened, speaking } from "./bench.ts";

const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
const deepObject = (levels: number): string => `{"a":${nested(levels - 1)}}`;
const wideObject = (values: number): string => `{"a":[${Array.from({ length: values - 3 }, () => 0).join(",")}]}`;

const callOf = (id: string, json: string): object => ({
  id,
  type: "function",
  function: { name: "look", arguments: json },
});

const conversation = (...argumentTexts: readonly string[]): string =>
  JSON.stringify({
    model: "any",
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", tool_calls: argumentTexts.map((json, index) => callOf(`c${index}`, json)) },
    ],
  });

const PATH = "/v1/chat/completions";

const hi = { max_tokens: 1_000, messages: [{ role: "user", content: "hi" }] };

describe("the arguments of a request's tool calls", () => {
  const limits = { maxJsonDepth: 20, maxJsonValues: 1_000 };
  const key = { granted: 1_000_000 };

  it("are taken up to the depth of a body, and no level more", async () => {
    const { send } = opened({ limits, key });
    expect((await send({ path: PATH, body: conversation(deepObject(20)) })).status).toBe(200);
    const refused = await send({ path: PATH, body: conversation("{}", deepObject(21)) });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({
      error: {
        param: "messages.1.tool_calls.1.function.arguments",
        message: expect.stringContaining("is nested deeper than 20 levels") as string,
      },
    });
  });

  it("nested 6,000 deep are the caller's mistake, also for a key with nothing left", async () => {
    const { send } = opened({ key: { granted: 0 } });
    const body = conversation(deepObject(6_000));
    // A short body of a known length is read before the balance is asked for.
    const headers = { "content-length": String(body.length) };
    expect((await send({ path: PATH, body, headers })).status).toBe(400);
  });

  it("count together, and with the body around them", async () => {
    const { send } = opened({ limits, key });
    const few = Array.from({ length: 9 }, () => wideObject(90));
    expect((await send({ path: PATH, body: conversation(...few) })).status).toBe(200);
    const many = Array.from({ length: 10 }, () => wideObject(100));
    const refused = await send({ path: PATH, body: conversation(...many) });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("holds more than 1000 values");
  });

  it("that are no JSON are carried as they are, as before", async () => {
    const { send } = opened({ limits, key });
    expect((await send({ path: PATH, body: conversation('{"a":', "[1]", "") })).status).toBe(200);
  });
});

/** A gateway before an upstream that answers every request with one body. */
function before(
  format: "messages" | "chat-completions" | "generate-content",
  body: string,
  { status = 200, type = "application/json" } = {},
): Opened {
  const fetch = (): Promise<Response> =>
    Promise.resolve(new Response(body, { status, headers: { "content-type": type } }));
  return opened({ key: { granted: 1_000_000 }, backend: relay({ format, baseUrl: "http://upstream.test", fetch }) });
}

const inOpenAi = (message: object): string =>
  JSON.stringify({ id: "a", model: "m", choices: [{ index: 0, message, finish_reason: "tool_calls" }] });

const failedAs = async (response: Response): Promise<readonly [number, unknown]> => [
  response.status,
  await errorCode(response),
];

const piece = (choice: object): string => `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
const FAILED = [500, "backend_failed"];

describe("an upstream's answer", () => {
  const { maxJsonDepth } = DEFAULT_JSON_LIMITS;
  const beyond = JSON.stringify({ deep: 0 }).replace("0", nested(20_000));

  const bodies = [
    ["chat-completions", `{"choices":[{"message":{"content":"x"}}],"deep":${nested(20_000)}}`],
    ["chat-completions", inOpenAi({ tool_calls: [callOf("1", beyond)] })],
    ["chat-completions", inOpenAi({ tool_calls: [callOf("1", deepObject(maxJsonDepth + 1))] })],
    ["generate-content", `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${beyond}}}]}}]}`],
    ["messages", `{"content":[{"type":"server_thing","input":${beyond}}],"stop_reason":"end_turn"}`],
  ] as const;

  it.each(bodies)("of %s that nests too deep is the backend's failure", async (format, body) => {
    const bench = before(format, body);
    expect(await failedAs(await bench.send({ body: hi }))).toEqual(FAILED);
    expect(bench.failures.map(({ error }) => error.code)).toEqual(["backend_failed"]);
    expect(bench.report()).toMatchObject({ held: 0 });
  });

  it("may hold arguments as deep as a body may be", async () => {
    const { send } = before("chat-completions", inOpenAi({ tool_calls: [callOf("1", deepObject(maxJsonDepth))] }));
    expect((await send()).status).toBe(200);
  });

  it("that ends arguments in pieces is held to the same", async () => {
    const begin = { index: 0, id: "1", function: { name: "f", arguments: '{"a":' } };
    const text = [
      piece({ delta: { tool_calls: [begin] } }),
      ...Array.from({ length: 30 }, () =>
        piece({ delta: { tool_calls: [{ index: 0, function: { arguments: "[".repeat(10) } }] } }),
      ),
      piece({ delta: { tool_calls: [{ index: 0, function: { arguments: `${"]".repeat(300)}}` } }] } }),
      piece({ delta: {}, finish_reason: "tool_calls" }),
      "data: [DONE]\n\n",
    ].join("");
    const { send, report } = before("chat-completions", text, { type: "text/event-stream" });
    expect(await (await send({ body: { ...hi, stream: true } })).text()).toContain("nested deeper than 200 levels");
    expect(report()).toMatchObject({ held: 0 });
  });

  it("that tells of an error in deep JSON keeps its status", async () => {
    const { send } = before("messages", `{"error":${nested(20_000)}}`, { status: 503 });
    expect((await send({ body: hi })).status).toBe(503);
  });
});

const events = (value: object): readonly (readonly [string, ChatEvent])[] => [
  ["tool-call", { type: "tool-call", id: "1", name: "f", input: value } as ChatEvent],
  ["provider", { type: "provider", format: "messages", value } as ChatEvent],
  ["annotation", { type: "annotation", annotation: { type: "grounding", chunks: value } } as unknown as ChatEvent],
];

describe("what a backend yields", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  // Written out, it would hold 2^100 values.
  let doubled: object = {};
  for (let level = 0; level < 100; level++) doubled = [doubled, doubled];
  const deep = Array.from({ length: 20_000 }).reduce<object>((inner) => ({ inner }), {});
  const values = { cyclic, deep, doubled };
  const table = Object.entries(values).flatMap(([name, value]) =>
    events(value).flatMap(([kind, event]) => [
      [name, kind, event] as const,
      [name, `native ${kind}`, { type: "native", format: "x", frames: [], events: [event] } as ChatEvent] as const,
    ]),
  );

  it.each(table)("fails its own call alone where it is %s: %s", async (_name, _kind, event) => {
    const bench = opened({ backend: speaking(event) });
    for (const path of ["/v1/messages", PATH])
      expect(await failedAs(await bench.send({ path, body: hi }))).toEqual(FAILED);
    expect(bench.failures.map(({ error }) => error.code)).toEqual(["backend_failed", "backend_failed"]);
    expect(bench.report()).toMatchObject({ held: 0 });
  });
});

const schemaOf = (count: number): object => ({
  type: "object",
  properties: Object.fromEntries(Array.from({ length: count }, (_, at) => [`p${at}`, { type: "string" }])),
});

const toolOf = (name: string): object => ({ name, input_schema: schemaOf(15) });

const fits = (text: string, bounds: JsonBudget | JsonLimits): unknown => {
  try {
    return parseJson(text, bounds);
  } catch (error) {
    return error instanceof JsonLimitError ? error.message : "no JSON";
  }
};

describe("a text with limits of its own", () => {
  const limits = { maxJsonBytes: 1_000, maxJsonDepth: 10, maxJsonValues: 30, maxJsonKeys: 25, maxJsonItems: 25 };
  const json = fc.json({ maxDepth: 12 });

  it("is held to them as a counted text is, however short it is", () => {
    const tight = fc.constantFrom(...Array.from({ length: 14 }, (_, levels) => nested(levels)), "[1,2,3", "{{{{{{");
    fc.assert(
      fc.property(fc.oneof(json, tight), (text) => {
        expect(fits(text, limits)).toEqual(fits(text, new JsonBudget(limits)));
      }),
    );
  });
});

describe("the tools and schemas of a request", () => {
  const limits = { maxSchemaValues: 100 };
  const contents = [{ parts: [{ text: "hi" }] }];
  const gemini = "/v1beta/models/m:generateContent";
  const wanted = { responseMimeType: "application/json" };
  const bodies = (count: number): readonly (readonly [path: string, field: string, body: object])[] => [
    ["/v1/messages", "tools", { tools: [{ name: "f", input_schema: schemaOf(count) }] }],
    ["/v1/messages", "output_config", { output_config: { format: { type: "json_schema", schema: schemaOf(count) } } }],
    [PATH, "tools", { ...hi, tools: [{ type: "function", function: { name: "f", parameters: schemaOf(count) } }] }],
    [
      PATH,
      "response_format",
      { ...hi, response_format: { type: "json_schema", json_schema: { name: "n", schema: schemaOf(count) } } },
    ],
    [gemini, "tools", { contents, tools: [{ functionDeclarations: [{ name: "f", parameters: schemaOf(count) }] }] }],
    [gemini, "generationConfig", { contents, generationConfig: { ...wanted, responseSchema: schemaOf(count) } }],
    [gemini, "generation_config", { contents, generation_config: { ...wanted, response_schema: schemaOf(count) } }],
    [
      gemini.replace("generateContent", "countTokens"),
      "generateContentRequest.generationConfig",
      {
        generateContentRequest: { contents, generationConfig: { ...wanted, responseJsonSchema: schemaOf(count) } },
      },
    ],
  ];

  it.each(bodies(60))("are bounded in %s: %s", async (path, field, body) => {
    const { send } = opened({ limits, key: { granted: 1_000_000 } });
    const text = path === "/v1/messages" ? body : JSON.stringify({ model: "any", ...body });
    const refused = await send({ path, body: text });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain(`${field}: holds more than 100 values, with all tools and schemas`);
  });

  it.each(bodies(25))("may be as large as the limit in %s: %s", async (path, _field, body) => {
    const { send } = opened({ limits, key: { granted: 1_000_000 } });
    const text = path === "/v1/messages" ? body : JSON.stringify({ model: "any", ...body });
    expect((await send({ path, body: text })).status).toBe(200);
  });

  it("count the same beside a long conversation, and may be those of 400 tools", async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 23 }, (_, index) => [`p${index}`, { type: "string", description: "A text.", enum: [] }]),
    );
    const tools = Array.from({ length: 400 }, (_, index) => ({
      name: `tool_${index}`,
      input_schema: { type: "object", properties },
    }));
    const budget = new JsonBudget();
    parseJson(JSON.stringify({ tools }), budget);
    expect(budget.values).toBeGreaterThan(40_000);
    const messages = [{ role: "user", content: "hi ".repeat(2 * 1024 ** 2) }];
    for (const [maxSchemaValues, status] of [
      [50_000, 200],
      [budget.values, 200],
      [budget.values - 2, 400],
    ] as const) {
      const { send } = opened({ limits: { maxSchemaValues }, key: { granted: 10_000_000 } });
      expect((await send({ body: { tools, messages } })).status).toBe(status);
    }
  });

  it("count together, while a long conversation beside them does not", async () => {
    const { send } = opened({ limits, key: { granted: 1_000_000 } });
    const messages = Array.from({ length: 200 }, () => ({ role: "user", content: "hi" }));
    expect((await send({ body: { messages, tools: [toolOf("a")] } })).status).toBe(200);
    expect((await send({ body: { messages, tools: [toolOf("a"), toolOf("b"), toolOf("c")] } })).status).toBe(400);
  });
});

describe("the texts in a request's tools and schemas", () => {
  const limits = { maxSchemaChars: 1_000 };
  const long = "x".repeat(2_000);

  it("are bounded together", async () => {
    const { send } = opened({ limits, key: { granted: 1_000_000 } });
    const tool = { name: "f", description: long, input_schema: { type: "object" } };
    const refused = await send({ body: { tools: [tool] } });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain("tools: is larger than 1000 bytes, with all tools and schemas");
  });

  it("are not those of a conversation, also where a token count wraps its request", async () => {
    const { send } = opened({ limits, key: { granted: 1_000_000 } });
    expect((await send({ body: { messages: [{ role: "user", content: long }] } })).status).toBe(200);
    const generateContentRequest = { contents: [{ parts: [{ text: long }] }], tools: [{ codeExecution: {} }] };
    const path = "/v1beta/models/m:countTokens";
    expect((await send({ path, body: JSON.stringify({ generateContentRequest }) })).status).toBe(200);
  });
});

const stop = async (sequences: readonly string[]): Promise<string> => {
  const response = await opened().send({ body: { stop_sequences: sequences } });
  return response.status === 200 ? "taken" : response.text();
};

describe("stop sequences", () => {
  it("are bounded in number and length, whatever the format takes", async () => {
    expect(await stop(Array.from({ length: 16 }, (_, at) => `${at}`))).toBe("taken");
    expect(await stop(["x".repeat(4_096)])).toBe("taken");
    expect(await stop(Array.from({ length: 17 }, (_, at) => `${at}`))).toContain("at most 16 stop sequences, not 17");
    expect(await stop(["x".repeat(4_000), "y".repeat(97)])).toContain("at most 4096 characters in all, not 4097");
  });
});

const calls = (count: number): object => ({
  tool_calls: Array.from({ length: count }, (_, at) => ({ ...callOf(`c${at}`, "{}"), index: at })),
});
const parts = (count: number): string =>
  JSON.stringify({ candidates: [{ content: { parts: Array.from({ length: count }, () => ({ text: "a" })) } }] });
const blocks = (count: number): string =>
  JSON.stringify({
    content: Array.from({ length: count }, () => ({ type: "text", text: "a" })),
    stop_reason: "end_turn",
  });

describe("what an upstream says at once", () => {
  it.each([
    ["chat-completions", inOpenAi(calls(5_000)), {}],
    ["chat-completions", piece({ delta: calls(5_000) }), { type: "text/event-stream" }],
    ["generate-content", parts(20_000), {}],
    ["messages", blocks(20_000), {}],
  ] as const)("in one answer or event of %s is bounded", async (format, body, options) => {
    const bench = before(format, body, options);
    expect(await failedAs(await bench.send({ body: { ...hi, stream: "type" in options } }))).toEqual(FAILED);
    expect(bench.failures[0]?.text).toContain("said more than 10000 things at once");
  });

  it("may be some hundred calls", async () => {
    const { send } = before("chat-completions", inOpenAi(calls(500)));
    const answer = (await (await send({ body: hi })).json()) as { content: readonly object[] };
    expect(answer.content).toHaveLength(500);
  });

  it("may tell the same id again and again, with the next ones taken already", async () => {
    const taken = Array.from({ length: 1_000 }, (_, at) => ({ ...callOf(`x_${at + 1_001}`, "{}"), index: at }));
    const same = Array.from({ length: 1_000 }, (_, at) => ({ ...callOf("x", "{}"), index: at + 1_000 }));
    const { send } = before("chat-completions", inOpenAi({ tool_calls: [...taken, ...same] }));
    const answer = (await (await send({ body: hi })).json()) as { content: readonly { id: string }[] };
    expect(new Set(answer.content.map(({ id }) => id)).size).toBe(2_000);
  });
});

const unasked = (): Promise<Response> => Promise.reject(new Error("The upstream was asked."));

it("a model's name with half a character is no model, whatever the upstream's format", async () => {
  for (const format of ["generate-content", "messages", "chat-completions"] as const) {
    const backend = relay({ format, baseUrl: "http://127.0.0.1:9/v1", apiKey: "k", fetch: unasked });
    const { send, failures } = opened({ backend });
    const body = JSON.stringify({ model: "m\ud83d", messages: [{ role: "user", content: "hi" }] });
    const refused = await send({ path: PATH, body });
    expect(await errorCode(refused)).toBe("model_not_found");
    expect(refused.status).toBe(404);
    expect(failures).toEqual([]);
  }
});

it("an answer with twenty likelihoods for each of 8,000 tokens is taken", async () => {
  const likely = { token: " the", logprob: -0.1, bytes: [32, 116, 104, 101] };
  const others = Array.from({ length: 20 }, () => likely);
  const content = Array.from({ length: 8_000 }, () => ({ ...likely, top_logprobs: others }));
  const message = { role: "assistant", content: "hi" };
  const choices = [{ index: 0, message, logprobs: { content }, finish_reason: "stop" }];
  const usage = { prompt_tokens: 10, completion_tokens: 8_000, total_tokens: 8_010 };
  const answer = { id: "c", object: "chat.completion", created: 1, model: "m", choices, usage };
  const fetch = (): Promise<Response> => Promise.resolve(Response.json(answer));
  const backend = relay({ format: "chat-completions", baseUrl: "http://127.0.0.1:9/v1", apiKey: "k", fetch });
  const { send } = opened({ backend, key: { granted: 1_000_000 } });
  const asked = { model: "m", logprobs: true, top_logprobs: 20, messages: [{ role: "user", content: "hi" }] };
  const told = await send({ path: PATH, body: JSON.stringify(asked) });
  expect(told.status).toBe(200);
  expect(((await told.json()) as typeof answer).choices[0]?.logprobs.content).toHaveLength(8_000);
});
