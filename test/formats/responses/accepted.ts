/** Responses requests that are answered, each with what the backend is asked. */

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
const said = (name: string, input: unknown, ...messages: readonly object[]): Accepted => [
  name,
  having({ input }),
  { messages },
  [],
];
const user = (name: string, content: unknown, ...parts: readonly object[]): Accepted =>
  said(name, [{ role: "user", content }], turn("user", ...parts));
const field = (name: string, changes: object, asked: Accepted[2], unsupported: readonly string[] = []): Accepted => [
  name,
  having(changes),
  asked,
  unsupported,
];

const document = (source: object, more: object = {}): object => ({ type: "document", source, ...more });
const media = (kind: string, source: object, more: object = {}): object => ({ type: "media", kind, source, ...more });
const base64 = (mediaType: string, data: string): object => ({ type: "base64", mediaType, data });

const items: readonly Accepted[] = [
  said("a text", "Hi", turn("user", text("Hi"))),
  user("a message", "Hi", text("Hi")),
  user("a message in parts", [{ type: "input_text", text: "Hi" }], text("Hi")),
  user("a message in the parts of chat completions", [{ type: "text", text: "Hi" }], text("Hi")),
  user(
    "a picture by its address",
    [{ type: "input_image", image_url: "https://example.com/a.png", detail: "low" }],
    media("image", { type: "url", url: "https://example.com/a.png" }, { detail: "low" }),
  ),
  user(
    "a picture as data",
    [{ type: "input_image", image_url: `data:image/png;base64,${PNG}` }],
    media("image", base64("image/png", PNG)),
  ),
  user(
    "a picture by its id",
    [{ type: "input_image", file_id: "file-1" }],
    media("image", { type: "file", id: "file-1" }),
  ),
  user(
    "a sound",
    [{ type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } }],
    media("audio", base64("audio/mp3", "AAAA")),
  ),
  user(
    "a file as data",
    [{ type: "input_file", file_data: "data:text/csv;base64,AAAA", filename: "a.csv" }],
    document(base64("text/csv", "AAAA"), { title: "a.csv" }),
  ),
  user(
    "a file as bare base64",
    [{ type: "input_file", file_data: "AAAA" }],
    document(base64("application/pdf", "AAAA")),
  ),
  user(
    "a file by its address",
    [{ type: "input_file", file_url: "https://a.b/c.pdf" }],
    document({ type: "url", url: "https://a.b/c.pdf" }),
  ),
  user(
    "a file by its address as its data",
    [{ type: "input_file", file_data: "HTTPS://a.b/c.pdf" }],
    document({ type: "url", url: "HTTPS://a.b/c.pdf" }),
  ),
  user("a file by its id", [{ type: "input_file", file_id: "f" }], document({ type: "file", id: "f" })),
  said(
    "a conversation, with items as the gateway has given them",
    [
      { role: "user", content: "One" },
      {
        type: "message",
        id: "msg_1",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: "Two", annotations: [], logprobs: [] }],
        phase: "final_answer",
      },
      { role: "assistant", content: [{ type: "refusal", refusal: "No" }] },
      { role: "user", content: "Three" },
    ],
    turn("user", text("One")),
    turn("assistant", text("Two"), { type: "refusal", text: "No" }),
    turn("user", text("Three")),
  ),
  said(
    "calls and their results",
    [
      { role: "user", content: "Go" },
      { type: "function_call", id: "fc_1", call_id: "a", name: "look", arguments: '{"x":1}', status: "completed" },
      { type: "custom_tool_call", id: "ctc_1", call_id: "b", name: "run", input: "go" },
      { type: "function_call_output", call_id: "a", output: "1" },
      {
        type: "custom_tool_call_output",
        call_id: "b",
        output: [
          { type: "input_text", text: "2" },
          { type: "input_image", image_url: "https://a.b/c.png" },
        ],
      },
    ],
    turn("user", text("Go")),
    turn(
      "assistant",
      { type: "tool-call", id: "a", name: "look", input: { x: 1 } },
      { type: "tool-call", id: "b", name: "run", input: { input: "go" } },
    ),
    turn(
      "user",
      { type: "tool-result", callId: "a", parts: [text("1")] },
      {
        type: "tool-result",
        callId: "b",
        parts: [text("2"), media("image", { type: "url", url: "https://a.b/c.png" })],
      },
    ),
  ),
  said(
    "arguments that are no JSON object, as a model may write them",
    [
      { type: "function_call", call_id: "a", name: "look", arguments: "[1" },
      { type: "function_call_output", call_id: "a", output: "No JSON." },
    ],
    turn("assistant", { type: "tool-call", id: "a", name: "look", input: { invalid_arguments: "[1" } }),
    turn("user", { type: "tool-result", callId: "a", parts: [text("No JSON.")] }),
  ),
  said(
    "reasoning that the provider has encrypted",
    [
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm" }], encrypted_content: "c2VhbA==" },
      { role: "user", content: "Hi" },
    ],
    turn("assistant", { type: "reasoning", text: "Hm", signature: "c2VhbA==", maker: "responses" }),
    turn("user", text("Hi")),
  ),
  said(
    "a call of a tool that the provider has run",
    [
      { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "a" } },
      { role: "user", content: "Hi" },
    ],
    turn("assistant", {
      type: "provider",
      format: "responses",
      value: { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "a" } },
    }),
    turn("user", text("Hi")),
  ),
  [
    "instructions of all kinds",
    having({
      instructions: "One",
      input: [
        { role: "system", content: "Two" },
        { role: "developer", content: [{ type: "input_text", text: "Three" }] },
        { role: "user", content: "Hi" },
        { role: "developer", content: "Four" },
      ],
    }),
    {
      system: [text("One"), text("Two"), text("Three")],
      messages: [turn("user", text("Hi")), turn("system", text("Four"))],
    },
    [],
  ],
];

const PARAMETERS = { type: "object", properties: { x: { type: "number" } } };
const LOOK = { type: "function", name: "look", description: "Looks", parameters: PARAMETERS, strict: true };
const RUN = { type: "custom", name: "run", format: { type: "grammar", syntax: "regex", definition: "a+" } };
const look = { type: "function", name: "look", description: "Looks", inputSchema: PARAMETERS, strict: true };
const run = {
  type: "function",
  name: "run",
  inputSchema: {
    type: "object",
    properties: { input: { type: "string" } },
    required: ["input"],
    additionalProperties: false,
  },
  custom: { format: RUN.format },
};
const chosen = (name: string, tool_choice: unknown, toolChoice: object, more: object = {}): Accepted =>
  field(name, { tools: [LOOK, RUN], tool_choice, ...more }, { toolChoice });

const SCHEMA = { type: "object", properties: {}, additionalProperties: false };

const fields: readonly Accepted[] = [
  field(
    "tools",
    { tools: [LOOK, RUN, { type: "function", name: "bare", parameters: null, strict: null }] },
    { tools: [look, run, { type: "function", name: "bare", inputSchema: { type: "object", properties: {} } }] },
  ),
  field(
    "tools of the provider, of any date, and of other providers",
    {
      tools: [
        { type: "web_search_2025_08_26", filters: { allowed_domains: ["a.b"] } },
        { type: "openrouter:web_search" },
        { type: "code_interpreter", container: { type: "auto" } },
      ],
    },
    {
      tools: [
        {
          type: "provider",
          format: "responses",
          name: "web_search_2025_08_26",
          definition: { type: "web_search_2025_08_26", filters: { allowed_domains: ["a.b"] } },
        },
        {
          type: "provider",
          format: "responses",
          name: "openrouter:web_search",
          definition: { type: "openrouter:web_search" },
        },
        { type: "code-execution" },
      ],
    },
  ),
  chosen("any choice", "auto", { type: "auto", parallel: true }),
  chosen("a needed choice", "required", { type: "required", parallel: false }, { parallel_tool_calls: false }),
  chosen("no choice", "none", { type: "none" }),
  chosen("a chosen function", { type: "function", name: "look" }, { type: "tool", name: "look", parallel: true }),
  chosen("a chosen custom tool", { type: "custom", name: "run" }, { type: "tool", name: "run", parallel: true }),
  chosen(
    "a choice among tools",
    { type: "allowed_tools", mode: "required", tools: [{ type: "custom", name: "run" }] },
    { type: "required", parallel: true, names: ["run"] },
  ),
  field(
    "a chosen tool of the provider, by its server and its name",
    { tools: [{ type: "mcp", server_label: "a" }], tool_choice: { type: "mcp", server_label: "a", name: "b" } },
    { toolChoice: { type: "tool", name: "mcp", parallel: true } },
    ["tool_choice.server_label"],
  ),
  field("calls one at a time", { parallel_tool_calls: false }, { toolChoice: { type: "auto", parallel: false } }),
  field("any JSON", { text: { format: { type: "json_object" } } }, { responseFormat: { type: "json" } }),
  field(
    "a schema without a name",
    { text: { format: { type: "json_object", schema: SCHEMA } } },
    { responseFormat: { type: "json", schema: SCHEMA } },
  ),
  field(
    "a schema",
    {
      text: {
        format: { type: "json_schema", name: "a", schema: SCHEMA, strict: true, description: "A" },
        verbosity: "low",
      },
    },
    { responseFormat: { type: "json", name: "a", schema: SCHEMA, strict: true } },
    ["text.format.description", "text.verbosity"],
  ),
  field("plain text", { text: { format: { type: "text" } } }, { responseFormat: undefined }),
  field(
    "an effort",
    { reasoning: { effort: "high" } },
    { reasoning: { type: "adaptive", effort: "high", visible: false } },
  ),
  field(
    "a summary of the reasoning",
    { reasoning: { effort: "minimal", summary: "concise" } },
    { reasoning: { type: "adaptive", effort: "minimal", visible: true } },
  ),
  field("no reasoning", { reasoning: { effort: "none" } }, { reasoning: { type: "disabled" } }),
  field(
    "numbers",
    { temperature: 0, top_p: 1, max_output_tokens: 1 },
    { temperature: 0, topP: 1, maxOutputTokens: 1, limitedByDefault: undefined },
  ),
  field("no limit", {}, { limitedByDefault: true }),
  field(
    "log probabilities",
    { include: ["message.output_text.logprobs"], top_logprobs: 20 },
    { logprobs: { top: 20 } },
  ),
  field(
    "the end user and the tier",
    { safety_identifier: "x".repeat(128), user: "b", service_tier: "flex" },
    { endUser: "x".repeat(128), serviceTier: "flex" },
    ["user"],
  ),
  field(
    "fields that only the provider has",
    {
      background_options: { completion_window: "2h", continuation_id: "c" },
      truncation: "auto",
      prompt_cache_key: "k",
      prompt_cache_retention: "24h",
      max_tool_calls: 3,
    },
    {},
    ["background_options", "truncation", "prompt_cache_key", "prompt_cache_retention", "max_tool_calls"],
  ),
  field(
    "fields that answers repeat",
    {
      metadata: Object.fromEntries(
        Array.from({ length: 16 }, (_, index) => [`${index}`.padStart(64, "k"), "v".repeat(512)]),
      ),
      truncation: "disabled",
      store: true,
      stream_options: { include_obfuscation: false },
      include: ["reasoning.encrypted_content", "web_search_call.action.sources"],
    },
    {},
  ),
  field(
    "null for everything that may be missing",
    {
      instructions: null,
      max_output_tokens: null,
      stream: null,
      stream_options: null,
      temperature: null,
      top_p: null,
      top_logprobs: null,
      tools: null,
      tool_choice: null,
      parallel_tool_calls: null,
      text: null,
      reasoning: null,
      include: null,
      service_tier: null,
      user: null,
      safety_identifier: null,
      metadata: null,
      store: null,
      background: null,
      previous_response_id: null,
      conversation: null,
      truncation: null,
      prompt_cache_key: null,
      prompt: null,
    },
    { toolChoice: undefined, tools: [], reasoning: undefined },
  ),
  field("unknown fields", { moderation: { model: "a" }, own: 1 }, {}, ["moderation", "own"]),
];

export const ACCEPTED: readonly Accepted[] = [...items, ...fields];
