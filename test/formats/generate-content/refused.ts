/** Generate-content requests that must be refused, each with the field that the error names: the failing side of spec 2.8. */

import {
  type Body,
  calling,
  CLOCK,
  having,
  PNG,
  withData,
  withFile,
  withFunction,
  withPart,
  withResponse,
  withTool,
} from "./bodies.ts";
import { REFUSED_CONFIGS } from "./refused-config.ts";
import { OLDER_HARM_CATEGORIES } from "./spec-fields.ts";

export type Refused = readonly [name: string, body: Body, path: string];

const PART = "contents[0].parts[0]";

const contents: readonly Refused[] = [
  ["no contents", having({ contents: undefined }), "contents"],
  ["contents of null", having({ contents: null }), "contents"],
  ["contents that are a number", having({ contents: 1 }), "contents"],
  ["no turn", having({ contents: [] }), "contents"],
  ["a turn that is a number", having({ contents: [1] }), "contents[0]"],
  ["a turn that is null", having({ contents: [null] }), "contents[0]"],
  ["a turn without parts", having({ contents: [{ role: "user" }] }), "contents[0].parts"],
  ["a turn of no parts", having({ contents: [{ role: "user", parts: [] }] }), "contents[0].parts"],
  ["a turn whose parts are a text", having({ contents: [{ parts: "Hi" }] }), "contents[0].parts"],
  ["a turn of another role", withPart({ text: "Hi" }, "assistant"), "contents[0].role"],
  ["a turn of role system", withPart({ text: "Hi" }, "system"), "contents[0].role"],
  ["a turn whose role is a number", having({ contents: [{ role: 1, parts: [{ text: "Hi" }] }] }), "contents[0].role"],
  ["a single Content without parts", { contents: { role: "user" } }, "contents.parts"],
  ["a single Content of another role", { contents: { role: "assistant", parts: [{ text: "Hi" }] } }, "contents.role"],
  ["a part that is a number", withPart(1), PART],
  ["a part that is null", withPart(null), PART],
  ["an empty part", withPart({}), PART],
  ["a part of nothing known", withPart({ smell: "rose" }), PART],
  ["a part whose data is null", withPart({ text: null }), PART],
  ["a second part", having({ contents: [{ parts: [{ text: "Hi" }, { text: 1 }] }] }), "contents[0].parts[1].text"],
  [
    "a second turn",
    having({ contents: [{ parts: [{ text: "Hi" }] }, { parts: [{ text: 1 }] }] }),
    "contents[1].parts[0].text",
  ],
  ["a text that is a number", withPart({ text: 1 }), `${PART}.text`],
  ["a thought that is no boolean", withPart({ text: "Hm.", thought: "yes" }), `${PART}.thought`],
  ["a signature that is no text", withPart({ text: "Hm.", thoughtSignature: 1 }), `${PART}.thoughtSignature`],
  ["a system instruction that is a number", having({ systemInstruction: 1 }), "systemInstruction"],
  ["a system instruction without parts", having({ systemInstruction: {} }), "systemInstruction.parts"],
  ["a system instruction of no parts", having({ systemInstruction: { parts: [] } }), "systemInstruction.parts"],
  [
    "a system instruction of a picture",
    having({ systemInstruction: { parts: [{ inlineData: { mimeType: "image/png", data: PNG } }] } }),
    "systemInstruction.parts[0].inlineData",
  ],
  ["cached content that is no text", having({ cachedContent: 1 }), "cachedContent"],
  ["cached content of another form", having({ cachedContent: "a-1" }), "cachedContent"],
  ["cached content without a name", having({ cachedContent: "cachedContents/" }), "cachedContent"],
];

const DATA = `${PART}.inlineData`;
const FILE = `${PART}.fileData`;

const media: readonly Refused[] = [
  ["inlineData that is a text", withPart({ inlineData: PNG }), DATA],
  ["inlineData without mimeType", withData(undefined), `${DATA}.mimeType`],
  ["inlineData whose mimeType is a number", withData(1), `${DATA}.mimeType`],
  ...["image/tiff", "image/bmp", "audio/midi", "video/ogg", "text/html", "application/xml", "png", ""].map(
    (type): Refused => [`inlineData of "${type}"`, withData(type), `${DATA}.mimeType`],
  ),
  ["inlineData without data", withPart({ inlineData: { mimeType: "image/png" } }), `${DATA}.data`],
  ["inlineData whose data is a number", withData("image/png", 1), `${DATA}.data`],
  ...[
    ["empty base64", ""],
    ["base64 with a bad character", "iVBORw0K*go="],
    ["base64 that lacks its padding", "iVBORw0KGgo"],
    ["base64 of one character", "A"],
    ["base64 with too much padding", "A==="],
    ["base64 with padding inside", "AA==AAAA"],
    ["base64 of padding alone", "===="],
    ["base64 with white space", "iVBO Rw0KGgo"],
    ["base64 with a line break at its end", "AAA=\n"],
    ["a data URL", `data:image/png;base64,${PNG}`],
  ].map(([name, data]): Refused => [name ?? "", withData("image/png", data), `${DATA}.data`]),
  ["fileData that is a text", withPart({ fileData: "https://example.com/a.png" }), FILE],
  ["fileData without mimeType", withFile(undefined), `${FILE}.mimeType`],
  ["fileData without fileUri", withPart({ fileData: { mimeType: "image/png" } }), `${FILE}.fileUri`],
  ["fileData of an empty fileUri", withFile("image/png", ""), `${FILE}.fileUri`],
  ["fileData whose fileUri is a number", withFile("image/png", 1), `${FILE}.fileUri`],
  ...["audio/wav", "audio/mpeg", "video/mp4", "video/x-flv", "application/pdf"].map((type): Refused => [
    `fileData of ${type}`,
    withFile(type),
    `${FILE}.fileUri`,
  ]),
  ...["text/plain", "application/json", "png"].map((type): Refused => [
    `fileData of ${type}`,
    withFile(type),
    `${FILE}.mimeType`,
  ]),
];

const CALL = `${PART}.functionCall`;
const RESPONSE = "contents[2].parts[0].functionResponse";

const call = (name: string, functionCall: unknown, field: string): Refused => [
  name,
  withPart({ functionCall }, "model"),
  `${CALL}${field}`,
];
const response = (name: string, functionResponse: unknown, field: string): Refused => [
  name,
  withResponse(functionResponse),
  `${RESPONSE}${field}`,
];
const code = (name: string, executableCode: unknown, field: string): Refused => [
  name,
  withPart({ executableCode }, "model"),
  `${PART}.executableCode${field}`,
];
const result = (name: string, codeExecutionResult: unknown, field: string): Refused => [
  name,
  withPart({ codeExecutionResult }, "model"),
  `${PART}.codeExecutionResult${field}`,
];

const calls: readonly Refused[] = [
  call("a functionCall that is a text", "clock", ""),
  call("a functionCall without name", { args: {} }, ".name"),
  call("a functionCall of an empty name", { name: "" }, ".name"),
  call("a functionCall whose name is a number", { name: 1 }, ".name"),
  call("a functionCall whose args are a text", { name: "clock", args: "{}" }, ".args"),
  call("a functionCall whose args are an array", { name: "clock", args: [] }, ".args"),
  call("a functionCall whose id is a number", { id: 1, name: "clock" }, ".id"),
  response("a functionResponse that is a text", "noon", ""),
  response("a functionResponse without name", { response: {} }, ".name"),
  response("a functionResponse without response", { name: "clock" }, ".response"),
  response("a functionResponse whose response is a text", { name: "clock", response: "noon" }, ".response"),
  response("a functionResponse whose response is an array", { name: "clock", response: [] }, ".response"),
  response("a functionResponse whose response is null", { name: "clock", response: null }, ".response"),
  code("executableCode that is a text", "print(1)", ""),
  code("executableCode without language", { code: "1" }, ".language"),
  code("executableCode of another language", { language: "RUBY", code: "1" }, ".language"),
  code("executableCode in small letters", { language: "python", code: "1" }, ".language"),
  code("executableCode without code", { language: "PYTHON" }, ".code"),
  code("executableCode whose code is a number", { language: "PYTHON", code: 1 }, ".code"),
  result("a codeExecutionResult that is a text", "1", ""),
  result("a codeExecutionResult without outcome", { output: "1" }, ".outcome"),
  result("a codeExecutionResult of another outcome", { outcome: "OUTCOME_MIXED" }, ".outcome"),
  result("a codeExecutionResult whose output is a number", { outcome: "OUTCOME_OK", output: 1 }, ".output"),
];

const FUNCTION = "tools[0].functionDeclarations[0]";
const CALLING = "toolConfig.functionCallingConfig";

const tools: readonly Refused[] = [
  ["tools that are a text", having({ tools: "clock" }), "tools"],
  [
    "a single tool of a function without name",
    having({ tools: { functionDeclarations: [{}] } }),
    "tools.functionDeclarations[0].name",
  ],
  ["a tool that is a text", withTool("clock"), "tools[0]"],
  ["functions that are an object", withTool({ functionDeclarations: CLOCK }), "tools[0].functionDeclarations"],
  ["a function that is a text", withTool({ functionDeclarations: ["clock"] }), FUNCTION],
  ["a function without name", withFunction({ name: undefined }), `${FUNCTION}.name`],
  ["a function of an empty name", withFunction({ name: "" }), `${FUNCTION}.name`],
  ["a function whose name is a number", withFunction({ name: 1 }), `${FUNCTION}.name`],
  ["a function whose description is a number", withFunction({ description: 1 }), `${FUNCTION}.description`],
  ["parameters that are a text", withFunction({ parameters: "{}" }), `${FUNCTION}.parameters`],
  [
    "parametersJsonSchema that is a text",
    withFunction({ parameters: undefined, parametersJsonSchema: "{}" }),
    `${FUNCTION}.parametersJsonSchema`,
  ],
  [
    "functions of one name",
    withTool({ functionDeclarations: [CLOCK, { name: "clock" }] }),
    "tools[0].functionDeclarations[1].name",
  ],
  [
    "functions of one name in two tools",
    having({ tools: [{ functionDeclarations: [CLOCK] }, { functionDeclarations: [CLOCK] }] }),
    "tools[1].functionDeclarations[0].name",
  ],
  ["code execution that is a text", withTool({ codeExecution: "yes" }), "tools[0].codeExecution"],
  ["a tool config that is a text", having({ toolConfig: "ANY" }), "toolConfig"],
  ["a function calling config that is a text", calling("ANY"), CALLING],
  ["an unknown mode", calling({ mode: "SOME" }), `${CALLING}.mode`],
  ["a mode in small letters", calling({ mode: "any" }), `${CALLING}.mode`],
  ["names that are a text", calling({ mode: "ANY", allowedFunctionNames: "clock" }), `${CALLING}.allowedFunctionNames`],
  [
    "a name that no function has",
    calling({ mode: "ANY", allowedFunctionNames: ["clock", "bell"] }),
    `${CALLING}.allowedFunctionNames[1]`,
  ],
];

const SETTING = "safetySettings[0]";
const setting = (name: string, fields: Body, field: string): Refused => [
  name,
  having({ safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "OFF", ...fields }] }),
  `${SETTING}.${field}`,
];

const safety: readonly Refused[] = [
  ["safety settings that are an object", having({ safetySettings: {} }), "safetySettings"],
  ["a safety setting that is a text", having({ safetySettings: ["OFF"] }), SETTING],
  setting("a setting without category", { category: undefined }, "category"),
  setting("a setting of an unknown category", { category: "HARM_CATEGORY_SPAM" }, "category"),
  ...OLDER_HARM_CATEGORIES.map((category) => setting(`a setting of ${category}`, { category }, "category")),
  setting("a setting without threshold", { threshold: undefined }, "threshold"),
  setting("a setting of an unknown threshold", { threshold: "BLOCK_ALL" }, "threshold"),
  [
    "two settings of one category",
    having({
      safetySettings: [
        { category: "HARM_CATEGORY_HARASSMENT", threshold: "OFF" },
        { category: "HARM_CATEGORY_HATE_SPEECH", threshold: "OFF" },
        { category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" },
      ],
    }),
    "safetySettings[2].category",
  ],
];

/** Errors name a field as its caller spelled it. */
const snake: readonly Refused[] = [
  ["generation_config", having({ generation_config: { top_p: 2 } }), "generation_config.top_p"],
  ["generation_config of camelCase fields", having({ generation_config: { topP: 2 } }), "generation_config.topP"],
  ["generationConfig of snake_case fields", having({ generationConfig: { top_p: 2 } }), "generationConfig.top_p"],
  ["inline_data", withPart({ inline_data: { mime_type: "image/bmp", data: PNG } }), `${PART}.inline_data.mime_type`],
  ["inline_data without its type", withPart({ inline_data: { data: PNG } }), `${PART}.inline_data.mime_type`],
  [
    "file_data",
    withPart({ file_data: { mime_type: "audio/wav", file_uri: "https://a.b/c" } }),
    `${PART}.file_data.file_uri`,
  ],
  [
    "function_declarations",
    withTool({ function_declarations: [{ name: "f", parameters: "{}" }] }),
    "tools[0].function_declarations[0].parameters",
  ],
  [
    "tool_config",
    having({ tool_config: { function_calling_config: { mode: "SOME" } } }),
    "tool_config.function_calling_config.mode",
  ],
  [
    "safety_settings",
    having({ safety_settings: [{ category: "X", threshold: "OFF" }] }),
    "safety_settings[0].category",
  ],
  ["system_instruction", having({ system_instruction: { parts: [{ text: 1 }] } }), "system_instruction.parts[0].text"],
  ["cached_content", having({ cached_content: 1 }), "cached_content"],
  [
    "a user's name, which is nobody's to respell",
    having({ generation_config: { response_schema: { type: "OBJECT", properties: { firstName: null } } } }),
    "generation_config.response_schema.properties.firstName",
  ],
];

export const REFUSED: readonly Refused[] = [
  ...contents,
  ...media,
  ...calls,
  ...tools,
  ...safety,
  ...snake,
  ...REFUSED_CONFIGS,
];
