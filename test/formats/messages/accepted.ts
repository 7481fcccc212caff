/** Messages requests that the gateway accepts: the passing side of every rule of spec 2.6 and 8, and fields that real clients add. */

import {
  ASTRAL,
  type Body,
  CLOCK,
  COMPUTER,
  having,
  MINIMAL,
  PNG,
  pngSource,
  withBlock,
  withDocument,
  withImage,
  withResult,
  withTool,
} from "./bodies.ts";

export type Accepted = readonly [name: string, body: Body];

const IMAGE_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"];

const scalars: readonly Accepted[] = [
  ["the smallest request", MINIMAL],
  ["a model of 1 character", having({ model: "m" })],
  ["a model of 256 characters", having({ model: "m".repeat(256) })],
  ["a model of 256 astral characters", having({ model: ASTRAL.repeat(256) })],
  ["max_tokens 2", having({ max_tokens: 2 })],
  ["temperature 1", having({ temperature: 1 })],
  ["top_p just above 0", having({ top_p: Number.MIN_VALUE })],
  ["top_p just below 1", having({ top_p: 1 - Number.EPSILON })],
  ["top_k 1", having({ top_k: 1 })],
  ["metadata without a user", having({ metadata: {} })],
  ["a user_id of 256 characters", having({ metadata: { user_id: "u".repeat(256) } })],
  ["a user_id of 256 astral characters", having({ metadata: { user_id: ASTRAL.repeat(256) } })],
  ["fields that the spec does not know", having({ service_tier: "auto", container: null, output_config: {} })],
  [
    "null for every optional field",
    having({
      system: null,
      metadata: null,
      stop_sequences: null,
      stream: null,
      temperature: null,
      top_p: null,
      top_k: null,
      thinking: null,
      tool_choice: null,
      tools: null,
    }),
  ],
  ["a user_id of null", having({ metadata: { user_id: null } })],
];

const EMPTY = { role: "assistant", content: [] };

const blocks: readonly Accepted[] = [
  ["an assistant message at the start", having({ messages: [...turns("assistant", "user")] })],
  ["messages of one role in a row", having({ messages: [...turns("user", "user", "assistant", "assistant")] })],
  ["an empty answer that is sent back", having({ messages: [...turns("user"), EMPTY, ...turns("user")] })],
  ["an empty answer at the end", having({ messages: [...turns("user"), EMPTY] })],
  ["cache_control of null", withBlock({ type: "text", text: "x", cache_control: null })],
  ...IMAGE_TYPES.map((type): Accepted => [
    `an image of ${type}`,
    withImage({ type: "base64", media_type: type, data: PNG }),
  ]),
  ["base64 without padding", withImage({ ...pngSource, data: "AAAA" })],
  ["base64 with one sign of padding", withImage({ ...pngSource, data: "AAA=" })],
  ["base64 with two signs of padding", withImage({ ...pngSource, data: "AA==" })],
  ["base64 with both of its special signs", withImage({ ...pngSource, data: "+/+/" })],
  [
    "an image with cache_control",
    withBlock({ type: "image", source: pngSource, cache_control: { type: "ephemeral" } }),
  ],
  ["a tool_result of an empty text", withResult({ content: "" })],
  ["a tool_result of no blocks", withResult({ content: [] })],
  ["a tool_result of a browser", withResult({ content: [{ type: "browser_state", tabs: [{ tab_id: "1" }] }] })],
  ["a document of an image", withDocument({ type: "content", content: [{ type: "image", source: pngSource }] })],
  [
    "a document with all its fields",
    withDocument(
      { type: "text", media_type: "text/plain", data: "Once." },
      { title: "Tale", context: "A tale", citations: { enabled: true }, cache_control: { type: "ephemeral" } },
    ),
  ],
  [
    "a document with null fields",
    withDocument(
      { type: "text", media_type: "text/plain", data: "x" },
      { title: null, context: null, citations: null },
    ),
  ],
];

const thinking: readonly Accepted[] = [
  ["thinking with a budget of 1024", having({ max_tokens: 2000, thinking: { type: "enabled", budget_tokens: 1024 } })],
  [
    "a budget of one less than max_tokens",
    having({ max_tokens: 1025, thinking: { type: "enabled", budget_tokens: 1024 } }),
  ],
];

const tools: readonly Accepted[] = [
  ["no tools", having({ tools: [] })],
  [
    "a search for tools of no date",
    having({ tools: [{ type: "tool_search_tool_bm25", name: "tool_search_tool_bm25" }] }),
  ],
  ["a custom tool with a type of null", withTool({ ...CLOCK, type: null })],
  ["a custom tool with fields that clients add", withTool({ ...CLOCK, strict: true, eager_input_streaming: true })],
  [
    "an input_schema with $schema",
    withTool({ ...CLOCK, input_schema: { $schema: "http://json-schema.org/draft-07/schema#" } }),
  ],
  ["a tool name of 1 character", withTool({ ...CLOCK, name: "c" })],
  ["a tool name of 64 characters", withTool({ ...CLOCK, name: "c".repeat(64) })],
  ["a tool name of 64 astral characters", withTool({ ...CLOCK, name: ASTRAL.repeat(64) })],
  ["the computer tool", withTool(COMPUTER)],
  [
    "the computer tool with a display",
    withTool({ ...COMPUTER, display_number: 0, cache_control: { type: "ephemeral" } }),
  ],
  ["the bash tool", withTool({ type: "bash_20241022", name: "bash", cache_control: { type: "ephemeral" } })],
  ["the text editor tool", withTool({ type: "text_editor_20241022", name: "str_replace_editor" })],
  ["a built-in tool of a later date", withTool({ type: "web_search_20250305", name: "web_search", max_uses: 5 })],
  ["tool_choice none without tools", having({ tool_choice: { type: "none" } })],
  ["tool_choice of a built-in tool", having({ tools: [COMPUTER], tool_choice: { type: "tool", name: "computer" } })],
];

export const ACCEPTED: readonly Accepted[] = [...scalars, ...blocks, ...thinking, ...tools];

/** Requests that pass only with `messages: { ranges: "vendor" }`. */
export const ACCEPTED_IN_VENDOR_RANGES: readonly Accepted[] = [
  ["a tool name of 128 characters", withTool({ ...CLOCK, name: "c".repeat(128) })],
  ["a tool name of 128 astral characters", withTool({ ...CLOCK, name: ASTRAL.repeat(128) })],
  ["max_tokens 1", having({ max_tokens: 1 })],
  ["top_p 0", having({ top_p: 0 })],
  ["top_p 1", having({ top_p: 1 })],
  ["top_k 0", having({ top_k: 0 })],
  // The first message of LangChain's `ChatAnthropic` before 1.0.
  [
    "-1 for what is not set",
    having({ temperature: 1, top_k: -1, top_p: -1, stream: false, thinking: { type: "disabled" } }),
  ],
  ["a budget of max_tokens", having({ max_tokens: 2048, thinking: { type: "enabled", budget_tokens: 2048 } })],
];

/** Requests that pass only with `messages: { imageSources: "vendor" }`. */
export const ACCEPTED_VENDOR_SOURCES: readonly Accepted[] = [
  ["an image by url", withImage({ type: "url", url: "https://example.com/a.png" })],
  ["an image by file", withImage({ type: "file", file_id: "file_1" })],
  [
    "an image by url in a tool_result",
    withResult({ content: [{ type: "image", source: { type: "url", url: "https://example.com/a.png" } }] }),
  ],
  ["an image by base64", withImage(pngSource)],
];

function turns(...roles: readonly string[]): Body[] {
  return roles.map((role, index) => ({ role, content: `Turn ${index}.` }));
}
