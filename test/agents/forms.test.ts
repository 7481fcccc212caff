/**
 * Schemas, strict tools, stop sequences and prefills of the official clients before the strict upstreams of other formats: each request is
 * fitted to its upstream and accepted, and the caller is told what has changed.
 */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/model/json.ts";
import { TURNS } from "./script.ts";
import { KEY, type MakerName, relayedMaker, serveGateway } from "./stage.ts";

const text = { type: "string" };
/** A schema that each vendor takes as it is. */
const CLOSED = { type: "object", properties: { a: text }, required: ["a"], additionalProperties: false };
/** An optional property. */
const LOOSE = { ...CLOSED, properties: { a: text, b: text } };
/** The words that validators have and decoders do not: without `additionalProperties`, with bounds, in lists and alternatives. */
const BOUNDED = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    age: { type: "integer", minimum: 0, maximum: 120, description: "In years." },
    tags: { type: "array", items: { type: "string", minLength: 1 }, minItems: 2, maxItems: 5 },
    email: { type: "string", format: "email", pattern: "@" },
    either: { oneOf: [{ type: "null" }, { type: "object", properties: { k: { type: "number", multipleOf: 2 } } }] },
    one: { $ref: "#/$defs/one", description: "One." },
  },
  required: ["age", "tags"],
  $defs: { one: { type: "object", properties: { n: { type: "number", exclusiveMinimum: 0 } } } },
};
const MAP = { type: "object", additionalProperties: text };
const TREE = {
  ...CLOSED,
  properties: { a: { $ref: "#/$defs/node" } },
  $defs: { node: { anyOf: [text, { $ref: "#/$defs/node" }] } },
};
const MANY = {
  type: "object",
  properties: Object.fromEntries(Array.from({ length: 11 }, (_, index) => [`p${index}`, text])),
};

const QUESTION = "List colours.";
const ASKED = [{ role: "user", content: QUESTION }] as const;

/** A call of a client. Returns the names of the approximated fields. */
type Client = (url: string, model: string, more: JsonObject) => Promise<string | null>;

const openai = (url: string): OpenAI => new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });

const CLIENTS = {
  async chat(url, model, more) {
    const asked = { model, messages: [...ASKED], ...more } as OpenAI.ChatCompletionCreateParamsNonStreaming;
    const { response } = await openai(url).chat.completions.create(asked).withResponse();
    return response.headers.get("polygate-approximated");
  },
  async responses(url, model, more) {
    const asked = { model, input: QUESTION, ...more } as OpenAI.Responses.ResponseCreateParamsNonStreaming;
    const { response } = await openai(url).responses.create(asked).withResponse();
    return response.headers.get("polygate-approximated");
  },
  async messages(url, model, more) {
    const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
    const asked = {
      model,
      max_tokens: 2_000,
      messages: [...ASKED],
      ...more,
    } as Anthropic.MessageCreateParamsNonStreaming;
    const { response } = await client.messages.create(asked).withResponse();
    return response.headers.get("polygate-approximated");
  },
  async gemini(url, model, config) {
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
    const { sdkHttpResponse } = await client.models.generateContent({ model, contents: QUESTION, config });
    return sdkHttpResponse?.headers?.["polygate-approximated"] ?? null;
  },
} satisfies Readonly<Record<string, Client>>;

type Caller = keyof typeof CLIENTS;

/** Sends one request, and returns the upstream's body beside the approximated fields. */
async function through(maker: MakerName, model: string | undefined, caller: Caller, more: JsonObject) {
  const turn = TURNS[0] ?? { thought: "", calls: [] };
  await using relayed = await relayedMaker(maker, { script: () => turn, ...(model !== undefined && { model }) });
  await using gateway = await serveGateway(relayed.backend);
  const told = await CLIENTS[caller](gateway.url, maker, more).catch((error: unknown) => String(error));
  expect(relayed.upstream.violations).toEqual([]);
  const { body = {} } = relayed.upstream.requests[0] ?? {};
  return { told, body, sent: JSON.stringify(body) };
}

const chatFormat = (schema: JsonObject, strict?: boolean): JsonObject => ({
  response_format: { type: "json_schema", json_schema: { name: "o", schema, ...(strict !== undefined && { strict }) } },
});
const responsesFormat = (schema: JsonObject): JsonObject => ({
  text: { format: { type: "json_schema", name: "o", schema, strict: true } },
});
const geminiFormat = (schema?: JsonObject): JsonObject => ({
  responseMimeType: "application/json",
  ...(schema && { responseJsonSchema: schema }),
});
const JSON_MODE = { response_format: { type: "json_object" } };

const WORDS = "responseFormat";
const SCHEMA = "responseFormat.schema";

describe("the form of an answer, before Claude", () => {
  it.each<[MakerName, string | undefined]>([
    ["messages", undefined],
    ["messages-by-effort", undefined],
    ["messages", "claude-opus-4-1-20250805"],
    ["converse", undefined],
  ])("%s %s is a schema where one can hold the model, and else an instruction", async (maker, model) => {
    const cases: readonly (readonly [Caller, JsonObject, told: string | null, isHeld: boolean])[] = [
      ["chat", chatFormat(CLOSED), null, true],
      ["chat", chatFormat(BOUNDED), SCHEMA, true],
      ["responses", responsesFormat(BOUNDED), `responseFormat.strict, ${SCHEMA}`, true],
      ["gemini", geminiFormat(BOUNDED), SCHEMA, true],
      ["chat", chatFormat(MAP), WORDS, false],
      ["chat", chatFormat(TREE), WORDS, false],
      ["chat", chatFormat(MANY), WORDS, false],
      ["chat", chatFormat({}), WORDS, false],
      ["chat", JSON_MODE, WORDS, false],
      ["gemini", geminiFormat(), WORDS, false],
    ];
    for (const [caller, more, expected, isHeld] of cases) {
      const { told, body, sent } = await through(maker, model, caller, more);
      expect([caller, more, told]).toEqual([caller, more, expected]);
      expect(sent.includes("with nothing else")).toBe(!isHeld);
      expect("output_config" in body || "outputConfig" in body).toBe(isHeld);
    }
  });

  it.each([
    ["messages", "claude-3-5-haiku-latest"],
    ["messages", "claude-sonnet-4-20250514"],
    ["messages", "us.anthropic.claude-opus-4-7-v1"],
    ["converse", "anthropic.claude-3-5-sonnet-20241022-v2:0"],
  ] as const)("%s %s is an instruction", async (maker, model) => {
    const { told, sent } = await through(maker, model, "chat", chatFormat(CLOSED, true));
    expect([told, sent.includes("with nothing else")]).toEqual([WORDS, true]);
  });

  it("tells the model the words that it is not held to", async () => {
    const { body } = await through("messages", undefined, "chat", chatFormat(BOUNDED));
    expect(body["output_config"]).toEqual({
      format: {
        type: "json_schema",
        schema: {
          type: "object",
          properties: {
            age: { type: "integer", description: 'In years.\n\n{"minimum":0,"maximum":120}' },
            tags: {
              type: "array",
              items: { type: "string", description: '{"minLength":1}' },
              description: '{"minItems":2,"maxItems":5}',
            },
            email: { type: "string", format: "email", description: '{"pattern":"@"}' },
            either: {
              anyOf: [
                { type: "null" },
                {
                  type: "object",
                  properties: { k: { type: "number", description: '{"multipleOf":2}' } },
                  additionalProperties: false,
                },
              ],
            },
            one: { $ref: "#/$defs/one" },
          },
          required: ["age", "tags"],
          $defs: {
            one: {
              type: "object",
              properties: { n: { type: "number", description: '{"exclusiveMinimum":0}' } },
              additionalProperties: false,
            },
          },
          additionalProperties: false,
        },
      },
    });
  });

  it("is an instruction beside a prefill", async () => {
    const prefilled = { ...chatFormat(CLOSED), messages: [...ASKED, { role: "assistant", content: "{" }] };
    expect((await through("messages", undefined, "chat", prefilled)).told).toBe(WORDS);
  });
});

const chatTool = (parameters: JsonObject, strict = true): JsonObject => ({
  tools: [{ type: "function", function: { name: "w", parameters, strict } }],
});
const messagesTool = (input_schema: JsonObject): JsonObject => ({ tools: [{ name: "w", input_schema, strict: true }] });

describe("a strict tool", () => {
  it.each<[MakerName, string | undefined, Caller, JsonObject, isStrict: boolean]>([
    ["messages", undefined, "chat", chatTool(CLOSED), true],
    ["messages", undefined, "chat", chatTool(LOOSE), true],
    ["messages", undefined, "chat", chatTool(BOUNDED), false],
    ["messages", "claude-3-5-haiku-latest", "chat", chatTool(CLOSED), false],
    ["converse", undefined, "chat", chatTool(CLOSED), true],
    ["openai", undefined, "messages", messagesTool(CLOSED), true],
    ["openai", undefined, "messages", messagesTool(LOOSE), false],
    ["openai", undefined, "messages", messagesTool({ type: "object" }), false],
    [
      "openai",
      undefined,
      "messages",
      messagesTool({ ...CLOSED, properties: { a: { type: "array", items: LOOSE } } }),
      false,
    ],
    ["openai", undefined, "messages", messagesTool({ ...CLOSED, properties: { a: { anyOf: [LOOSE] } } }), false],
    ["openai", undefined, "messages", messagesTool({ ...CLOSED, properties: { a: { oneOf: [text] } } }), false],
    ["openai", undefined, "messages", messagesTool({ ...CLOSED, $defs: { d: LOOSE } }), false],
    ["responses", undefined, "messages", messagesTool(CLOSED), true],
    ["responses", undefined, "messages", messagesTool(LOOSE), false],
  ])("before %s %s, of %s: %j", async (maker, model, caller, more, isStrict) => {
    const { told, sent } = await through(maker, model, caller, more);
    expect(sent.includes('"strict":true')).toBe(isStrict);
    expect(told).toBe(isStrict ? null : "tools.function.strict");
  });
});

const UNION = {
  anyOf: [CLOSED, { $ref: "#/$defs/other" }],
  $defs: { other: { type: "object", properties: { a: { type: "number" }, b: text }, required: ["a", "b"] } },
};
const JOINED = {
  $defs: UNION.$defs,
  type: "object",
  properties: { a: { anyOf: [text, { type: "number" }] }, b: text },
  required: ["a"],
};

describe("the schema of arguments has an object at its root", () => {
  const SCHEMAS: readonly (readonly [given: JsonObject, sent: JsonObject, told: string | null])[] = [
    [{}, { type: "object" }, null],
    [{ properties: { a: text } }, { type: "object", properties: { a: text } }, null],
    [{ type: ["object", "null"] }, { type: "object" }, null],
    [{ $ref: "#/$defs/a", $defs: { a: CLOSED } }, { ...CLOSED, $defs: { a: CLOSED } }, null],
    [UNION, JOINED, "tools.function.schema"],
    [
      { type: "object", allOf: [CLOSED, { required: ["b"] }] },
      { type: "object", properties: { a: text }, required: ["a", "b"] },
      "tools.function.schema",
    ],
  ];

  it.each(["messages", "converse", "responses", "openai"] as const)("before %s", async (maker) => {
    for (const [given, wanted, expected] of SCHEMAS) {
      const caller = maker === "openai" ? "responses" : "chat";
      const more =
        maker === "openai"
          ? { tools: [{ type: "function", name: "w", parameters: given, strict: false }] }
          : chatTool(given, false);
      const { told, body } = await through(maker, undefined, caller, more);
      expect(told).toBe(expected);
      expect(schemaIn(body)).toEqual(wanted);
    }
  });
});

/** Returns the schema of the only tool of a body, in any format. */
function schemaIn(body: JsonObject): unknown {
  const { tools, toolConfig } = body as { tools?: WireTool[]; toolConfig?: { tools: WireTool[] } };
  const [tool = {}] = tools ?? toolConfig?.tools ?? [];
  return tool.input_schema ?? tool.parameters ?? tool.function?.parameters ?? tool.toolSpec?.inputSchema.json;
}

interface WireTool {
  readonly input_schema?: unknown;
  readonly parameters?: unknown;
  readonly function?: { readonly parameters: unknown };
  readonly toolSpec?: { readonly inputSchema: { readonly json: unknown } };
}

describe("Claude", () => {
  it.each(["messages", "converse"] as const)("before %s gets no stop sequence of white space", async (maker) => {
    const { sent } = await through(maker, undefined, "chat", { stop: ["\n\n", "END"] });
    expect(sent).toContain('["END"]');
    expect((await through(maker, undefined, "chat", { stop: "\n" })).sent).not.toContain("stop");
  });

  it.each(["claude-opus-4-6", "claude-sonnet-4-6", "claude-fable-5"])(
    "%s is asked to go on with a prefill",
    async (model) => {
      const messages = [...ASKED, { role: "assistant", content: "Red, " }];
      const { told, body } = await through("messages", model, "chat", { messages });
      expect(told).toBe("messages.prefill");
      expect((body["messages"] as JsonObject[]).map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
      expect((await through("messages", undefined, "chat", { messages })).body["messages"]).toHaveLength(2);
    },
  );
});

describe("any JSON, asked of OpenAI without the word", () => {
  it.each(["openai", "responses"] as const)("before %s brings an instruction", async (maker) => {
    const { told, sent } = await through(maker, undefined, "gemini", geminiFormat());
    expect([told, sent.match(/one JSON object/g)]).toEqual([WORDS, ["one JSON object"]]);
    expect((await through(maker, undefined, "gemini", geminiFormat(CLOSED))).sent).not.toContain("one JSON object");
  });

  it("brings one where only an instruction beside the input has the word", async () => {
    const instructed = { ...geminiFormat(), systemInstruction: "Answer in JSON." };
    expect((await through("responses", undefined, "gemini", instructed)).told).toBe(WORDS);
    expect((await through("openai", undefined, "gemini", instructed)).told).toBeNull();
  });
});

describe("the form of an answer beside tools, before Gemini", () => {
  const tools = chatTool(CLOSED, false);

  it.each<[model: string, more: JsonObject, told: string | null]>([
    ["gemini-2.5-flash", { ...tools, ...chatFormat(CLOSED) }, WORDS],
    ["gemini-2.5-flash", { ...tools, ...JSON_MODE }, WORDS],
    ["gemini-2.5-flash", chatFormat(CLOSED), null],
    ["gemini-3-pro-preview", { ...tools, ...chatFormat(CLOSED) }, null],
    ["gemini-3-pro-preview", { ...tools, ...chatFormat(CLOSED), tool_choice: "required" }, WORDS],
  ])("%s: %j", async (model, more, expected) => {
    const { told, sent } = await through("generate-content", model, "chat", more);
    expect([told, sent.includes("with nothing else"), sent.includes("responseMimeType")]).toEqual([
      expected,
      expected !== null,
      expected === null,
    ]);
  });
});
