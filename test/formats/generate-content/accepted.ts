/** Generate-content requests that must be answered: the passing side of spec 2.8 and 8, and what real clients add. */

import { ACCEPTED_CONFIGS } from "./accepted-config.ts";
import {
  type Body,
  CLOCK,
  calling,
  configured,
  having,
  MINIMAL,
  PNG,
  withData,
  withFile,
  withFunction,
  withPart,
  withResponse,
  withTool,
} from "./bodies.ts";
import { HARM_CATEGORIES, HARM_THRESHOLDS, MEDIA_TYPES } from "./spec-fields.ts";

export type Accepted = readonly [name: string, body: Body];

const contents: readonly Accepted[] = [
  ["the smallest request", MINIMAL],
  ["contents that are a text", { contents: "Hi" }],
  ["contents that are a single Content", { contents: { role: "user", parts: [{ text: "Hi" }] } }],
  ["contents of texts", { contents: ["Hi", "there"] }],
  ["a turn without a role", having({ contents: [{ parts: [{ text: "Hi" }] }] })],
  ["a turn whose role is null", having({ contents: [{ role: null, parts: [{ text: "Hi" }] }] })],
  ...["user", "model", "function", "tool"].map((role): Accepted => [
    `a turn of role ${role}`,
    withPart({ text: "Hi" }, role),
  ]),
  ["turns of one role in a row", having({ contents: [{ parts: [{ text: "a" }] }, { parts: [{ text: "b" }] }] })],
  ["an empty text", withPart({ text: "" })],
  ["a text that is a thought", withPart({ text: "Hm.", thought: true, thoughtSignature: "c2ln" }, "model")],
  ["a text that is no thought", withPart({ text: "Hm.", thought: false }, "model")],
  ["a part of a signature alone", withPart({ thoughtSignature: "c2ln" }, "model")],
  ["a part with null fields", withPart({ text: "Hi", inlineData: null, functionCall: null, thought: null })],
  ["a part with fields of nobody", withPart({ text: "Hi", videoMetadata: { fps: 1 }, mood: "good" })],
  ["a system instruction", having({ systemInstruction: { parts: [{ text: "Be brief." }] } })],
  ["a system instruction in short", having({ systemInstruction: "Be brief." })],
  [
    "a system instruction with a role",
    having({ systemInstruction: { role: "system", parts: [{ text: "Be brief." }] } }),
  ],
  ["fields that nobody knows", having({ labels: { team: "t" }, store: false, serviceTier: null })],
  [
    "null for every optional field",
    having({
      tools: null,
      toolConfig: null,
      safetySettings: null,
      systemInstruction: null,
      generationConfig: null,
      cachedContent: null,
    }),
  ],
  ["cached content", having({ cachedContent: "cachedContents/a-1" })],
];

const IMAGE_AND_AUDIO_ALIASES = [
  "image/jpg",
  "audio/mpeg",
  "audio/x-wav",
  "audio/x-aiff",
  "audio/x-flac",
  "audio/ogg; codecs=opus",
];
const VIDEO_ALIASES = ["video/quicktime", "video/x-msvideo", "video/flv", "video/x-ms-wmv", "video/MP4"];

const media: readonly Accepted[] = [
  ...[...MEDIA_TYPES, ...IMAGE_AND_AUDIO_ALIASES, ...VIDEO_ALIASES].map((type): Accepted => [
    `inlineData of ${type}`,
    withData(type),
  ]),
  ["base64 without padding", withData("image/png", "AAAA")],
  ["base64 with one sign of padding", withData("image/png", "AAA=")],
  ["base64 with two signs of padding", withData("image/png", "AA==")],
  ["base64 with both of its special signs", withData("image/png", "+/+/")],
  ...["jpeg", "png", "webp", "heic", "heif"].map((format): Accepted => [
    `fileData of image/${format}`,
    withFile(`image/${format}`),
  ]),
  ["inlineData with a name", withPart({ inlineData: { mimeType: "image/png", data: PNG, displayName: "a.png" } })],
];

const calls: readonly Accepted[] = [
  ["a functionCall", withPart({ functionCall: { name: "clock", args: { a: [1, { b: null }] } } }, "model")],
  ["a functionCall without args", withPart({ functionCall: { name: "clock" } }, "model")],
  ["a functionCall whose args are null", withPart({ functionCall: { name: "clock", args: null } }, "model")],
  ["a functionCall with an id", withPart({ functionCall: { id: "c1", name: "clock", args: {} } }, "model")],
  ["a functionResponse", withResponse({ name: "clock", response: { time: "noon" } })],
  ["a functionResponse of nothing", withResponse({ name: "clock", response: {} })],
  ["a functionResponse by its id", withResponse({ id: "c1", name: "clock", response: {} }, { id: "c1" })],
  ["a functionResponse that answers no call", withPart({ functionResponse: { name: "clock", response: {} } })],
  ["a functionResponse of role function", withPart({ functionResponse: { name: "clock", response: {} } }, "function")],
  ["executableCode", withPart({ executableCode: { language: "PYTHON", code: "1" } }, "model")],
  [
    "executableCode of no language",
    withPart({ executableCode: { language: "LANGUAGE_UNSPECIFIED", code: "1" } }, "model"),
  ],
  ["a call of the service's own tool", withPart({ toolCall: { toolType: "GOOGLE_SEARCH_WEB", id: "1" } }, "model")],
  ["what the service's own tool answered", withPart({ tool_response: { tool_type: "GOOGLE_SEARCH_WEB", id: "1" } })],
  ["what was heard", withPart({ audioTranscription: { text: "Hello", finished: true } }, "model")],
  ["executableCode of an empty code", withPart({ executableCode: { language: "PYTHON", code: "" } }, "model")],
  ...["UNSPECIFIED", "OK", "FAILED", "DEADLINE_EXCEEDED"].map((outcome): Accepted => [
    `a codeExecutionResult of ${outcome}`,
    withPart({ codeExecutionResult: { outcome: `OUTCOME_${outcome}`, output: "1\n" } }, "model"),
  ]),
  ["a codeExecutionResult without output", withPart({ codeExecutionResult: { outcome: "OUTCOME_OK" } }, "model")],
];

const tools: readonly Accepted[] = [
  ["no tools", having({ tools: [] })],
  ["a single tool", having({ tools: { functionDeclarations: [CLOCK] } })],
  ["a single tool in snake_case", having({ tools: { function_declarations: [CLOCK], code_execution: {} } })],
  ["a tool of no functions", withTool({ functionDeclarations: [] })],
  ["a function", withFunction({})],
  ["a function without parameters", withFunction({ parameters: undefined })],
  ["a function with a description", withFunction({ description: "Tells the time." })],
  ["a function of an empty description", withFunction({ description: "" })],
  ["a function of JSON Schema", withFunction({ parameters: undefined, parametersJsonSchema: { type: ["object"] } })],
  ["a function with fields that clients add", withFunction({ behavior: "BLOCKING", response: { type: "OBJECT" } })],
  ["a function whose name has other signs", withFunction({ name: "clock.tell-time_2" })],
  ["parameters of small letters", withFunction({ parameters: { type: "object", properties: {} } })],
  ["parameters of an object without properties", withFunction({ parameters: { type: "OBJECT" } })],
  ["code execution", withTool({ codeExecution: {} })],
  ["functions and code execution in one tool", withTool({ functionDeclarations: [CLOCK], codeExecution: {} })],
  [
    "functions of several tools",
    having({ tools: [{ functionDeclarations: [CLOCK] }, { functionDeclarations: [{ name: "b" }] }] }),
  ],
  ...["googleSearch", "googleSearchRetrieval", "urlContext", "googleMaps", "computerUse"].map((tool): Accepted => [
    `the provider's own ${tool}`,
    withTool({ [tool]: {} }),
  ]),
  ["an empty tool config", having({ toolConfig: {} })],
  ["an empty function calling config", calling({})],
  ["a tool config of something else", having({ toolConfig: { retrievalConfig: { languageCode: "en" } } })],
  ...["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"].map((mode): Accepted => [
    `the mode ${mode}`,
    calling({ mode }),
  ]),
  ["the mode ANY of some functions", calling({ mode: "ANY", allowedFunctionNames: ["ping"] })],
  ["the mode VALIDATED of some functions", calling({ mode: "VALIDATED", allowedFunctionNames: ["ping", "clock"] })],
  ["the mode AUTO with no names", calling({ mode: "AUTO", allowedFunctionNames: [] })],
  ["the mode NONE without functions", having({ toolConfig: { functionCallingConfig: { mode: "NONE" } } })],
  ["the mode AUTO without functions", having({ toolConfig: { functionCallingConfig: { mode: "AUTO" } } })],
];

const safety: readonly Accepted[] = [
  ["no safety settings", having({ safetySettings: [] })],
  ...HARM_CATEGORIES.flatMap((category) =>
    HARM_THRESHOLDS.map((threshold): Accepted => [
      `${threshold} for ${category}`,
      having({ safetySettings: [{ category, threshold }] }),
    ]),
  ),
  [
    "a setting for every category",
    having({
      safetySettings: HARM_CATEGORIES.map((category) => ({ category, threshold: "BLOCK_NONE" })),
    }),
  ],
];

const snake: readonly Accepted[] = [
  [
    "snake_case for the request's fields",
    having({
      tools: [{ function_declarations: [{ name: "f", parameters_json_schema: {} }] }, { code_execution: {} }],
      tool_config: { function_calling_config: { mode: "ANY", allowed_function_names: ["f"] } },
      safety_settings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "OFF" }],
      system_instruction: { parts: [{ text: "Be brief." }] },
      cached_content: "cachedContents/a",
      generation_config: { max_output_tokens: 5, response_mime_type: "text/plain" },
    }),
  ],
  [
    "snake_case for the parts' fields",
    having({
      contents: [
        {
          parts: [
            { inline_data: { mime_type: "image/png", data: PNG } },
            { file_data: { mime_type: "image/png", file_uri: "https://example.com/a.png" } },
          ],
        },
        {
          role: "model",
          parts: [
            { function_call: { name: "f" }, thought_signature: "c2ln" },
            { executable_code: { language: "PYTHON", code: "1" } },
            { code_execution_result: { outcome: "OUTCOME_OK" } },
          ],
        },
        { parts: [{ function_response: { name: "f", response: {} } }] },
      ],
    }),
  ],
  ["both spellings in one object", configured({ max_output_tokens: 5, topP: 0.5, top_k: 3 })],
  ["one spelling of null beside the other", configured({ max_output_tokens: null, maxOutputTokens: 5 })],
];

export const ACCEPTED: readonly Accepted[] = [
  ...contents,
  ...media,
  ...calls,
  ...tools,
  ...safety,
  ...snake,
  ...ACCEPTED_CONFIGS,
];
