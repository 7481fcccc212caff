/** Validates every case table with the schemas of request bodies: accepted bodies are valid, refused bodies mostly are not. */

import { describe, expect, it } from "vitest";
import { readFormText } from "../../src/formats/images/schema.ts";
import { createGateway, memoryQuotaStore, memoryResponseStore } from "../../src/index.ts";
import type { OpenApiDocument } from "../../src/openapi/index.ts";
import { ACCEPTED as ACCEPTED_COMPLETIONS } from "../cases/chat-completions/accepted.ts";
import { REFUSED as REFUSED_COMPLETIONS } from "../cases/chat-completions/refused.ts";
import * as contentAccepted from "../cases/generate-content/accepted.ts";
import * as contentRefused from "../cases/generate-content/refused.ts";
import { ACCEPTED_EDITS, ACCEPTED_VARIATIONS } from "../cases/images/forms.accepted.ts";
import { REFUSED_EDITS, REFUSED_VARIATIONS } from "../cases/images/forms.refused.ts";
import { ACCEPTED as ACCEPTED_GENERATIONS } from "../cases/images/generations.accepted.ts";
import { REFUSED as REFUSED_GENERATIONS } from "../cases/images/generations.refused.ts";
import type { FormFields } from "../cases/images/requests.ts";
import * as messagesAccepted from "../cases/messages/accepted.ts";
import * as messagesRefused from "../cases/messages/refused.ts";
import { bodySchema, documentOf, type Judge, judges } from "./reader.ts";

type Case = readonly [name: string, body: unknown, ...unknown[]];

/** A document, with the function that validates by its schemas. */
const readerOf = (document: OpenApiDocument) => ({ document, judgeOf: judges(document) });
const spec = readerOf(documentOf());
const vendor = readerOf(documentOf({ messages: { ranges: "vendor", imageSources: "vendor" } }));

const judgeOf = (operationId: string, { document, judgeOf } = spec): Judge =>
  judgeOf(bodySchema(document, operationId));

/** Writes a form as its schema describes it: texts become their values, files become their contents. A null is a missing field. */
const formOf = (fields: FormFields, repeated: readonly string[] = []): object =>
  Object.fromEntries(
    Object.entries(fields)
      .filter(([, value]) => value !== undefined)
      .flatMap(([name, value]) => {
        const values = [value ?? ""]
          .flat()
          .map((each) => (typeof each === "string" ? readFormText(name, each) : "bytes"));
        if (values[0] === null) return [];
        return [[name, values.length === 1 && !repeated.includes(name) ? values[0] : values]];
      }),
  );
const formed = (
  cases: readonly (readonly [name: string, fields: FormFields, ...unknown[]])[],
  repeated?: readonly string[],
): Case[] => cases.map(([name, fields]) => [name, formOf(fields, repeated)]);
/** The fields of a form for edits that may be repeated. */
const REPEATED = ["image", "image[]"];

const asked = (input: unknown, more: object = {}): object => ({ model: "m", input, ...more });
const CALL = { type: "function_call", call_id: "call_1", name: "look", arguments: "{}" };
const SCHEMA = { type: "object" };
const LOOK = { type: "function", name: "look" };

const ACCEPTED_RESPONSES: readonly Case[] = [
  ["a text", asked("Hi")],
  ["a message without a type", asked([{ role: "user", content: "Hi" }])],
  ["a message of parts", asked([{ type: "message", role: "user", content: [{ type: "input_text", text: "Hi" }] }])],
  ["a picture", asked([{ role: "user", content: [{ type: "input_image", image_url: "https://example.com/a.png" }] }])],
  ["a file", asked([{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }])],
  ["a call and its output", asked([CALL, { type: "function_call_output", call_id: "call_1", output: "42" }])],
  [
    "reasoning",
    asked([
      { type: "reasoning", summary: [], encrypted_content: "abc" },
      { role: "user", content: "Go" },
    ]),
  ],
  ["a reference", asked([{ type: "item_reference", id: "msg_1" }])],
  ["a call that the provider ran", asked([{ type: "web_search_call", id: "ws_1", action: { type: "search" } }])],
  ["tools", asked("Hi", { tools: [{ type: "function", name: "look", parameters: SCHEMA }, { type: "web_search" }] })],
  ["a custom tool", asked("Hi", { tools: [{ type: "custom", name: "edit", format: { type: "text" } }] })],
  ["a choice of tools", asked("Hi", { tools: [LOOK], tool_choice: { type: "function", name: "look" } })],
  ["a shape", asked("Hi", { text: { format: { type: "json_schema", name: "shape", schema: SCHEMA } } })],
  ["reasoning that is asked for", asked("Hi", { reasoning: { effort: "low", summary: "auto" } })],
  ["an earlier response", asked("Hi", { previous_response_id: "resp_1", store: true })],
  ["a conversation", asked("Hi", { conversation: { id: "conv_1" }, background: true })],
  ["a field that nobody knows", asked("Hi", { later: true })],
];
const REFUSED_RESPONSES: readonly Case[] = [
  ["no model", { input: "Hi" }],
  ["no input", { model: "m" }],
  ["no items", asked([])],
  ["an input of a number", asked(1)],
  ["a message of nobody", asked([{ content: "Hi" }])],
  ["a message of a tool", asked([{ role: "tool", content: "Hi" }])],
  ["an item of no known type", asked([{ type: "wish" }])],
  ["a part of no known type", asked([{ role: "user", content: [{ type: "input_smell" }] }])],
  ["a picture of nothing", asked([{ role: "user", content: [{ type: "input_image" }] }])],
  ["an output of no call", asked([{ type: "function_call_output", call_id: "call_1", output: "42" }])],
  ["a function without a name", asked("Hi", { tools: [{ type: "function" }] })],
  ["two tools of one name", asked("Hi", { tools: ["function", "custom"].map((type) => ({ type, name: "look" })) })],
  ["a tool without a type", asked("Hi", { tools: [{ name: "look" }] })],
  ["a choice without a mode", asked("Hi", { tool_choice: { type: "allowed_tools", tools: [{ type: "web_search" }] } })],
  ["a shape without a schema", asked("Hi", { text: { format: { type: "json_schema", name: "shape" } } })],
  ["a temperature of 3", asked("Hi", { temperature: 3 })],
  ["no output tokens", asked("Hi", { max_output_tokens: 0 })],
  ["an effort that nobody knows", asked("Hi", { reasoning: { effort: "heroic" } })],
];

const refusedOf = (operationId: string, cases: readonly Case[], reader = spec): string[] => {
  const judge = judgeOf(operationId, reader);
  return cases.flatMap(([name, body]) => {
    const wrong = judge(body);
    return wrong === undefined ? [] : [`${name}: ${wrong}`];
  });
};

describe("what the gateway accepts", () => {
  it.each<[operationId: string, cases: readonly Case[]]>([
    ["createMessage", messagesAccepted.ACCEPTED],
    ["countMessageTokens", messagesAccepted.ACCEPTED],
    ["generateContent", contentAccepted.ACCEPTED],
    ["streamGenerateContent", contentAccepted.ACCEPTED],
    ["countTokens", contentAccepted.ACCEPTED.map(([name, body]) => [name, { generateContentRequest: body }] as const)],
    ["createChatCompletion", ACCEPTED_COMPLETIONS],
    ["createResponse", ACCEPTED_RESPONSES],
    ["countResponseTokens", ACCEPTED_RESPONSES],
    ["createImage", ACCEPTED_GENERATIONS],
    ["editImage", formed(ACCEPTED_EDITS, REPEATED)],
    ["varyImage", formed(ACCEPTED_VARIATIONS)],
  ])("is valid: %s", (operationId, cases) => {
    expect(refusedOf(operationId, cases)).toEqual([]);
    expect(cases.length).toBeGreaterThan(10);
  });

  it("is valid in the wider ranges and sources of a host, and in no other's", () => {
    const cases = [...messagesAccepted.ACCEPTED_IN_VENDOR_RANGES, ...messagesAccepted.ACCEPTED_VENDOR_SOURCES];
    expect(refusedOf("createMessage", cases, vendor)).toEqual([]);
    expect(passing("createMessage", cases)).toEqual(["an image by base64"]);
  });

  it("is valid without max_tokens where tokens are counted alone", () => {
    const body = { model: "m", messages: [{ role: "user", content: "Hi" }] };
    expect(judgeOf("countMessageTokens")(body)).toBeUndefined();
    expect(judgeOf("countMessageTokens")({ ...body, max_tokens: null })).toBeUndefined();
    expect(judgeOf("countMessageTokens")({ ...body, messages: [{ role: "user" }] })).toBeDefined();
    expect(judgeOf("createMessage")(body)).toBeDefined();
  });
});

/** Returns the names of the cases that a schema accepts. */
const passing = (operationId: string, cases: readonly Case[]): string[] => {
  const judge = judgeOf(operationId);
  return cases.filter(([, body]) => judge(body) === undefined).map(([name]) => name);
};

describe("what the gateway refuses", () => {
  it("is refused in messages, but for the rules over several fields", () => {
    expect(passing("createMessage", messagesRefused.REFUSED)).toEqual([
      "a tool_use of the user",
      "a tool_result that answers nothing",
      "a tool_result before its tool_use",
      "a tool_result of the assistant",
      "thinking of the user",
      "a budget equal to max_tokens",
      "a budget above max_tokens",
      "two tools of one name",
      "tool_choice of a tool that is not there",
      "tool_choice any without tools",
      "tool_choice tool without tools",
    ]);
  });

  it("is refused in chat completions, but for what is inside of texts and the rules over several fields", () => {
    expect(passing("createChatCompletion", REFUSED_COMPLETIONS)).toEqual([
      "a picture of bad base64",
      "a picture of data that is no base64",
      "a file of nothing",
      "a file of both",
      "a file of bad base64",
      "a result of no call",
      "a result before its call",
      "top_logprobs without logprobs",
      "two tools of one name",
      "a choice of no tools",
      "a choice of a tool that is not there",
      "an allowed tool that is not there",
    ]);
  });

  it("is refused in responses, but for the rules over several fields", () => {
    expect(passing("createResponse", REFUSED_RESPONSES)).toEqual([
      "no input",
      "no items",
      "a picture of nothing",
      "an output of no call",
      "two tools of one name",
    ]);
  });

  it("is refused of responses by the gateway itself, too, and nothing else", async () => {
    const gateway = createGateway({
      backend: { chat: async function* () {} },
      quotas: memoryQuotaStore([{ apiKey: "sk-1" }]),
      responseStore: memoryResponseStore(),
      onFailure: () => {},
    });
    const headers = { authorization: "Bearer sk-1", "content-type": "application/json" };
    const refused = async ([name, body]: Case): Promise<string[]> => {
      const sent = { method: "POST", headers, body: JSON.stringify(body) };
      const { status } = await gateway.fetch(new Request("http://localhost/v1/responses", sent));
      return status === 400 ? [name] : [];
    };
    const found = await Promise.all([...ACCEPTED_RESPONSES, ...REFUSED_RESPONSES].map(refused));
    expect(found.flat()).toEqual(REFUSED_RESPONSES.map(([name]) => name));
  });

  it("is refused of images, but for what is about the files themselves", () => {
    expect(passing("createImage", REFUSED_GENERATIONS)).toEqual([]);
    // A file of a form is a text in JSON Schema.
    expect(passing("editImage", formed(REFUSED_EDITS, REPEATED))).toEqual([
      "a text for an image",
      "a text for an image of an array",
      "a file in a field that nobody knows",
      "a file for a prompt",
      "1001 characters for image-model-2",
      "a text for a mask",
    ]);
    expect(passing("varyImage", formed(REFUSED_VARIATIONS))).toEqual([
      "a text for an image",
      "a file in a field that nobody knows",
    ]);
  });

  it("is refused of generate-content in three of four cases", () => {
    const { REFUSED } = contentRefused;
    expect(REFUSED.length - passing("generateContent", REFUSED).length).toBeGreaterThan(REFUSED.length * 0.7);
  });
});
