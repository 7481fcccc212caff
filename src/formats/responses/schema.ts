/** The Responses request on the wire: its schema, and the rules that compare several fields. Unknown fields are allowed. */

import * as v from "valibot";
import type { FieldPath } from "../../errors.ts";
import {
  array,
  choice,
  crossCheck,
  isUnknown,
  object,
  openVariant,
  openWords,
  record,
  type RuleBreach,
  shown,
  textOr,
  type UnknownObject,
  upTo,
} from "../../http/validation.ts";
import { isJsonObject, isLonger } from "../../model/json.ts";
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
  webUrl,
  whole,
} from "../shared/schema.ts";

const InputText = object({ type: v.literal("input_text"), text: v.string() });
const InputImage = v.pipe(
  object({
    type: v.literal("input_image"),
    image_url: v.nullish(webOrDataUrl),
    file_id: v.nullish(text),
    detail: imageDetail,
  }),
  v.check(({ image_url, file_id }) => (image_url == null) !== (file_id == null), "must hold image_url or file_id"),
);
const InputFile = v.pipe(
  object({
    type: v.literal("input_file"),
    file_data: v.nullish(fileData),
    file_id: v.nullish(text),
    file_url: v.nullish(webUrl),
    filename: v.nullish(v.string()),
  }),
  v.check(
    ({ file_data, file_id, file_url }) => [file_data, file_id, file_url].filter((one) => one != null).length === 1,
    "must hold one of file_data, file_id and file_url",
  ),
);
const InputAudio = object({
  type: v.literal("input_audio"),
  input_audio: object({ data: base64, format: audioFormat }),
});
/** A text of an earlier answer. Its annotations are about the answer, and no model reads them. */
const OutputText = object({
  type: v.literal("output_text"),
  text: v.string(),
  annotations: v.optional(v.unknown()),
  logprobs: v.optional(v.unknown()),
});
const Refusal = object({ type: v.literal("refusal"), refusal: v.string() });
/** The text of a message in the shape of chat completions, which some clients send. */
const PlainText = object({ type: v.literal("text"), text: v.string() });

export const Content = openVariant([InputText, OutputText, InputImage, InputFile, InputAudio, Refusal, PlainText]);
export type Content = v.InferOutput<typeof Content>;

const content = textOr(array(Content, ({ input }) => `must be a string or an array, not ${shown(input)}`));

/** Fields of each item that the gateway gave it. */
const given = { id: v.nullish(v.string()), status: v.nullish(v.string()) } as const;

const ROLES = ["user", "assistant", "system", "developer"] as const;
export const isRole = (role: string): role is (typeof ROLES)[number] => (ROLES as readonly string[]).includes(role);

const Message = object({
  type: v.optional(v.literal("message")),
  role: openWords(v.picklist(ROLES)),
  content,
  ...given,
  // The stage of a long answer. Clients send it back, and no other format has it.
  phase: v.optional(v.unknown()),
});
const FunctionCall = object({
  type: v.literal("function_call"),
  call_id: text,
  name: text,
  arguments: v.string(),
  namespace: v.nullish(v.string()),
  ...given,
});
const CallOutput = object({ type: v.literal("function_call_output"), call_id: text, output: content, ...given });
const CustomCall = object({
  type: v.literal("custom_tool_call"),
  call_id: text,
  name: text,
  input: v.string(),
  namespace: v.nullish(v.string()),
  ...given,
});
const CustomCallOutput = object({
  type: v.literal("custom_tool_call_output"),
  call_id: text,
  output: content,
  ...given,
});
const ReasoningText = object({ type: openWords(v.picklist(["summary_text", "reasoning_text"])), text: v.string() });
const ReasoningItem = object({
  type: v.literal("reasoning"),
  summary: v.nullish(array(ReasoningText)),
  content: v.nullish(array(ReasoningText)),
  encrypted_content: v.nullish(v.string()),
  ...given,
});
const ItemReference = object({ type: v.literal("item_reference"), id: text });

const FunctionTool = object({ type: v.literal("function"), ...functionFields, strict: v.nullish(v.boolean()) });
const CustomTool = object({ type: v.literal("custom"), ...customFields });
/** Tools that are called by the name of their group and their own. */
const NamespaceTool = object({
  type: v.literal("namespace"),
  name: functionFields.name,
  description: functionFields.description,
  tools: array(
    choice([FunctionTool, CustomTool], (input) =>
      isJsonObject(input) && input["type"] === "custom" ? CustomTool : FunctionTool,
    ),
  ),
});
export type NamespaceTool = v.InferOutput<typeof NamespaceTool>;
/** The tools that OpenAI runs itself. */
const HOSTED_TOOLS = [
  "web_search",
  "web_search_preview",
  "file_search",
  "code_interpreter",
  "image_generation",
  "mcp",
  "computer",
  "computer_use",
  "computer_use_preview",
  "shell",
  "local_shell",
  "apply_patch",
  "tool_search",
  "programmatic_tool_calling",
] as const;
/** A tool of OpenAI, of any date, or a tool of another provider behind the provider's name, such as `openrouter:web_search`. */
const hostedType = new RegExp(String.raw`^(?:(?:${HOSTED_TOOLS.join("|")})(?:_\d{4}_\d{2}_\d{2})?|[\w-]+:[\w-]+)$`);
const wrongType = ({ input }: { readonly input: string }): string =>
  `must be "function", "custom" or a tool of the provider, not ${shown(input)}`;
const HostedTool = whole(object({ type: openWords(v.pipe(text, v.regex(hostedType, wrongType))) }));

export const Tool = choice([FunctionTool, CustomTool, NamespaceTool, HostedTool], (input) => {
  switch (isJsonObject(input) ? input["type"] : undefined) {
    case "function":
      return FunctionTool;
    case "custom":
      return CustomTool;
    case "namespace":
      return NamespaceTool;
    default:
      return HostedTool;
  }
});
export type WireTool =
  | v.InferOutput<typeof FunctionTool>
  | v.InferOutput<typeof CustomTool>
  | NamespaceTool
  | (v.InferOutput<typeof HostedTool> & { readonly [field: string]: unknown });

/** Adds tools in the middle of a conversation. */
const AdditionalTools = object({
  type: v.literal("additional_tools"),
  role: v.nullish(v.literal("developer")),
  tools: array(Tool),
  ...given,
});
type AdditionalTools = v.InferOutput<typeof AdditionalTools>;

/** The calls of tools that the provider runs itself, and their results. The neutral request carries them unchanged. */
const HOSTED_ITEMS = [
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "image_generation_call",
  "computer_call",
  "computer_call_output",
  "local_shell_call",
  "local_shell_call_output",
  "shell_call",
  "shell_call_output",
  "apply_patch_call",
  "apply_patch_call_output",
  "mcp_list_tools",
  "mcp_approval_request",
  "mcp_approval_response",
  "mcp_call",
  "compaction",
  "tool_search_call",
  "tool_search_output",
  "configuration_update",
  "compaction_trigger",
  "program",
  "program_output",
] as const;
const HostedItem = whole(object({ type: v.picklist(HOSTED_ITEMS) }));

const ITEMS = [
  FunctionCall,
  CallOutput,
  CustomCall,
  CustomCallOutput,
  ReasoningItem,
  ItemReference,
  AdditionalTools,
  HostedItem,
] as const;
const TypedItem = openVariant(ITEMS);

type MessageItem = v.InferOutput<typeof Message>;
export type InputItem = MessageItem | v.InferOutput<(typeof ITEMS)[number]> | UnknownObject;
/** An item without a type is a message. */
export const InputItem: v.GenericSchema<unknown, InputItem> = choice([Message, TypedItem], (input) =>
  isJsonObject(input) && input["type"] !== undefined && input["type"] !== "message" ? TypedItem : Message,
);

const isNamed = (type: string): boolean => type === "function" || type === "custom";
const NamedTool = v.pipe(
  object({
    type: openWords(v.pipe(text, v.regex(new RegExp(`^(?:function|custom)$|${hostedType.source}`), wrongType))),
    name: v.nullish(text),
    namespace: v.nullish(v.string()),
  }),
  v.check(({ type, name }) => !isNamed(type) || name != null, "must hold the name of a tool"),
);
export type NamedTool = v.InferOutput<typeof NamedTool>;
const AllowedTools = object({
  type: v.literal("allowed_tools"),
  mode: v.picklist(["auto", "required"]),
  tools: v.pipe(array(NamedTool), v.minLength(1, "must name at least one tool")),
});
const ChosenTool = choice([AllowedTools, NamedTool], (input) =>
  isJsonObject(input) && input["type"] === "allowed_tools" ? AllowedTools : NamedTool,
);
const CHOICES = ["none", "auto", "required"] as const;
export type WireChoice =
  | (typeof CHOICES)[number]
  | v.InferOutput<typeof AllowedTools>
  | v.InferOutput<typeof NamedTool>;
export const isChoice = (choice: string): choice is (typeof CHOICES)[number] =>
  (CHOICES as readonly string[]).includes(choice);
const ToolChoice = textOr(ChosenTool, openWords(v.picklist(CHOICES)) as v.GenericSchema<string>) as v.GenericSchema<
  unknown,
  WireChoice
>;

const TextFormat = openVariant([
  object({ type: v.literal("text") }),
  // Servers such as llama.cpp and Together AI take a schema here.
  object({ type: v.literal("json_object"), schema: v.nullish(jsonObject) }),
  object({
    type: v.literal("json_schema"),
    name: atMost(text, 64),
    schema: jsonObject,
    strict: v.nullish(v.boolean()),
    description: unsupported(v.nullish(v.string())),
  }),
]);
export type TextFormat = v.InferOutput<typeof TextFormat>;

const MAX_METADATA = 16;
const Metadata = v.pipe(
  record(atMost(v.string(), 512)),
  v.check((metadata) => Object.keys(metadata).length <= MAX_METADATA, `must hold at most ${MAX_METADATA} fields`),
  v.check(
    (metadata) => Object.keys(metadata).every((key) => key !== "" && !isLonger(key, 64)),
    "must have keys of at most 64 characters",
  ),
  v.metadata({ maxProperties: MAX_METADATA, propertyNames: { minLength: 1, maxLength: 64 } }),
);

export const isEffort = (effort: string): effort is Exclude<(typeof EFFORTS)[number], "none"> =>
  effort !== "none" && (EFFORTS as readonly string[]).includes(effort);

const Body = object({
  model: atMost(text, 256),
  // May be missing where the request goes on from earlier items. Bodies are not copied, so `decode` puts the default in.
  input: v.nullish(textOr(array(InputItem, ({ input }) => `must be a string or an array, not ${shown(input)}`)), []),
  instructions: v.nullish(v.string()),
  max_output_tokens: v.nullish(v.pipe(v.number(), v.integer(), v.minValue(1, "must be at least 1"))),
  stream: v.nullish(v.boolean()),
  // The obfuscation hides the lengths of deltas from eavesdroppers. The gateway writes none.
  stream_options: v.nullish(object({ include_obfuscation: v.optional(v.unknown()) })),
  temperature: v.nullish(between(0, 2)),
  top_p: v.nullish(between(0, 1)),
  top_logprobs: v.nullish(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(20))),
  tools: v.nullish(array(Tool)),
  tool_choice: unsupported(v.nullish(ToolChoice), (choice) => typeof choice === "string" && !isChoice(choice)),
  parallel_tool_calls: v.nullish(v.boolean()),
  text: v.nullish(
    object({
      format: unsupported(v.nullish(TextFormat), (format) => isUnknown(format, FORMATS)),
      verbosity: unsupported(v.nullish(v.string())),
    }),
  ),
  reasoning: v.nullish(
    object({
      effort: unsupported(
        v.nullish(openWords(v.picklist(EFFORTS))),
        (effort) => effort !== "none" && !isEffort(effort),
      ),
      summary: v.nullish(v.string()),
      generate_summary: v.nullish(v.string()),
    }),
  ),
  include: v.nullish(array(v.string())),
  service_tier: v.nullish(v.string()),
  user: v.nullish(v.string()),
  safety_identifier: v.nullish(atMost(v.string(), 128)),
  // The answer repeats the metadata, so no conversion drops it.
  metadata: v.nullish(Metadata),
  store: v.nullish(v.boolean()),
  background: v.nullish(v.boolean()),
  // Another time to finish, and the order among other responses: the gateway begins each response at once.
  background_options: unsupported(
    v.nullish(object({ completion_window: v.nullish(text), continuation_id: v.nullish(text) })),
  ),
  previous_response_id: v.nullish(text),
  conversation: v.nullish(textOr(object({ id: text }))),
  truncation: unsupported(
    v.nullish(openWords(v.picklist(["auto", "disabled"]))),
    (truncation) => truncation !== "disabled",
  ),
  context_management: unsupported(
    v.nullish(
      array(
        object({
          type: text,
          compact_threshold: v.nullish(v.pipe(v.number(), v.integer(), v.minValue(1, "must be at least 1"))),
        }),
      ),
    ),
  ),
  prompt_cache_key: unsupported(v.nullish(v.string())),
  prompt_cache_retention: unsupported(v.nullish(v.string())),
  max_tool_calls: unsupported(v.nullish(v.pipe(v.number(), v.integer(), v.minValue(1, "must be at least 1")))),
  // A prompt stands in the store of one provider, which belongs to the host's account.
  prompt: v.optional(v.null("cannot be used: this service keeps no prompts")),
});
export type ResponsesRequest = v.InferOutput<typeof Body>;

export const ResponsesRequest = v.pipe(Body, crossCheck<ResponsesRequest>(breaches));

export const hasInput = (input: ResponsesRequest["input"] | null | undefined): boolean => input != null;

/** The names of a tool as a caller or an upstream has sent them. */
export interface NamedInSpace {
  readonly name: string;
  readonly namespace?: string | null | undefined;
}

const SEPARATOR = "__";

/** Returns the name of a tool in a flat list. Some clients end their namespaces with the separator. */
export function flatName({ name, namespace }: NamedInSpace): string {
  if (!namespace) return name;
  return `${namespace}${namespace.endsWith(SEPARATOR) ? "" : SEPARATOR}${name}`;
}

export const isNamespace = (tool: WireTool): tool is NamespaceTool => tool.type === "namespace";

export const additionalTools = (input: ResponsesRequest["input"] | null | undefined): AdditionalTools[] =>
  input == null || typeof input === "string" ? [] : input.filter((item: InputItem) => item.type === "additional_tools");

/** Finds the fields of a body that the neutral model cannot hold. */
export const unsupportedIn = unsupportedFinder(Body);

/** Lists the functions and custom tools by their names, those in namespaces by their flat names, with their places in the list. */
function* namedTools(tools: readonly WireTool[]): Generator<{ readonly name: string; readonly path: FieldPath }> {
  for (const [index, tool] of tools.entries()) {
    const name = nameOf(tool);
    if (name !== undefined) yield { name, path: [index] };
    if (isNamespace(tool))
      for (const [at, inner] of tool.tools.entries())
        yield { name: flatName({ ...inner, namespace: tool.name }), path: [index, "tools", at] };
  }
}

/** Returns the name by which a tool is chosen; undefined for a tool without a name, which is chosen by its type. */
export const nameOf = (tool: { readonly type: string; readonly name?: unknown }): string | undefined =>
  isNamed(tool.type) && typeof tool.name === "string" ? tool.name : undefined;

/** Checks the rules that compare several fields. */
function* breaches({ input, tools, tool_choice, ...request }: ResponsesRequest): Generator<RuleBreach> {
  const own = (tools ?? []) as WireTool[];
  const names = new Set<string>();
  for (const { name, path } of namedTools(own)) {
    if (names.has(name))
      yield { path: ["tools", ...path, "name"], message: `is used by an earlier tool: ${shown(name)}` };
    names.add(name);
  }
  const added = additionalTools(input).flatMap((item) => item.tools as WireTool[]);
  for (const { name } of namedTools(added)) names.add(name);
  if (tool_choice != null) yield* choiceBreaches(tool_choice, [...own, ...added], names);
  if (request.background === true && request.store === false)
    yield { path: ["background"], message: "needs store to be true" };
  if (typeof input === "string" || request.previous_response_id != null || request.conversation != null) return;
  if (!hasInput(input)) return yield { path: ["input"], message: "is required" };
  if (input.length === 0) yield { path: ["input"], message: "must hold at least one item" };
  // A reference may name the call of an output.
  if (input.some(({ type }) => type === "item_reference")) return;
  const calls = new Set<string>();
  for (const [index, item] of input.entries()) {
    if (isCall(item)) calls.add(item.call_id);
    if (item.type !== "function_call_output" && item.type !== "custom_tool_call_output") continue;
    if (!calls.has(item.call_id))
      yield { path: ["input", index, "call_id"], message: "answers no tool call of an earlier item" };
  }
}

/** Tells a call of any kind, also of a kind that the gateway does not know, by its id. A result has the id of the call that it answers. */
export const isCall = (item: object): item is { readonly type: string; readonly call_id: string } =>
  "call_id" in item && typeof item.call_id === "string" && "type" in item && String(item.type).endsWith("_call");

function* choiceBreaches(
  choice: WireChoice,
  tools: readonly WireTool[],
  names: ReadonlySet<string>,
): Generator<RuleBreach> {
  if (choice === "required" && tools.length === 0)
    yield { path: ["tool_choice"], message: '"required" needs at least one tool in tools' };
  // A tool of a namespace may be chosen by its own name, and a search brings tools of its own.
  if (typeof choice === "string" || tools.some(({ type }) => type === "namespace" || type === "tool_search")) return;
  const allowed = "mode" in choice ? (choice as v.InferOutput<typeof AllowedTools>).tools : undefined;
  for (const [index, tool] of (allowed ?? [choice]).entries()) {
    const name = nameOf(tool);
    const path = ["tool_choice", ...(allowed ? ["tools", index] : []), "name"];
    if (name !== undefined && !names.has(name))
      yield { path, message: `must name one of the tools: there is no ${shown(name)}` };
  }
}

const MAX_NEW_ITEMS = 20;
const items = upTo(array(InputItem), MAX_NEW_ITEMS, `must hold at most ${MAX_NEW_ITEMS} items`);
export const NewConversation = object({ metadata: v.nullish(Metadata), items: v.nullish(items) });
export const ChangedConversation = object({ metadata: v.nullish(Metadata) });
export const NewItems = object({ items });
