/** The rules of the chat-completions format for a request, as its vendors document them. */

import * as v from "valibot";
import type { JsonObject } from "../../src/model/json.ts";
import { type AnswerAt, type Profile } from "./chat-completions.profiles.ts";
import { checkFunction, checkJsonWord } from "./schemas.rules.ts";
import { type Call, callFact, type Heard, resultFact, textFact, userFact } from "./script.ts";
import { breachOf, type Received, Refused, type Vault } from "./strict.ts";

const json = v.record(v.string(), v.unknown());
const number = v.nullish(v.number());
const flag = v.nullish(v.boolean());
const name = v.optional(v.pipe(v.string(), v.regex(/^[^\s<|\\/>]{1,64}$/)));
const functionName = v.pipe(v.string(), v.regex(/^[a-zA-Z0-9_-]{1,64}$/));
const textPart = v.strictObject({ type: v.literal("text"), text: v.string() });
const texts = v.union([v.string(), v.pipe(v.array(textPart), v.minLength(1))]);
const userPart = v.variant("type", [
  textPart,
  v.strictObject({ type: v.literal("image_url"), image_url: json }),
  v.strictObject({ type: v.literal("input_audio"), input_audio: json }),
  v.strictObject({
    type: v.literal("file"),
    file: v.union([
      v.strictObject({ file_id: v.string() }),
      v.strictObject({ file_data: v.string(), filename: v.string() }),
    ]),
  }),
]);
const callOf = ({ callFields = {} }: Profile) =>
  v.strictObject({
    id: v.string(),
    type: v.literal("function"),
    function: v.strictObject({ name: functionName, arguments: v.string() }),
    ...callFields,
  });

const thinkingPart = v.strictObject({
  type: v.literal("thinking"),
  thinking: v.array(v.strictObject({ type: v.literal("text"), text: v.string() })),
  closed: v.optional(v.boolean()),
});

/** The messages of a vendor. */
function messageOf(profile: Profile) {
  const refusal = v.strictObject({ type: v.literal("refusal"), refusal: v.string() });
  const part = v.variant("type", profile.hasThinkingParts ? [textPart, refusal, thinkingPart] : [textPart, refusal]);
  return v.variant("role", [
    v.strictObject({ role: v.picklist(["system", "developer"]), content: texts, name }),
    v.strictObject({
      role: v.literal("user"),
      content: v.union([v.string(), v.pipe(v.array(userPart), v.minLength(1))]),
      name,
    }),
    v.strictObject({
      role: v.literal("assistant"),
      content: v.nullish(v.union([v.string(), v.pipe(v.array(part), v.minLength(1))])),
      refusal: v.nullish(v.string()),
      audio: v.nullish(json),
      annotations: v.optional(v.array(json)),
      tool_calls: v.optional(v.pipe(v.array(callOf(profile)), v.minLength(1))),
      name,
      ...profile.messageFields,
    }),
    v.strictObject({ role: v.literal("tool"), content: texts, tool_call_id: v.string(), name }),
  ]);
}

const namedTool = v.strictObject({
  type: v.literal("function"),
  function: v.strictObject({ name: functionName }),
});
const tool = v.strictObject({
  type: v.literal("function"),
  function: v.strictObject({
    name: functionName,
    description: v.optional(v.string()),
    parameters: v.optional(json),
    strict: v.nullish(v.boolean()),
  }),
});

/** The request of a vendor. */
function requestOf(profile: Profile) {
  return v.strictObject({
    model: v.string(),
    messages: v.pipe(v.array(messageOf(profile)), v.minLength(1)),
    stream: flag,
    stream_options: v.nullish(
      v.strictObject({ include_usage: v.optional(v.boolean()), include_obfuscation: v.optional(v.boolean()) }),
    ),
    max_tokens: number,
    max_completion_tokens: number,
    temperature: number,
    top_p: number,
    n: number,
    seed: number,
    stop: v.nullish(v.union([v.string(), v.array(v.string())])),
    presence_penalty: number,
    frequency_penalty: number,
    logprobs: flag,
    top_logprobs: number,
    user: v.optional(v.pipe(v.string(), v.maxLength(64))),
    safety_identifier: v.optional(v.string()),
    prompt_cache_key: v.optional(v.string()),
    metadata: v.nullish(json),
    store: flag,
    service_tier: v.nullish(v.string()),
    verbosity: v.nullish(v.string()),
    modalities: v.nullish(v.array(v.string())),
    response_format: v.optional(json),
    tools: v.optional(v.pipe(v.array(tool), v.minLength(1))),
    tool_choice: v.optional(
      v.union([
        v.picklist(["none", "auto", "required"]),
        namedTool,
        v.strictObject({
          type: v.literal("allowed_tools"),
          allowed_tools: v.strictObject({ mode: v.picklist(["auto", "required"]), tools: v.array(namedTool) }),
        }),
      ]),
    ),
    parallel_tool_calls: v.optional(v.boolean()),
    ...profile.bodyFields,
  });
}
type Request = v.InferOutput<ReturnType<typeof requestOf>>;
type Message = Request["messages"][number];
type Assistant = Extract<Message, { role: "assistant" }>;

export type Validate = (received: Received, vault: Vault, thoughts: ReadonlyMap<string, string>) => Heard;

/** Returns the validator of a vendor. Its `thoughts` are those that the server has made, by the id of their first call. */
export function validatorOf(profile: Profile): Validate {
  const schema = requestOf(profile);
  return ({ model, body }, vault, thoughts) => {
    const refused = profile.refused(model).find((field) => field in body);
    if (refused !== undefined)
      throw unsupported("parameter", refused, `'${refused}' is not supported with this model.`);
    const breach = breachOf(schema, body);
    if (breach) {
      const param = breach.path
        .map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`))
        .join("")
        .slice(1);
      if (breach.kind === "extra")
        throw new Refused(`Unknown parameter: '${param}'.`, { param, code: "unknown_parameter" });
      if (breach.kind === "missing")
        throw new Refused(`Missing required parameter: '${param}'.`, { param, code: "missing_required_parameter" });
      throw new Refused(`Invalid value for '${param}': expected ${breach.expected}.`, { param, code: "invalid_value" });
    }
    const valid = body as Request & JsonObject;
    if (profile.fixesSampling?.(model)) checkSampling(valid);
    if (valid.tool_choice !== undefined && !valid.tools)
      throw new Refused("'tool_choice' is only allowed when 'tools' are specified.", { param: "tool_choice" });
    for (const [index, message] of valid.messages.entries())
      if (message.role === "assistant") checkAnswer(message, index, profile);
    checkPairs(valid.messages, profile);
    for (const [at, { function: called }] of (valid.tools ?? []).entries())
      checkFunction(called.name, called.parameters, called.strict === true, `tools[${at}].function.parameters`);
    checkJsonWord(
      valid.messages,
      valid.response_format?.["type"] === "json_object",
      "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
    );
    const begin = valid.messages.findLastIndex(({ role }) => role === "user");
    for (const [index, message] of valid.messages.entries()) {
      if (message.role !== "assistant") continue;
      const [first] = message.tool_calls ?? [];
      const at: AnswerAt = { index, vault, thought: first && thoughts.get(first.id), isInLoop: index > begin };
      profile.check(message, at);
    }
    return heardOf(valid, begin);
  };
}

const unsupported = (what: string, param: string, why: string): Refused =>
  new Refused(`Unsupported ${what}: ${why}`, { param, code: `unsupported_${what}` });

function checkSampling(body: Request): void {
  for (const param of ["temperature", "top_p", "presence_penalty", "frequency_penalty"] as const) {
    const value = body[param];
    const normal = param === "temperature" || param === "top_p" ? 1 : 0;
    if (value != null && value !== normal)
      throw unsupported(
        "value",
        param,
        `'${param}' does not support ${value} with this model. Only the default (${normal}) value is supported.`,
      );
  }
}

function checkAnswer({ content, refusal, tool_calls = [] }: Assistant, index: number, profile: Profile): void {
  if (content == null && refusal == null && tool_calls.length === 0)
    throw new Refused(`Invalid value for 'content': expected a string, got null.`, {
      param: `messages.[${index}].content`,
    });
  for (const [at, call] of tool_calls.entries()) {
    const param = `messages[${index}].tool_calls[${at}]`;
    const { id } = call;
    if (!profile.callId.test(id))
      throw new Refused(
        profile.name === "mistral"
          ? `Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`
          : `Invalid '${param}.id': string too long. Expected a string with maximum length 40, but got a string with length ${id.length} instead.`,
        { param: `${param}.id`, code: "string_above_max_length" },
      );
    try {
      const args: unknown = JSON.parse(call.function.arguments);
      if (args === null || typeof args !== "object" || Array.isArray(args)) throw new TypeError("no object");
    } catch {
      throw new Refused(`Invalid '${param}.function.arguments': expected the text of a JSON object.`, { param });
    }
  }
}

/** Each call is answered exactly once, directly behind its message. */
function checkPairs(messages: readonly Message[], profile: Profile): void {
  let open: Set<string> | undefined;
  for (const [index, message] of [...messages, undefined].entries()) {
    if (message?.role === "tool") {
      if (!open?.delete(message.tool_call_id))
        throw new Refused(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
          { param: `messages.[${index}].role` },
        );
      continue;
    }
    if (open && open.size > 0)
      throw new Refused(
        `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${[...open].join(", ")}`,
        { param: "messages" },
      );
    if (profile.name === "mistral" && open && message?.role === "user")
      throw new Refused("Unexpected role 'user' after role 'tool'");
    const ids = (message?.role === "assistant" && message.tool_calls?.map(({ id }) => id)) || [];
    open = ids.length > 0 ? new Set(ids) : undefined;
    if (open && open.size < ids.length) throw new Refused("Duplicate tool call ids in assistant message.");
  }
  const end = messages.at(-1)?.role;
  if (profile.name === "mistral" && end === "assistant")
    throw new Refused("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant");
}

const textOf = (content: Message["content"]): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map((part) => ("text" in part && part.type === "text" ? part.text : "")).join("");

function heardOf({ tools = [], messages, response_format }: Request, begin: number): Heard {
  const facts: string[] = [];
  const calls = new Map<string, Call>();
  for (const message of messages) {
    const text = textOf(message.content);
    if (message.role === "user") facts.push(userFact(text));
    if (message.role === "assistant") {
      if (text !== "") facts.push(textFact(text));
      for (const { id, function: called } of message.tool_calls ?? []) {
        const call = { name: called.name, args: JSON.parse(called.arguments) as JsonObject };
        calls.set(id, call);
        facts.push(callFact(call));
      }
    }
    const call = message.role === "tool" && calls.get(message.tool_call_id);
    if (call) facts.push(resultFact(call, text));
  }
  const answers = (from: number): number => messages.slice(from).filter(({ role }) => role === "assistant").length;
  return {
    facts,
    steps: answers(0),
    stepsOfTurn: answers(Math.max(0, begin)),
    tools: tools.map(({ function: { name, parameters } }) => ({ name, schema: parameters })),
    schema: (response_format?.["json_schema"] as JsonObject | undefined)?.["schema"],
  };
}
