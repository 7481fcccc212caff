/** The demo model as agents use it: forced tools end, commands stand in the caller's last words, schemas of any shape are met. */

import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject, JsonValue } from "../../src/index.ts";
import { type Playground, startPlayground } from "../clients/playground.ts";

let playground: Playground;
beforeAll(async () => {
  playground = await startPlayground();
});
afterAll(() => playground.stop());

async function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers = {
    "x-api-key": "sk-demo",
    "x-goog-api-key": "sk-demo",
    "compat-version": "2023-06-01",
    "content-type": "application/json",
  };
  const response = await fetch(`${playground.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = (await response.json()) as Answer;
  expect({ status: response.status, answer }).toMatchObject({ status: 200 });
  return answer;
}

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: JsonObject;
}

interface Message {
  readonly content: readonly Block[];
  readonly stop_reason: string;
}

const say = (messages: readonly object[], body: object = {}): Promise<Message> =>
  post("/v1/messages", { model: "demo-chat", max_tokens: 10_000, messages, ...body });

const textOf = ({ content }: Message): string => content.map(({ text = "" }) => text).join("");

interface Candidates {
  readonly candidates: readonly {
    readonly content: {
      readonly parts: readonly { text?: string; functionCall?: { name: string; args: JsonValue } }[];
    };
  }[];
}

const generate = (contents: readonly object[], body: object = {}): Promise<Candidates> =>
  post("/v1beta/models/demo-chat:generateContent", { contents, ...body });

const partsOf = ({ candidates: [first] }: Candidates) => first?.content.parts ?? [];

const toolNamed = (name: string) => ({ name, description: `Does ${name}.`, input_schema: { type: "object" } });
const tools = [toolNamed("weather"), toolNamed("flight")];

/** Calls tools for the model until it answers in words, as an agent does; how often it called each. */
/** Runs the loop of an agent for three rounds. Resolves with the names of the tools that were called. */
async function runAgent(tool_choice: object): Promise<string[]> {
  const messages: object[] = [{ role: "user", content: "Hello" }];
  const calls: string[] = [];
  for (let round = 0; round < 3; round++) {
    const { content } = await say(messages, { tools, tool_choice });
    const asked = content.filter(({ type }) => type === "tool_use");
    calls.push(...asked.map(({ name = "" }) => name));
    const results = asked.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "It is done." }));
    messages.push({ role: "assistant", content }, { role: "user", content: results });
  }
  return calls;
}

describe("a forced tool that was answered", () => {
  it("is called again", async () => {
    expect(await runAgent({ type: "tool", name: "flight" })).toEqual(["flight", "flight", "flight"]);
  });

  it("is the last of the tools where any is forced: clients end their loops with it", async () => {
    expect(await runAgent({ type: "any" })).toEqual(["weather", "flight", "flight"]);
  });

  it("is called again in mode ANY", async () => {
    const body = {
      tools: [{ functionDeclarations: [{ name: "weather", parameters: { type: "OBJECT", properties: {} } }] }],
      toolConfig: { functionCallingConfig: { mode: "ANY" } },
    };
    const question = { role: "user", parts: [{ text: "Hello" }] };
    const result = { role: "user", parts: [{ functionResponse: { name: "weather", response: { sky: "blue" } } }] };
    const called = { role: "model", parts: [{ functionCall: { name: "weather", args: {} } }] };
    for (const contents of [[question], [question, called, result]])
      expect(partsOf(await generate(contents, body))).toMatchObject([{ functionCall: { name: "weather" } }]);
  });

  it("is called where the result is another tool's", async () => {
    const call = { type: "tool_use", id: "call_1", name: "weather", input: {} };
    const result = { type: "tool_result", tool_use_id: "call_1", content: "Sunny." };
    const message = await say(
      [
        { role: "user", content: "Hello" },
        { role: "assistant", content: [call] },
        { role: "user", content: [result] },
      ],
      { tools, tool_choice: { type: "tool", name: "flight" } },
    );
    expect(message.content).toMatchObject([{ type: "tool_use", name: "flight" }]);
  });
});

const text = (value: string): object => ({ type: "text", text: value });
const reminder = (value: string): string => `<system-reminder>\n${value}\n</system-reminder>`;
const user = (...content: object[]): object[] => [{ role: "user", content }];

describe("commands", () => {
  it.each([
    ["after a reminder", [text(reminder("Mind the weather.")), text("/repeat 2")]],
    ["after any other text", [text("These files are open."), text("/repeat 2")]],
    ["before a reminder", [text("/repeat 2"), text(reminder("/repeat 3"))]],
    ["between reminders", [text(reminder("one")), text("/repeat 2"), text(reminder("two")), text(" \n")]],
    ["in one text with reminders", [text(`${reminder("/fail 503")}\n/repeat 2\n${reminder("two")}`)]],
  ])("are read %s", async (_where, content) => {
    expect(textOf(await say(user(...content)))).toBe("word word");
  });

  it.each([
    ["in a reminder", [text(reminder("/fail 503")), text("Hello")], "You said: Hello"],
    ["in a text before the last", [text("/fail 503"), text("Hello")], "You said: /fail 503\nHello"],
    ["in a turn of reminders alone", [text(reminder("/fail 503"))], "You said nothing."],
  ])("are not read %s", async (_where, content, answer) => {
    expect(textOf(await say(user(...content)))).toBe(answer);
  });

  it("leave what else was said to be told back", async () => {
    const content = [text("Files are open."), text("/delay 0 Hello"), text(reminder("one"))];
    expect(textOf(await say(user(...content)))).toBe("You said: Files are open.\nHello");
  });

  it("are words where a reminder is never closed", async () => {
    expect(textOf(await say(user(text("<system-reminder> /repeat 2"))))).toBe("You said: <system-reminder> /repeat 2");
  });

  it("are at most a hundred", async () => {
    expect(textOf(await say(user(text(`${"/delay 0 ".repeat(99)}/repeat 2`))))).toBe("word word");
    const refused = fetch(`${playground.url}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": "sk-demo", "compat-version": "2023-06-01", "content-type": "application/json" },
      body: JSON.stringify({
        model: "demo-chat",
        max_tokens: 10,
        messages: user(text("/delay 0 ".repeat(101))),
      }),
    });
    expect((await refused).status).toBe(400);
  });
});

/** The tools that a message is answered by. */
const namesIn = async (...content: object[]): Promise<(string | undefined)[]> => {
  const { content: blocks } = await say(user(...content), { tools });
  return blocks.filter(({ type }) => type === "tool_use").map(({ name }) => name);
};

describe("tools are looked for in the caller's last words", () => {
  it("not in reminders, nor in texts before", async () => {
    expect(await namesIn(text(reminder("Use the weather tool.")), text("Hello"))).toEqual([]);
    expect(await namesIn(text("The weather is fine."), text("Hello"))).toEqual([]);
    expect(await namesIn(text("Hello"), text(reminder("Every tool is there.")))).toEqual([]);
  });

  it("though a reminder follows", async () => {
    expect(await namesIn(text(reminder("one")), text("A flight, please"), text(reminder("weather")))).toEqual([
      "flight",
    ]);
  });
});

/** The arguments of a forced call with a schema. */
async function argumentsFor(input_schema: JsonObject): Promise<JsonObject> {
  const body = { tools: [{ name: "it", input_schema }], tool_choice: { type: "tool", name: "it" } };
  const [call] = (await say([{ role: "user", content: "Hello" }], body)).content;
  expect(call?.type).toBe("tool_use");
  const input = call?.input ?? {};
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  expect(ajv.validate(input_schema, input), `${JSON.stringify(input)}: ${ajv.errorsText()}`).toBe(true);
  return input;
}

const withProperty = (schema: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: "object",
  properties: { it: schema },
  required: ["it"],
  ...more,
});

describe("a list has an item", () => {
  it.each<[what: string, schema: JsonObject]>([
    ["of texts", { type: "array", items: { type: "string" } }],
    ["of one of some values", { type: "array", items: { enum: ["a", "b"] } }],
    ["that may be empty", { type: "array", items: { type: "integer" }, minItems: 0, maxItems: 3 }],
    ["or null", { type: ["array"], items: { type: "boolean" } }],
    ["of objects", { type: "array", items: withProperty({ type: "array", items: { type: "number" } }) }],
    ["behind a reference", { $ref: "#/$defs/list" }],
    ["of things without a schema", { type: "array" }],
    ["of pairs", { type: "array", prefixItems: [{ type: "string" }, { type: "integer" }] }],
    ["in a choice", { anyOf: [{ type: "array", items: { type: "string" } }] }],
  ])("%s", async (_what, schema) => {
    const $defs = { list: { type: "array", items: { type: "string" } } };
    const { it: list } = await argumentsFor(withProperty(schema, { $defs }));
    expect(Array.isArray(list) && list.length).toBeGreaterThan(0);
  });

  it.each<[what: string, schema: JsonObject]>([
    ["its maxItems is 0", { type: "array", items: { type: "string" }, maxItems: 0 }],
    ["another part says so", { allOf: [{ type: "array", items: { type: "string" } }, { maxItems: 0 }] }],
    ["nothing can be in it", { type: "array", items: false }],
  ])("unless %s", async (_what, schema) => {
    expect(await argumentsFor(withProperty(schema))).toEqual({ it: [] });
  });

  it("in an answer of a response schema", async () => {
    const generationConfig = {
      responseMimeType: "application/json",
      responseSchema: { type: "ARRAY", items: { type: "STRING" } },
    };
    const [part] = partsOf(await generate([{ role: "user", parts: [{ text: "Hello" }] }], { generationConfig }));
    expect(JSON.parse(part?.text ?? "")).toContainEqual(expect.any(String));
  });
});

const node = (children: JsonObject, required: string[] = ["value", "next"]): JsonObject => ({
  type: "object",
  properties: { value: { type: "integer" }, next: children },
  required,
  additionalProperties: false,
});

/** Kinds of expression that refer to one another, each in three ways. */
const KINDS = Array.from({ length: 12 }, (_, index) => `kind${index}`);
const expressions = Object.fromEntries(
  KINDS.map((kind, index): [string, JsonObject] => [
    kind,
    {
      anyOf: [
        { type: "integer" },
        withProperty({ $ref: `#/$defs/${KINDS[(index + 1) % KINDS.length]}` }),
        withProperty({ type: "array", minItems: 2, items: { $ref: `#/$defs/${KINDS[(index + 7) % KINDS.length]}` } }),
      ],
    },
  ]),
);

describe("a schema that refers to itself ends in something valid:", () => {
  it.each<[what: string, schema: JsonObject]>([
    ["an optional property", node({ $ref: "#" }, ["value"])],
    ["a property that may be null", node({ anyOf: [{ $ref: "#" }, { type: "null" }] })],
    ["one of several kinds", node({ oneOf: [{ $ref: "#" }, { const: "end" }] })],
    ["a list", node({ type: "array", items: { $ref: "#" } })],
    [
      "a tree by its definition",
      { $ref: "#/$defs/tree", $defs: { tree: node({ type: "array", items: { $ref: "#/$defs/tree" } }) } },
    ],
    [
      "two that refer to each other",
      withProperty(
        { $ref: "#/$defs/a" },
        { $defs: { a: node({ $ref: "#/$defs/b" }), b: node({ anyOf: [{ $ref: "#/$defs/a" }, { type: "null" }] }) } },
      ),
    ],
    ["a reference with more beside it", node({ $ref: "#/$defs/self", description: "The next one." }, ["value"])],
    ["many kinds of many kinds", withProperty({ $ref: "#/$defs/kind0" }, { $defs: expressions })],
    [
      "a map of itself",
      { type: "object", properties: { value: { type: "string" } }, additionalProperties: { $ref: "#" } },
    ],
  ])("%s", async (_what, schema) => {
    const $defs = { self: node({ $ref: "#/$defs/self" }, ["value"]), ...(schema["$defs"] as JsonObject | undefined) };
    expect(JSON.stringify(await argumentsFor({ ...schema, type: "object", $defs })).length).toBeLessThan(20_000);
  });

  it("what is beyond a reference is made whole where it comes back to nothing", async () => {
    const $defs = {
      a: node({ $ref: "#/$defs/b" }),
      b: node({ $ref: "#/$defs/c" }),
      c: node({ type: "array", items: { type: "string" } }),
    };
    const made = await argumentsFor({ ...node({ $ref: "#/$defs/a" }), $defs });
    expect(made).toMatchObject({
      next: { next: { next: { next: expect.arrayContaining([expect.any(String)]) as unknown } } },
    });
  });
});

it.each<[what: string, schema: JsonObject]>([
  ["a constant", { const: { a: [1, null] } }],
  ["types in a list", { type: ["string", "null"], minLength: 3 }],
  ["a length and a pattern", { type: "string", pattern: "^[a-z]{5,9}-[0-9]+$" }],
  ["a length", { type: "string", minLength: 50, maxLength: 60 }],
  [
    "one of several",
    {
      anyOf: [
        { type: "integer", minimum: 5 },
        { type: "string", minLength: 5 },
      ],
    },
  ],
  ["all of several", { allOf: [withProperty({ type: "integer" }), { required: ["it"] }] }],
  ["one of 40,000 values", { enum: Array.from({ length: 40_000 }, (_, index) => `value ${index}`) }],
])("arguments satisfy %s", async (_what, schema) => {
  expect(Object.keys(await argumentsFor(withProperty(schema)))).toEqual(["it"]);
});
