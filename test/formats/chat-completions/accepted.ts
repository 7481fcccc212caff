/** Chat-completions requests that are answered, each with what the backend is asked. */

import { ONE_TEXT } from "../../../src/formats/shared/tools.ts";
import type { ChatRequest } from "../../../src/index.ts";
import { having } from "./stage.ts";

export type Accepted = readonly [
  name: string,
  body: object,
  asked: Partial<Record<keyof ChatRequest, unknown>>,
  /** The fields that it is told to have for this format alone. */
  unsupported: readonly string[],
];

const PNG = "iVBORw0KGgo=";

const turn = (role: string, ...parts: readonly object[]): object => ({ role, parts });
const text = (value: string): object => ({ type: "text", text: value });
const said = (name: string, messages: readonly object[], expected: readonly object[]): Accepted => [
  name,
  having({ messages }),
  { messages: expected },
  [],
];
const user = (name: string, content: unknown, ...parts: readonly object[]): Accepted =>
  said(name, [{ role: "user", content }], [turn("user", ...parts)]);

const telling = (unsupported: readonly string[], [name, body, asked]: Accepted): Accepted => [
  name,
  body,
  asked,
  unsupported,
];

const messages: readonly Accepted[] = [
  user("a text", "Hi", text("Hi")),
  user("an empty text", ""),
  user("a text in parts", [{ type: "text", text: "Hi" }], text("Hi")),
  user(
    "a picture by its address",
    [{ type: "image_url", image_url: { url: "https://example.com/a.png", detail: "low" } }],
    { type: "media", kind: "image", source: { type: "url", url: "https://example.com/a.png" }, detail: "low" },
  ),
  user("a picture as data", [{ type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }], {
    type: "media",
    kind: "image",
    source: { type: "base64", mediaType: "image/png", data: PNG },
  }),
  telling(
    ["messages.content.image_url.detail"],
    user(
      "a picture as data with a parameter",
      [{ type: "image_url", image_url: { url: `data:image/png;charset=x;base64,${PNG}`, detail: "original" } }],
      { type: "media", kind: "image", source: { type: "base64", mediaType: "image/png", data: PNG }, detail: "high" },
    ),
  ),
  user("a sound", [{ type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } }], {
    type: "media",
    kind: "audio",
    source: { type: "base64", mediaType: "audio/mp3", data: "AAAA" },
  }),
  user("a file as data", [{ type: "file", file: { file_data: "data:text/csv;base64,AAAA", filename: "a.csv" } }], {
    type: "document",
    source: { type: "base64", mediaType: "text/csv", data: "AAAA" },
    title: "a.csv",
  }),
  user("a file as bare base64", [{ type: "file", file: { file_data: "AAAA", filename: "a.pdf" } }], {
    type: "document",
    source: { type: "base64", mediaType: "application/pdf", data: "AAAA" },
    title: "a.pdf",
  }),
  user("a file by its address, as OpenRouter takes it", [{ type: "file", file: { file_data: "https://a.b/c.pdf" } }], {
    type: "document",
    source: { type: "url", url: "https://a.b/c.pdf" },
  }),
  user("a file by its id", [{ type: "file", file: { file_id: "file-1" } }], {
    type: "document",
    source: { type: "file", id: "file-1" },
  }),
  said(
    "messages of one side as one turn",
    [
      { role: "user", content: "One" },
      { role: "user", content: "Two" },
      { role: "assistant", content: "Three" },
    ],
    [turn("user", text("One"), text("Two")), turn("assistant", text("Three"))],
  ),
  said(
    "participants by their names",
    [
      { role: "user", content: "One", name: "ada" },
      { role: "user", content: "Two", name: "bob" },
    ],
    [
      { role: "user", name: "ada", parts: [text("One")] },
      { role: "user", name: "bob", parts: [text("Two")] },
    ],
  ),
  said(
    "an answer with everything that it can hold",
    [
      { role: "user", content: "Hi" },
      {
        role: "assistant",
        reasoning_content: "Hm.",
        content: [
          { type: "text", text: "Yes" },
          { type: "refusal", refusal: "No" },
        ],
        refusal: "Never",
        tool_calls: [
          { type: "function", id: "a", function: { name: "clock", arguments: '{"zone":"Oslo"}' } },
          { type: "function", id: "b", function: { name: "clock", arguments: "" } },
          { type: "custom", id: "c", custom: { name: "sql", input: "select" } },
        ],
      },
      { role: "tool", tool_call_id: "a", content: "noon" },
      { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "late" }] },
      { role: "user", content: "And?" },
    ],
    [
      turn("user", text("Hi")),
      turn(
        "assistant",
        { type: "reasoning", text: "Hm.", maker: "chat-completions" },
        text("Yes"),
        { type: "refusal", text: "No" },
        { type: "refusal", text: "Never" },
        { type: "tool-call", id: "a", name: "clock", input: { zone: "Oslo" } },
        { type: "tool-call", id: "b", name: "clock", input: {} },
        { type: "tool-call", id: "c", name: "sql", input: { input: "select" } },
      ),
      turn(
        "user",
        { type: "tool-result", callId: "a", parts: [text("noon")] },
        { type: "tool-result", callId: "b", parts: [text("late")] },
        text("And?"),
      ),
    ],
  ),
  said(
    "calls whose arguments the model wrote wrongly, with the error that they met",
    [
      {
        role: "assistant",
        tool_calls: ['{"zone":"Os', "[1]"].map((json, index) => ({
          type: "function",
          id: `call ${index}`,
          function: { name: "clock", arguments: json },
        })),
      },
      { role: "tool", tool_call_id: "call 0", content: "Invalid JSON" },
      { role: "tool", tool_call_id: "call 1", content: "No object" },
    ],
    [
      turn(
        "assistant",
        { type: "tool-call", id: "call 0", name: "clock", input: { invalid_arguments: '{"zone":"Os' } },
        { type: "tool-call", id: "call 1", name: "clock", input: { invalid_arguments: "[1]" } },
      ),
      turn(
        "user",
        { type: "tool-result", callId: "call 0", parts: [text("Invalid JSON")] },
        { type: "tool-result", callId: "call 1", parts: [text("No object")] },
      ),
    ],
  ),
  said(
    "an answer of null",
    [
      { role: "user", content: "Hi" },
      { role: "assistant", content: null, refusal: null, tool_calls: null },
    ],
    [turn("user", text("Hi")), turn("assistant")],
  ),
  [
    "instructions before the conversation, and within it",
    having({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "developer", content: [{ type: "text", text: "Be kind." }] },
        { role: "user", content: "Hi" },
        { role: "system", content: "Now be loud." },
      ],
    }),
    {
      system: [text("Be brief."), text("Be kind.")],
      messages: [turn("user", text("Hi")), turn("system", text("Now be loud."))],
    },
    [],
  ],
];

const field = (name: string, changes: object, asked: Accepted[2]): Accepted => [name, having(changes), asked, []];

const CLOCK = { type: "function", function: { name: "clock", parameters: { type: "object" } } } as const;
const OTHER = { type: "function", function: { name: "other", description: "Another", strict: true } } as const;
const format = { type: "grammar", grammar: { syntax: "regex", definition: "a+" } };
const SQL = { type: "custom", custom: { name: "sql", description: "Runs SQL", format } } as const;

const fields: readonly Accepted[] = [
  field("max_completion_tokens", { max_completion_tokens: 7 }, { maxOutputTokens: 7, limitedByDefault: undefined }),
  field("max_tokens", { max_tokens: 8 }, { maxOutputTokens: 8, limitedByDefault: undefined }),
  field("both of them", { max_tokens: 8, max_completion_tokens: 7 }, { maxOutputTokens: 7 }),
  field("neither of them", {}, { maxOutputTokens: 8_192, limitedByDefault: true }),
  field("temperature 0", { temperature: 0 }, { temperature: 0 }),
  field("temperature 2", { temperature: 2 }, { temperature: 2 }),
  field("top_p 0", { top_p: 0 }, { topP: 0 }),
  field("top_p 1", { top_p: 1 }, { topP: 1 }),
  field("penalties", { presence_penalty: -2, frequency_penalty: 2 }, { presencePenalty: -2, frequencyPenalty: 2 }),
  field("a seed", { seed: -5 }, { seed: -5 }),
  field("a seed of 64 bits", { seed: 2 ** 63 }, { seed: 2 ** 63 }),
  field("n", { n: 2 }, { candidateCount: 2 }),
  field("one stop", { stop: "END" }, { stopSequences: ["END"] }),
  field("four stops, of which one is empty", { stop: ["a", "b", "", "c"] }, { stopSequences: ["a", "b", "c"] }),
  field("logprobs", { logprobs: true }, { logprobs: { top: 0 } }),
  field("top_logprobs", { logprobs: true, top_logprobs: 20 }, { logprobs: { top: 20 } }),
  field("no logprobs", { logprobs: false }, { logprobs: undefined }),
  field("text", { response_format: { type: "text" } }, { responseFormat: undefined }),
  field("JSON", { response_format: { type: "json_object" } }, { responseFormat: { type: "json" } }),
  field(
    "JSON of a schema without a name",
    { response_format: { type: "json_object", schema: { type: "object" } } },
    { responseFormat: { type: "json", schema: { type: "object" } } },
  ),
  field(
    "JSON of a schema",
    { response_format: { type: "json_schema", json_schema: { name: "it", strict: true, schema: { type: "object" } } } },
    { responseFormat: { type: "json", name: "it", strict: true, schema: { type: "object" } } },
  ),
  field("no reasoning", { reasoning_effort: "none" }, { reasoning: { type: "disabled" } }),
  field("some reasoning", { reasoning_effort: "low" }, { reasoning: { type: "adaptive", effort: "low" } }),
  field("much reasoning", { reasoning_effort: "xhigh" }, { reasoning: { type: "adaptive", effort: "xhigh" } }),
  telling(
    ["audio.format"],
    field(
      "sound",
      { modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } },
      { modalities: ["text", "audio"], speech: { voice: "alloy" } },
    ),
  ),
  field("a service tier", { service_tier: "flex" }, { serviceTier: "flex" }),
  field("a user", { user: "u" }, { endUser: "u" }),
  telling(["user"], field("a safety identifier", { user: "u", safety_identifier: "s" }, { endUser: "s" })),
  field(
    "tools",
    // Mistral's clients leave the type out.
    { tools: [{ ...CLOCK, type: undefined }, OTHER, SQL] },
    {
      tools: [
        { type: "function", name: "clock", inputSchema: { type: "object" } },
        {
          type: "function",
          name: "other",
          description: "Another",
          inputSchema: { type: "object", properties: {} },
          strict: true,
        },
        {
          type: "function",
          name: "sql",
          description: "Runs SQL",
          inputSchema: ONE_TEXT,
          custom: { format: { type: "grammar", syntax: "regex", definition: "a+" } },
        },
      ],
    },
  ),
  ...(
    [
      ["auto", { type: "auto", parallel: true }],
      ["required", { type: "required", parallel: true }],
      ["none", { type: "none" }],
      [
        { type: "function", function: { name: "clock" } },
        { type: "tool", name: "clock", parallel: true },
      ],
      [
        { type: "custom", custom: { name: "sql" } },
        { type: "tool", name: "sql", parallel: true },
      ],
      [
        {
          type: "allowed_tools",
          allowed_tools: { mode: "required", tools: [{ type: "function", function: { name: "clock" } }] },
        },
        { type: "required", parallel: true, names: ["clock"] },
      ],
    ] as const
  ).map(([tool_choice, toolChoice]) =>
    field(`the choice ${JSON.stringify(tool_choice)}`, { tools: [CLOCK, SQL], tool_choice }, { toolChoice }),
  ),
  field("one call at a time", { parallel_tool_calls: false }, { toolChoice: { type: "auto", parallel: false } }),
  field(
    "one call at least and at most",
    { tools: [CLOCK], tool_choice: "required", parallel_tool_calls: false },
    { toolChoice: { type: "required", parallel: false } },
  ),
];

/** What the neutral request has no words for: it stays in `native` alone. */
const carried: readonly Accepted[] = [
  field("null for every field that can be left out", nulls(), { stopSequences: [], tools: [] }),
  telling(
    ["metadata", "store", "prediction", "logit_bias", "verbosity"],
    field(
      "fields for this format alone",
      {
        metadata: { a: "b" },
        store: false,
        prediction: { type: "content", content: "x" },
        logit_bias: { "50256": -100 },
        verbosity: "low",
        web_search_options: {},
      },
      {},
    ),
  ),
  telling(
    ["future", "prompt_cache_key"],
    field("fields that nobody knows", { future: { deep: [1, null] }, prompt_cache_key: "k" }, {}),
  ),
  telling(
    ["messages.content.future"],
    user("a part with a field that nobody knows", [{ type: "text", text: "Hi", future: 1 }], text("Hi")),
  ),
];

function nulls(): object {
  const names =
    "max_completion_tokens max_tokens stream stream_options stop temperature top_p presence_penalty frequency_penalty seed n " +
    "logprobs top_logprobs tools tool_choice parallel_tool_calls response_format reasoning_effort modalities audio " +
    "service_tier user safety_identifier metadata logit_bias prediction web_search_options store verbosity";
  return Object.fromEntries(names.split(" ").map((name) => [name, null]));
}

export const ACCEPTED: readonly Accepted[] = [...messages, ...fields, ...carried];
