/** The messages request on the wire (spec 2.6, 8): its schema, and the rules that compare several fields. Unknown fields are allowed. */

import * as v from "valibot";
import {
  array,
  choice,
  crossCheck,
  object,
  openVariant,
  openWords,
  type RuleBreach,
  shown,
  textOr,
  type UnknownObject,
  variant,
} from "../../http/validation.ts";
import { derived, listedIn } from "../../model/derived.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import { atMost, base64, text, unsupported, unsupportedFinder, whole } from "../shared/schema.ts";

// The cast is safe: the body comes from `JSON.parse`, so every object in it is a JSON object.
const jsonObject = object({}, "must be a JSON object") as v.GenericSchema as v.GenericSchema<JsonObject>;
// Refuse integers that a JavaScript number cannot hold exactly: calculations with them would be wrong.
const integer = (least: number, words = `must be an integer of at least ${least}`) =>
  v.pipe(
    v.number(),
    v.integer(),
    v.minValue(least, words),
    v.maxValue(Number.MAX_SAFE_INTEGER, `must be at most ${Number.MAX_SAFE_INTEGER}`),
  );
const OUT_OF_RANGE = "must be between 0 and 1";
const zeroToOne = v.pipe(v.number(), v.minValue(0, OUT_OF_RANGE), v.maxValue(1, OUT_OF_RANGE));
/** LangChain sends -1 for a `top_p` or `top_k` that is not set. The official service accepts it. */
const UNSET = -1;
const unset = v.literal(UNSET);
const zeroToOneOrUnset = choice([zeroToOne, unset], (input) => (input === UNSET ? unset : zeroToOne));
const betweenZeroAndOne = v.pipe(
  v.number(),
  v.gtValue(0, "must be greater than 0"),
  v.ltValue(1, "must be less than 1"),
);
/** A field that is not in the spec. Any value is accepted. */
const anything = v.optional(v.unknown());

export const CacheControl = object({ type: v.literal("ephemeral"), ttl: v.nullish(v.string()) });
const cache_control = v.nullish(CacheControl);

export const TextBlock = object({ type: v.literal("text"), text, cache_control });
export type TextBlock = v.InferOutput<typeof TextBlock>;

const imageType = v.picklist(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const Base64Image = object({ type: v.literal("base64"), media_type: imageType, data: base64 });
const UrlSource = object({ type: v.literal("url"), url: v.pipe(v.string(), v.url("must be a URL")) });
const FileSource = object({ type: v.literal("file"), file_id: text });

// The spec has images only as base64. A host may also allow URLs and file ids, which the official service accepts.
const imageBlock = (source: v.GenericSchema<unknown, ImageSource>) =>
  object({ type: v.literal("image"), source, cache_control });
export type ImageSource =
  | v.InferOutput<typeof Base64Image>
  | v.InferOutput<typeof UrlSource>
  | v.InferOutput<typeof FileSource>
  | UnknownObject;
export type ImageBlock = v.InferOutput<ReturnType<typeof imageBlock>>;

/** Makes the schema of a list of blocks, for a field that also takes a text. The error message for any other value names both. */
const list = <const Block extends v.GenericSchema>(block: Block) =>
  array(block, ({ input }) => `must be a string or an array, not ${shown(input)}`);

const PROVIDER_BLOCKS = [
  "search_result",
  "server_tool_use",
  "web_search_tool_result",
  "web_fetch_tool_result",
  "code_execution_tool_result",
  "bash_code_execution_tool_result",
  "text_editor_code_execution_tool_result",
  "tool_search_tool_result",
  "advisor_tool_result",
  "mcp_tool_use",
  "mcp_tool_result",
  "mcp_tool_listing",
  "container_upload",
  "compaction",
  "fallback",
  "tool_addition",
  "tool_removal",
  "tool_reference",
  "browser_state",
] as const;

/** A block that only the official service makes and reads. It is passed on unchanged. */
export const ProviderBlock = whole(object({ type: v.picklist(PROVIDER_BLOCKS) }));

/** The caller of a tool: the model itself, or code that a tool of the official service runs, which other formats cannot say. */
export const DirectCaller = unsupported(anything, (caller) => JSON.stringify(caller) !== '{"type":"direct"}');
const ToolUseBlock = object({
  type: v.literal("tool_use"),
  id: text,
  name: text,
  input: jsonObject,
  caller: DirectCaller,
  cache_control,
});

/** The fields of a citation that another provider has made. The official service makes none with an empty index, and refuses such an index. */
export const FOREIGN_CITATION = { type: "web_search_result_location", encrypted_index: "" } as const;

export const ThinkingBlock = object({ type: v.literal("thinking"), thinking: v.string(), signature: v.string() });
export const RedactedThinkingBlock = object({ type: v.literal("redacted_thinking"), data: v.string() });

/** Makes the schema of the blocks of a conversation. `image` allows the image sources that the host accepts. */
function blocks(image: ReturnType<typeof imageBlock>) {
  const DocumentSource = openVariant([
    object({ type: v.literal("base64"), media_type: v.literal("application/pdf"), data: base64 }),
    object({ type: v.literal("text"), media_type: v.nullish(v.literal("text/plain")), data: v.string() }),
    object({ type: v.literal("content"), content: textOr(list(openVariant([TextBlock, image]))) }),
    UrlSource,
    FileSource,
  ]);
  const DocumentBlock = object({
    type: v.literal("document"),
    source: DocumentSource,
    title: v.nullish(v.string()),
    context: v.nullish(v.string()),
    citations: v.nullish(object({ enabled: v.nullish(v.boolean()) })),
    cache_control,
  });
  const ToolResultBlock = object({
    type: v.literal("tool_result"),
    tool_use_id: text,
    content: v.nullish(textOr(list(openVariant([TextBlock, image, DocumentBlock, ProviderBlock])))),
    is_error: v.nullish(v.boolean()),
    cache_control,
  });
  return openVariant([
    TextBlock,
    image,
    ToolUseBlock,
    ToolResultBlock,
    DocumentBlock,
    ThinkingBlock,
    RedactedThinkingBlock,
    ProviderBlock,
  ]);
}
export type RequestBlock = v.InferOutput<ReturnType<typeof blocks>>;

const customTool = (maxNameLength: number) =>
  object({
    type: v.nullish(v.literal("custom")),
    name: atMost(text, maxNameLength),
    description: v.nullish(v.string()),
    input_schema: jsonObject,
    strict: unsupported(anything, (strict) => typeof strict !== "boolean"),
    // Not reported as unsupported: the field changes only how a stream is cut into pieces.
    eager_input_streaming: anything,
    cache_control,
  });
export type CustomTool = v.InferOutput<ReturnType<typeof customTool>>;

const pixels = integer(1);
const ComputerTool = whole(
  object({
    type: v.literal("computer_20241022"),
    name: v.literal("computer"),
    display_width_px: pixels,
    display_height_px: pixels,
    display_number: v.nullish(integer(0)),
    cache_control,
  }),
);
const BashTool = whole(object({ type: v.literal("bash_20241022"), name: v.literal("bash"), cache_control }));
const TextEditorTool = whole(
  object({ type: v.literal("text_editor_20241022"), name: v.literal("str_replace_editor"), cache_control }),
);
type DatedTool = v.InferOutput<typeof ComputerTool | typeof BashTool | typeof TextEditorTool>;

/** A built-in tool that is newer than the spec. It is passed on unchanged. */
const LaterTool = whole(
  object({
    type: openWords(
      v.pipe(
        v.string(),
        v.regex(
          // The look-ahead excludes the tools of the spec, so that the JSON Schema of this variant excludes them too.
          /^(?!(?:computer|bash|text_editor)_20241022$)(?:\w+_\d{8}|mcp_toolset|tool_search_tool_(?:regex|bm25))$/,
          'must be "custom" or a dated built-in tool',
        ),
      ),
    ),
    name: v.nullish(text),
    cache_control,
  }),
);
export type BuiltInTool = DatedTool | v.InferOutput<typeof LaterTool>;

const disable_parallel_tool_use = v.nullish(v.boolean());
const RequestToolChoice = openVariant([
  object({ type: v.picklist(["auto", "any"]), disable_parallel_tool_use }),
  object({ type: v.literal("tool"), name: text, disable_parallel_tool_use }),
  object({ type: v.literal("none") }),
]);
export type RequestToolChoice = v.InferOutput<typeof RequestToolChoice>;
export const TOOL_CHOICES: ReadonlySet<string> = new Set(["auto", "any", "tool", "none"]);

const display = unsupported(anything, (shown) => shown !== "summarized" && shown !== "omitted");
const Thinking = openVariant([
  object({ type: v.literal("enabled"), budget_tokens: integer(1024), display }),
  object({ type: v.picklist(["disabled", "adaptive", "between_tools"]), display }),
]);
export type Thinking = v.InferOutput<typeof Thinking>;
export const THINKING: ReadonlySet<string> = new Set(["enabled", "disabled", "adaptive", "between_tools"]);

const OutputConfig = object({
  format: unsupported(
    v.nullish(object({ type: v.string(), schema: v.nullish(jsonObject) })),
    ({ type }) => type !== "json_schema",
  ),
  effort: unsupported(anything, (effort) => !isEffort(effort)),
});

const EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const;
export const isEffort = (effort: unknown): effort is (typeof EFFORTS)[number] =>
  (EFFORTS as readonly unknown[]).includes(effort);

// Refuse a thread: the official client sends each message to a thread only once, so a request lacks the earlier conversation.
const NoThread = unsupported(
  v.optional(
    v.pipe(
      v.unknown(),
      v.check((thread) => !isJsonObject(thread), "is not supported: send the whole conversation in messages"),
      v.metadata({ not: { type: "object" } }),
    ),
  ),
);

/** The rules that a host may relax from those of the spec to those of the official service. */
interface MessagesRules {
  /**
   * Allows `max_tokens` from 1, `top_p` from 0 to 1 inclusive, `top_k` from 0, -1 for either, and names of tools with up to 128
   * characters.
   */
  readonly vendorRanges: boolean;
  /** Allows images by URL and by file id. */
  readonly vendorSources: boolean;
  /** Allows a budget above the output limit: vendors count the budget of interleaved thinking for a whole turn, with its tool calls. */
  readonly anyBudget?: boolean;
}

/** Instructions that change only the settings of the next turns. Without settings, a message needs a content. */
const Settings = object({
  role: v.literal("system"),
  content: v.nullish(v.null()),
  output_config: unsupported(jsonObject),
});
const isSettings = (input: unknown): boolean =>
  isJsonObject(input) && input["role"] === "system" && input["content"] == null && isJsonObject(input["output_config"]);

const Base64Only = variant([Base64Image]);
const AnySource = openVariant([Base64Image, UrlSource, FileSource]);

function body(rules: MessagesRules) {
  const Block = blocks(imageBlock(rules.vendorSources ? AnySource : Base64Only));
  const Turn = object({
    role: v.picklist(["user", "assistant", "system"]),
    content: textOr(list(Block), text),
  });
  const Message = choice([Turn, Settings], (input) => (isSettings(input) ? Settings : Turn));
  const CustomTool = customTool(rules.vendorRanges ? 128 : 64);
  return object({
    model: atMost(text, 256),
    // Written out, so that the list of all messages has it.
    max_tokens: rules.vendorRanges ? integer(1) : integer(2, "must be an integer of at least 2"),
    messages: v.pipe(array(Message), v.minLength(1, "must hold at least one message")),
    system: v.nullish(textOr(list(TextBlock))),
    metadata: v.nullish(object({ user_id: v.nullish(atMost(v.string(), 256)) })),
    stop_sequences: v.nullish(array(text)),
    stream: v.nullish(v.boolean()),
    temperature: v.nullish(zeroToOne),
    top_p: v.nullish(rules.vendorRanges ? zeroToOneOrUnset : betweenZeroAndOne),
    top_k: v.nullish(integer(rules.vendorRanges ? UNSET : 1)),
    thinking: unsupported(v.nullish(Thinking), ({ type }) => !THINKING.has(type)),
    tool_choice: unsupported(v.nullish(RequestToolChoice), ({ type }) => !TOOL_CHOICES.has(type)),
    tools: v.nullish(array(variant([CustomTool, ComputerTool, BashTool, TextEditorTool, LaterTool]))),
    output_config: v.nullish(OutputConfig),
    service_tier: unsupported(anything, (tier) => typeof tier !== "string"),
    thread: NoThread,
  });
}
export type MessagesRequest = v.InferOutput<ReturnType<typeof body>>;
export type RequestMessage = MessagesRequest["messages"][number];

/** Returns the schema of the request body under a host's rules. */
export const messagesRequest = (rules: MessagesRules) =>
  v.pipe(
    body(rules),
    crossCheck<MessagesRequest>((request) => breaches(request, rules)),
  );

const unsupportedFields = unsupportedFinder(body({ vendorRanges: true, vendorSources: true }));

/** Returns the paths of the fields that the neutral request cannot hold. These do not depend on the host's rules. */
export function unsupportedIn(request: MessagesRequest): string[] {
  const { thinking, output_config } = request;
  const fields = unsupportedFields(request);
  if (thinking?.type === "between_tools") fields.push("thinking.type");
  // The neutral request has an effort only if the model decides how much it reasons.
  const isAdaptive = thinking && thinking.type !== "enabled" && thinking.type !== "disabled";
  if (isEffort(output_config?.effort) && !isAdaptive) fields.push("output_config.effort");
  return fields;
}

/** Checks the rules that compare several fields (spec 2.6). */
function* breaches(request: MessagesRequest, { anyBudget = false }: MessagesRules): Generator<RuleBreach> {
  const { thinking, max_tokens, tools, tool_choice, messages } = request;
  if (!anyBudget && thinking?.type === "enabled" && thinking.budget_tokens >= max_tokens)
    yield { path: ["thinking", "budget_tokens"], message: `must be less than max_tokens (${max_tokens})` };
  if (tools || tool_choice) yield* toolBreaches(request);
  yield* conversationBreaches(messages);
}

function* toolBreaches({ tools: given, tool_choice: choice, messages }: MessagesRequest): Generator<RuleBreach> {
  const tools = given ?? [];
  const names = new Set<string>();
  for (const [index, { name }] of tools.entries()) {
    if (name == null) continue;
    if (names.has(name))
      yield { path: ["tools", index, "name"], message: `is used by an earlier tool: ${shown(name)}` };
    names.add(name);
  }
  if (choice?.type === "any" && tools.length === 0)
    yield { path: ["tool_choice", "type"], message: '"any" needs at least one tool in tools' };
  if (choice?.type === "tool" && !names.has(choice.name) && !bringsOthers(tools, messages))
    yield { path: ["tool_choice", "name"], message: `must name one of the tools: there is no ${shown(choice.name)}` };
}

/** Tells whether a request may have tools whose names it does not list: those of a set, such as an MCP server's, and those of a later block. */
const bringsOthers = (tools: readonly (CustomTool | BuiltInTool)[], messages: readonly RequestMessage[]): boolean =>
  tools.some(({ name }) => name == null) ||
  messages.some(({ content }) => Array.isArray(content) && content.some(({ type }) => BRINGERS.has(type)));

/** The blocks that add tools to a request, or hold the request of a block that does. */
const BRINGERS: ReadonlySet<string> = new Set(["tool_addition", "compaction", "mcp_tool_listing"]);

/** The only role that may send a block of each type. Other types may come from any role. */
const SENDER: Partial<Record<RequestBlock["type"], RequestMessage["role"]>> = {
  tool_use: "assistant",
  thinking: "assistant",
  redacted_thinking: "assistant",
  tool_result: "user",
};

function* conversationBreaches(messages: readonly RequestMessage[]): Generator<RuleBreach> {
  // Create the set with the first tool call: many conversations have none.
  let calls: Set<string> | undefined;
  const listed = listedIn(messages);
  // Without `entries`: a conversation has hundreds of blocks, and each would cost an array.
  for (let turn = 0; turn < messages.length; turn++) {
    const { role, content } = messages[turn] as RequestMessage;
    if (!Array.isArray(content)) continue;
    // An answer may be empty, and its client sends it back as it came.
    if (content.length === 0 && role !== "assistant")
      yield { path: ["messages", turn, "content"], message: "must hold at least one content block" };
    for (const index of blocksOfOneRole(messages[turn] as RequestMessage, listed?.[turn])) {
      const block = content[index] as RequestBlock;
      const sender = SENDER[block.type];
      if (sender !== role)
        yield {
          path: ["messages", turn, "content", index, "type"],
          message: `a ${block.type} block belongs in a message of role "${sender}"`,
        };
      if (block.type === "tool_use") (calls ??= new Set()).add(block.id);
      if (block.type === "tool_result" && !calls?.has(block.tool_use_id))
        yield {
          path: ["messages", turn, "content", index, "tool_use_id"],
          message: "answers no tool_use block of an earlier assistant message",
        };
    }
  }
}

/** Returns the places of the blocks that only one role may send. */
const blocksOfOneRole = derived(({ content }: RequestMessage): readonly number[] => {
  const places: number[] = [];
  if (!Array.isArray(content)) return places;
  for (let index = 0; index < content.length; index++)
    if (Object.hasOwn(SENDER, (content[index] as RequestBlock).type)) places.push(index);
  return places;
});
