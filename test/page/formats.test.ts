/** The page as pure maps: each chat format writes its wire format and reads it whole and in pieces, and vectors are compared. */

import { describe, expect, it } from "vitest";
import { AnswerBuilder, callsIn } from "../../playground/page/app/formats/answer.ts";
import { chatCompletions } from "../../playground/page/app/formats/chat-completions.ts";
import type { ChatDraft } from "../../playground/page/app/formats/draft.ts";
import { chatFormats } from "../../playground/page/app/formats/list.ts";
import { messages } from "../../playground/page/app/formats/messages.ts";
import { responses } from "../../playground/page/app/formats/responses.ts";
import type { JsonObject } from "../../playground/page/app/json.ts";
import { embeddingsIn, nearness } from "../../playground/page/app/nearness/embeddings.ts";

const DRAFT: ChatDraft = {
  model: "demo-chat",
  system: "Be brief.",
  past: [],
  results: [],
  prompt: "Hello",
  maxTokens: 100,
  temperature: 0.5,
  stream: true,
  thinking: "medium",
  tools: true,
  schema: '{ "type": "object" }',
  codeExecution: true,
};

const PLAIN: ChatDraft = {
  ...DRAFT,
  system: "",
  temperature: undefined,
  stream: false,
  thinking: undefined,
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
    expect(JSON.stringify(body)).not.toMatch(/tool|think|reason|schema|system|stream|temperature|previous/i);
    expect(JSON.stringify(body)).toContain("Hello");
    expect(format.leftOut(PLAIN)).toEqual([]);
  });

  it("says all that the draft asks for, or that it is left out", () => {
    const text = JSON.stringify(format.request(DRAFT, "sk").body);
    for (const word of ["Be brief.", "get_weather", "schema", '"temperature":0.5'])
      expect(text.toLowerCase()).toContain(word.toLowerCase());
    expect(/codeExecution|code_interpreter/.test(text) || format.leftOut(DRAFT).includes("code execution")).toBe(true);
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
        temperature: 0.5,
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
        { type: "tool-call", id: "call_0", name: "get_weather", text: '{"city":"Paris"}' },
        { type: "tool-call", id: "call_1", name: "get_time", text: '{"zone":"CET"}' },
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

/** A stream of each format that thinks, calls a tool and ends, and the turns that its client sends back. */
const LOOPS: Readonly<Record<string, { readonly events: readonly JsonObject[]; readonly sent: JsonObject }>> = {
  messages: {
    events: [
      { type: "message_start", message: { usage: { input_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "thinking", thinking: "", signature: "" } },
      { type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking: "Hm." } },
      { type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "c2ln" } },
      {
        type: "content_block_start",
        index: 1,
        content_block: { type: "tool_use", id: "toolu_1", name: "get_weather" },
      },
      { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '{"city":' } },
      { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: '"Paris"}' } },
    ],
    sent: {
      messages: [
        { role: "user", content: "Weather?" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "Hm.", signature: "c2ln" },
            { type: "tool_use", id: "toolu_1", name: "get_weather", input: { city: "Paris" } },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "toolu_1", content: "Sunny" },
            { type: "text", text: "Thanks" },
          ],
        },
      ],
    },
  },
  "generate-content": {
    events: [
      { candidates: [{ content: { parts: [{ text: "Hm.", thought: true }] } }] },
      { candidates: [{ content: { parts: [{ text: "", thought: true, thoughtSignature: "c2ln" }] } }] },
      {
        candidates: [
          {
            content: {
              parts: [{ functionCall: { name: "get_weather", args: { city: "Paris" } }, thoughtSignature: "c2ln" }],
            },
          },
        ],
      },
    ],
    sent: {
      contents: [
        { role: "user", parts: [{ text: "Weather?" }] },
        {
          role: "model",
          parts: [
            { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
            { functionCall: { name: "get_weather", args: { city: "Paris" } }, thoughtSignature: "c2ln" },
          ],
        },
        {
          role: "user",
          parts: [{ functionResponse: { name: "get_weather", response: { result: "Sunny" } } }, { text: "Thanks" }],
        },
      ],
    },
  },
  "chat-completions": {
    events: [
      delta({ reasoning_content: "Hm.", reasoning_details: [{ type: "reasoning.text", text: "Hm." }] }),
      delta({ reasoning_details: [{ type: "reasoning.encrypted", data: "c2ln" }] }),
      delta({ tool_calls: [{ ...call(0, "get_weather", ""), extra_content: { google: {} } }] }),
      delta({ tool_calls: [call(0, undefined, '{"city":"Paris"}')] }),
    ],
    sent: {
      messages: [
        { role: "user", content: "Weather?" },
        {
          role: "assistant",
          content: null,
          reasoning_details: [
            { type: "reasoning.text", text: "Hm." },
            { type: "reasoning.encrypted", data: "c2ln" },
          ],
          tool_calls: [
            {
              id: "call_0",
              type: "function",
              function: { name: "get_weather", arguments: '{"city":"Paris"}' },
              extra_content: { google: {} },
            },
          ],
        },
        { role: "tool", tool_call_id: "call_0", content: "Sunny" },
        { role: "user", content: "Thanks" },
      ],
    },
  },
  responses: {
    events: [
      { type: "response.created", response: { id: "resp_1", status: "in_progress", output: [] } },
      { type: "response.output_item.added", item: { type: "reasoning", id: "rs_1", summary: [] } },
      { type: "response.reasoning_summary_text.delta", item_id: "rs_1", delta: "Hm." },
      {
        type: "response.output_item.added",
        item: { type: "function_call", id: "fc_1", call_id: "call_1", name: "get_weather", arguments: "" },
      },
      { type: "response.function_call_arguments.delta", item_id: "fc_1", delta: '{"city":' },
      { type: "response.function_call_arguments.delta", item_id: "fc_1", delta: '"Paris"}' },
      { type: "response.completed", response: { id: "resp_1", status: "completed", output: [] } },
    ],
    sent: {
      previous_response_id: "resp_1",
      input: [
        { type: "function_call_output", call_id: "call_1", output: "Sunny" },
        { role: "user", content: "Thanks" },
      ],
    },
  },
};

describe.each(chatFormats)("a conversation in $name", (format) => {
  const { events = [], sent = {} } = LOOPS[format.id] ?? {};

  it("goes on with the turns before it, and the result of each call", () => {
    const answer = read(events, format);
    expect(answer.blocks).toMatchObject([
      { type: "thinking", text: "Hm." },
      { type: "tool-call", name: "get_weather", text: '{"city":"Paris"}' },
    ]);
    const results = callsIn(answer).map(({ id, name }) => ({ id, name, text: "Sunny" }));
    const past = [{ prompt: "Weather?", results: [], answer }];
    expect(format.request({ ...PLAIN, past, results, prompt: "Thanks" }, "sk").body).toMatchObject(sent);
  });

  it("goes on without a result where nothing was called", () => {
    const past = [{ prompt: "Hello", results: [], answer: { id: "resp_1", blocks: [], usage: {} } }];
    const body = JSON.stringify(format.request({ ...PLAIN, past, prompt: "Again" }, "sk").body);
    expect(body).toContain("Again");
    expect(body).not.toMatch(/result|output":|functionResponse|"tool"/);
  });
});

describe("responses", () => {
  it("reads a whole answer: text, calls and code", () => {
    const builder = new AnswerBuilder();
    responses.readBody(builder, {
      id: "resp_1",
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      error: null,
      output: [
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }] },
        { type: "message", id: "msg_1", content: [{ type: "output_text", text: "Hello" }] },
        { type: "code_interpreter_call", id: "ci_1", code: "print(1)", outputs: [{ type: "logs", logs: "1" }] },
        { type: "function_call", id: "fc_1", call_id: "call_1", name: "get_weather", arguments: "{}" },
      ],
      usage: { input_tokens: 1, output_tokens: 2, output_tokens_details: { reasoning_tokens: 1 } },
    });
    expect(builder.answer).toEqual({
      id: "resp_1",
      blocks: [
        { type: "thinking", text: "Hm." },
        { type: "text", text: "Hello" },
        { type: "code", text: "print(1)" },
        { type: "code-result", outcome: "completed", text: "1" },
        { type: "tool-call", id: "call_1", name: "get_weather", text: "{}" },
      ],
      stopReason: "max_output_tokens",
      usage: { input: 1, output: 2, thinking: 1 },
    });
  });

  it("keeps an error in the middle of a stream", () => {
    const error = { type: "error", code: "server_error", message: "It broke." };
    expect(read([error, { type: "response.failed", response: {} }], responses).error).toEqual(error);
  });
});

describe("nearness", () => {
  it("is the cosine of the angle between two vectors, however long they are", () => {
    expect(nearness([3, 4], [6, 8])).toBeCloseTo(1);
    expect(nearness([1, 0], [0, 2])).toBe(0);
    expect(nearness([1, 1], [-2, -2])).toBeCloseTo(-1);
    expect(nearness([0, 0], [1, 0])).toBe(0);
  });

  it("reads vectors in whatever order they come, and nothing in what is no answer", () => {
    const data = [
      { index: 1, embedding: [0, 1] },
      { index: 0, embedding: [1, 0] },
    ];
    expect(embeddingsIn(JSON.stringify({ data, usage: { prompt_tokens: 3 } }))).toEqual({
      vectors: [
        [1, 0],
        [0, 1],
      ],
      inputTokens: 3,
    });
    for (const text of ["", "{", "[]", '{"data":[]}', '{"error":{}}']) expect(embeddingsIn(text)).toBeUndefined();
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
