/** The chat-completions format: `POST /v1/chat/completions`. */

import { postJson } from "../http/call.ts";
import { type JsonObject, listAt, member, numberAt, objectAt, parsed, textAt } from "../json.ts";
import { toSource } from "../source.ts";
import { type Answer, type AnswerBuilder, callsIn } from "./answer.ts";
import { type ChatDraft, turnsOf, WEATHER } from "./draft.ts";
import type { ChatFormat } from "./format.ts";

const PATH = "/v1/chat/completions";

function encode(draft: ChatDraft): JsonObject {
  const { name, description, schema: parameters } = WEATHER;
  return {
    model: draft.model,
    max_completion_tokens: draft.maxTokens,
    ...(draft.temperature !== undefined && { temperature: draft.temperature }),
    ...(draft.thinking && { reasoning_effort: draft.thinking }),
    ...(draft.tools && { tools: [{ type: "function", function: { name, description, parameters } }] }),
    ...(draft.schema !== undefined && {
      response_format: { type: "json_schema", json_schema: { name: "answer", schema: parsed(draft.schema) } },
    }),
    // Without this option, a stream reports no usage.
    ...(draft.stream && { stream: true, stream_options: { include_usage: true } }),
    messages: [
      ...(draft.system !== "" ? [{ role: "system", content: draft.system }] : []),
      ...turnsOf(draft).flatMap(({ prompt, results, answer }) => [
        ...results.map(({ id, text }) => ({ role: "tool", tool_call_id: id, content: text })),
        ...(prompt === "" ? [] : [{ role: "user", content: prompt }]),
        ...(answer ? [encodeAnswer(answer)] : []),
      ]),
    ],
  };
}

function encodeAnswer(answer: Answer): JsonObject {
  const content = answer.blocks.flatMap(({ type, text }) => (type === "text" ? text : [])).join("");
  const details = answer.blocks.find(({ type }) => type === "thinking")?.seal;
  const calls = callsIn(answer).map(({ id, name, text, seal }) => ({
    id,
    type: "function",
    function: { name, arguments: text },
    ...(seal !== undefined && { extra_content: seal }),
  }));
  return {
    role: "assistant",
    content: content === "" ? null : content,
    ...(details !== undefined && { reasoning_details: details }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Reads a delta of a stream or a complete message. Both have the same shape, but only a stream numbers its calls. */
function readMessage(answer: AnswerBuilder, message: JsonObject): void {
  const thinking = textAt(message, "reasoning_content") || textAt(message, "reasoning");
  const text = textAt(message, "content") + textAt(message, "refusal");
  const details = member(message, "reasoning_details");
  if (thinking !== "" || details !== undefined)
    answer.add("thinking", { type: "thinking", text: thinking, seal: details });
  if (text !== "") answer.add("text", { type: "text", text });
  for (const [index, call] of listAt(message, "tool_calls").entries()) {
    const asked = objectAt(call, "function");
    const key = `call ${numberAt(call, "index") ?? index}`;
    const seal = member(call, "extra_content");
    const [name, text] = [textAt(asked, "name"), textAt(asked, "arguments")];
    answer.add(key, { type: "tool-call", id: textAt(call, "id"), name, text, seal });
  }
}

function read(answer: AnswerBuilder, chunk: JsonObject): void {
  if (member(chunk, "error")) return answer.fail(chunk);
  const [choice] = listAt(chunk, "choices");
  readMessage(answer, objectAt(choice, "delta"));
  readMessage(answer, objectAt(choice, "message"));
  answer.stop(member(choice, "finish_reason"));
  const usage = objectAt(chunk, "usage");
  answer.count("input", usage["prompt_tokens"]);
  answer.count("output", usage["completion_tokens"]);
  answer.count("thinking", objectAt(usage, "completion_tokens_details")["reasoning_tokens"]);
}

export const chatCompletions: ChatFormat = {
  id: "chat-completions",
  name: "Chat completions",
  sdk: "openai",
  request: (draft, apiKey) => postJson(PATH, { authorization: `Bearer ${apiKey}` }, encode(draft)),
  leftOut: ({ codeExecution }) => (codeExecution ? ["code execution"] : []),
  readEvent: read,
  readBody: read,
  sdkCode: (draft, { apiKey, baseUrl }) => {
    const ask = `await client.chat.completions.create(${toSource(encode(draft))})`;
    const show = draft.stream
      ? `const stream = ${ask};
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? "");
  if (chunk.usage) console.log(chunk.usage);
}`
      : `const completion = ${ask};
console.log(completion.choices[0]?.message, completion.usage);`;
    return `import OpenAI from "openai";

const client = new OpenAI({ apiKey: ${apiKey}, baseURL: ${JSON.stringify(`${baseUrl}/v1`)} });
${show}
`;
  },
};
