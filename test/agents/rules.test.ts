/** The rules of the strict upstreams: each good history is accepted, and each history with one fault is refused in the vendor's words. */

import { describe, expect, it } from "vitest";
import { goodHistory } from "./histories.ts";
import { TURNS } from "./script.ts";
import { MAKER_NAMES, MAKERS, type MakerName } from "./stage.ts";
import { strictUpstream } from "./strict.ts";

/** A body with every member open for a fault. */
// oxlint-disable-next-line typescript/no-explicit-any -- a fault may stand anywhere in a body of any format
type Body = any;

type Fault = readonly [name: string, make: (body: Body) => void, words: string];

/** The faults of a request for the third answer: two answers with calls and their results stand before it. */
const FAULTS: Readonly<Partial<Record<MakerName, readonly Fault[]>>> = {
  messages: [
    ["an unknown field", (body) => (body.foo = 1), "foo: Extra inputs are not permitted"],
    ["an unknown field of a block", ({ messages }) => (messages[1].content[1].extra_content = {}), "not permitted"],
    ["an empty text", ({ messages }) => messages[2].content.push({ type: "text", text: "" }), "must be non-empty"],
    ["a blank text", ({ messages }) => messages[2].content.push({ type: "text", text: " \n" }), "non-whitespace"],
    ["no content", ({ messages }) => (messages[1].content = []), "must have non-empty content"],
    [
      "a result behind a text",
      ({ messages }) => messages[2].content.unshift({ type: "text", text: "So:" }),
      "must come first",
    ],
    [
      "a call without a result",
      ({ messages }) => messages[2].content.pop(),
      "without `tool_result` blocks immediately after",
    ],
    [
      "a result too many",
      ({ messages }) => messages[2].content.push(messages[2].content[0]),
      "unexpected `tool_use_id`",
    ],
    ["an id with a colon", ({ messages }) => (messages[1].content[1].id = "get:0"), "should match pattern"],
    ["an id twice", ({ messages }) => (messages[3].content[2].id = messages[1].content[1].id), "must be unique"],
    ["no thinking", ({ messages }) => messages[1].content.shift(), "Expected `thinking` or `redacted_thinking`"],
    ["another thinking", ({ messages }) => (messages[1].content[0].thinking += "."), "Invalid `signature`"],
    ["no signature", ({ messages }) => (messages[1].content[0].signature = ""), "Invalid `signature`"],
    [
      "redacted data from elsewhere",
      ({ messages }) => (messages[1].content[0] = { type: "redacted_thinking", data: "AA==" }),
      "Invalid `data`",
    ],
    ["an answer first", ({ messages }) => messages.shift(), 'must use the "user" role'],
    ["a temperature beside thinking", (body) => (body.temperature = 0.5), "`temperature` may only be set to 1"],
    ["a low top_p beside thinking", (body) => (body.top_p = 0.5), "`top_p` must be greater"],
    ["a top_k beside thinking", (body) => (body.top_k = 5), "`top_k` must be unset"],
    ["a forced tool beside thinking", (body) => (body.tool_choice = { type: "any" }), "forces tool use"],
    [
      "both of temperature and top_p",
      (body) => Object.assign(body, { temperature: 1, top_p: 1 }),
      "cannot both be specified",
    ],
    ["a budget below the least", ({ thinking }) => (thinking.budget_tokens = 1_000), "thinking.budget_tokens"],
    ["a budget without room", (body) => (body.max_tokens = 2_048), "`max_tokens` must be greater"],
    ["adaptive thinking", (body) => (body.thinking = { type: "adaptive" }), "adaptive thinking is not supported"],
    ["an effort", (body) => (body.output_config = { effort: "low" }), "does not support the effort"],
    ["a lost result", ({ messages }) => (messages[2].content[0].content = "nothing"), "The history is"],
    [
      "a prefill with a space",
      (body) => (delete body.thinking, body.messages.push({ role: "assistant", content: "So " })),
      "trailing whitespace",
    ],
    [
      "a wrapped seal",
      (body) => (body.system = Buffer.from("polygate:messages:part::x").toString("base64")),
      "wrapped seal",
    ],
  ],
  "messages-by-effort": [
    ["a budget", (body) => (body.thinking = { type: "enabled", budget_tokens: 2_048 }), "not supported for this model"],
    ["a temperature", (body) => (body.temperature = 0.5), "`temperature` is deprecated"],
    ["no thinking before a call", ({ messages }) => messages[1].content.shift(), "Expected `thinking`"],
    ["another thinking", ({ messages }) => (messages[1].content[0].thinking += "."), "Invalid `signature`"],
    [
      "a prefill",
      ({ messages }) => messages.push({ role: "assistant", content: "So" }),
      "must not be of role `assistant`",
    ],
  ],
  "generate-content": [
    ["an unknown field", ({ contents }) => (contents[1].parts[0].signature = "A"), "Cannot find field"],
    ["an empty part", ({ contents }) => contents[1].parts.push({}), "required oneof field 'data'"],
    ["an empty text alone", ({ contents }) => (contents[0].parts = [{ text: "" }]), "must have a text parameter"],
    ["no parts", ({ contents }) => (contents[0].parts = []), "contents.parts must not be empty"],
    ["a role that is none", ({ contents }) => (contents[1].role = "assistant"), "valid role"],
    ["an answer first", ({ contents }) => contents.shift(), "immediately after a user turn"],
    ["an answer last", ({ contents }) => contents.pop(), "end with a user role"],
    [
      "a missing signature",
      ({ contents }) => delete contents[1].parts[1].thoughtSignature,
      "missing a thought_signature",
    ],
    [
      "an empty signature",
      ({ contents }) => (contents[1].parts[1].thoughtSignature = ""),
      "Corrupted thought signature",
    ],
    [
      "another call's signature",
      ({ contents }) => (contents[1].parts[1].thoughtSignature = contents[3].parts.at(-1).thoughtSignature),
      "Corrupted",
    ],
    [
      "a signature that was lost here",
      ({ contents }) => (contents[1].parts[1].thoughtSignature = "skip_thought_signature_validator"),
      "made here",
    ],
    [
      "a signature from elsewhere on a thought",
      ({ contents }) => (contents[1].parts[0].thoughtSignature = "QUFB"),
      "Corrupted",
    ],
    ["a missing response", ({ contents }) => contents[2].parts.pop(), "number of function response parts"],
    [
      "responses in another order",
      ({ contents }) => (contents[2].parts = contents[2].parts.toReversed()),
      "does not answer the function call",
    ],
    ["another id", ({ contents }) => (contents[2].parts[0].functionResponse.id = "x"), "has the id x"],
    [
      "budget and level",
      ({ generationConfig: { thinkingConfig } }) =>
        Object.assign(thinkingConfig, { thinkingBudget: 128, thinkingLevel: "LOW" }),
      "only one of",
    ],
    [
      "no thinking",
      ({ generationConfig: { thinkingConfig } }) => (thinkingConfig.thinkingBudget = 0),
      "Budget 0 is invalid",
    ],
    ["a lost text", ({ contents }) => contents[3].parts.splice(1, 1), "The history is"],
  ],
  responses: [
    ["an unknown field", (body) => (body.foo = 1), "Unknown parameter: 'foo'"],
    ["a previous response", (body) => (body.previous_response_id = "resp_1"), "Previous response with id 'resp_1'"],
    ["a conversation", (body) => (body.conversation = "conv_1"), "Conversation not found"],
    ["a reference", ({ input }) => input.push({ type: "item_reference", id: "msg_9" }), "not persisted"],
    ["that it stores", (body) => delete body.store, "'store' must be false"],
    ["an output without its call", ({ input }) => input.splice(2, 1), "No tool call found"],
    ["a call without its output", ({ input }) => input.splice(5, 1), "No tool output found"],
    ["a call without its reasoning", ({ input }) => input.splice(1, 1), "without its required 'reasoning' item"],
    [
      "reasoning without its item",
      ({ input }) => input.push({ ...input[1], id: "rs_2" }),
      "without its required following item",
    ],
    ["reasoning that is not encrypted", ({ input }) => delete input[1].encrypted_content, "not persisted"],
    ["reasoning from elsewhere", ({ input }) => (input[1].encrypted_content = "AAAA"), "could not be verified"],
    ["an id of another kind", ({ input }) => (input[2].id = "call_1"), "Invalid 'input[2]"],
    ["a schema that is not strict", ({ tools }) => delete tools[0].strict, "'additionalProperties' is required"],
    ["a temperature", (body) => (body.temperature = 0.5), "'temperature' is not supported"],
    ["a small limit", (body) => (body.max_output_tokens = 5), "max_output_tokens"],
    ["a lost text", ({ input }) => input.splice(-2, 2), "The history is"],
  ],
  "responses-without-thinking": [
    ["an effort", (body) => (body.reasoning = { effort: "low" }), "'reasoning.effort' is not supported"],
    ["encrypted reasoning", (body) => (body.include = ["reasoning.encrypted_content"]), "Encrypted content is not"],
  ],
  openai: [
    [
      "reasoning_content",
      ({ messages }) => (messages[1].reasoning_content = "x"),
      "Unknown parameter: 'messages[1].reasoning_content'",
    ],
    ["reasoning_details", ({ messages }) => (messages[1].reasoning_details = []), "Unknown parameter"],
    [
      "extra_content",
      ({ messages }) => (messages[1].tool_calls[0].extra_content = {}),
      "Unknown parameter: 'messages[1].tool_calls[0].extra_content'",
    ],
    ["max_tokens", (body) => (body.max_tokens = 5), "'max_tokens' is not supported"],
    ["a temperature", (body) => (body.temperature = 0.5), "Only the default (1) value is supported"],
    [
      "a long id",
      ({ messages }) => (messages[1].tool_calls[0].id = messages[2].tool_call_id = "x".repeat(41)),
      "maximum length 40",
    ],
    [
      "arguments that are no JSON",
      ({ messages }) => (messages[1].tool_calls[0].function.arguments = "{"),
      "text of a JSON object",
    ],
    ["a name with a space", ({ messages }) => (messages[1].tool_calls[0].function.name = "get it"), "function.name"],
    ["a missing result", ({ messages }) => messages.splice(2, 1), "did not have response messages"],
    [
      "a result twice",
      ({ messages }) => messages.splice(2, 0, messages[2]),
      "must be a response to a preceeding message",
    ],
    [
      "a question between call and result",
      ({ messages }) => messages.splice(2, 0, { role: "user", content: "Now?" }),
      "did not have response",
    ],
    [
      "an answer without content",
      ({ messages }) => messages.push({ role: "assistant", content: null }),
      "expected a string, got null",
    ],
    ["a result without content", ({ messages }) => (messages[2].content = null), "messages[2].content"],
    ["no calls in a list", ({ messages }) => (messages[1].tool_calls = []), "messages[1].tool_calls"],
  ],
  deepseek: [
    ["no reasoning_content", ({ messages }) => delete messages[1].reasoning_content, "must be passed back"],
    ["another reasoning_content", ({ messages }) => (messages[1].reasoning_content += " "), "not as it was made"],
  ],
  openrouter: [
    ["no reasoning_details", ({ messages }) => delete messages[1].reasoning_details, "did not come back"],
    ["another text", ({ messages }) => (messages[1].reasoning_details[0].text += " "), "Invalid `signature`"],
    [
      "encrypted reasoning from elsewhere",
      ({ messages }) => messages[1].reasoning_details.push({ type: "reasoning.encrypted", data: "AA==" }),
      "not made here",
    ],
  ],
  mistral: [
    [
      "a long id",
      ({ messages }) => (messages[1].tool_calls[0].id = messages[2].tool_call_id = "call_12345"),
      "with a length of 9",
    ],
    ["another thinking", ({ messages }) => (messages[1].content[0].thinking[0].text += " "), "not as it was made"],
    [
      "a question behind a result",
      ({ messages }) => messages.push({ role: "user", content: "Now?" }),
      "Unexpected role 'user'",
    ],
    ["reasoning_content", ({ messages }) => (messages[1].reasoning_content = "x"), "Unknown parameter"],
  ],
  converse: [
    ["an unknown field", (body) => (body.foo = 1), "body.foo is unknown"],
    ["a field of a stream", (body) => (body.guardrailConfig = { streamProcessingMode: "sync" }), "is unknown"],
    ["an unknown member of a block", ({ messages }) => (messages[1].content[0].type = "text"), "is unknown"],
    ["a block of two kinds", ({ messages }) => (messages[0].content[0].cachePoint = { type: "default" }), "a union of"],
    ["a missing member", ({ toolConfig }) => delete toolConfig.tools[0].toolSpec.inputSchema, "is missing"],
    ["a text in place of a number", ({ inferenceConfig }) => (inferenceConfig.maxTokens = "1"), "is no number"],
    ["a blank text", ({ messages }) => messages[2].content.push({ text: " \n" }), "is blank"],
    ["no content", ({ messages }) => (messages[2].content = []), "is empty"],
    ["an answer first", ({ messages }) => messages.shift(), "must start with a user message"],
    [
      "two turns of one role",
      ({ messages }) => messages.push({ role: "user", content: [{ text: "?" }] }),
      "must alternate",
    ],
    ["a call without a result", ({ messages }) => messages[2].content.pop(), "Expected toolResult blocks"],
    [
      "a result too many",
      ({ messages }) => messages[2].content.push(messages[2].content[0]),
      "exceeds the toolUse blocks",
    ],
    [
      "an id with a colon",
      ({ messages }) => (messages[1].content[1].toolUse.toolUseId = "get:0"),
      "is no id of a tool call",
    ],
    ["an empty result", ({ messages }) => (messages[2].content[0].toolResult.content = []), "cannot be empty"],
    ["no tools", (body) => delete body.toolConfig, "must be defined when using toolUse"],
    ["no thinking", ({ messages }) => messages[1].content.shift(), "Expected `thinking` or `redacted_thinking`"],
    [
      "another thinking",
      ({ messages }) => (messages[1].content[0].reasoningContent.reasoningText.text += "."),
      "Invalid `signature`",
    ],
    [
      "no signature",
      ({ messages }) => delete messages[1].content[0].reasoningContent.reasoningText.signature,
      "cannot contain reasoning content",
    ],
    [
      "redacted data from elsewhere",
      ({ messages }) => (messages[1].content[0] = { reasoningContent: { redactedContent: "AAAA" } }),
      "Invalid `data`",
    ],
    ["a turn of reasoning alone", ({ messages }) => (messages[3].content = messages[3].content.slice(0, 1)), "prefill"],
    [
      "a temperature beside thinking",
      ({ inferenceConfig }) => (inferenceConfig.temperature = 0.5),
      "may only be set to 1",
    ],
    ["a high temperature", ({ inferenceConfig }) => (inferenceConfig.temperature = 2), "less than or equal to 1"],
    ["a budget without room", ({ inferenceConfig }) => (inferenceConfig.maxTokens = 2_048), "must be greater than"],
    [
      "a choice in two places",
      (body) => ((body.toolConfig.toolChoice = { auto: {} }), (body.additionalModelRequestFields.tool_choice = {})),
      "conflicts",
    ],
    [
      "a field of another model",
      (body) => (body.additionalModelRequestFields.reasoning_effort = "low"),
      "Unknown parameter",
    ],
    [
      "a mark of nothing",
      (body) => (body.system = [{ cachePoint: { type: "default" } }]),
      "nothing available to cache",
    ],
    [
      "a lost result",
      ({ messages }) => (messages[2].content[0].toolResult.content = [{ text: "nothing" }]),
      "The history is",
    ],
    [
      "a document twice",
      ({ messages }) => {
        const document = { name: "a", format: "pdf", source: { bytes: "AAAA" } };
        messages[0].content.push({ document }, { document });
      },
      "duplicate document names",
    ],
    [
      "a wrapped seal",
      (body) => (body.system = [{ text: Buffer.from("polygate:messages:part::x").toString("base64") }]),
      "A wrapped seal",
    ],
  ],
};

/** The member of an error's body that holds its words, where that is not `error`. */
const ERROR_MEMBERS: Readonly<Partial<Record<MakerName, string>>> = { mistral: "object", converse: "message" };

const open = async (name: MakerName) => {
  const upstream = strictUpstream(MAKERS[name].format(), name);
  return { upstream, history: await goodHistory(name, upstream) };
};

it.each(MAKER_NAMES)("%s accepts a good history", async (name) => {
  const { upstream, history } = await open(name);
  expect(upstream.violations).toEqual([]);
  expect(history.bodies).toHaveLength(TURNS.length);
});

describe.each(Object.entries(FAULTS) as [MakerName, readonly Fault[]][])("%s refuses", (name, faults) => {
  it.each(faults)("%s", async (_name, make, words) => {
    const { upstream, history } = await open(name);
    const body = history.bodies[2];
    make(body);
    const { status, answer } = await history.send(body ?? {});
    expect(status).toBe(400);
    expect(answer).toHaveProperty(ERROR_MEMBERS[name] ?? "error");
    expect(JSON.stringify(answer)).toContain(JSON.stringify(words).slice(1, -1));
    expect(upstream.violations).toHaveLength(1);
  });
});
