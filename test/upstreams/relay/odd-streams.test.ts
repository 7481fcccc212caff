/** Answers to a request for a stream that are no ordinary stream: a complete answer, an error, nothing. */

import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore } from "../../../src/index.ts";
import { relay } from "../../../src/upstreams/relay/index.ts";

const FORMATS = ["messages", "generate-content", "chat-completions", "responses"] as const;
type ChatFormat = (typeof FORMATS)[number];

const ASK: Readonly<Record<ChatFormat, readonly [path: string, body: object]>> = {
  messages: [
    "/v1/messages",
    { model: "m", max_tokens: 99, stream: true, messages: [{ role: "user", content: "Go." }] },
  ],
  "generate-content": [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    { contents: [{ role: "user", parts: [{ text: "Go." }] }] },
  ],
  "chat-completions": [
    "/v1/chat/completions",
    { model: "m", stream: true, messages: [{ role: "user", content: "Go." }] },
  ],
  responses: ["/v1/responses", { model: "m", stream: true, input: "Go." }],
};

const STREAM = `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: { content: "Hello" }, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`;

/** Asks a gateway for a stream, before an upstream that answers with these bytes. */
async function streamed(
  by: ChatFormat,
  format: ChatFormat,
  type: string,
  answer: string | ReadableStream,
  models?: object,
) {
  const failures: string[] = [];
  const gateway = createGateway({
    backend: relay({
      format,
      baseUrl: "http://up.test/v1",
      fetch: async () => new Response(answer, { headers: { "content-type": type } }),
      ...(models && { models: models as Record<string, string> }),
    }),
    quotas: memoryQuotaStore([{ apiKey: "sk-one" }]),
    onFailure: ({ text }) => void failures.push(text),
  });
  const [path, body] = ASK[by];
  const headers = { "content-type": "application/json", authorization: "Bearer sk-one", "anthropic-version": "1" };
  const response = await gateway.fetch(
    new Request(`http://gateway.test${path}`, { method: "POST", headers, body: JSON.stringify(body) }),
  );
  const text = await response.text();
  return { status: response.status, type: response.headers.get("content-type"), text, failures };
}

const PAIRS = FORMATS.flatMap((format) => FORMATS.map((by) => [format, by] as const));

const COMPLETE: Readonly<Record<ChatFormat, object>> = {
  messages: {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "real",
    content: [
      { type: "text", text: "Let me look." },
      { type: "tool_use", id: "toolu_1", name: "look", input: { at: "sky" } },
    ],
    stop_reason: "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 5, output_tokens: 7 },
  },
  "generate-content": {
    candidates: [
      {
        content: {
          role: "model",
          parts: [{ text: "Let me look." }, { functionCall: { id: "toolu_1", name: "look", args: { at: "sky" } } }],
        },
        finishReason: "STOP",
      },
    ],
    usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 7, totalTokenCount: 12 },
    modelVersion: "real",
    responseId: "r",
  },
  "chat-completions": {
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "real",
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: "Let me look.",
          tool_calls: [{ id: "toolu_1", type: "function", function: { name: "look", arguments: '{"at":"sky"}' } }],
        },
        finish_reason: "tool_calls",
      },
    ],
    usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
  },
  responses: {
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "real",
    output: [
      {
        type: "message",
        id: "msg_1",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: "Let me look.", annotations: [] }],
      },
      {
        type: "function_call",
        id: "fc_1",
        status: "completed",
        call_id: "toolu_1",
        name: "look",
        arguments: '{"at":"sky"}',
      },
    ],
    usage: { input_tokens: 5, output_tokens: 7, total_tokens: 12 },
  },
};

/** What the end of a stream in each format looks like, and the count of its output tokens. */
const END: Readonly<Record<ChatFormat, RegExp>> = {
  messages: /"stop_reason":"tool_use".*"output_tokens":7[^]*event: message_stop/,
  "generate-content": /"finishReason":"STOP".*"candidatesTokenCount":7/,
  "chat-completions": /"finish_reason":"tool_calls"[^]*data: \[DONE\]/,
  responses: /event: response\.completed\n.*"output_tokens":7/,
};

describe.each(PAIRS)("an upstream of %s that answers a caller of %s", (format, by) => {
  it("with a complete answer instead of a stream gives a stream with all events", async () => {
    const { status, type, text, failures } = await streamed(
      by,
      format,
      "application/json; charset=utf-8",
      JSON.stringify(COMPLETE[format]),
      { m: "real" },
    );
    expect({ status, failures }).toEqual({ status: 200, failures: [] });
    expect(type).toContain("text/event-stream");
    expect(text).toMatch(/^(?:event: .*\n)?data: /);
    expect(text).toContain("Let me look.");
    expect(text).toContain("toolu_1");
    expect(text).toContain("sky");
    expect(text).toMatch(END[by]);
    expect(text).not.toContain("real");
  });

  it.each([
    ["an error with status 200", "application/json", '{"error":{"type":"api_error","message":"Out of order."}}'],
    ["JSON that is no answer", "application/json", '{"ok":true}'],
    ["nothing", "text/event-stream", ""],
    ["comments alone", "text/event-stream", ": hello\n\n: hello\n\n"],
    ["[DONE] alone", "text/event-stream", "data: [DONE]\n\n"],
    ["JSON in place of events", "text/event-stream", '{"error":{"message":"Out of order."}}'],
  ])("with %s gives an error", async (_name, type, answer) => {
    const { status, text, failures } = await streamed(by, format, type, answer);
    expect(status).toBeGreaterThanOrEqual(500);
    expect(text).toContain("error");
    expect(failures).toHaveLength(1);
  });
});

const frame = (data: object, event?: string): string =>
  `${event === undefined ? "" : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;

/** The beginning of an answer, with a text. */
const BEGINNING: Readonly<Record<ChatFormat, string>> = {
  messages: [
    frame({ type: "message_start", message: { ...COMPLETE.messages, content: [], stop_reason: null } }),
    frame({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    frame({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Let me" } }),
  ].join(""),
  "generate-content": frame({ candidates: [{ content: { role: "model", parts: [{ text: "Let me" }] } }] }),
  "chat-completions": frame({ id: "c", choices: [{ index: 0, delta: { content: "Let me" } }] }),
  responses: [
    frame({
      type: "response.created",
      sequence_number: 0,
      response: { ...COMPLETE.responses, status: "in_progress", output: [] },
    }),
    frame({
      type: "response.output_item.added",
      sequence_number: 1,
      output_index: 0,
      item: { type: "message", id: "msg_1", status: "in_progress", role: "assistant", content: [] },
    }),
    frame({
      type: "response.content_part.added",
      sequence_number: 2,
      item_id: "msg_1",
      output_index: 0,
      content_index: 0,
      part: { type: "output_text", text: "", annotations: [] },
    }),
    frame({
      type: "response.output_text.delta",
      sequence_number: 3,
      item_id: "msg_1",
      output_index: 0,
      content_index: 0,
      delta: "Let me",
    }),
  ].join(""),
};

/** An ordinary end behind the error, which must not hide the error. */
const LATE_END: Readonly<Record<ChatFormat, string>> = {
  messages: frame({ type: "message_stop" }, "message_stop"),
  "generate-content": frame({ candidates: [{ content: { parts: [] }, finishReason: "STOP" }] }),
  "chat-completions": `${frame({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}data: [DONE]\n\n`,
  responses: frame({ type: "response.completed", sequence_number: 4, response: COMPLETE.responses }),
};

describe.each(PAIRS)("in the stream of an upstream of %s to a caller of %s", (format, by) => {
  it.each([
    ["plain text", "Out of order."],
    ["a JSON text", '"Out of order."'],
    ["an empty object", "{}"],
    ["its message", '{"message":"Out of order."}'],
    ["an error of messages", '{"type":"error","error":{"type":"api_error","message":"Out of order."}}'],
    ["an error of other formats", '{"error":{"code":500,"message":"Out of order.","status":"INTERNAL"}}'],
    ["a piece of an ordinary answer", '{"choices":[],"candidates":[]}'],
  ])("an event `error` with %s ends the answer with an error", async (_name, data) => {
    const answer = `${BEGINNING[format]}event: error\ndata: ${data}\n\n${LATE_END[format]}`;
    const { status, text, failures } = await streamed(by, format, "text/event-stream", answer);
    expect(status).toBe(200);
    expect(text).toContain("Let me");
    expect(text).toMatch(/"error"/);
    expect(text).not.toMatch(/message_stop|"stop"|"STOP"|\[DONE\]|response\.completed/);
    expect(failures).toHaveLength(1);
    // The host's log has the upstream's words, if there were any.
    expect(failures[0]).toContain(/Out of order\./.exec(data)?.[0] ?? "");
  });
});

const LATE_ERRORS: Readonly<Record<ChatFormat, readonly [shown: string, answer: string]>> = {
  messages: [
    '"stop_reason":"end_turn"',
    [
      [
        "message_start",
        { message: { id: "msg_1", type: "message", role: "assistant", model: "m", content: [], usage: {} } },
      ],
      ["content_block_start", { index: 0, content_block: { type: "text", text: "" } }],
      ["content_block_delta", { index: 0, delta: { type: "text_delta", text: "Late." } }],
      ["content_block_stop", { index: 0 }],
      ["message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 2 } }],
      ["message_stop", {}],
      ["error", { error: { type: "overloaded_error", message: "no" } }],
    ]
      .map(([type, fields]) => `event: ${type as string}\ndata: ${JSON.stringify({ type, ...(fields as object) })}\n\n`)
      .join(""),
  ],
  "generate-content": [
    '"finishReason":"STOP"',
    [
      { candidates: [{ content: { role: "model", parts: [{ text: "Late." }] }, finishReason: "STOP" }] },
      { error: { code: 503, status: "UNAVAILABLE", message: "no" } },
    ]
      .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
      .join(""),
  ],
  "chat-completions": [
    '"finish_reason":"stop"',
    [
      { id: "c", model: "m", choices: [{ index: 0, delta: { content: "Late." }, finish_reason: "stop" }] },
      { id: "c", model: "m", choices: [{ index: 0, delta: { content: "", kept: true }, finish_reason: null }] },
      { id: "c", model: "m", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } },
      { error: { code: 502, message: "no" } },
    ]
      .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
      .join(""),
  ],
  responses: [
    "response.failed",
    [
      ["response.created", { response: { id: "resp_1", object: "response", status: "in_progress", output: [] } }],
      ["response.output_text.delta", { item_id: "msg_1", output_index: 0, content_index: 0, delta: "Late." }],
      ["response.completed", { response: { ...COMPLETE.responses, output: [] } }],
      ["error", { code: "server_error", message: "no" }],
    ]
      .map(([type, fields]) => `event: ${type as string}\ndata: ${JSON.stringify({ type, ...(fields as object) })}\n\n`)
      .join(""),
  ],
};

it.each(PAIRS)(
  "from %s to %s: an error behind the end stands behind all content, and no end behind it",
  async (format, by) => {
    const [shown, answer] = LATE_ERRORS[format];
    const { text } = await streamed(by, format, "text/event-stream", answer);
    expect(text).toContain("Late.");
    expect(text).toMatch(/error/);
    expect(text.lastIndexOf("error")).toBeGreaterThan(text.indexOf("Late."));
    expect(text).not.toMatch(/\[DONE\]|message_stop|response\.completed/);
    const isSame = by === format;
    // The end of a message is written behind all blocks, and not where an error is.
    const isShown = isSame && format !== "messages";
    expect(text.includes(shown)).toBe(isShown || (by === "responses" && shown === "response.failed"));
    expect([text.includes("kept"), text.includes("prompt_tokens")]).toEqual([
      isSame && by === "chat-completions",
      false,
    ]);
  },
);

it.each(PAIRS.filter(([format]) => format === "chat-completions"))(
  "from %s to %s: a field that an object has thousands of times takes linear time",
  async (format, by) => {
    const many = `{"own":1${',"usage":null'.repeat(9_990)}}`;
    const chunk = `{"id":"c","model":"m","more":[${Array.from({ length: 4 }, () => many).join()}],"choices":[{"index":0,"delta":{"content":"Far."},"finish_reason":"stop"}]}`;
    const before = process.cpuUsage().user;
    const { text } = await streamed(by, format, "text/event-stream", `data: ${chunk}\n\ndata: [DONE]\n\n`);
    // A comparison of each with all behind it takes many seconds.
    expect((process.cpuUsage().user - before) / 1_000).toBeLessThan(2_000);
    expect(text).toContain("Far.");
  },
);

it("from generate-content to generate-content: each piece of a text has a role, also of an upstream that sends none", async () => {
  const pieces = ["It ", "is ", "noon", "."].map((text) => ({ content: { parts: [{ text }] } }));
  const answer = [...pieces, { finishReason: "STOP" }].map((candidate) => frame({ candidates: [candidate] })).join("");
  const { text } = await streamed("generate-content", "generate-content", "text/event-stream", answer);
  expect(text.match(/"role":"model"/g)).toHaveLength(5);
});

describe("a stream of megabytes that come at once", () => {
  it.each([
    ["comments", ":\n"],
    ["blank lines", "\n"],
    ["lines that are no field", "x\n"],
    ["times to wait that are none", "retry: x\n"],
  ])("leaves the event loop to others while it is read: %s", async (_what, line) => {
    const seen = { turns: 0, isOver: false };
    const turn = (): void => {
      seen.turns++;
      if (!seen.isOver) setImmediate(turn);
    };
    const encoder = new TextEncoder();
    const pieces = Array.from({ length: 64 }, () => encoder.encode(line.repeat(32_768 / line.length)));
    const answer = new ReadableStream({
      start(controller) {
        setImmediate(turn);
        for (const piece of pieces) controller.enqueue(piece);
        controller.enqueue(encoder.encode(`\n\n${STREAM}`));
        controller.close();
      },
    });
    const { text, failures } = await streamed("chat-completions", "chat-completions", "text/event-stream", answer);
    seen.isOver = true;
    expect([text, failures]).toEqual([expect.stringContaining("Hello"), []]);
    // Once for each 128 KiB.
    expect(seen.turns).toBeGreaterThan(12);
  });
});

/** Returns ten counts of names that no other frame has. */
const newCounts = (index: number): string => Array.from({ length: 10 }, (_, at) => `,"more_${index}_${at}":1`).join("");

it("a stream that counts in new fields with each frame is read in linear time, and its counts are kept", async () => {
  const frames = Array.from(
    { length: 4_000 },
    (_, index) => `data: {"type":"message_delta","delta":{},"usage":{"output_tokens":5${newCounts(index)}}}\n\n`,
  );
  const start = { id: "m", type: "message", role: "assistant", model: "m", content: [], usage: { input_tokens: 7 } };
  const answer = [
    `data: ${JSON.stringify({ type: "message_start", message: start })}\n\n`,
    ...frames,
    `data: ${JSON.stringify({ type: "message_delta", delta: { stop_reason: "end_turn" } })}\n\n`,
    'data: {"type":"message_stop"}\n\n',
  ].join("");
  const { text, failures } = await streamed("chat-completions", "messages", "text/event-stream", answer);
  expect([text, failures]).toEqual([expect.stringContaining('"finish_reason":"stop"'), []]);
});
