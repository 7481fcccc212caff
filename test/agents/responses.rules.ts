/** The rules of the Responses format for a request, as its vendor documents them, for a caller who may store nothing. */

import * as v from "valibot";
import type { JsonObject } from "../../src/model/json.ts";
import { checkFunction, checkJsonWord } from "./schemas.rules.ts";
import { type Call, callFact, type Heard, resultFact, textFact, userFact } from "./script.ts";
import { breachOf, type Received, Refused, type Vault } from "./strict.ts";

const json = v.record(v.string(), v.unknown());
const number = v.nullish(v.number());
const flag = v.nullish(v.boolean());
const idOf = (prefix: string) =>
  v.optional(v.pipe(v.string(), v.startsWith(`${prefix}_`, `an ID that begins with '${prefix}'`), v.maxLength(64)));
const status = v.nullish(v.picklist(["in_progress", "completed", "incomplete"]));
const callId = v.pipe(v.string(), v.maxLength(64));
const functionName = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,64}$/));

const inputText = v.strictObject({ type: v.literal("input_text"), text: v.string() });
const outputText = v.strictObject({
  type: v.literal("output_text"),
  text: v.string(),
  annotations: v.optional(v.array(json)),
  logprobs: v.optional(v.array(json)),
});
const refusal = v.strictObject({ type: v.literal("refusal"), refusal: v.string() });
const content = v.union([v.string(), v.pipe(v.array(inputText), v.minLength(1))]);
const type = v.optional(v.literal("message"));

const functionTool = v.strictObject({
  type: v.literal("function"),
  name: functionName,
  description: v.nullish(v.string()),
  parameters: v.nullable(json),
  strict: v.nullish(v.boolean()),
});
const customTool = v.strictObject({
  type: v.literal("custom"),
  name: functionName,
  description: v.optional(v.string()),
  format: v.optional(json),
});
const tool = v.union([
  functionTool,
  customTool,
  v.strictObject({
    type: v.literal("namespace"),
    name: functionName,
    description: v.string(),
    tools: v.pipe(v.array(v.union([functionTool, customTool])), v.minLength(1)),
  }),
  v.strictObject({ type: v.literal("web_search"), external_web_access: v.optional(v.boolean()) }),
]);

const item = v.union([
  v.strictObject({ type: v.literal("additional_tools"), role: v.literal("developer"), tools: v.array(tool) }),
  v.strictObject({ type, role: v.picklist(["user", "system", "developer"]), content, status, id: idOf("msg") }),
  v.strictObject({
    type,
    role: v.literal("assistant"),
    content: v.union([v.string(), v.pipe(v.array(v.union([outputText, refusal])), v.minLength(1))]),
    status,
    phase: v.nullish(v.string()),
    id: idOf("msg"),
  }),
  v.strictObject({
    type: v.literal("reasoning"),
    summary: v.array(v.strictObject({ type: v.literal("summary_text"), text: v.string() })),
    content: v.nullish(v.array(json)),
    encrypted_content: v.nullish(v.string()),
    status,
    id: idOf("rs"),
  }),
  v.strictObject({
    type: v.literal("function_call"),
    call_id: callId,
    name: functionName,
    namespace: v.optional(functionName),
    arguments: v.string(),
    status,
    id: idOf("fc"),
  }),
  v.strictObject({
    type: v.literal("custom_tool_call"),
    call_id: callId,
    name: functionName,
    namespace: v.optional(functionName),
    input: v.string(),
    status,
    id: idOf("ctc"),
  }),
  v.strictObject({ type: v.literal("custom_tool_call_output"), call_id: callId, output: content, id: idOf("ctco") }),
  v.strictObject({
    type: v.literal("function_call_output"),
    call_id: callId,
    output: content,
    status,
    id: idOf("fc"),
  }),
  v.strictObject({ type: v.literal("item_reference"), id: v.string() }),
]);

const requestSchema = v.strictObject({
  model: v.string(),
  input: v.union([v.string(), v.pipe(v.array(item), v.minLength(1))]),
  instructions: v.nullish(v.string()),
  include: v.nullish(v.array(v.picklist(["reasoning.encrypted_content", "message.output_text.logprobs"]))),
  max_output_tokens: v.nullish(v.pipe(v.number(), v.minValue(16, "a value >= 16"))),
  stream: flag,
  stream_options: v.nullish(json),
  store: flag,
  temperature: number,
  top_p: number,
  top_logprobs: number,
  previous_response_id: v.nullish(v.string()),
  conversation: v.nullish(v.union([v.string(), json])),
  background: flag,
  reasoning: v.nullish(
    v.strictObject({
      effort: v.nullish(v.picklist(["none", "minimal", "low", "medium", "high", "xhigh"])),
      summary: v.nullish(v.picklist(["auto", "concise", "detailed"])),
      context: v.optional(v.picklist(["auto", "current_turn", "all_turns"])),
    }),
  ),
  text: v.nullish(v.strictObject({ format: v.optional(json), verbosity: v.nullish(v.string()) })),
  tools: v.nullish(v.array(tool)),
  tool_choice: v.nullish(
    v.union([
      v.picklist(["none", "auto", "required"]),
      v.strictObject({ type: v.literal("function"), name: functionName }),
      v.strictObject({
        type: v.literal("allowed_tools"),
        mode: v.picklist(["auto", "required"]),
        tools: v.array(v.strictObject({ type: v.literal("function"), name: functionName })),
      }),
    ]),
  ),
  parallel_tool_calls: flag,
  metadata: v.nullish(json),
  service_tier: v.nullish(v.string()),
  safety_identifier: v.nullish(v.pipe(v.string(), v.maxLength(64))),
  prompt_cache_key: v.nullish(v.string()),
  client_metadata: v.nullish(v.record(v.string(), v.string())),
  truncation: v.nullish(v.picklist(["auto", "disabled"])),
  user: v.nullish(v.string()),
});
type Request = v.InferOutput<typeof requestSchema>;
type Item = v.InferOutput<typeof item>;

/** Models that do not reason refuse everything about reasoning. */
export const reasons = (model: string): boolean => !model.startsWith("gpt-4");

const notStored = (id: string): Refused =>
  new Refused(
    `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
    { param: "input" },
  );

export function validateResponses({ model, body }: Received, vault: Vault): Heard {
  const breach = breachOf(requestSchema, body);
  if (breach) {
    const param = breach.path
      .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
      .join("")
      .slice(1);
    if (breach.kind === "extra")
      throw new Refused(`Unknown parameter: '${param}'.`, { param, code: "unknown_parameter" });
    if (breach.kind === "missing")
      throw new Refused(`Missing required parameter: '${param}'.`, { param, code: "missing_required_parameter" });
    throw new Refused(`Invalid '${param}'. Expected ${breach.expected}.`, { param, code: "invalid_value" });
  }
  // The cast is safe: the body fits the schema.
  const request = body as Request & JsonObject;
  checkStore(request);
  checkModel(model, request);
  checkTools(request);
  checkJsonWord(
    request.input,
    (request["text"] as { format?: { type?: string } } | undefined)?.format?.type === "json_object",
    "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.",
  );
  const items = typeof request.input === "string" ? [] : request.input;
  checkReasoning(items, vault);
  checkPairs(items, vault);
  return heardOf(request);
}

/** The store belongs to the host's account: whoever names an id in it would read what others have said. */
function checkStore({ store, previous_response_id: previous, conversation, background }: Request): void {
  if (previous != null)
    throw new Refused(`Previous response with id '${previous}' not found.`, {
      param: "previous_response_id",
      code: "previous_response_not_found",
    });
  if (conversation != null) throw new Refused("Conversation not found.", { param: "conversation" });
  if (background) throw new Refused("Background mode needs a store.", { param: "background" });
  if (store !== false) throw new Refused("This account stores nothing: 'store' must be false.", { param: "store" });
}

const unsupported = (param: string): Refused =>
  new Refused(`Unsupported parameter: '${param}' is not supported with this model.`, { param });

function checkModel(model: string, { reasoning, include, temperature, top_p }: Request): void {
  if (reasons(model)) {
    if (temperature != null && temperature !== 1) throw unsupported("temperature");
    if (top_p != null && top_p !== 1) throw unsupported("top_p");
    return;
  }
  if (reasoning != null) throw unsupported("reasoning.effort");
  if (include?.includes("reasoning.encrypted_content"))
    throw new Refused("Encrypted content is not supported with this model.", { param: "include" });
}

function checkTools({ tools, tool_choice }: Request): void {
  if (tool_choice != null && tool_choice !== "auto" && tool_choice !== "none" && !tools?.length)
    throw new Refused("Tool choice must be specified with 'tools' parameter.", { param: "tool_choice" });
  for (const [index, tool] of (tools ?? []).entries()) {
    if (tool.type !== "function") continue;
    const { name, parameters, strict } = tool;
    // A missing `strict` counts as true.
    if (strict !== false && parameters?.["additionalProperties"] !== false)
      throw new Refused(
        `Invalid schema for function '${name}': In context=(), 'additionalProperties' is required to be supplied and to be false.`,
        { param: `tools[${index}].parameters`, code: "invalid_function_parameters" },
      );
    checkFunction(name, parameters, strict !== false, `tools[${index}].parameters`);
  }
}

/** The names of a tool, and the kind of its calls. */
export interface Offered {
  readonly name: string;
  readonly namespace?: string;
  readonly isCustom: boolean;
  readonly schema: unknown;
}

const ONE_TEXT = { type: "object", properties: { input: { type: "string" } }, required: ["input"] };

/** Returns the tools that can be called, by the names that the script knows: both names of a tool in a namespace. */
export function offeredTools(body: object): Map<string, Offered> {
  // The cast is safe: the body was validated.
  const { input, tools } = body as Request;
  const added = typeof input === "string" ? [] : input.flatMap((one) => ("tools" in one ? one.tools : []));
  const offered = new Map<string, Offered>();
  const add = (tool: v.InferOutput<typeof functionTool | typeof customTool>, namespace?: string): void => {
    const isCustom = tool.type === "custom";
    const names = { name: tool.name, ...(namespace !== undefined && { namespace }) };
    offered.set(flat(names), { ...names, isCustom, schema: isCustom ? ONE_TEXT : tool.parameters });
  };
  for (const tool of [...(tools ?? []), ...added])
    if (tool.type === "namespace") for (const inner of tool.tools) add(inner, tool.name);
    else if (tool.type !== "web_search") add(tool);
  return offered;
}

const flat = ({ name, namespace }: { readonly name: string; readonly namespace?: string | undefined }): string =>
  namespace === undefined ? name : `${namespace}__${name}`;

const isReasoning = (one: Item | undefined): one is Extract<Item, { type: "reasoning" }> => one?.type === "reasoning";

/** Reasoning comes back encrypted as it was made, before an item of the same answer. */
function checkReasoning(items: readonly Item[], vault: Vault): void {
  for (const [index, one] of items.entries()) {
    if (one.type === "item_reference") throw notStored(one.id);
    if (!isReasoning(one)) continue;
    const { encrypted_content: sealed, id = "rs_0" } = one;
    if (!sealed) throw notStored(id);
    if (!vault.holds("reasoning", "", sealed))
      throw new Refused(
        `The encrypted content for item ${id} could not be verified. Reason: Encrypted content could not be decrypted or parsed.`,
        { code: "invalid_encrypted_content" },
      );
    const next = items[index + 1];
    const isCall = next?.type === "function_call" || next?.type === "custom_tool_call";
    if (!isCall && !(next && "role" in next && next.role === "assistant") && !isReasoning(next))
      throw new Refused(`Item '${id}' of type 'reasoning' was provided without its required following item.`);
  }
}

/** Each call has its output, and each output its call. A call that was made with reasoning stands behind the reasoning. */
function checkPairs(items: readonly Item[], vault: Vault): void {
  const called = new Set<string>();
  const answered = new Set<string>();
  let hasReasoning = false;
  for (const one of items) {
    if (isReasoning(one)) hasReasoning = true;
    else if (one.type === "function_call" || one.type === "custom_tool_call") {
      if (called.has(one.call_id)) throw new Refused(`Duplicate item found with call_id ${one.call_id}.`);
      called.add(one.call_id);
      try {
        if (one.type === "function_call") JSON.parse(one.arguments);
      } catch {
        throw new Refused("Invalid 'arguments': expected the text of a JSON object.");
      }
      if (vault.calls.has(one.call_id) && !hasReasoning)
        throw new Refused(
          `Item '${one.call_id}' of type 'function_call' was provided without its required 'reasoning' item.`,
        );
    } else if (one.type === "function_call_output" || one.type === "custom_tool_call_output") {
      if (!called.has(one.call_id))
        throw new Refused(`No tool call found for function call output with call_id ${one.call_id}.`);
      answered.add(one.call_id);
      hasReasoning = false;
    } else if ("role" in one && one.role !== "assistant") hasReasoning = false;
  }
  for (const id of called) if (!answered.has(id)) throw new Refused(`No tool output found for function call ${id}.`);
}

const textOf = (parts: string | readonly { readonly type: string }[]): string =>
  typeof parts === "string" ? parts : parts.map((part) => ("text" in part ? String(part.text) : "")).join("");

function heardOf({ input, tools, text }: Request): Heard {
  const items: readonly Item[] = typeof input === "string" ? [{ role: "user", content: input }] : input;
  const facts: string[] = [];
  const calls = new Map<string, Call>();
  let [steps, stepsOfTurn, isAnswering] = [0, 0, false];
  for (const one of items) {
    if (one.type === "additional_tools") continue;
    const isCall = one.type === "function_call" || one.type === "custom_tool_call";
    const isOfModel = one.type === "reasoning" || isCall || ("role" in one && one.role === "assistant");
    if (isOfModel && !isAnswering) [steps, stepsOfTurn] = [steps + 1, stepsOfTurn + 1];
    isAnswering = isOfModel;
    if ("role" in one && one.role === "assistant") facts.push(textFact(textOf(one.content)));
    else if ("role" in one && one.role === "user") {
      facts.push(userFact(textOf(one.content)));
      stepsOfTurn = 0;
    } else if (one.type === "function_call" || one.type === "custom_tool_call") {
      const args = one.type === "function_call" ? (JSON.parse(one.arguments) as JsonObject) : { input: one.input };
      const call = { name: flat(one), args };
      calls.set(one.call_id, call);
      facts.push(callFact(call));
    } else if (one.type === "function_call_output" || one.type === "custom_tool_call_output") {
      const call = calls.get(one.call_id);
      if (call) facts.push(resultFact(call, textOf(one.output)));
    }
  }
  return {
    facts,
    steps,
    stepsOfTurn,
    tools: [...offeredTools({ input, tools })].map(([name, { schema }]) => ({ name, schema })),
    schema: text?.format?.["schema"],
  };
}
