/** The rules of Bedrock for a request of Converse, beside its schema, in the words of its refusals. */

import type { Message } from "@aws-sdk/client-bedrock-runtime";
import type { JsonObject } from "../../src/model/json.ts";
import { schemaBreach } from "../clouds/converse-wire.ts";
import { checkHeldSchema } from "./schemas.rules.ts";
import { callFact, type Heard, resultFact, textFact, userFact } from "./script.ts";
import { type Received, Refused, type Vault } from "./strict.ts";

/** The parts of a request that the rules read. Bytes stand in base64. */
interface Request {
  readonly messages?: readonly Message[];
  readonly system?: readonly Block[];
  readonly inferenceConfig?: {
    readonly maxTokens?: number;
    readonly temperature?: number;
    readonly topP?: number;
    readonly stopSequences?: readonly string[];
  };
  readonly toolConfig?: {
    readonly tools: readonly {
      readonly toolSpec?: {
        readonly name: string;
        readonly description?: string;
        readonly strict?: boolean;
        readonly inputSchema: { readonly json: unknown };
      };
      readonly cachePoint?: object;
    }[];
    readonly toolChoice?: JsonObject;
  };
  readonly additionalModelRequestFields?: JsonObject;
  readonly requestMetadata?: Readonly<Record<string, string>>;
  readonly outputConfig?: {
    readonly effort?: string;
    readonly textFormat?: { readonly structure: { readonly jsonSchema: { readonly schema: string } } };
  };
}
type Block = Message["content"] extends readonly (infer One)[] | undefined ? One : never;

const isClaude = (model: string): boolean => model.includes("claude-");
const isNova = (model: string): boolean => model.includes("amazon.nova-");
const isGpt = (model: string): boolean => /openai\.gpt-\d/.test(model);
const isMistral = (model: string): boolean => model.includes("mistral.");

/** Throws the first refusal. */
export function checkConverse(
  { body, model, streamed }: Pick<Received, "body" | "model" | "streamed">,
  vault?: Vault,
): void {
  const breach = schemaBreach(body, streamed);
  if (breach !== undefined) throw new Refused(`1 validation error detected: ${breach}`);
  const request = body as Request;
  checkFields(request, model);
  checkMessages(request, model, vault);
  checkMarks(request, model);
}

function checkFields(request: Request, model: string): void {
  const { inferenceConfig = {}, toolConfig, additionalModelRequestFields: fields = {}, requestMetadata = {} } = request;
  const { maxTokens, temperature, topP, stopSequences } = inferenceConfig;
  if (maxTokens !== undefined && maxTokens < 1) throw new Refused("Member must have value greater than or equal to 1");
  for (const value of [temperature, topP])
    if (value !== undefined && (value < 0 || value > 1))
      throw new Refused("Member must have value less than or equal to 1");
  if (stopSequences && (isGpt(model) || model.includes("gpt-oss")))
    throw new Refused("This model doesn't support the stopSequences field. Remove stopSequences and try again.");
  if (isGpt(model) && (temperature !== undefined || topP !== undefined))
    throw new Refused("This model doesn't support the temperature field. Remove temperature and try again.");
  if (stopSequences?.some((stop) => stop === ""))
    throw new Refused("Member must have length greater than or equal to 1");
  for (const [key, value] of Object.entries(requestMetadata))
    if (![key, value].every((text) => /^[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}$/.test(text)))
      throw new Refused("requestMetadata failed to satisfy constraint");
  for (const { toolSpec } of toolConfig?.tools ?? []) {
    if (!toolSpec) continue;
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(toolSpec.name))
      throw new Refused(`The name ${toolSpec.name} is no name of a tool.`);
    if (toolSpec.description === "") throw new Refused("Member must have length greater than or equal to 1");
    if ((toolSpec.inputSchema.json as JsonObject)["type"] !== "object")
      throw new Refused(
        "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.",
      );
    if (toolSpec.strict && isNova(model)) throw new Refused("This model doesn't support the strict field.");
    if (toolSpec.strict) checkHeldSchema(toolSpec.inputSchema.json, "toolConfig.tools.0.toolSpec.inputSchema.json");
  }
  const held = request.outputConfig?.textFormat?.structure.jsonSchema.schema;
  if (held !== undefined) checkHeldSchema(JSON.parse(held), "outputConfig.textFormat.structure.jsonSchema.schema");
  if (isClaude(model) && stopSequences?.some((stop) => stop.trim() === ""))
    throw new Refused("stop_sequences: each stop sequence must contain non-whitespace");
  if (isClaude(model) && !/-3-|-4-5/.test(model) && request.messages?.at(-1)?.role === "assistant")
    throw new Refused("This model does not support assistant message prefill.");
  if (toolConfig?.tools.length === 0) throw new Refused("Member must have length greater than or equal to 1");
  if ("tool_choice" in fields && toolConfig?.toolChoice)
    throw new Refused("The additional field tool_choice/type conflicts with the existing field toolConfig.toolChoice.");
  const known = isClaude(model)
    ? ["thinking", "top_k", "tool_choice"]
    : isNova(model)
      ? ["reasoningConfig", "inferenceConfig"]
      : isGpt(model)
        ? ["reasoning"]
        : ["reasoning_effort", "top_k", "k"];
  const unknown = Object.keys(fields).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Refused(`Unknown parameter: '${unknown}'.`);
  checkReasoning(request, model);
}

/** A sample of Claude's own rules, and Nova's one. */
function checkReasoning(
  { inferenceConfig = {}, additionalModelRequestFields: fields = {}, toolConfig }: Request,
  model: string,
): void {
  const { thinking, reasoningConfig } = fields as {
    readonly thinking?: { readonly type: string; readonly budget_tokens?: number };
    readonly reasoningConfig?: { readonly maxReasoningEffort?: string };
  };
  if (reasoningConfig && !model.includes("nova-2"))
    throw new Refused("Malformed input request: the provided reasoning config value is invalid.");
  if (reasoningConfig?.maxReasoningEffort === "high")
    throw new Refused(
      "`maxTokens` must be unset when reasoningConfig type is 'enabled' and maxReasoningEffort is 'high'.",
    );
  if (thinking?.type !== "enabled") return;
  if ((thinking.budget_tokens ?? 0) >= (inferenceConfig.maxTokens ?? 0))
    throw new Refused("`max_tokens` must be greater than `thinking.budget_tokens`.");
  if (inferenceConfig.temperature !== undefined && inferenceConfig.temperature !== 1)
    throw new Refused("`temperature` may only be set to 1 when thinking is enabled.");
  if (toolConfig?.toolChoice) throw new Refused("Thinking may not be enabled when tool_choice forces tool use.");
}

function checkMessages(
  { messages = [], toolConfig, additionalModelRequestFields: fields = {} }: Request,
  model: string,
  vault?: Vault,
): void {
  const thinks = isClaude(model) && (fields["thinking"] as { type?: string } | undefined)?.type === "enabled";
  if (messages.length === 0) throw new Refused("A conversation must have a message.");
  if (messages[0]?.role !== "user") throw new Refused("A conversation must start with a user message.");
  const documents = new Set<string>();
  const ids = new Set<string>();
  let open = new Set<string>();
  for (const [turn, { role, content = [] }] of messages.entries()) {
    const at = `messages.${turn}`;
    if (role === messages[turn - 1]?.role)
      throw new Refused("A conversation must alternate between user and assistant roles.");
    if (content.length === 0) throw new Refused(`The content field in the Message object at ${at} is empty.`);
    if (content.every((block) => block.reasoningContent))
      throw new Refused("This model does not support assistant message prefill.");
    const results = content.flatMap((block) => block.toolResult?.toolUseId ?? []);
    for (const id of results)
      if (!open.delete(id))
        throw new Refused(`The number of toolResult blocks at ${at}.content exceeds the toolUse blocks: ${id}.`);
    if (open.size > 0)
      throw new Refused(`Expected toolResult blocks at ${at}.content for the following Ids: ${[...open].join(", ")}`);
    const begin = content.findIndex((block) => !block.toolResult && !isMark(block));
    if (isClaude(model) && begin >= 0 && content.slice(begin).some((block) => block.toolResult))
      throw new Refused(`${at}.content: \`tool_result\` blocks must come first in the content.`);
    for (const [index, block] of content.entries())
      checkBlock(block, role ?? "", `${at}.content.${index}`, model, documents, vault);
    const calls = content.flatMap((block) => block.toolUse?.toolUseId ?? []);
    for (const id of calls) {
      if (ids.has(id)) throw new Refused(`The toolUse blocks at ${at}.content contain duplicate Ids: ${id}`);
      ids.add(id);
    }
    if ((calls.length > 0 || results.length > 0) && !toolConfig)
      throw new Refused("The toolConfig field must be defined when using toolUse and toolResult content blocks.");
    if (content.some((block) => block.document) && !content.some((block) => block.text !== undefined))
      throw new Refused("A text block must be included when a document is.");
    open = new Set(calls);
  }
  if (open.size > 0) throw new Refused(`Expected toolResult blocks for the following Ids: ${[...open].join(", ")}`);
  const last = messages.at(-1);
  const end = last?.role === "assistant" ? last.content?.at(-1)?.text : undefined;
  if (end !== undefined && end !== end.trimEnd())
    throw new Refused("final assistant content cannot end with trailing whitespace");
  if (thinks) checkLastLoop(messages);
}

/** Each answer of the last tool loop begins with its thinking. */
function checkLastLoop(messages: readonly Message[]): void {
  const begin = messages.findLastIndex(
    ({ role, content = [] }) => role === "user" && content.some((block) => block.text !== undefined),
  );
  for (const [index, { role, content = [] }] of messages.entries())
    if (index > begin && role === "assistant" && !content[0]?.reasoningContent)
      throw new Refused(`messages.${index}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`.`);
}

const ASSISTANTS: ReadonlySet<string> = new Set(["toolUse", "reasoningContent"]);
const USERS: ReadonlySet<string> = new Set(["toolResult", "image", "document", "video", "audio"]);

function checkBlock(
  block: Block,
  role: string,
  at: string,
  model: string,
  documents: Set<string>,
  vault?: Vault,
): void {
  const [kind = ""] = Object.keys(block);
  if (role !== (ASSISTANTS.has(kind) ? "assistant" : USERS.has(kind) ? "user" : role))
    throw new Refused(`${at}: ${role} messages cannot contain ${kind}.`);
  if (block.text !== undefined && block.text.trim() === "")
    throw new Refused(
      `The text field in the ContentBlock object at ${at} is blank. Add text to the text field, and try again.`,
    );
  for (const id of [block.toolUse?.toolUseId, block.toolResult?.toolUseId])
    if (id !== undefined && !(isMistral(model) ? /^[a-zA-Z0-9]{9}$/ : /^[a-zA-Z0-9_-]{1,64}$/).test(id))
      throw new Refused(`${at}: ${id} is no id of a tool call.`);
  if (block.toolUse && !/^[a-zA-Z0-9_-]{1,64}$/.test(block.toolUse.name ?? ""))
    throw new Refused(`${at}: no name of a tool.`);
  for (const document of [block.document, ...(block.toolResult?.content ?? []).map((inner) => inner.document)]) {
    if (!document) continue;
    const { name = "" } = document;
    if (!/^(?!.*\s\s)[a-zA-Z0-9\s()[\]-]{1,200}$/.test(name))
      throw new Refused(
        "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and square brackets.",
      );
    if (documents.has(name)) throw new Refused("Messages can't contain duplicate document names.");
    documents.add(name);
  }
  if (block.toolResult?.content?.length === 0)
    throw new Refused(`The content field at ${at}.toolResult cannot be empty.`);
  const { reasoningText, redactedContent } = block.reasoningContent ?? {};
  if (reasoningText?.signature === undefined && reasoningText)
    throw new Refused(
      "User messages cannot contain reasoning content. Please remove the reasoning content and try again.",
    );
  if (reasoningText && vault && !vault.holds("thinking", reasoningText.text ?? "", reasoningText.signature ?? ""))
    throw new Refused(`${at}: Invalid \`signature\` in \`thinking\` block`);
  if (redactedContent && vault && !vault.holds("redacted", "", redactedContent as unknown as string))
    throw new Refused(`${at}: Invalid \`data\` in \`redacted_thinking\` block`);
}

const isMark = (block: object): boolean => "cachePoint" in block;

/** Marks of the prompt cache. */
function checkMarks({ messages = [], system = [], toolConfig }: Request, model: string): void {
  const lists: readonly (readonly object[])[] = [
    toolConfig?.tools ?? [],
    system,
    ...messages.map(({ content = [] }) => content),
  ];
  const count = lists.flat().filter(isMark).length;
  if (count > 0 && !isClaude(model) && !isNova(model))
    throw new Refused("You invoked an unsupported model or your request did not allow prompt caching.");
  if (count > 4) throw new Refused("Too many cache points.");
  for (const list of lists)
    for (const [index, block] of list.entries())
      if (isMark(block) && (index === 0 || isMark(list[index - 1] ?? {})))
        throw new Refused("There is nothing available to cache. Please remove the invalid cache point and try again.");
  if (isNova(model) && (toolConfig?.tools ?? []).some(isMark)) throw new Refused("This model caches no tools.");
}

export function validateConverse(received: Received, vault: Vault): Heard {
  checkConverse(received, vault);
  return heardIn(received.body);
}

function heardIn({ messages = [], toolConfig, outputConfig }: Request): Heard {
  const facts: string[] = [];
  const calls = new Map<string, { name: string; args: JsonObject }>();
  for (const { role, content = [] } of messages) {
    // A text may come back in the pieces that it was streamed in.
    const text = content.map((block) => block.text ?? "").join("");
    if (text !== "" && role === "assistant") facts.push(textFact(text));
    for (const { toolUse, toolResult } of content) {
      if (toolUse) {
        const call = { name: toolUse.name ?? "", args: toolUse.input as JsonObject };
        calls.set(toolUse.toolUseId ?? "", call);
        facts.push(callFact(call));
      }
      const call = toolResult && calls.get(toolResult.toolUseId ?? "");
      if (call) facts.push(resultFact(call, toolResult.content));
    }
    if (text !== "" && role === "user") facts.push(userFact(text));
  }
  const asked = messages.findLastIndex(
    ({ role, content = [] }) => role === "user" && content.some((block) => block.text !== undefined),
  );
  const answers = (from: number): number => messages.slice(from).filter(({ role }) => role === "assistant").length;
  const schema = outputConfig?.textFormat?.structure.jsonSchema.schema;
  return {
    facts,
    steps: answers(0),
    stepsOfTurn: answers(Math.max(0, asked)),
    tools: (toolConfig?.tools ?? []).flatMap(({ toolSpec }) =>
      toolSpec ? { name: toolSpec.name, schema: toolSpec.inputSchema.json } : [],
    ),
    ...(schema !== undefined && { schema: JSON.parse(schema) as unknown }),
  };
}
