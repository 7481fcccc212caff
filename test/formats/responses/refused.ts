/** Responses requests that are refused, each with the field that the error names. */

import { having } from "./stage.ts";

export type Refused = readonly [name: string, body: unknown, param: string | null];

const field = (name: string, changes: object, param: string): Refused => [name, having(changes), param];
const input = (name: string, items: unknown, param: string): Refused => field(name, { input: items }, param);
const item = (name: string, value: unknown, param: string): Refused => input(name, [value], `input.0${param}`);
const part = (name: string, content: unknown, param: string): Refused =>
  item(name, { role: "user", content: [content] }, `.content.0${param}`);
const tool = (name: string, value: unknown, param: string): Refused =>
  field(name, { tools: [value] }, `tools.0${param}`);

const CLOCK = { type: "function", name: "clock", parameters: {} };
const long = (length: number): string => "x".repeat(length);

const items: readonly Refused[] = [
  input("no input", undefined, "input"),
  input("input that is a number", 1, "input"),
  input("input without items", [], "input"),
  item("an item that is a text", "Hi", ""),
  item("an item that is an array", [], ""),
  item("an item of an unknown type", { type: "smell" }, ".type"),
  item("an item whose type is a number", { type: 1 }, ".type"),
  item("a message without a role", { content: "Hi" }, ".role"),
  item("a message of an unknown role", { role: "tool", content: "Hi" }, ".role"),
  item("a message without content", { role: "user" }, ".content"),
  item("content that is a number", { role: "user", content: 1 }, ".content"),
  part("a part that is a text", "Hi", ""),
  part("a part of an unknown type", { type: "smell" }, ".type"),
  part("a text that is a number", { type: "input_text", text: 1 }, ".text"),
  part("a picture without an address", { type: "input_image" }, ""),
  part("a picture with two sources", { type: "input_image", image_url: "https://a.b", file_id: "f" }, ""),
  part("a picture in a file of the host", { type: "input_image", image_url: "file:///etc/passwd" }, ".image_url"),
  part("a picture of bad base64", { type: "input_image", image_url: "data:image/png;base64,iVBO*" }, ".image_url"),
  part("an unknown detail", { type: "input_image", image_url: "https://a.b", detail: "fine" }, ".detail"),
  part("a file without a source", { type: "input_file", filename: "a.pdf" }, ""),
  part("a file with two sources", { type: "input_file", file_id: "f", file_data: "AAAA" }, ""),
  part("a file of bad base64", { type: "input_file", file_data: "?" }, ".file_data"),
  part("a file at no address", { type: "input_file", file_url: "a.pdf" }, ".file_url"),
  part(
    "a sound of bad base64",
    { type: "input_audio", input_audio: { data: "?", format: "wav" } },
    ".input_audio.data",
  ),
  part(
    "a sound of a bad format",
    { type: "input_audio", input_audio: { data: "AAAA", format: "a/b" } },
    ".input_audio.format",
  ),
  item("a call without a name", { type: "function_call", call_id: "a", arguments: "{}" }, ".name"),
  item("a call without an id", { type: "function_call", name: "clock", arguments: "{}" }, ".call_id"),
  item(
    "a call whose arguments are an object",
    { ...CLOCK, type: "function_call", call_id: "a", arguments: {} },
    ".arguments",
  ),
  item("a custom call without an input", { type: "custom_tool_call", call_id: "a", name: "run" }, ".input"),
  item("a result without its call", { type: "function_call_output", call_id: "a", output: "1" }, ".call_id"),
  item("a result that is an object", { type: "function_call_output", call_id: "a", output: {} }, ".output"),
  item("a custom result without its call", { type: "custom_tool_call_output", call_id: "a", output: "1" }, ".call_id"),
  item("reasoning whose summary is a text", { type: "reasoning", summary: "Hm" }, ".summary"),
  item(
    "reasoning with a part of another kind",
    { type: "reasoning", summary: [{ type: "text", text: "Hm" }] },
    ".summary.0.type",
  ),
  item(
    "reasoning whose seal is a number",
    { type: "reasoning", summary: [], encrypted_content: 1 },
    ".encrypted_content",
  ),
  item("a reference without an id", { type: "item_reference" }, ".id"),
];

const tools: readonly Refused[] = [
  field("tools that are an object", { tools: {} }, "tools"),
  tool("a tool that is a text", "clock", ""),
  tool("a tool without a type", { name: "clock" }, ".type"),
  tool("a tool of an unknown type", { type: "telepathy" }, ".type"),
  tool("a tool in the shape of chat completions", { type: "function", function: { name: "clock" } }, ".name"),
  tool("a tool without a name", { type: "function", name: "" }, ".name"),
  tool("a name that is too long", { type: "function", name: long(129) }, ".name"),
  tool("parameters that are a text", { type: "function", name: "a", parameters: "{}" }, ".parameters"),
  tool("a custom tool whose format is a text", { type: "custom", name: "a", format: "text" }, ".format"),
  tool("a namespace without a name", { type: "namespace", tools: [CLOCK] }, ".name"),
  tool("a namespace without tools", { type: "namespace", name: "a" }, ".tools"),
  tool(
    "a namespace in a namespace",
    { type: "namespace", name: "a", tools: [{ type: "namespace", name: "b", tools: [] }] },
    ".tools.0.type",
  ),
  field(
    "a tool outside with the name of one in a namespace",
    {
      tools: [
        { ...CLOCK, name: "a__clock" },
        { type: "namespace", name: "a", tools: [CLOCK] },
      ],
    },
    "tools.1.tools.0.name",
  ),
  item("tools that a user adds", { type: "additional_tools", role: "user", tools: [CLOCK] }, ".role"),
  item("added tools that are no list", { type: "additional_tools", role: "developer", tools: {} }, ".tools"),
  field("two tools of one name", { tools: [CLOCK, { type: "custom", name: "clock" }] }, "tools.1.name"),
  field("a choice of no tool", { tool_choice: "required" }, "tool_choice"),
  field("an unknown choice", { tools: [CLOCK], tool_choice: "some" }, "tool_choice"),
  field(
    "a choice of a missing tool",
    { tools: [CLOCK], tool_choice: { type: "function", name: "b" } },
    "tool_choice.name",
  ),
  field("a choice without a name", { tools: [CLOCK], tool_choice: { type: "function" } }, "tool_choice"),
  field("a choice of an unknown type", { tools: [CLOCK], tool_choice: { type: "telepathy" } }, "tool_choice.type"),
  field(
    "a choice among missing tools",
    { tools: [CLOCK], tool_choice: { type: "allowed_tools", mode: "auto", tools: [{ type: "custom", name: "b" }] } },
    "tool_choice.tools.0.name",
  ),
  field(
    "a choice among no tools",
    { tools: [CLOCK], tool_choice: { type: "allowed_tools", mode: "auto", tools: [] } },
    "tool_choice.tools",
  ),
];

const many = (count: number): object =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`key${index}`, "a"]));

const fields: readonly Refused[] = [
  ["a body that is an array", [], null],
  field("no model", { model: undefined }, "model"),
  field("a model whose name is too long", { model: long(257) }, "model"),
  field("instructions that are a list", { instructions: [] }, "instructions"),
  field("an output limit of nothing", { max_output_tokens: 0 }, "max_output_tokens"),
  field("an output limit that is a fraction", { max_output_tokens: 1.5 }, "max_output_tokens"),
  field("a temperature beyond 2", { temperature: 2.1 }, "temperature"),
  field("a top_p beyond 1", { top_p: 1.1 }, "top_p"),
  field("more log probabilities than 20", { top_logprobs: 21 }, "top_logprobs"),
  field("log probabilities below 0", { top_logprobs: -1 }, "top_logprobs"),
  field("stream that is a text", { stream: "yes" }, "stream"),
  field("stream options that are a text", { stream: true, stream_options: "all" }, "stream_options"),
  field("include that is a text", { include: "all" }, "include"),
  field("an include that is a number", { include: [1] }, "include.0"),
  field("metadata that is a list", { metadata: [] }, "metadata"),
  field("metadata with a number", { metadata: { a: 1 } }, "metadata.a"),
  field("metadata with a value that is too long", { metadata: { a: long(513) } }, "metadata.a"),
  field("metadata with a key that is too long", { metadata: { [long(65)]: "a" } }, "metadata"),
  field("metadata with too many keys", { metadata: many(17) }, "metadata"),
  field("an unknown truncation", { truncation: "sometimes" }, "truncation"),
  field("a service tier that is a number", { service_tier: 1 }, "service_tier"),
  field("a cache key that is a number", { prompt_cache_key: 1 }, "prompt_cache_key"),
  field("a safety identifier that is too long", { safety_identifier: long(129) }, "safety_identifier"),
  field("a user that is a number", { user: 1 }, "user"),
  field("a format of an unknown type", { text: { format: { type: "xml" } } }, "text.format.type"),
  field("a format without a name", { text: { format: { type: "json_schema", schema: {} } } }, "text.format.name"),
  field("a format without a schema", { text: { format: { type: "json_schema", name: "a" } } }, "text.format.schema"),
  field("an unknown effort", { reasoning: { effort: "huge" } }, "reasoning.effort"),
  field("parallel calls that are a text", { parallel_tool_calls: "no" }, "parallel_tool_calls"),
  field("a prompt of another store", { prompt: { id: "pmpt_1" } }, "prompt"),
  field("a conversation without an id", { conversation: {} }, "conversation.id"),
  field(
    "a conversation beside an earlier response",
    { conversation: "conv_1", previous_response_id: "resp_1" },
    "conversation",
  ),
  field("a background response that is not kept", { background: true, store: false }, "background"),
];

export const REFUSED: readonly Refused[] = [...items, ...tools, ...fields];
