/** The page's chat formats as pure maps: each writes its wire format, and reads it whole and in pieces. */

import { describe, expect, it } from "vitest";
import { AnswerBuilder } from "../../playground/page/app/formats/answer.ts";
import { chatCompletions } from "../../playground/page/app/formats/chat-completions.ts";
import type { ChatDraft } from "../../playground/page/app/formats/draft.ts";
import { chatFormats } from "../../playground/page/app/formats/list.ts";
import { messages } from "../../playground/page/app/formats/messages.ts";
import type { JsonObject } from "../../playground/page/app/json.ts";

const DRAFT: ChatDraft = {
  model: "demo-chat",
  system: "Be brief.",
  prompt: "Hello",
  maxTokens: 100,
  stream: true,
  thinking: true,
  tools: true,
  schema: '{ "type": "object" }',
  codeExecution: true,
};

const PLAIN: ChatDraft = {
  ...DRAFT,
  system: "",
  stream: false,
  thinking: false,
  tools: false,
  schema: undefined,
  codeExecution: false,
};

const read = (events: readonly JsonObject[], format = chatCompletions): AnswerBuilder["answer"] => {
  const builder = new AnswerBuilder();
  for (const event of events) format.readEvent(builder, event);
  return builder.answer;
};

describe.each(chatFormats)("$name", (format) => {
  it("sends no key in the address, and one in a header", () => {
    const { path, headers } = format.request(DRAFT, "sk-secret");
    expect(path).not.toContain("sk-secret");
    expect(Object.values(headers).join(" ")).toContain("sk-secret");
  });

  it("asks for nothing that the draft does not", () => {
    const { body } = format.request(PLAIN, "sk");
    expect(JSON.stringify(body)).not.toMatch(/tool|think|reason|schema|system|stream/i);
    expect(JSON.stringify(body)).toContain("Hello");
    expect(format.leftOut(PLAIN)).toEqual([]);
  });

  it("says all that the draft asks for, or that it is left out", () => {
    const text = JSON.stringify(format.request(DRAFT, "sk").body);
    for (const word of ["Be brief.", "get_weather", "schema"]) expect(text.toLowerCase()).toContain(word.toLowerCase());
    expect(/codeExecution/.test(text) || format.leftOut(DRAFT).includes("code execution")).toBe(true);
  });
});

/** A piece of a call, or its beginning, as a stream has it. */
const call = (index: number, name: string | undefined, pieces: string): JsonObject => ({
  index,
  ...(name !== undefined && { id: `call_${index}`, type: "function" }),
  function: { ...(name !== undefined && { name }), arguments: pieces },
});

const delta = (delta: JsonObject, finish_reason: string | null = null): JsonObject => ({
  object: "chat.completion.chunk",
  choices: [{ index: 0, delta, finish_reason }],
});

describe("chat completions", () => {
  it("writes the request as the public format has it", () => {
    expect(chatCompletions.request(DRAFT, "sk-1")).toEqual({
      method: "POST",
      path: "/v1/chat/completions",
      headers: { authorization: "Bearer sk-1", "content-type": "application/json" },
      body: {
        model: "demo-chat",
        max_completion_tokens: 100,
        reasoning_effort: "medium",
        tools: [
          {
            type: "function",
            function: {
              name: "get_weather",
              description: "The weather in a city right now.",
              parameters: expect.objectContaining({ required: ["city"] }) as unknown,
            },
          },
        ],
        response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } },
        stream: true,
        stream_options: { include_usage: true },
        messages: [
          { role: "system", content: "Be brief." },
          { role: "user", content: "Hello" },
        ],
      },
    });
  });

  it("reads a stream: text, calls in pieces that interleave, why it ended, and usage", () => {
    const answer = read([
      delta({ role: "assistant", content: "" }),
      delta({ content: "Let me" }),
      delta({ content: " look." }),
      delta({ tool_calls: [call(0, "get_weather", "")] }),
      delta({ tool_calls: [call(1, "get_time", '{"zo')] }),
      delta({ tool_calls: [call(0, undefined, '{"city":"Paris"}')] }),
      delta({ tool_calls: [call(1, undefined, 'ne":"CET"}')] }),
      delta({}, "tool_calls"),
      {
        object: "chat.completion.chunk",
        choices: [],
        usage: { prompt_tokens: 7, completion_tokens: 9, completion_tokens_details: { reasoning_tokens: 4 } },
      },
    ]);
    expect(answer).toEqual({
      blocks: [
        { type: "text", text: "Let me look." },
        { type: "tool-call", name: "get_weather", text: '{"city":"Paris"}' },
        { type: "tool-call", name: "get_time", text: '{"zone":"CET"}' },
      ],
      stopReason: "tool_calls",
      usage: { input: 7, output: 9, thinking: 4 },
    });
  });

  it("reads a whole answer, with what the model thought", () => {
    const builder = new AnswerBuilder();
    chatCompletions.readBody(builder, {
      choices: [
        {
          index: 0,
          message: { role: "assistant", reasoning_content: "Hm.", content: "Hello", refusal: null },
          finish_reason: "stop",
        },
      ],
      usage: { prompt_tokens: 1, completion_tokens: 2 },
    });
    expect(builder.answer).toEqual({
      blocks: [
        { type: "thinking", text: "Hm." },
        { type: "text", text: "Hello" },
      ],
      stopReason: "stop",
      usage: { input: 1, output: 2 },
    });
  });

  it("keeps an error in the middle of a stream", () => {
    const error = { error: { message: "It broke.", type: "server_error" } };
    expect(read([error]).error).toEqual(error);
  });
});

it("reads what it does not know without harm", () => {
  const odd: JsonObject[] = [
    {},
    { type: "content_block_start" },
    { type: "content_block_delta", delta: null },
    { choices: 1 },
  ];
  for (const format of chatFormats) expect(read(odd, format).blocks).toEqual([]);
  expect(read([{ type: "later", index: "x" }], messages)).toEqual({ blocks: [], usage: {} });
});
