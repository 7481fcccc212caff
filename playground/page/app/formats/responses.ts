/** The Responses format: `POST /v1/responses`. */

import { postJson } from "../http/call.ts";
import { isObject, type Json, type JsonObject, listAt, member, objectAt, parsed, textAt } from "../json.ts";
import { toSource } from "../source.ts";
import type { AnswerBuilder, Block } from "./answer.ts";
import { type ChatDraft, WEATHER } from "./draft.ts";
import type { ChatFormat } from "./format.ts";

const PATH = "/v1/responses";

function encode(draft: ChatDraft): JsonObject {
  const { name, description, schema: parameters } = WEATHER;
  const tools = [
    ...(draft.tools ? [{ type: "function", name, description, parameters, strict: false }] : []),
    ...(draft.codeExecution ? [{ type: "code_interpreter", container: { type: "auto" } }] : []),
  ];
  const before = draft.past.at(-1)?.answer.id;
  return {
    model: draft.model,
    max_output_tokens: draft.maxTokens,
    ...(draft.system !== "" && { instructions: draft.system }),
    ...(draft.temperature !== undefined && { temperature: draft.temperature }),
    ...(draft.thinking && { reasoning: { effort: draft.thinking, summary: "auto" } }),
    ...(tools.length > 0 && { tools }),
    ...(draft.schema !== undefined && {
      text: { format: { type: "json_schema", name: "answer", schema: parsed(draft.schema), strict: false } },
    }),
    ...(draft.stream && { stream: true }),
    // The gateway has stored the earlier turns.
    ...(before !== undefined && { previous_response_id: before }),
    input: inputOf(draft),
  };
}

function inputOf({ prompt, results }: ChatDraft): Json {
  if (results.length === 0) return prompt;
  return [
    ...results.map(({ id, text }) => ({ type: "function_call_output", call_id: id, output: text })),
    ...(prompt === "" ? [] : [{ role: "user", content: prompt }]),
  ];
}

/** Reads an event of a stream. The id of an item is the key of its block, so that deltas join. */
function readEvent(answer: AnswerBuilder, event: JsonObject): void {
  const key = textAt(event, "item_id");
  const text = textAt(event, "delta");
  const item = objectAt(event, "item");
  switch (textAt(event, "type")) {
    case "error":
      return answer.fail(event);
    case "response.output_text.delta":
    case "response.refusal.delta":
      return answer.add(key, { type: "text", text });
    case "response.reasoning_summary_text.delta":
      return answer.add(key, { type: "thinking", text });
    case "response.function_call_arguments.delta":
      return answer.add(key, { type: "tool-call", id: "", name: "", text });
    case "response.output_item.added":
      if (textAt(item, "type") !== "function_call") return;
      return answer.add(textAt(item, "id"), callOf(item, ""));
    case "response.output_item.done":
      // Code arrives complete, and not in deltas.
      return textAt(item, "type") === "code_interpreter_call" ? readItem(answer, item) : undefined;
    case "response.completed":
    case "response.incomplete":
      return readEnd(answer, objectAt(event, "response"));
  }
}

const callOf = (item: JsonObject, text: string): Block => ({
  type: "tool-call",
  id: textAt(item, "call_id"),
  name: textAt(item, "name"),
  text,
});

function readItem(answer: AnswerBuilder, item: JsonObject): void {
  const id = textAt(item, "id");
  switch (textAt(item, "type")) {
    case "message":
      for (const part of listAt(item, "content"))
        answer.add(id, { type: "text", text: textAt(part, "text") + textAt(part, "refusal") });
      return;
    case "reasoning":
      for (const part of listAt(item, "summary")) answer.add(id, { type: "thinking", text: textAt(part, "text") });
      return;
    case "function_call":
      return answer.add(id, callOf(item, textAt(item, "arguments")));
    case "code_interpreter_call":
      answer.add(id, { type: "code", text: textAt(item, "code") });
      for (const output of listAt(item, "outputs"))
        answer.add(`${id} result`, { type: "code-result", outcome: "completed", text: textAt(output, "logs") });
  }
}

function readEnd(answer: AnswerBuilder, response: JsonObject): void {
  answer.identify(textAt(response, "id"));
  answer.stop(member(objectAt(response, "incomplete_details"), "reason") ?? member(response, "status"));
  const usage = objectAt(response, "usage");
  answer.count("input", usage["input_tokens"]);
  answer.count("output", usage["output_tokens"]);
  answer.count("thinking", objectAt(usage, "output_tokens_details")["reasoning_tokens"]);
}

export const responses: ChatFormat = {
  id: "responses",
  name: "Responses",
  sdk: "openai",
  request: (draft, apiKey) => postJson(PATH, { authorization: `Bearer ${apiKey}` }, encode(draft)),
  leftOut: () => [],
  readEvent,
  readBody: (answer, body) => {
    if (member(body, "error")) return answer.fail(body);
    for (const item of listAt(body, "output")) if (isObject(item)) readItem(answer, item);
    readEnd(answer, body);
  },
  sdkCode: (draft, { apiKey, baseUrl }) => {
    const ask = `await client.responses.create(${toSource(encode(draft))})`;
    const show = draft.stream
      ? `const stream = ${ask};
for await (const event of stream) {
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
  if (event.type === "response.completed") console.log(event.response.usage);
}`
      : `const response = ${ask};
console.log(response.output_text, response.usage);`;
    return `import OpenAI from "openai";

const client = new OpenAI({ apiKey: ${apiKey}, baseURL: ${JSON.stringify(`${baseUrl}/v1`)} });
${show}
`;
  },
};
