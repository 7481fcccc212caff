/** The rules of the messages format for a request, as its vendor documents them. */

import * as v from "valibot";
import type { JsonObject } from "../../src/model/json.ts";
import { checkHeldSchema, checkRoot } from "./schemas.rules.ts";
import { callFact, type Heard, resultFact, textFact, userFact } from "./script.ts";
import { breachOf, type Received, Refused, type Vault } from "./strict.ts";

const cache_control = v.optional(
  v.nullable(v.strictObject({ type: v.literal("ephemeral"), ttl: v.optional(v.picklist(["5m", "1h"])) })),
);
const json = v.record(v.string(), v.unknown());
const text = v.strictObject({
  type: v.literal("text"),
  text: v.string(),
  cache_control,
  citations: v.nullish(v.array(v.unknown())),
});
const image = v.strictObject({ type: v.literal("image"), source: json, cache_control });
const document = v.strictObject({
  type: v.literal("document"),
  source: json,
  title: v.nullish(v.string()),
  context: v.nullish(v.string()),
  citations: v.nullish(json),
  cache_control,
});
const toolUse = v.strictObject({
  type: v.literal("tool_use"),
  id: v.string(),
  name: v.string(),
  input: json,
  cache_control,
  caller: v.optional(json),
});
const toolResult = v.strictObject({
  type: v.literal("tool_result"),
  tool_use_id: v.string(),
  content: v.optional(v.union([v.string(), v.array(v.variant("type", [text, image, document]))])),
  is_error: v.optional(v.boolean()),
  cache_control,
});
const thinkingBlock = v.strictObject({ type: v.literal("thinking"), thinking: v.string(), signature: v.string() });
const redacted = v.strictObject({ type: v.literal("redacted_thinking"), data: v.string() });
const block = v.variant("type", [text, image, document, toolUse, toolResult, thinkingBlock, redacted]);
type Block = v.InferOutput<typeof block>;
const message = v.variant("role", [
  v.strictObject({ role: v.literal("user"), content: v.union([v.string(), v.array(block)]) }),
  v.strictObject({
    role: v.literal("assistant"),
    // "'image' blocks are not permitted within assistant turns"
    content: v.union([v.string(), v.array(v.variant("type", [text, toolUse, thinkingBlock, redacted]))]),
  }),
]);
const display = v.optional(v.picklist(["summarized", "omitted"]));
const parallel = { disable_parallel_tool_use: v.optional(v.boolean()) };
const toolChoice = v.variant("type", [
  v.strictObject({ type: v.picklist(["auto", "any"]), ...parallel }),
  v.strictObject({ type: v.literal("tool"), name: v.string(), ...parallel }),
  v.strictObject({ type: v.literal("none") }),
]);
/** Tools of the vendor's own have many fields; only custom tools are checked. */
const tool = v.union([
  v.looseObject({ type: v.pipe(v.string(), v.regex(/_\d{8}$/)), name: v.string() }),
  v.strictObject({
    type: v.optional(v.literal("custom")),
    name: v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,128}$/)),
    description: v.optional(v.string()),
    input_schema: v.looseObject({ type: v.literal("object") }),
    strict: v.optional(v.boolean()),
    defer_loading: v.optional(v.boolean()),
    eager_input_streaming: v.optional(v.boolean()),
    cache_control,
  }),
]);
const request = v.strictObject({
  model: v.string(),
  max_tokens: v.pipe(v.number(), v.integer(), v.minValue(1)),
  messages: v.pipe(v.array(message), v.minLength(1)),
  system: v.optional(v.union([v.string(), v.array(text)])),
  metadata: v.optional(v.strictObject({ user_id: v.nullish(v.pipe(v.string(), v.maxLength(256))) })),
  stop_sequences: v.optional(v.array(v.string())),
  stream: v.optional(v.boolean()),
  temperature: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  top_p: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  top_k: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
  tools: v.optional(v.array(tool)),
  tool_choice: v.optional(toolChoice),
  thinking: v.optional(
    v.variant("type", [
      v.strictObject({ type: v.literal("enabled"), budget_tokens: v.pipe(v.number(), v.minValue(1024)), display }),
      v.strictObject({ type: v.literal("adaptive"), display }),
      v.strictObject({ type: v.literal("disabled") }),
    ]),
  ),
  output_config: v.optional(
    v.strictObject({
      effort: v.optional(v.picklist(["low", "medium", "high", "xhigh", "max"])),
      format: v.optional(v.nullable(v.strictObject({ type: v.literal("json_schema"), schema: json }))),
    }),
  ),
  service_tier: v.optional(v.picklist(["auto", "standard_only"])),
  cache_control,
  // Fields of beta features that agents ask for.
  context_management: v.optional(v.nullable(json)),
  container: v.optional(v.nullable(v.unknown())),
  mcp_servers: v.optional(v.array(json)),
  diagnostics: v.optional(v.nullable(json)),
  speed: v.optional(v.string()),
  inference_geo: v.optional(v.string()),
});
type Request = v.InferOutput<typeof request>;

/** How a model's thinking is controlled: by a budget, by an effort (adaptive), by both, or not at all. */
export function controlOf(model: string): "none" | "budget" | "effort" | "any" {
  if (/opus-4-[78]|(?:opus|sonnet|haiku)-5|fable|mythos/.test(model)) return "effort";
  if (/(?:opus|sonnet)-4-6/.test(model)) return "any";
  return /-3-7|-4-\d|-4$/.test(model) ? "budget" : "none";
}

/** True for models that refuse an answer that is begun by the caller. */
const refusesPrefill = (model: string): boolean => ["effort", "any"].includes(controlOf(model));

interface Turn {
  readonly role: "user" | "assistant";
  readonly blocks: Block[];
}

export function validateMessages({ body }: Received, vault: Vault): Heard {
  const breach = breachOf(request, body);
  if (breach) {
    const { kind, expected } = breach;
    const why = {
      extra: "Extra inputs are not permitted",
      missing: "Field required",
      wrong: `Input should be ${expected}`,
    };
    throw new Refused(`${breach.path.join(".")}: ${why[kind]}`);
  }
  const valid = body as Request & JsonObject;
  checkThinking(valid);
  const turns = mergedTurns(valid.messages);
  if (turns[0]?.role !== "user") throw new Refused('messages: first message must use the "user" role');
  checkBlocks(valid, vault);
  checkPairs(turns);
  if (isThinking(valid)) checkLastLoop(turns, valid.thinking?.type === "enabled", vault);
  checkEnd(valid, turns);
  checkForms(valid, turns);
  return heardOf(valid, turns);
}

/** True for models that can be held to a schema. */
const isStructured = (model: string): boolean => controlOf(model) !== "none" && !/-4-0|-4$|-4-2\d{7}|-3-7/.test(model);

/** Schemas of answers and arguments, and stop sequences. */
function checkForms({ model, output_config, tools = [], stop_sequences = [] }: Request, turns: readonly Turn[]): void {
  const format = output_config?.format;
  if (format) {
    if (!isStructured(model)) throw new Refused("This model does not support output_config.format.");
    if (turns.at(-1)?.role === "assistant") throw new Refused("Prefilling is not supported with output_config.format.");
    checkHeldSchema(format.schema, "output_config.format.schema");
  }
  for (const [index, tool] of tools.entries()) {
    if (!("input_schema" in tool)) continue;
    const at = `tools.${index}.custom.input_schema`;
    checkRoot(tool.input_schema as JsonObject, at);
    if (tool.strict === true && !isStructured(model)) throw new Refused("This model does not support strict tools.");
    if (tool.strict === true) checkHeldSchema(tool.input_schema, at);
  }
  if (stop_sequences.some((stop) => stop.trim() === ""))
    throw new Refused("stop_sequences: each stop sequence must contain non-whitespace");
}

export const isThinking = ({ thinking }: JsonObject): boolean =>
  thinking != null && (thinking as { type: string }).type !== "disabled";

/** Thinking and sampling. */
function checkThinking({
  model,
  thinking,
  max_tokens,
  temperature,
  top_p,
  top_k,
  tool_choice,
  output_config,
}: Request): void {
  const control = controlOf(model);
  if (thinking?.type === "disabled" && /fable|mythos/.test(model))
    throw new Refused('"thinking.type.disabled" is not supported for this model.');
  if (thinking?.type === "adaptive" && control !== "effort" && control !== "any")
    throw new Refused("adaptive thinking is not supported on this model");
  if (thinking?.type === "enabled") {
    if (control === "none") throw new Refused("thinking is not supported on this model");
    if (control === "effort")
      throw new Refused(
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.',
      );
    if (thinking.budget_tokens >= max_tokens)
      throw new Refused("`max_tokens` must be greater than `thinking.budget_tokens`.");
  }
  if (output_config?.effort !== undefined && control !== "effort" && control !== "any" && !model.includes("opus-4-5"))
    throw new Refused("This model does not support the effort parameter.");
  if (control === "effort")
    for (const [name, value] of Object.entries({ temperature, top_p, top_k }))
      if (value !== undefined && !(name === "temperature" && value === 1))
        throw new Refused(`\`${name}\` is deprecated for this model.`);
  if (/(?:sonnet|haiku|opus)-4-[5-9]|opus-4-1/.test(model) && temperature !== undefined && top_p !== undefined)
    throw new Refused("`temperature` and `top_p` cannot both be specified for this model. Please use only one.");
  if (thinking === undefined || thinking.type === "disabled") return;
  if (temperature !== undefined && temperature !== 1)
    throw new Refused("`temperature` may only be set to 1 when thinking is enabled.");
  if (top_p !== undefined && top_p < 0.95)
    throw new Refused("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.");
  if (top_k !== undefined) throw new Refused("`top_k` must be unset when thinking is enabled.");
  // The adaptive mode allows forced tools.
  if (thinking.type === "enabled" && (tool_choice?.type === "any" || tool_choice?.type === "tool"))
    throw new Refused("Thinking may not be enabled when tool_choice forces tool use.");
}

/** Joins messages of one role, as the vendor does. */
function mergedTurns(messages: Request["messages"]): Turn[] {
  const turns: Turn[] = [];
  for (const { role, content } of messages) {
    const blocks: Block[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const last = turns.at(-1);
    if (last?.role === role) last.blocks.push(...blocks);
    else turns.push({ role, blocks: [...blocks] });
  }
  return turns;
}

/** Each block by itself: texts, ids, seals, and the role that may send it. */
function checkBlocks({ messages, system }: Request, vault: Vault): void {
  const ids = new Set<string>();
  for (const part of typeof system === "string" ? [] : (system ?? [])) checkText("system", part.text);
  for (const [turn, { role, content }] of messages.entries()) {
    const isLast = turn === messages.length - 1;
    if (content.length === 0 && !(isLast && role === "assistant"))
      throw new Refused(
        `messages.${turn}: all messages must have non-empty content except for the optional final assistant message`,
      );
    if (typeof content === "string") {
      checkText(`messages.${turn}`, content);
      continue;
    }
    for (const [index, block] of content.entries()) {
      const at = `messages.${turn}.content.${index}`;
      const sender = {
        tool_use: "assistant",
        thinking: "assistant",
        redacted_thinking: "assistant",
        tool_result: "user",
      };
      if (role !== (sender[block.type as keyof typeof sender] ?? role))
        throw new Refused(`${at}: \`${block.type}\` blocks can not be in ${role} messages`);
      if (block.type === "text") checkText(at, block.text);
      if (block.type === "tool_result" && Array.isArray(block.content))
        for (const inner of block.content) if (inner.type === "text") checkText(at, inner.text);
      if (block.type === "tool_use") {
        if (!/^[a-zA-Z0-9_-]+$/.test(block.id))
          throw new Refused(`${at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`);
        if (!/^[a-zA-Z0-9_-]{1,200}$/.test(block.name))
          throw new Refused(`${at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,200}$'`);
        if (ids.has(block.id)) throw new Refused(`${at}: \`tool_use\` ids must be unique`);
        ids.add(block.id);
      }
      if (block.type === "thinking" && !vault.holds("thinking", block.thinking, block.signature))
        throw new Refused(`${at}: Invalid \`signature\` in \`thinking\` block`);
      if (block.type === "redacted_thinking" && !vault.holds("redacted", "", block.data))
        throw new Refused(`${at}: Invalid \`data\` in \`redacted_thinking\` block`);
    }
  }
}

function checkText(at: string, text: string): void {
  if (text === "") throw new Refused(`${at}: text content blocks must be non-empty`);
  if (text.trim() === "") throw new Refused(`${at}: text content blocks must contain non-whitespace text`);
}

/** Each call is answered exactly once, at the begin of the next turn. */
function checkPairs(turns: readonly Turn[]): void {
  let open = new Set<string>();
  for (const [index, { role, blocks }] of turns.entries()) {
    const first = blocks.findIndex(({ type }) => type !== "tool_result");
    for (const [at, block] of blocks.entries()) {
      if (block.type !== "tool_result") continue;
      const { tool_use_id: id } = block;
      if (!open.delete(id))
        throw new Refused(
          `messages.${index}.content.${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`,
        );
      if (first >= 0 && at > first)
        throw new Refused(`messages.${index}.content.${at}: \`tool_result\` blocks must come first in the content`);
    }
    if (open.size > 0)
      throw new Refused(
        `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...open].join(", ")}. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`,
      );
    open = new Set(role === "assistant" ? blocks.flatMap((block) => (block.type === "tool_use" ? block.id : [])) : []);
  }
  if (open.size > 0)
    throw new Refused(
      `messages: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[...open].join(", ")}.`,
    );
}

/**
 * With a budget, each answer of the last tool loop begins with its thinking. In the adaptive mode, the model chooses when it thinks, so
 * that only an answer of this server must have the thinking that it was made with.
 */
function checkLastLoop(turns: readonly Turn[], byBudget: boolean, vault: Vault): void {
  if (turns.at(-1)?.role === "assistant")
    throw new Refused("When `thinking` is enabled, the final message must not be of role `assistant`.");
  const begin = turns.findLastIndex(
    ({ role, blocks }) => role === "user" && blocks.some(({ type }) => type === "text"),
  );
  for (const [index, { role, blocks }] of turns.entries()) {
    if (index < begin || role !== "assistant") continue;
    const [first] = blocks;
    const wasMadeHere = blocks.some((block) => block.type === "tool_use" && vault.calls.has(block.id));
    if (!byBudget && !wasMadeHere) continue;
    if (first?.type !== "thinking" && first?.type !== "redacted_thinking")
      throw new Refused(
        `messages.${index}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${first?.type}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks).`,
      );
  }
}

function checkEnd({ model }: Request, turns: readonly Turn[]): void {
  const last = turns.at(-1);
  if (last?.role !== "assistant") return;
  if (refusesPrefill(model))
    throw new Refused(
      "This model does not support assistant message prefill. The conversation must end with a user message.",
    );
  const end = last.blocks.at(-1);
  if (end?.type === "text" && end.text !== end.text.trimEnd())
    throw new Refused("messages: final assistant content cannot end with trailing whitespace");
}

function heardOf({ tools = [], output_config }: Request, turns: readonly Turn[]): Heard {
  const facts: string[] = [];
  const calls = new Map<string, { name: string; args: JsonObject }>();
  for (const { role, blocks } of turns) {
    // A text may come back in the pieces that it was streamed in.
    const text = blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
    if (text !== "" && role === "assistant") facts.push(textFact(text));
    for (const block of blocks) {
      if (block.type === "tool_use") {
        const call = { name: block.name, args: block.input as JsonObject };
        calls.set(block.id, call);
        facts.push(callFact(call));
      }
      const call = block.type === "tool_result" && calls.get(block.tool_use_id);
      if (call) facts.push(resultFact(call, block.content));
    }
    if (text !== "" && role === "user") facts.push(userFact(text));
  }
  const asked = turns.findLastIndex(
    ({ role, blocks }) => role === "user" && blocks.some(({ type }) => type === "text"),
  );
  const answers = (from: number): number => turns.slice(from).filter(({ role }) => role === "assistant").length;
  return {
    facts,
    steps: answers(0),
    stepsOfTurn: answers(Math.max(0, asked)),
    tools: tools.map((tool) => ({ name: tool.name, schema: "input_schema" in tool ? tool.input_schema : undefined })),
    schema: output_config?.format?.schema,
  };
}
