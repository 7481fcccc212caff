/** Validates every case table with the schemas of request bodies: accepted bodies are valid, refused bodies mostly are not. */

import { describe, expect, it } from "vitest";
import { readFormText } from "../../src/formats/images/schema.ts";
import type { OpenApiDocument } from "../../src/openapi/index.ts";
import { ACCEPTED as ACCEPTED_COMPLETIONS } from "../formats/chat-completions/accepted.ts";
import { REFUSED as REFUSED_COMPLETIONS } from "../formats/chat-completions/refused.ts";
import * as contentAccepted from "../formats/generate-content/accepted.ts";
import * as contentRefused from "../formats/generate-content/refused.ts";
import { ACCEPTED_EDITS, ACCEPTED_VARIATIONS } from "../formats/images/forms.accepted.ts";
import { REFUSED_EDITS, REFUSED_VARIATIONS } from "../formats/images/forms.refused.ts";
import { ACCEPTED as ACCEPTED_GENERATIONS } from "../formats/images/generations.accepted.ts";
import { REFUSED as REFUSED_GENERATIONS } from "../formats/images/generations.refused.ts";
import type { FormFields } from "../formats/images/requests.ts";
import * as messagesAccepted from "../formats/messages/accepted.ts";
import * as messagesRefused from "../formats/messages/refused.ts";
import { ACCEPTED as ACCEPTED_RESPONSES } from "../formats/responses/accepted.ts";
import { REFUSED as REFUSED_RESPONSES } from "../formats/responses/refused.ts";
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
    // A schema cannot compare the budget with the limit.
    expect(passing("createMessage", cases)).toEqual(["a budget of max_tokens", "an image by base64"]);
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
      "a message of no blocks",
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
      "a file of another kind of address",
      "a file of bad base64",
      "a result of no call",
      "a result before its call",
      "top_logprobs without logprobs",
      "two tools of one name",
      "a choice of no tools",
      "a choice of a tool that is not there",
      "an allowed tool that is not there",
      "functions beside tools",
      "two functions of one name",
      "a choice of no functions",
      "a choice of a function that is not there",
    ]);
  });

  it("is refused in responses, but for what is inside of texts and the rules over several fields", () => {
    expect(passing("createResponse", REFUSED_RESPONSES)).toEqual([
      "no input",
      "input without items",
      "a picture without an address",
      "a picture with two sources",
      "a picture of bad base64",
      "a file without a source",
      "a file with two sources",
      "a file of bad base64",
      "a result without its call",
      "a custom result without its call",
      "a tool outside with the name of one in a namespace",
      "two tools of one name",
      "a choice of no tool",
      "a choice of a missing tool",
      "a choice without a name",
      "a choice among missing tools",
      "a conversation beside an earlier response",
      "a background response that is not kept",
    ]);
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
