/** The chat-completions format: `POST /v1/chat/completions`. */

import { postJson } from "../http/call.ts";
import { type JsonObject, listAt, member, numberAt, objectAt, parsed, textAt } from "../json.ts";
import { toSource } from "../source.ts";
import type { AnswerBuilder } from "./answer.ts";
import { type ChatDraft, WEATHER } from "./draft.ts";
import type { ChatFormat } from "./format.ts";

const PATH = "/v1/chat/completions";

function encode(draft: ChatDraft): JsonObject {
  const { name, description, schema: parameters } = WEATHER;
  return {
    model: draft.model,
    max_completion_tokens: draft.maxTokens,
    ...(draft.thinking && { reasoning_effort: "medium" }),
    ...(draft.tools && { tools: [{ type: "function", function: { name, description, parameters } }] }),
    ...(draft.schema !== undefined && {
      response_format: { type: "json_schema", json_schema: { name: "answer", schema: parsed(draft.schema) } },
    }),
    // Without it a stream tells no usage.
    ...(draft.stream && { stream: true, stream_options: { include_usage: true } }),
    messages: [
      ...(draft.system !== "" ? [{ role: "system", content: draft.system }] : []),
      { role: "user", content: draft.prompt },
    ],
  };
}

/** A delta of a stream and a whole message are of one shape, but that calls are numbered in a stream. */
function readMessage(answer: AnswerBuilder, message: JsonObject): void {
  const thinking = textAt(message, "reasoning_content") || textAt(message, "reasoning");
  const text = textAt(message, "content") + textAt(message, "refusal");
  if (thinking !== "") answer.add("thinking", { type: "thinking", text: thinking });
  if (text !== "") answer.add("text", { type: "text", text });
  for (const [index, call] of listAt(message, "tool_calls").entries()) {
    const asked = objectAt(call, "function");
    const key = `call ${numberAt(call, "index") ?? index}`;
    answer.add(key, { type: "tool-call", name: textAt(asked, "name"), text: textAt(asked, "arguments") });
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
