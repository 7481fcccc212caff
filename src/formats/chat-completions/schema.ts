/** The chat-completions request on the wire: its schema, and the rules that compare several fields. Unknown fields are allowed. */

import * as v from "valibot";
import {
  array,
  choice,
  crossCheck,
  isUnknown,
  object,
  openVariant,
  openWords,
  type RuleBreach,
  shown,
  textOr,
  type UnknownObject,
  unknownObject,
  upTo,
} from "../../http/validation.ts";
import { isJsonObject } from "../../model/json.ts";
import {
  atMost,
  audioFormat,
  base64,
  between,
  customFields,
  EFFORTS,
  fileData,
  FORMATS,
  functionFields,
  imageDetail,
  jsonObject,
  text,
  unsupported,
  unsupportedFinder,
  webOrDataUrl,
  whole,
} from "../shared/schema.ts";

/** The data of the frame that ends a stream. */
export const DONE = "[DONE]";

/** An integer between two bounds, both included. */
const integer = (least: number, most: number, message = `must be between ${least} and ${most}`) =>
  v.pipe(v.number(), v.integer(), v.minValue(least, message), v.maxValue(most, message));

const outputLimit = integer(1, Number.MAX_SAFE_INTEGER, "must be an integer of at least 1");

const FunctionTool = object({
  // Clients of Mistral leave the type out.
  type: v.nullish(v.literal("function")),
  function: object({ ...functionFields, strict: v.nullish(v.boolean()) }),
});

/** A tool of a request with `functions`, which is older than `tools`. */
const DeprecatedFunction = object(functionFields);

const CustomTool = object({ type: v.literal("custom"), custom: object(customFields) });

const CompletionTool = openVariant([FunctionTool, CustomTool]);
export type CompletionTool = v.InferOutput<typeof CompletionTool>;
export const TOOLS: ReadonlySet<string> = new Set(["function", "custom"]);

const FunctionChoice = object({ type: v.literal("function"), function: object({ name: text }) });
const CustomChoice = object({ type: v.literal("custom"), custom: object({ name: text }) });

const NamedTool = openVariant([FunctionChoice, CustomChoice]);
export type NamedTool = v.InferOutput<typeof NamedTool>;

const AllowedTools = object({
  type: v.literal("allowed_tools"),
  allowed_tools: object({
    mode: v.picklist(["auto", "required"]),
    tools: v.pipe(array(NamedTool), v.minLength(1, "must name at least one tool")),
  }),
});

const CHOICE_WORDS = ["none", "auto", "required"] as const;
const ChosenTools = openVariant([FunctionChoice, CustomChoice, AllowedTools]);

export type CompletionToolChoice = (typeof CHOICE_WORDS)[number] | v.InferOutput<typeof ChosenTools>;
const ToolChoiceWord = openWords(v.picklist(CHOICE_WORDS)) as v.GenericSchema<string>;
const CompletionToolChoice = textOr(ChosenTools, ToolChoiceWord) as v.GenericSchema<unknown, CompletionToolChoice>;

const CHOICES: ReadonlySet<string> = new Set([...CHOICE_WORDS, "function", "custom", "allowed_tools"]);

/** Tells whether the neutral request can say a tool choice. */
export const isKnownChoice = (choice: CompletionToolChoice): choice is Exclude<CompletionToolChoice, UnknownObject> =>
  CHOICES.has(typeof choice === "string" ? choice : choice.type);

/** Returns the name of a tool, from its definition or from a tool choice; undefined for a tool of an unknown type without a name. */
export function nameOf(tool: CompletionTool | NamedTool): string | undefined {
  const named = (tool as UnknownObject)[tool.type ?? "function"];
  const { name } = isJsonObject(named) ? named : (tool as UnknownObject);
  return typeof name === "string" ? name : undefined;
}

const TextContent = object({ type: v.literal("text"), text: v.string() });
export type TextContent = v.InferOutput<typeof TextContent>;

const ImageContent = object({
  type: v.literal("image_url"),
  image_url: object({
    url: webOrDataUrl,
    detail: imageDetail,
  }),
});

const AudioContent = object({
  type: v.literal("input_audio"),
  input_audio: object({
    data: base64,
    format: audioFormat,
  }),
});

const FileContent = object({
  type: v.literal("file"),
  file: v.pipe(
    object({
      file_data: v.nullish(fileData),
      file_id: v.nullish(text),
      filename: v.nullish(v.string()),
    }),
    v.check(({ file_data, file_id }) => (file_data == null) !== (file_id == null), "must hold file_data or file_id"),
  ),
});

const UserContent = openVariant([TextContent, ImageContent, AudioContent, FileContent]);
export type UserContent = v.InferOutput<typeof UserContent>;

/** Reasoning among the texts of an answer, as Mistral has it. */
const ThinkingContent = object({
  type: v.literal("thinking"),
  thinking: array(object({ type: v.string(), text: v.nullish(v.string()) })),
  // Ignored: reasoning that is sent back has ended.
  closed: v.optional(v.unknown()),
});

const AssistantContent = openVariant([
  TextContent,
  object({ type: v.literal("refusal"), refusal: v.string() }),
  ThinkingContent,
]);
export type AssistantContent = v.InferOutput<typeof AssistantContent>;

/** Makes the schema of a message's content: a text, or a list of parts. */
const content = <const Part extends v.GenericSchema>(part: Part) =>
  textOr(array(part, ({ input }) => `must be a string or an array, not ${shown(input)}`));

const name = v.nullish(v.string());

const SystemMessage = object({
  role: v.picklist(["system", "developer"]),
  content: content(openVariant([TextContent])),
  name,
});

const UserMessage = object({ role: v.literal("user"), content: content(UserContent), name });

/** The extension in which Google's own endpoint of this format carries the signatures of Gemini. */
export const ExtraContent = v.nullish(
  object({ google: v.nullish(object({ thought_signature: v.nullish(v.string()) })) }),
);
export type ExtraContent = v.InferOutput<typeof ExtraContent>;

const FunctionCall = object({
  type: v.literal("function"),
  id: text,
  function: object({ name: text, arguments: v.string() }),
  extra_content: ExtraContent,
  // Ignored: clients send back the index from a stream, and it equals the position in the list.
  index: v.optional(v.unknown()),
});

const CustomCall = object({
  type: v.literal("custom"),
  id: text,
  custom: object({ name: text, input: v.string() }),
  // Ignored, as in the call of a function.
  index: v.optional(v.unknown()),
});
export type CompletionCall = v.InferOutput<typeof FunctionCall> | v.InferOutput<typeof CustomCall> | UnknownObject;

/** The fields of an item of `reasoning_details`, as OpenRouter has it. `data` is encrypted reasoning. */
const detail = {
  type: v.nullish(v.string()),
  text: v.nullish(v.string()),
  summary: v.nullish(v.string()),
  signature: v.nullish(v.string()),
  data: v.nullish(v.string()),
};

/** An item in an answer. The record of the reasoning holds it unchanged, with its unknown fields. */
export const ReasoningDetail = whole(object({ ...detail, index: v.nullish(v.number()) }));
export type ReasoningDetail = Partial<v.InferOutput<typeof ReasoningDetail>>;

// An item that comes back. The other fields are ignored: they say only where the item came from.
const ignored = v.optional(v.unknown());
const ReturnedDetail = object({ ...detail, index: v.nullish(v.number()), id: ignored, format: ignored });

const AssistantMessage = object({
  role: v.literal("assistant"),
  content: v.nullish(content(AssistantContent)),
  refusal: v.nullish(v.string()),
  // Providers show reasoning under several names, and their clients send it back.
  reasoning_content: v.nullish(v.string()),
  reasoning: v.nullish(v.string()),
  reasoning_details: v.nullish(array(ReturnedDetail)),
  tool_calls: v.nullish(array(openVariant([FunctionCall, CustomCall]))),
  // Deprecated. Some servers send it with empty texts beside `tool_calls`, and their clients send it back.
  function_call: v.nullish(object({ name: v.string(), arguments: v.string() })),
  extra_content: ExtraContent,
  name,
});
export type AssistantMessage = v.InferOutput<typeof AssistantMessage>;

const ToolMessage = object({
  role: v.literal("tool"),
  tool_call_id: text,
  // The official service documents only text, but clients also send pictures, and local servers accept them.
  content: content(openVariant([TextContent, ImageContent])),
  // Ignored: the call already names the tool.
  name: v.optional(v.unknown()),
});

/** The result of a `function_call`, which has no id. */
const FunctionMessage = object({
  role: v.literal("function"),
  name: text,
  content: v.nullish(content(openVariant([TextContent]))),
});
export type FunctionMessage = v.InferOutput<typeof FunctionMessage>;

export type CompletionMessage =
  | v.InferOutput<typeof SystemMessage | typeof UserMessage | typeof AssistantMessage | typeof ToolMessage>
  | UnknownMessage;

/** A message of a role that only its vendor knows. The literal stands for every text that is no known role. */
interface UnknownMessage {
  readonly role: "(unknown)";
  readonly [field: string]: unknown;
}

const BY_ROLE = new Map<unknown, v.GenericSchema<unknown, CompletionMessage | FunctionMessage>>([
  ["system", SystemMessage],
  ["developer", SystemMessage],
  ["user", UserMessage],
  ["assistant", AssistantMessage],
  ["tool", ToolMessage],
  ["function", FunctionMessage],
]);
const noRole = object({ role: v.picklist(Array.from(BY_ROLE.keys(), String)) });
// The cast is safe: the value is an object, and its role is looked at below.
const OtherMessage = unknownObject(noRole) as v.GenericSchema as v.GenericSchema<unknown, UnknownMessage>;
export const isKnownMessage = (message: CompletionMessage): message is Exclude<CompletionMessage, UnknownMessage> =>
  BY_ROLE.has(message.role);

const AnyMessage: v.GenericSchema<unknown, CompletionMessage | FunctionMessage> = choice(
  [SystemMessage, UserMessage, AssistantMessage, ToolMessage, FunctionMessage],
  (input) => {
    const role = isJsonObject(input) ? input["role"] : undefined;
    return BY_ROLE.get(role) ?? (typeof role === "string" && role !== "" ? OtherMessage : noRole);
  },
);

const CompletionFormat = openVariant([
  object({ type: v.literal("text") }),
  // Servers such as llama.cpp and Together AI take a schema here.
  object({ type: v.literal("json_object"), schema: v.nullish(jsonObject) }),
  object({
    type: v.literal("json_schema"),
    json_schema: object({
      name: atMost(text, 64),
      description: unsupported(v.nullish(v.string())),
      schema: v.nullish(jsonObject),
      strict: v.nullish(v.boolean()),
    }),
  }),
]);
export type CompletionFormat = v.InferOutput<typeof CompletionFormat>;

export const isEffort = (effort: string): effort is (typeof EFFORTS)[number] =>
  (EFFORTS as readonly string[]).includes(effort);

const MODALITIES = ["text", "audio", "image"] as const;
export const isModality = (modality: string): modality is (typeof MODALITIES)[number] =>
  (MODALITIES as readonly string[]).includes(modality);

/** The largest number of stop sequences in a request. */
export const MAX_STOPS = 4;

const SpokenAnswer = object({
  // An object names a voice that the caller made at one provider. Other providers do not know this voice.
  voice: unsupported(v.nullish(textOr(object({ id: v.nullish(v.string()) }))), (voice) => typeof voice !== "string"),
  format: unsupported(v.nullish(v.string())),
});

/** An integer of 64 bits. A JSON number keeps only its first 53 bits. */
const seed = v.pipe(
  v.number(),
  v.integer("must be an integer"),
  v.minValue(-(2 ** 63), "must be an integer of 64 bits"),
  v.maxValue(2 ** 63, "must be an integer of 64 bits"),
);

const Body = object({
  model: atMost(text, 256),
  messages: v.pipe(array(AnyMessage), v.minLength(1, "must hold at least one message")),
  max_completion_tokens: v.nullish(outputLimit),
  max_tokens: v.nullish(outputLimit),
  stream: v.nullish(v.boolean()),
  stream_options: v.nullish(object({ include_usage: v.nullish(v.boolean()) })),
  stop: v.nullish(textOr(upTo(array(v.string()), MAX_STOPS, `must hold at most ${MAX_STOPS} texts`))),
  temperature: v.nullish(between(0, 2)),
  top_p: v.nullish(between(0, 1)),
  presence_penalty: v.nullish(between(-2, 2)),
  frequency_penalty: v.nullish(between(-2, 2)),
  seed: v.nullish(seed),
  n: v.nullish(integer(1, 128)),
  logprobs: v.nullish(v.boolean()),
  top_logprobs: v.nullish(integer(0, 20)),
  tools: v.nullish(array(CompletionTool)),
  tool_choice: unsupported(v.nullish(CompletionToolChoice), (choice) => !isKnownChoice(choice)),
  parallel_tool_calls: v.nullish(v.boolean()),
  functions: v.nullish(array(DeprecatedFunction)),
  function_call: v.nullish(textOr(object({ name: text }), v.picklist(["none", "auto"]))),
  response_format: unsupported(v.nullish(CompletionFormat), (format) => isUnknown(format, FORMATS)),
  reasoning_effort: unsupported(v.nullish(openWords(v.picklist(EFFORTS))), (effort) => !isEffort(effort)),
  modalities: unsupported(v.nullish(array(openWords(v.picklist(MODALITIES)))), (words) => !words.every(isModality)),
  audio: v.nullish(SpokenAnswer),
  service_tier: v.nullish(v.string()),
  user: v.nullish(v.string()),
  safety_identifier: v.nullish(v.string()),
  metadata: unsupported(v.nullish(jsonObject)),
  logit_bias: unsupported(v.nullish(jsonObject)),
  prediction: unsupported(v.nullish(jsonObject)),
  web_search_options: unsupported(v.nullish(jsonObject)),
  store: unsupported(v.nullish(v.boolean())),
  verbosity: unsupported(v.nullish(v.string())),
});
export type ChatCompletionsRequest = v.InferOutput<typeof Body>;

export const ChatCompletionsRequest = v.pipe(Body, crossCheck<ChatCompletionsRequest>(breaches));

/** Finds the fields of a body that the neutral model cannot hold. */
export const unsupportedIn = unsupportedFinder(Body);

/** Checks the rules that compare several fields. */
function* breaches({ messages, tools, tool_choice, ...request }: ChatCompletionsRequest): Generator<RuleBreach> {
  yield* functionBreaches(request.functions ?? [], request.function_call, tools ?? []);
  if (request.top_logprobs != null && request.logprobs !== true)
    yield { path: ["top_logprobs"], message: "needs logprobs to be true" };
  const names = new Set<string>();
  for (const [index, tool] of (tools ?? []).entries()) {
    const toolName = nameOf(tool);
    if (toolName !== undefined && names.has(toolName))
      yield {
        path: ["tools", index, tool.type ?? "function", "name"],
        message: `is used by an earlier tool: ${shown(toolName)}`,
      };
    if (toolName !== undefined) names.add(toolName);
  }
  if (tool_choice === "required" && !tools?.length)
    yield { path: ["tool_choice"], message: '"required" needs at least one tool in tools' };
  if (tool_choice != null) yield* choiceBreaches(tool_choice, names);
  const calls = new Set<string>();
  for (const [index, message] of messages.entries()) {
    // A call of a type that the gateway does not know may have any value as its id.
    if (message.role === "assistant")
      for (const { id } of message.tool_calls ?? []) if (typeof id === "string") calls.add(id);
    if (message.role === "tool" && !calls.has(message.tool_call_id))
      yield { path: ["messages", index, "tool_call_id"], message: "answers no tool call of an earlier message" };
  }
}

function* functionBreaches(
  functions: NonNullable<ChatCompletionsRequest["functions"]>,
  choice: ChatCompletionsRequest["function_call"],
  tools: readonly CompletionTool[],
): Generator<RuleBreach> {
  if (functions.length > 0 && tools.length > 0)
    yield { path: ["functions"], message: "must not stand beside tools, which replace them" };
  if (choice != null && functions.length === 0) yield { path: ["function_call"], message: "needs functions" };
  const names = new Set<string>();
  for (const [index, { name: own }] of functions.entries()) {
    if (names.has(own))
      yield { path: ["functions", index, "name"], message: `is used by an earlier function: ${shown(own)}` };
    names.add(own);
  }
  if (choice != null && typeof choice !== "string" && !names.has(choice.name))
    yield {
      path: ["function_call", "name"],
      message: `must name one of the functions: there is no ${shown(choice.name)}`,
    };
}

function* choiceBreaches(choice: CompletionToolChoice, names: ReadonlySet<string>): Generator<RuleBreach> {
  if (typeof choice === "string" || !isKnownChoice(choice)) return;
  const chosen =
    choice.type === "allowed_tools"
      ? choice.allowed_tools.tools.map((tool, index) => ({ tool, path: ["allowed_tools", "tools", index] }))
      : [{ tool: choice, path: [] }];
  for (const { tool, path } of chosen) {
    const name = nameOf(tool);
    if (name !== undefined && !names.has(name))
      yield {
        path: ["tool_choice", ...path, tool.type, "name"],
        message: `must name one of the tools: there is no ${shown(name)}`,
      };
  }
}
