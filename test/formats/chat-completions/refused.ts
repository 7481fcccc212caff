/** Chat-completions requests that are refused, each with the field that the error names. */

import { having } from "./stage.ts";

export type Refused = readonly [name: string, body: unknown, param: string | null];

const field = (name: string, changes: object, param: string): Refused => [name, having(changes), param];
const messages = (name: string, list: unknown, param: string): Refused => field(name, { messages: list }, param);
const part = (name: string, content: unknown, param: string): Refused =>
  messages(name, [{ role: "user", content: [content] }], `messages.0.content.0${param}`);
const call = (name: string, tool_call: object, param: string): Refused =>
  messages(
    name,
    [
      { role: "user", content: "Hi" },
      { role: "assistant", tool_calls: [tool_call] },
    ],
    `messages.1.tool_calls.0${param}`,
  );

const CALL = { type: "function", id: "a", function: { name: "clock", arguments: "{}" } };
const CLOCK = { type: "function", function: { name: "clock" } };
const image = (url: unknown): object => ({ type: "image_url", image_url: { url } });

const conversation: readonly Refused[] = [
  messages("no messages", [], "messages"),
  messages("messages that are a text", "Hi", "messages"),
  messages("a message that is a text", ["Hi"], "messages.0"),
  messages("a message that is an array", [[]], "messages.0"),
  messages("a message without a role", [{ content: "Hi" }], "messages.0.role"),
  messages("a message of an unknown role", [{ role: "narrator", content: "Hi" }], "messages.0.role"),
  messages("a function's result without a name", [{ role: "function", content: "Hi" }], "messages.0.name"),
  messages(
    "a function call without arguments",
    [{ role: "assistant", function_call: { name: "a" } }],
    "messages.0.function_call.arguments",
  ),
  messages("a message without content", [{ role: "user" }], "messages.0.content"),
  messages("content that is a number", [{ role: "user", content: 1 }], "messages.0.content"),
  messages("a name that is a number", [{ role: "user", content: "Hi", name: 1 }], "messages.0.name"),
  messages(
    "instructions of pictures",
    [{ role: "system", content: [image("https://a.b")] }],
    "messages.0.content.0.type",
  ),
  part("a part that is a text", "Hi", ""),
  part("a part of an unknown type", { type: "smell" }, ".type"),
  part("a part without a type", { text: "Hi" }, ".type"),
  part("a text that is a number", { type: "text", text: 1 }, ".text"),
  part("a refusal of the user", { type: "refusal", refusal: "No" }, ".type"),
  part("a picture without an address", image(undefined), ".image_url.url"),
  part("a picture of an address alone", { type: "image_url", image_url: "https://a.b" }, ".image_url"),
  part("a picture at no address", image("a.png"), ".image_url.url"),
  part("a picture in a file", image("file:///etc/passwd"), ".image_url.url"),
  part("a picture of bad base64", image("data:image/png;base64,iVBO*"), ".image_url.url"),
  part("a picture of data that is no base64", image("data:image/svg+xml,<svg/>"), ".image_url.url"),
  part(
    "an unknown detail",
    { type: "image_url", image_url: { url: "https://a.b", detail: "fine" } },
    ".image_url.detail",
  ),
  part(
    "a sound of bad base64",
    { type: "input_audio", input_audio: { data: "?", format: "wav" } },
    ".input_audio.data",
  ),
  part("a sound without a format", { type: "input_audio", input_audio: { data: "AAAA" } }, ".input_audio.format"),
  part("a file of nothing", { type: "file", file: {} }, ".file"),
  part("a file of both", { type: "file", file: { file_id: "f", file_data: "AAAA" } }, ".file"),
  part(
    "a file of another kind of address",
    { type: "file", file: { file_data: "file:///etc/passwd" } },
    ".file.file_data",
  ),
  part("a file of bad base64", { type: "file", file: { file_data: "?" } }, ".file.file_data"),
  call("a call without an id", { ...CALL, id: undefined }, ".id"),
  call("a call of an empty id", { ...CALL, id: "" }, ".id"),
  call("a call of an unknown type", { ...CALL, type: "procedure" }, ".type"),
  call("a call without a function", { ...CALL, function: undefined }, ".function"),
  call("arguments that are an object", { ...CALL, function: { name: "a", arguments: {} } }, ".function.arguments"),
  messages("a result of no call", [{ role: "tool", tool_call_id: "a", content: "x" }], "messages.0.tool_call_id"),
  messages(
    "a result before its call",
    [
      { role: "tool", tool_call_id: "a", content: "x" },
      { role: "assistant", tool_calls: [CALL] },
    ],
    "messages.0.tool_call_id",
  ),
  messages("a result without an id", [{ role: "tool", content: "x" }], "messages.0.tool_call_id"),
];

const outOfBounds: readonly Refused[] = (
  [
    ["temperature", -0.1, 2.1],
    ["top_p", -0.1, 1.1],
    ["presence_penalty", -2.1, 2.1],
    ["frequency_penalty", -2.1, 2.1],
    ["n", 0, 129],
    ["max_tokens", 0, 2 ** 53],
    ["max_completion_tokens", -1, 2 ** 53],
  ] as const
).flatMap(([name, below, above]) =>
  [below, above, "1"].map((value) => field(`${name} ${JSON.stringify(value)}`, { [name]: value }, name)),
);

const fields: readonly Refused[] = [
  ["a body that is an array", [], null],
  ["no model", having({ model: undefined }), "model"],
  ["an empty model", having({ model: "" }), "model"],
  ["a model of 257 characters", having({ model: "m".repeat(257) }), "model"],
  field("half a seed", { seed: 0.5 }, "seed"),
  field("a seed of more than 64 bits", { seed: 2 ** 65 }, "seed"),
  field("half an n", { n: 1.5 }, "n"),
  field("stream that is a text", { stream: "true" }, "stream"),
  field("stream_options that are a text", { stream_options: "usage" }, "stream_options"),
  field("five stops", { stop: ["a", "b", "c", "d", "e"] }, "stop"),
  field("a stop that is a number", { stop: [1] }, "stop.0"),
  field("top_logprobs without logprobs", { top_logprobs: 2 }, "top_logprobs"),
  field("21 top_logprobs", { logprobs: true, top_logprobs: 21 }, "top_logprobs"),
  field("an unknown effort", { reasoning_effort: "heroic" }, "reasoning_effort"),
  field("an unknown modality", { modalities: ["smell"] }, "modalities.0"),
  field(
    "any JSON of a schema that is none",
    { response_format: { type: "json_object", schema: "{}" } },
    "response_format.schema",
  ),
  field("an unknown format", { response_format: { type: "xml" } }, "response_format.type"),
  field(
    "a schema without a name",
    { response_format: { type: "json_schema", json_schema: {} } },
    "response_format.json_schema.name",
  ),
  field(
    "a schema that is a text",
    { response_format: { type: "json_schema", json_schema: { name: "a", schema: "{}" } } },
    "response_format.json_schema.schema",
  ),
  field("tools that are an object", { tools: {} }, "tools"),
  field("a tool of an unknown type", { tools: [{ type: "retrieval" }] }, "tools.0.type"),
  field("a tool without a name", { tools: [{ type: "function", function: {} }] }, "tools.0.function.name"),
  field(
    "parameters that are a text",
    { tools: [{ type: "function", function: { name: "a", parameters: "" } }] },
    "tools.0.function.parameters",
  ),
  field("two tools of one name", { tools: [CLOCK, CLOCK] }, "tools.1.function.name"),
  field("an unknown choice", { tools: [CLOCK], tool_choice: "some" }, "tool_choice"),
  field("a choice of no tools", { tool_choice: "required" }, "tool_choice"),
  field(
    "a choice of a tool that is not there",
    { tools: [CLOCK], tool_choice: { type: "function", function: { name: "cloak" } } },
    "tool_choice.function.name",
  ),
  field(
    "an allowed tool that is not there",
    {
      tools: [CLOCK],
      tool_choice: {
        type: "allowed_tools",
        allowed_tools: { mode: "auto", tools: [CLOCK, { type: "function", function: { name: "cloak" } }] },
      },
    },
    "tool_choice.allowed_tools.tools.1.function.name",
  ),
  field(
    "no allowed tools",
    { tools: [CLOCK], tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [] } } },
    "tool_choice.allowed_tools.tools",
  ),
  field("functions beside tools", { functions: [{ name: "a" }], tools: [CLOCK] }, "functions"),
  field("functions that are an object", { functions: {} }, "functions"),
  field("a function without a name", { functions: [{ parameters: {} }] }, "functions.0.name"),
  field("two functions of one name", { functions: [{ name: "a" }, { name: "a" }] }, "functions.1.name"),
  field("an unknown choice of functions", { functions: [{ name: "a" }], function_call: "required" }, "function_call"),
  field("a choice of no functions", { function_call: "auto" }, "function_call"),
  field(
    "a choice of a function that is not there",
    { functions: [{ name: "a" }], function_call: { name: "b" } },
    "function_call.name",
  ),
  field("parallel_tool_calls that is a text", { parallel_tool_calls: "no" }, "parallel_tool_calls"),
  field("metadata that is a text", { metadata: "a" }, "metadata"),
];

export const REFUSED: readonly Refused[] = [...conversation, ...outOfBounds, ...fields];
