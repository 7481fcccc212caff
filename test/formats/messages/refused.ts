/** Messages requests that the gateway refuses, each with the field that the error names: the failing side of spec 2.6 and 8. */

import {
  ASTRAL,
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

export type Refused = readonly [name: string, body: Body, path: string];

const BLOCK = "messages.0.content.0";
const RESULT = "messages.2.content.0";

const scalars: readonly Refused[] = [
  ["no model", having({ model: undefined }), "model"],
  ["a model that is no text", having({ model: 1 }), "model"],
  ["an empty model", having({ model: "" }), "model"],
  ["a model of 257 characters", having({ model: "m".repeat(257) }), "model"],
  ["a model of 257 astral characters", having({ model: ASTRAL.repeat(257) }), "model"],
  ["no max_tokens", having({ max_tokens: undefined }), "max_tokens"],
  ["max_tokens 1", having({ max_tokens: 1 }), "max_tokens"],
  ["max_tokens 0", having({ max_tokens: 0 }), "max_tokens"],
  ["max_tokens that is no integer", having({ max_tokens: 10.5 }), "max_tokens"],
  ["max_tokens that is no number", having({ max_tokens: "100" }), "max_tokens"],
  ["max_tokens of null", having({ max_tokens: null }), "max_tokens"],
  ["temperature below 0", having({ temperature: -0.1 }), "temperature"],
  ["temperature above 1", having({ temperature: 1.1 }), "temperature"],
  ["temperature just below 0", having({ temperature: -Number.MIN_VALUE }), "temperature"],
  ["temperature just above 1", having({ temperature: 1 + Number.EPSILON }), "temperature"],
  ["temperature that is no number", having({ temperature: "1" }), "temperature"],
  ["top_p 0", having({ top_p: 0 }), "top_p"],
  ["top_p 1", having({ top_p: 1 }), "top_p"],
  ["top_p below 0", having({ top_p: -0.1 }), "top_p"],
  ["top_p above 1", having({ top_p: 1.1 }), "top_p"],
  ["top_k 0", having({ top_k: 0 }), "top_k"],
  ["top_k that is no integer", having({ top_k: 1.5 }), "top_k"],
  ["stream that is no boolean", having({ stream: "true" }), "stream"],
  ["stop_sequences that is no array", having({ stop_sequences: "END" }), "stop_sequences"],
  ["a stop sequence that is no text", having({ stop_sequences: ["END", 1] }), "stop_sequences.1"],
  ["a system that is no text", having({ system: 1 }), "system"],
  ["a system block that is no text block", having({ system: [{ type: "image", source: pngSource }] }), "system.0.type"],
  ["an empty system block", having({ system: [{ type: "text", text: "" }] }), "system.0.text"],
  ["metadata that is no object", having({ metadata: "me" }), "metadata"],
  ["a user_id that is no text", having({ metadata: { user_id: 7 } }), "metadata.user_id"],
  ["a user_id of 257 characters", having({ metadata: { user_id: "u".repeat(257) } }), "metadata.user_id"],
  ["a user_id of 257 astral characters", having({ metadata: { user_id: ASTRAL.repeat(257) } }), "metadata.user_id"],
];

const messages: readonly Refused[] = [
  ["no messages", having({ messages: undefined }), "messages"],
  ["messages that are no array", having({ messages: "Hi" }), "messages"],
  ["an empty list of messages", having({ messages: [] }), "messages"],
  ["a message that is no object", having({ messages: ["Hi"] }), "messages.0"],
  ["a message without role", having({ messages: [{ content: "Hi" }] }), "messages.0.role"],
  ["a message of another role", having({ messages: [{ role: "tool", content: "Hi" }] }), "messages.0.role"],
  ["a message without content", having({ messages: [{ role: "user" }] }), "messages.0.content"],
  ["a message whose content is a number", having({ messages: [{ role: "user", content: 1 }] }), "messages.0.content"],
  ["a message of no blocks", having({ messages: [{ role: "user", content: [] }] }), "messages.0.content"],
  ["a message of an empty text", having({ messages: [{ role: "user", content: "" }] }), "messages.0.content"],
  ["a block that is no object", withBlock("Hi"), BLOCK],
  ["a block without type", withBlock({ text: "Hi" }), `${BLOCK}.type`],
  ["a block of an unknown type", withBlock({ type: "smell" }), `${BLOCK}.type`],
  ["a text block without text", withBlock({ type: "text" }), `${BLOCK}.text`],
  ["a text block of an empty text", withBlock({ type: "text", text: "" }), `${BLOCK}.text`],
  ["a text block whose text is no text", withBlock({ type: "text", text: 1 }), `${BLOCK}.text`],
  [
    "cache_control of another type",
    withBlock({ type: "text", text: "x", cache_control: { type: "persistent" } }),
    `${BLOCK}.cache_control.type`,
  ],
  [
    "cache_control that is no object",
    withBlock({ type: "text", text: "x", cache_control: "ephemeral" }),
    `${BLOCK}.cache_control`,
  ],
];

const image = (name: string, changes: Body, field: string): Refused => [
  name,
  withImage({ ...pngSource, ...changes }),
  `${BLOCK}.source.${field}`,
];

const images: readonly Refused[] = [
  ["an image without source", withBlock({ type: "image" }), `${BLOCK}.source`],
  ["an image whose source is a text", withImage(PNG), `${BLOCK}.source`],
  ["an image source without type", withImage({ media_type: "image/png", data: PNG }), `${BLOCK}.source.type`],
  image("an image source of an unknown type", { type: "blob" }, "type"),
  ["an image by url", withImage({ type: "url", url: "https://example.com/a.png" }), `${BLOCK}.source.type`],
  ["an image by file", withImage({ type: "file", file_id: "file_1" }), `${BLOCK}.source.type`],
  image("an image without media_type", { media_type: undefined }, "media_type"),
  image("an image of another media_type", { media_type: "image/bmp" }, "media_type"),
  image("an image of a media_type in capitals", { media_type: "IMAGE/PNG" }, "media_type"),
  image("an image without data", { data: undefined }, "data"),
  image("an image whose data is no text", { data: 1 }, "data"),
  image("empty base64", { data: "" }, "data"),
  image("base64 with a bad character", { data: "iVBORw0K*go=" }, "data"),
  image("base64 of the URL alphabet", { data: "-_-_" }, "data"),
  image("base64 that lacks its padding", { data: "iVBORw0KGgo" }, "data"),
  image("base64 with too much padding", { data: "A===" }, "data"),
  image("base64 with padding inside", { data: "AA==AAAA" }, "data"),
  image("base64 of padding alone", { data: "====" }, "data"),
  image("base64 with white space", { data: "iVBO Rw0KGgo" }, "data"),
  image("base64 with a line break at its end", { data: "AAA\n" }, "data"),
  image("a data URL", { data: `data:image/png;base64,${PNG}` }, "data"),
];

const use = (name: string, changes: Body, field: string): Refused => [
  name,
  withBlock({ type: "tool_use", id: "call_1", name: "clock", input: {}, ...changes }, "assistant"),
  `${BLOCK}.${field}`,
];

const calls: readonly Refused[] = [
  use("a tool_use without id", { id: undefined }, "id"),
  use("a tool_use whose id is no text", { id: 1 }, "id"),
  use("a tool_use without name", { name: undefined }, "name"),
  use("a tool_use of an empty name", { name: "" }, "name"),
  use("a tool_use without input", { input: undefined }, "input"),
  use("a tool_use whose input is a text", { input: "{}" }, "input"),
  use("a tool_use whose input is an array", { input: [] }, "input"),
  use("a tool_use whose input is null", { input: null }, "input"),
  ["a tool_use of the user", withBlock({ type: "tool_use", id: "c", name: "n", input: {} }), `${BLOCK}.type`],
  ["a tool_result without tool_use_id", withResult({ tool_use_id: undefined }), `${RESULT}.tool_use_id`],
  ["a tool_result that answers nothing", withResult({ tool_use_id: "call_2" }), `${RESULT}.tool_use_id`],
  [
    "a tool_result before its tool_use",
    having({
      messages: [
        { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "noon" }] },
        { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "clock", input: {} }] },
      ],
    }),
    `${BLOCK}.tool_use_id`,
  ],
  [
    "a tool_result of the assistant",
    withBlock({ type: "tool_result", tool_use_id: "c" }, "assistant"),
    `${BLOCK}.type`,
  ],
  ["a tool_result whose content is a number", withResult({ content: 12 }), `${RESULT}.content`],
  [
    "a tool_result of an empty text block",
    withResult({ content: [{ type: "text", text: "" }] }),
    `${RESULT}.content.0.text`,
  ],
  [
    "a tool_result of another kind of block",
    withResult({ content: [{ type: "tool_use", id: "c", name: "n", input: {} }] }),
    `${RESULT}.content.0.type`,
  ],
  [
    "a tool_result of an image that does not decode",
    withResult({
      content: [
        { type: "text", text: "x" },
        { type: "image", source: { ...pngSource, data: "?" } },
      ],
    }),
    `${RESULT}.content.1.source.data`,
  ],
  ["a tool_result whose is_error is no boolean", withResult({ is_error: "yes" }), `${RESULT}.is_error`],
  ["thinking without signature", withBlock({ type: "thinking", thinking: "hm" }, "assistant"), `${BLOCK}.signature`],
  ["thinking of the user", withBlock({ type: "thinking", thinking: "hm", signature: "s" }), `${BLOCK}.type`],
  ["redacted thinking without data", withBlock({ type: "redacted_thinking" }, "assistant"), `${BLOCK}.data`],
];

const DOCUMENT = { type: "document", source: { type: "text", data: "x" } };

const documents: readonly Refused[] = [
  ["a document without source", withBlock({ type: "document" }), `${BLOCK}.source`],
  ["a document source of an unknown type", withDocument({ type: "ftp" }), `${BLOCK}.source.type`],
  [
    "a document of base64 that is no PDF",
    withDocument({ type: "base64", media_type: "application/zip", data: "AAAA" }),
    `${BLOCK}.source.media_type`,
  ],
  [
    "a document of base64 that does not decode",
    withDocument({ type: "base64", media_type: "application/pdf", data: "%PDF" }),
    `${BLOCK}.source.data`,
  ],
  [
    "a document of content by url",
    withDocument({
      type: "content",
      content: [{ type: "image", source: { type: "url", url: "https://example.com" } }],
    }),
    `${BLOCK}.source.content.0.source.type`,
  ],
];

const thinking: readonly Refused[] = [
  ["thinking that is no object", having({ thinking: true }), "thinking"],
  ["thinking without type", having({ thinking: {} }), "thinking.type"],
  ["thinking of an unknown type", having({ thinking: { type: "deep" } }), "thinking.type"],
  ["thinking without a budget", having({ thinking: { type: "enabled" } }), "thinking.budget_tokens"],
  ...(
    [
      ["a budget of 1023", 4096, 1023],
      ["a budget that is no integer", 4096, 1024.5],
      ["a budget equal to max_tokens", 2048, 2048],
      ["a budget above max_tokens", 2048, 2049],
    ] as const
  ).map(([name, max_tokens, budget_tokens]): Refused => [
    name,
    having({ max_tokens, thinking: { type: "enabled", budget_tokens } }),
    "thinking.budget_tokens",
  ]),
];

const tool = (name: string, definition: unknown, field: string): Refused => [
  name,
  withTool(definition),
  `tools.0${field}`,
];

const tools: readonly Refused[] = [
  ["tools that are no array", having({ tools: CLOCK }), "tools"],
  tool("a tool that is no object", "clock", ""),
  tool("a tool of an unknown type", { ...CLOCK, type: "widget" }, ".type"),
  tool("a tool whose type is no text", { ...CLOCK, type: 1 }, ".type"),
  tool("a tool without name", { input_schema: {} }, ".name"),
  tool("a tool of an empty name", { ...CLOCK, name: "" }, ".name"),
  tool("a tool name of 65 characters", { ...CLOCK, name: "c".repeat(65) }, ".name"),
  tool("a tool name of 65 astral characters", { ...CLOCK, name: ASTRAL.repeat(65) }, ".name"),
  tool("a tool description that is no text", { ...CLOCK, description: 1 }, ".description"),
  tool("a tool without input_schema", { name: "clock" }, ".input_schema"),
  tool("an input_schema that is a text", { ...CLOCK, input_schema: "{}" }, ".input_schema"),
  tool("an input_schema that is an array", { ...CLOCK, input_schema: [] }, ".input_schema"),
  tool("a tool with cache_control of another type", { ...CLOCK, cache_control: { type: "x" } }, ".cache_control.type"),
  tool("the computer tool of another name", { ...COMPUTER, name: "screen" }, ".name"),
  tool("the computer tool without width", { ...COMPUTER, display_width_px: undefined }, ".display_width_px"),
  tool("the computer tool without height", { ...COMPUTER, display_height_px: undefined }, ".display_height_px"),
  tool("the computer tool of half a pixel", { ...COMPUTER, display_width_px: 0.5 }, ".display_width_px"),
  tool("the computer tool of a named display", { ...COMPUTER, display_number: ":0" }, ".display_number"),
  tool("the bash tool of another name", { type: "bash_20241022", name: "sh" }, ".name"),
  tool("the bash tool without name", { type: "bash_20241022" }, ".name"),
  tool("the text editor tool of another name", { type: "text_editor_20241022", name: "vi" }, ".name"),
  ["two tools of one name", having({ tools: [CLOCK, CLOCK] }), "tools.1.name"],
  ["the second tool", having({ tools: [CLOCK, { name: "x" }] }), "tools.1.input_schema"],
];

const choice = (name: string, tool_choice: unknown, field: string): Refused => [
  name,
  having({ tools: [CLOCK], tool_choice }),
  `tool_choice${field}`,
];

const choices: readonly Refused[] = [
  choice("tool_choice that is a text", "auto", ""),
  choice("tool_choice without type", {}, ".type"),
  choice("tool_choice of an unknown type", { type: "some" }, ".type"),
  choice("tool_choice tool without name", { type: "tool" }, ".name"),
  choice("tool_choice of a tool that is not there", { type: "tool", name: "cloak" }, ".name"),
  choice(
    "disable_parallel_tool_use that is no boolean",
    { type: "auto", disable_parallel_tool_use: 1 },
    ".disable_parallel_tool_use",
  ),
  ["tool_choice any without tools", having({ tool_choice: { type: "any" } }), "tool_choice.type"],
  ["tool_choice tool without tools", having({ tool_choice: { type: "tool", name: "clock" } }), "tool_choice.name"],
];

/** Arrays in place of objects: JavaScript and many validators take them for objects. */
const arrays: readonly Refused[] = [
  ["a message that is an array", having({ messages: [[]] }), "messages.0"],
  ["a block that is an array", withBlock([]), BLOCK],
  ["an image source that is an array", withImage([]), `${BLOCK}.source`],
  ["a document source that is an array", withDocument([]), `${BLOCK}.source`],
  [
    "cache_control that is an array",
    withBlock({ type: "text", text: "x", cache_control: [] }),
    `${BLOCK}.cache_control`,
  ],
  ["citations that are an array", withBlock({ ...DOCUMENT, citations: [] }), `${BLOCK}.citations`],
  ...["metadata", "thinking", "tool_choice", "output_config"].map((field): Refused => [
    `${field} that is an array`,
    having({ [field]: [] }),
    field,
  ]),
  ["a format that is an array", having({ output_config: { format: [] } }), "output_config.format"],
  ["a tool that is an array", withTool([]), "tools.0"],
];

/** Integers beyond 2^53 - 1: two of them may be the same number, and sums go wrong. */
const uncountable: readonly Refused[] = [9_007_199_254_740_992, 1e300, -1e300].flatMap((number): Refused[] => [
  [`max_tokens ${number}`, having({ max_tokens: number }), "max_tokens"],
  [`top_k ${number}`, having({ top_k: number }), "top_k"],
  [`a budget of ${number}`, having({ thinking: { type: "enabled", budget_tokens: number } }), "thinking.budget_tokens"],
  tool(`the computer tool of ${number} pixels`, { ...COMPUTER, display_width_px: number }, ".display_width_px"),
  tool(`the computer tool of the display ${number}`, { ...COMPUTER, display_number: number }, ".display_number"),
]);

export const REFUSED: readonly Refused[] = [
  ...arrays,
  ...uncountable,
  ...scalars,
  ...messages,
  ...images,
  ...calls,
  ...documents,
  ...thinking,
  ...tools,
  ...choices,
];

/** Requests that fail even with `messages: { ranges: "vendor" }`. */
export const REFUSED_IN_VENDOR_RANGES: readonly Refused[] = [
  ["an empty tool name", withTool({ ...CLOCK, name: "" }), "tools.0.name"],
  ["a tool name of 129 characters", withTool({ ...CLOCK, name: "c".repeat(129) }), "tools.0.name"],
  ["a tool name of 129 astral characters", withTool({ ...CLOCK, name: ASTRAL.repeat(129) }), "tools.0.name"],
  ["max_tokens 0", having({ max_tokens: 0 }), "max_tokens"],
  ["top_p below 0", having({ top_p: -0.1 }), "top_p"],
  ["top_p above 1", having({ top_p: 1.1 }), "top_p"],
  ["top_p just above 1", having({ top_p: 1 + Number.EPSILON }), "top_p"],
  ["top_p below -1", having({ top_p: -1.5 }), "top_p"],
  ["top_k below -1", having({ top_k: -2 }), "top_k"],
  ["temperature above 1", having({ temperature: 1.1 }), "temperature"],
];

/** Requests that fail even with `messages: { imageSources: "vendor" }`. */
export const REFUSED_VENDOR_SOURCES: readonly Refused[] = [
  ["an image by something that is no url", withImage({ type: "url", url: "a.png" }), `${BLOCK}.source.url`],
  ["an image by url without one", withImage({ type: "url" }), `${BLOCK}.source.url`],
  ["an image by file without one", withImage({ type: "file" }), `${BLOCK}.source.file_id`],
  image("base64 that does not decode", { data: "?" }, "data"),
];
