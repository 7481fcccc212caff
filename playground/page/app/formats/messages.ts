/** The messages format: `POST /v1/messages`. */

import { postJson } from "../http/call.ts";
import { type Json, type JsonObject, listAt, member, numberAt, objectAt, parsed, textAt } from "../json.ts";
import { toSource } from "../source.ts";
import type { Answer, AnswerBuilder, Block } from "./answer.ts";
import { type ChatDraft, type Said, thinkingTokens, turnsOf, WEATHER } from "./draft.ts";
import type { ChatFormat } from "./format.ts";

const PATH = "/v1/messages";
const VERSION = "2023-06-01";

function encode(draft: ChatDraft): JsonObject {
  return {
    model: draft.model,
    max_tokens: draft.maxTokens,
    ...(draft.system !== "" && { system: draft.system }),
    ...(draft.temperature !== undefined && { temperature: draft.temperature }),
    ...(draft.thinking && {
      thinking: { type: "enabled", budget_tokens: thinkingTokens(draft.thinking, draft.maxTokens) },
    }),
    ...(draft.tools && {
      tools: [{ name: WEATHER.name, description: WEATHER.description, input_schema: WEATHER.schema }],
    }),
    ...(draft.schema !== undefined && {
      output_config: { format: { type: "json_schema", schema: parsed(draft.schema) } },
    }),
    ...(draft.stream && { stream: true }),
    messages: turnsOf(draft).flatMap(({ answer, ...said }) => [
      { role: "user", content: contentOf(said) },
      ...(answer ? [{ role: "assistant", content: answer.blocks.flatMap(encodeBlock) }] : []),
    ]),
  };
}

function contentOf({ prompt, results }: Said): Json {
  if (results.length === 0) return prompt;
  return [
    ...results.map(({ id, text }) => ({ type: "tool_result", tool_use_id: id, content: text })),
    ...(prompt === "" ? [] : [{ type: "text", text: prompt }]),
  ];
}

function encodeBlock({ text, seal, ...block }: Answer["blocks"][number]): JsonObject[] {
  if (block.type === "text") return [{ type: "text", text }];
  if (block.type === "thinking") return [{ type: "thinking", thinking: text, signature: seal ?? "" }];
  return block.type === "tool-call"
    ? [{ type: "tool_use", id: block.id, name: block.name, input: parsed(text) ?? {} }]
    : [];
}

/** Reads a complete block, or the start of a streamed block. */
function blockOf(block: unknown): Block | undefined {
  switch (textAt(block, "type")) {
    case "text":
      return { type: "text", text: textAt(block, "text") };
    case "thinking":
      return { type: "thinking", text: textAt(block, "thinking"), seal: member(block, "signature") };
    case "tool_use":
      return { type: "tool-call", id: textAt(block, "id"), name: textAt(block, "name"), text: "" };
    default:
      return undefined;
  }
}

function readEvent(answer: AnswerBuilder, event: JsonObject): void {
  const key = `block ${numberAt(event, "index")}`;
  const delta = objectAt(event, "delta");
  switch (textAt(event, "type")) {
    case "message_start":
      return readUsage(answer, objectAt(objectAt(event, "message"), "usage"));
    case "content_block_start": {
      const block = blockOf(member(event, "content_block"));
      if (block) answer.add(key, block);
      return;
    }
    case "content_block_delta": {
      const text = textAt(delta, "text") + textAt(delta, "thinking") + textAt(delta, "partial_json");
      const seal = member(delta, "signature");
      if (text !== "" || seal !== undefined) answer.add(key, { type: "text", text, seal });
      return;
    }
    case "message_delta":
      answer.stop(member(delta, "stop_reason"));
      return readUsage(answer, objectAt(event, "usage"));
    case "error":
      return answer.fail(event);
    default:
  }
}

function readBody(answer: AnswerBuilder, body: JsonObject): void {
  for (const [index, block] of listAt(body, "content").entries()) {
    const read = blockOf(block);
    if (!read) continue;
    const input = member(block, "input");
    answer.add(`block ${index}`, read.type === "tool-call" ? { ...read, text: JSON.stringify(input) } : read);
  }
  answer.stop(member(body, "stop_reason"));
  readUsage(answer, objectAt(body, "usage"));
}

function readUsage(answer: AnswerBuilder, usage: JsonObject): void {
  answer.count("input", usage["input_tokens"]);
  answer.count("output", usage["output_tokens"]);
}

export const messages: ChatFormat = {
  id: "messages",
  name: "Messages",
  sdk: "@anthropic-ai/sdk",
  request: (draft, apiKey) => postJson(PATH, { "x-api-key": apiKey, "anthropic-version": VERSION }, encode(draft)),
  leftOut: ({ codeExecution }) => (codeExecution ? ["code execution"] : []),
  readEvent,
  readBody,
  sdkCode: (draft, { apiKey, baseUrl }) => {
    const params = toSource(encode({ ...draft, stream: false }));
    const ask = draft.stream
      ? `const stream = client.messages.stream(${params});
stream.on("text", (text) => process.stdout.write(text));
const message = await stream.finalMessage();`
      : `const message = await client.messages.create(${params});`;
    return `import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ apiKey: ${apiKey}, baseURL: ${JSON.stringify(baseUrl)} });
${ask}
console.log(message.content, message.usage);
`;
  },
};
