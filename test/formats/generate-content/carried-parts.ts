/** Parts and schemas of a generate-content request, and what each of them is in the neutral model. */

import type { Part } from "../../../src/index.ts";
import { PNG, withData, withFile, withPart, withResponse, withSchema } from "./bodies.ts";
import { type Carried, text } from "./carried.ts";

const SIGNED = { thoughtSignature: "c2ln" };

/** Each in the last turn. */
export const PARTS: readonly Carried<Part>[] = [
  ["a text", withPart({ text: "x" }), text("x")],
  ["an empty text", withPart({ text: "" }), text("")],
  [
    "a text with its signature",
    withPart({ text: "x", ...SIGNED }, "model"),
    { type: "text", text: "x", signature: "c2ln", maker: "generate-content" },
  ],
  [
    "a signature alone",
    withPart(SIGNED, "model"),
    { type: "text", text: "", signature: "c2ln", maker: "generate-content" },
  ],
  [
    "a thought",
    withPart({ text: "Hm.", thought: true, ...SIGNED }, "model"),
    { type: "reasoning", text: "Hm.", signature: "c2ln", maker: "generate-content" },
  ],
  ...(["image/png", "audio/wav", "video/mp4"] as const).map((mediaType): Carried<Part> => [
    `inlineData of ${mediaType}`,
    withData(mediaType),
    {
      type: "media",
      kind: mediaType.split("/")[0] as "image" | "audio" | "video",
      source: { type: "base64", mediaType, data: PNG },
    },
  ]),
  [
    "inlineData in the alphabet for URLs, in which one official client writes it",
    withData("image/png", "-_-_AA=="),
    { type: "media", kind: "image", source: { type: "base64", mediaType: "image/png", data: "+/+/AA==" } },
  ],
  [
    "inlineData of a document",
    withData("application/pdf", "JVBERi0="),
    { type: "document", source: { type: "base64", mediaType: "application/pdf", data: "JVBERi0=" } },
  ],
  [
    "fileData",
    withFile("image/png", "https://example.com/a.png"),
    { type: "media", kind: "image", source: { type: "url", url: "https://example.com/a.png" } },
  ],
  [
    "a picture that is a thought",
    withPart({ inlineData: { mimeType: "image/png", data: PNG }, thought: true, ...SIGNED }, "model"),
    {
      type: "media",
      kind: "image",
      source: { type: "base64", mediaType: "image/png", data: PNG },
      thought: true,
      signature: "c2ln",
      maker: "generate-content",
    },
  ],
  [
    "a functionCall",
    withPart({ functionCall: { id: "c1", name: "clock", args: { zone: "UTC" } }, ...SIGNED }, "model"),
    {
      type: "tool-call",
      id: "c1",
      name: "clock",
      input: { zone: "UTC" },
      signature: "c2ln",
      maker: "generate-content",
    },
  ],
  [
    "a functionCall without id and args",
    withPart({ functionCall: { name: "clock" } }, "model"),
    { type: "tool-call", id: "call_1", name: "clock", input: {} },
  ],
  [
    "a functionResponse",
    withResponse({ name: "clock", response: { time: "noon" } }),
    { type: "tool-result", callId: "call_1", name: "clock", parts: [{ type: "json", value: { time: "noon" } }] },
  ],
  [
    "a functionResponse by its id",
    withResponse({ id: "c1", name: "clock", response: {} }, { id: "c1" }),
    { type: "tool-result", callId: "c1", name: "clock", parts: [{ type: "json", value: {} }] },
  ],
  [
    "executableCode",
    withPart({ executableCode: { language: "PYTHON", code: "1" }, ...SIGNED }, "model"),
    { type: "code", language: "python", code: "1", signature: "c2ln", maker: "generate-content" },
  ],
  [
    "executableCode of no language",
    withPart({ executableCode: { language: "LANGUAGE_UNSPECIFIED", code: "1" } }, "model"),
    { type: "code", language: "unspecified", code: "1" },
  ],
  ...(
    [
      ["OUTCOME_OK", "ok"],
      ["OUTCOME_FAILED", "failed"],
      ["OUTCOME_DEADLINE_EXCEEDED", "deadline-exceeded"],
      ["OUTCOME_UNSPECIFIED", "unspecified"],
    ] as const
  ).map(([wire, outcome]): Carried<Part> => [
    `a codeExecutionResult of ${wire}`,
    withPart({ codeExecutionResult: { outcome: wire, output: "1\n" } }, "model"),
    { type: "code-result", outcome, output: "1\n" },
  ]),
];

/** Schemas of the format, and the JSON Schema that says the same. */
export const SCHEMAS: readonly Carried<object>[] = (
  [
    ["a type in capitals", { type: "STRING" }, { type: "string" }],
    ["a type in small letters", { type: "integer" }, { type: "integer" }],
    ["no type in particular", { type: "TYPE_UNSPECIFIED", description: "x" }, { description: "x" }],
    ["what may be null", { type: "NUMBER", nullable: true }, { type: ["number", "null"] }],
    ["enum values", { type: "STRING", format: "enum", enum: ["a", "b"] }, { type: "string", enum: ["a", "b"] }],
    [
      "enum values that may be null",
      { type: "STRING", enum: ["a"], nullable: true },
      { type: ["string", "null"], enum: ["a", null] },
    ],
    [
      "an example",
      { type: "STRING", example: { first_name: "A" } },
      { type: "string", examples: [{ first_name: "A" }] },
    ],
    ["limits", { type: "ARRAY", minItems: 1, max_items: "3" }, { type: "array", minItems: 1, maxItems: 3 }],
    [
      "anyOf",
      { anyOf: [{ type: "STRING", min_length: 1 }, { type: "NULL" }] },
      { anyOf: [{ type: "string", minLength: 1 }, { type: "null" }] },
    ],
    [
      "properties, in the order that is asked for",
      {
        type: "OBJECT",
        properties: { b_c: { type: "STRING" }, a: { type: "ARRAY", items: { type: "BOOLEAN" } } },
        property_ordering: ["a", "b_c"],
        required: ["a"],
      },
      {
        type: "object",
        properties: { a: { type: "array", items: { type: "boolean" } }, b_c: { type: "string" } },
        required: ["a"],
      },
    ],
  ] as const
).map(([name, schema, expected]) => [name, withSchema(schema), expected]);
