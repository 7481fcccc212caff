/** Fields of a messages request, each with its value in the neutral model. */

import type { ChatMessage, ChatRequest, Part, Tool, ToolChoice } from "../../../src/index.ts";
import {
  type Body,
  CLOCK,
  COMPUTER,
  having,
  PNG,
  pngSource,
  withBlock,
  withDocument,
  withImage,
  withResult,
  withTool,
} from "./bodies.ts";

export const HI: ChatMessage = { role: "user", parts: [{ type: "text", text: "Hi" }] };

export const FIELDS: readonly (readonly [name: string, body: Body, expected: Partial<ChatRequest>])[] = [
  ["max_tokens", having({ max_tokens: 77 }), { maxOutputTokens: 77 }],
  ["temperature", having({ temperature: 0 }), { temperature: 0 }],
  ["top_p", having({ top_p: 0.25 }), { topP: 0.25 }],
  ["top_k", having({ top_k: 7 }), { topK: 7 }],
  ["stop_sequences", having({ stop_sequences: ["a", "b"] }), { stopSequences: ["a", "b"] }],
  ["a user_id", having({ metadata: { user_id: "u-1" } }), { endUser: "u-1" }],
  ["a system text", having({ system: "Be brief." }), { system: [{ type: "text", text: "Be brief." }] }],
  [
    "a system of blocks",
    having({
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind.", cache_control: { type: "ephemeral", ttl: "1h" } },
      ],
    }),
    {
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind.", cache: { ttl: "1h" } },
      ],
    },
  ],
  [
    "thinking enabled",
    having({ max_tokens: 2000, thinking: { type: "enabled", budget_tokens: 1024 } }),
    { reasoning: { type: "enabled", budgetTokens: 1024 } },
  ],
  ["thinking disabled", having({ thinking: { type: "disabled" } }), { reasoning: { type: "disabled" } }],
  [
    "thinking that is not to be seen",
    having({ thinking: { type: "adaptive", display: "omitted" } }),
    { reasoning: { type: "adaptive", visible: false } },
  ],
  [
    "an effort",
    having({ thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "xhigh" } }),
    { reasoning: { type: "adaptive", effort: "xhigh", visible: true } },
  ],
  ["thinking adaptive", having({ thinking: { type: "adaptive" } }), { reasoning: { type: "adaptive" } }],
  [
    "a schema for the output",
    having({ output_config: { format: { type: "json_schema", schema: { type: "object" } } } }),
    { responseFormat: { type: "json", schema: { type: "object" } } },
  ],
  [
    "consecutive messages of one role as one turn",
    having({
      messages: [
        { role: "user", content: "One." },
        { role: "user", content: [{ type: "text", text: "Two." }] },
        { role: "assistant", content: "Three." },
        { role: "assistant", content: "Four." },
        { role: "user", content: "Five." },
      ],
    }),
    {
      messages: [
        {
          role: "user",
          parts: [
            { type: "text", text: "One." },
            { type: "text", text: "Two." },
          ],
        },
        {
          role: "assistant",
          parts: [
            { type: "text", text: "Three." },
            { type: "text", text: "Four." },
          ],
        },
        { role: "user", parts: [{ type: "text", text: "Five." }] },
      ],
    },
  ],
  [
    "an assistant turn at the end as a prefill",
    having({
      messages: [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "{" },
      ],
    }),
    { messages: [HI, { role: "assistant", parts: [{ type: "text", text: "{" }] }] },
  ],
  [
    "a system message in its place",
    having({
      messages: [
        { role: "user", content: "Hi" },
        { role: "system", content: "Be brief." },
      ],
    }),
    { messages: [HI, { role: "system", parts: [{ type: "text", text: "Be brief." }] }] },
  ],
];

const image: Part = { type: "media", kind: "image", source: { type: "base64", mediaType: "image/png", data: PNG } };

export const PARTS: readonly (readonly [name: string, body: Body, expected: Part])[] = [
  ["a text in short", having({ messages: [{ role: "user", content: "x" }] }), { type: "text", text: "x" }],
  ["a text block", withBlock({ type: "text", text: "x" }), { type: "text", text: "x" }],
  [
    "a cache hint",
    withBlock({ type: "text", text: "x", cache_control: { type: "ephemeral" } }),
    { type: "text", text: "x", cache: {} },
  ],
  [
    "a cache hint with its time",
    withBlock({ type: "text", text: "x", cache_control: { type: "ephemeral", ttl: "5m" } }),
    { type: "text", text: "x", cache: { ttl: "5m" } },
  ],
  ["an image", withImage(pngSource), image],
  [
    "a tool call",
    withBlock({ type: "tool_use", id: "call_1", name: "clock", input: { zone: "UTC" } }, "assistant"),
    { type: "tool-call", id: "call_1", name: "clock", input: { zone: "UTC" } },
  ],
  [
    "the result of a tool",
    withResult({
      content: [
        { type: "text", text: "noon" },
        { type: "image", source: pngSource },
      ],
      is_error: false,
    }),
    { type: "tool-result", callId: "call_1", parts: [{ type: "text", text: "noon" }, image], isError: false },
  ],
  [
    "the result of a tool in short",
    withResult({ content: "noon", is_error: true }),
    { type: "tool-result", callId: "call_1", parts: [{ type: "text", text: "noon" }], isError: true },
  ],
  ["the result of a tool that says nothing", withResult({}), { type: "tool-result", callId: "call_1", parts: [] }],
  [
    "reasoning and its signature",
    withBlock({ type: "thinking", thinking: "hm", signature: "c2ln+/==" }, "assistant"),
    { type: "reasoning", text: "hm", signature: "c2ln+/==", maker: "messages" },
  ],
  [
    "reasoning that is kept secret",
    withBlock({ type: "redacted_thinking", data: "c2Vj" }, "assistant"),
    { type: "redacted-reasoning", data: "c2Vj", maker: "messages" },
  ],
  [
    "a document of base64",
    withDocument({ type: "base64", media_type: "application/pdf", data: "JVBERi0=" }, { title: "T", context: "C" }),
    {
      type: "document",
      source: { type: "base64", mediaType: "application/pdf", data: "JVBERi0=" },
      title: "T",
      context: "C",
    },
  ],
  [
    "a document of text",
    withDocument({ type: "text", media_type: "text/plain", data: "Once." }, { citations: { enabled: true } }),
    { type: "document", source: { type: "text", text: "Once." }, citations: true },
  ],
  [
    "a document of content",
    withDocument({
      type: "content",
      content: [
        { type: "text", text: "Once." },
        { type: "image", source: pngSource },
      ],
    }),
    { type: "document", source: { type: "parts", parts: [{ type: "text", text: "Once." }, image] } },
  ],
  [
    "a document of content in short",
    withDocument({ type: "content", content: "Once." }),
    { type: "document", source: { type: "parts", parts: [{ type: "text", text: "Once." }] } },
  ],
  [
    "a document by url",
    withDocument({ type: "url", url: "https://example.com/a.pdf" }),
    { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } },
  ],
  [
    "a document by file",
    withDocument({ type: "file", file_id: "file_1" }),
    { type: "document", source: { type: "file", id: "file_1" } },
  ],
  [
    "a block that only the official service knows",
    withBlock({ type: "search_result", source: "https://example.com", title: "T", content: [] }),
    {
      type: "provider",
      format: "messages",
      value: { type: "search_result", source: "https://example.com", title: "T", content: [] },
    },
  ],
];

const clock: Tool = { type: "function", name: "clock", inputSchema: { type: "object", properties: {} } };

export const TOOLS: readonly (readonly [name: string, body: Body, expected: Tool])[] = [
  ["a custom tool", withTool(CLOCK), clock],
  [
    "a custom tool with all its fields",
    withTool({ ...CLOCK, type: "custom", description: "Tells.", cache_control: { type: "ephemeral" } }),
    { ...clock, description: "Tells.", cache: {} },
  ],
  [
    "a built-in tool",
    withTool(COMPUTER),
    { type: "provider", format: "messages", name: "computer", definition: COMPUTER },
  ],
  [
    "a built-in tool of a later date",
    withTool({ type: "web_search_20250305", name: "web_search", max_uses: 5 }),
    {
      type: "provider",
      format: "messages",
      name: "web_search",
      definition: { type: "web_search_20250305", name: "web_search", max_uses: 5 },
    },
  ],
];

export const CHOICES: readonly (readonly [name: string, choice: Body, expected: ToolChoice])[] = [
  ["none", { type: "none" }, { type: "none" }],
  ["auto", { type: "auto" }, { type: "auto", parallel: true }],
  ["auto, one at most", { type: "auto", disable_parallel_tool_use: true }, { type: "auto", parallel: false }],
  ["any", { type: "any" }, { type: "required", parallel: true }],
  ["any, exactly one", { type: "any", disable_parallel_tool_use: true }, { type: "required", parallel: false }],
  ["tool", { type: "tool", name: "clock" }, { type: "tool", name: "clock", parallel: true }],
  [
    "tool, exactly one",
    { type: "tool", name: "clock", disable_parallel_tool_use: true },
    { type: "tool", name: "clock", parallel: false },
  ],
];
