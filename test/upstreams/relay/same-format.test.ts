/** A caller and an upstream of one format: the upstream's answer reaches the caller to the letter, and is counted on the way. */

import { describe, expect, it } from "vitest";
import { createGateway, memoryQuotaStore, type ModelBackend } from "../../../src/index.ts";
import { relay, type RelayFormat, type RelayOptions } from "../../../src/upstreams/relay/index.ts";
import { route } from "../../../src/upstreams/route/index.ts";
import { rawUpstream, STREAM_HEAD, whole } from "./raw-upstream.ts";

interface Case {
  readonly format: RelayFormat;
  readonly path: (stream: boolean) => string;
  readonly ask: object;
  /** The expected request to the upstream. */
  readonly line: (stream: boolean) => string;
  readonly credential: string;
  readonly stream: string;
  readonly complete: string;
}

const event = (name: string, data: string): string => `event: ${name}\ndata: ${data}\n\n`;

/** The additions to answers of messages upstreams: the counts that the spec requires and the upstream leaves out. */
const NO_CACHE = ',"cache_creation_input_tokens":0,"cache_read_input_tokens":0';
const completed = (text: string): string =>
  text
    .replace('"output_tokens":1,"x_new":{"a":1.0}}', `"output_tokens":1,"x_new":{"a":1.0}${NO_CACHE}}`)
    .replace('"output_tokens":7},"x_new"', `"output_tokens":7${NO_CACHE}},"x_new"`)
    .replace('"input_tokens":11,"output_tokens":7}}', `"input_tokens":11,"output_tokens":7${NO_CACHE}}}`)
    .replace(
      '"stop_sequence":null},"usage":{"output_tokens":7}}',
      `"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":7}},"usage":{"output_tokens":7,"input_tokens":11${NO_CACHE}}}`,
    );

const passed = ({ format }: Case, text: string): string =>
  (format === "messages" ? completed(text) : text).replace(PING, "");

/** An upstream's keep-alive, which is not passed on: the gateway has its own, by its own clock. */
const PING = event("ping", '{"type": "ping"}');

const CASES: readonly Case[] = [
  {
    format: "messages",
    path: () => "/v1/messages",
    ask: { model: "large", max_tokens: 50, messages: [{ role: "user", content: "Hi" }], x_unknown: { deep: [1.5] } },
    line: () => "POST /v1/messages HTTP/1.1",
    credential: "x-api-key: sk-upstream-key",
    stream: [
      event(
        "message_start",
        '{"type":"message_start","message":{"id":"msg_9","type":"message","role":"assistant","model":"large","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":1,"x_new":{"a":1.0}}}}',
      ),
      event(
        "content_block_start",
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","x":1}}',
      ),
      PING,
      event(
        "content_block_delta",
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"W\\u00f6rld"}}',
      ),
      event("content_block_stop", '{"type":"content_block_stop","index":0 }'),
      event(
        "message_delta",
        '{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}',
      ),
      event("message_stop", '{"type":"message_stop","x_metrics":{"ms":1.50}}'),
    ].join(""),
    complete:
      '{"id":"msg_9","type":"message","role":"assistant","model":"large","content":[{"type":"text","text":"W\\u00f6rld","x":1.0}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":7},"x_new":true}',
  },
  {
    format: "generate-content",
    path: (stream) => `/v1beta/models/large:${stream ? "streamGenerateContent?alt=sse" : "generateContent"}`,
    ask: {
      contents: [{ role: "user", parts: [{ text: "Hi" }] }],
      generationConfig: { maxOutputTokens: 50 },
      xUnknown: 1,
    },
    line: (stream) => `POST /v1/models/large:${stream ? "streamGenerateContent?alt=sse" : "generateContent"} HTTP/1.1`,
    credential: "x-goog-api-key: sk-upstream-key",
    stream: [
      'data: {"candidates":[{"content":{"parts":[{"text":"W\\u00f6"}],"role":"model"},"xNew":1.0}],"modelVersion":"large","responseId":"r"}\n\n',
      'data: {"candidates":[{"content":{"parts":[{"text":"rld"}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"large","responseId":"r"}\n\n',
    ].join(""),
    complete:
      '{"candidates":[{"content":{"parts":[{"text":"W\\u00f6rld"}],"role":"model"},"finishReason":"STOP","xNew":1.0}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"large","responseId":"r"}',
  },
  {
    format: "chat-completions",
    path: () => "/v1/chat/completions",
    ask: {
      model: "large",
      max_completion_tokens: 50,
      messages: [{ role: "user", content: "Hi" }],
      stream_options: { include_usage: true },
      x_unknown: 1,
    },
    line: () => "POST /v1/chat/completions HTTP/1.1",
    credential: "authorization: bearer sk-upstream-key",
    stream: [
      'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"large","choices":[{"index":0,"delta":{"role":"assistant","content":"W\\u00f6rld"},"finish_reason":null}],"x_new":1.0}\n\n',
      'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"large","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
      'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"large","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}\n\n',
      "data: [DONE]\n\n",
    ].join(""),
    complete:
      '{"id":"c","object":"chat.completion","created":1,"model":"large","choices":[{"index":0,"message":{"role":"assistant","content":"W\\u00f6rld"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18},"x_new":1.0}',
  },
  {
    format: "responses",
    path: () => "/v1/responses",
    ask: { model: "large", max_output_tokens: 50, input: "Hi", x_unknown: { deep: [1.5] } },
    line: () => "POST /v1/responses HTTP/1.1",
    credential: "authorization: bearer sk-upstream-key",
    stream: [
      event(
        "response.created",
        '{"type":"response.created","sequence_number":0,"response":{"id":"resp_9","object":"response","created_at":1,"status":"in_progress","model":"large","output":[],"store":false,"usage":null,"x_new":1.0}}',
      ),
      event(
        "response.output_item.added",
        '{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"id":"msg_9","type":"message","status":"in_progress","role":"assistant","content":[]}}',
      ),
      event(
        "response.content_part.added",
        '{"type":"response.content_part.added","sequence_number":2,"item_id":"msg_9","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}',
      ),
      event(
        "response.output_text.delta",
        '{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_9","output_index":0,"content_index":0,"delta":"W\\u00f6rld" }',
      ),
      event(
        "response.output_item.done",
        '{"type":"response.output_item.done","sequence_number":4,"output_index":0,"item":{"id":"msg_9","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"W\\u00f6rld","annotations":[]}]}}',
      ),
      event(
        "response.completed",
        '{"type":"response.completed","sequence_number":5,"response":{"id":"resp_9","object":"response","created_at":1,"status":"completed","model":"large","output":[{"id":"msg_9","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"W\\u00f6rld","annotations":[]}]}],"store":false,"usage":{"input_tokens":11,"output_tokens":7,"total_tokens":18},"x_new":1.50}}',
      ),
    ].join(""),
    complete:
      '{"id":"resp_9","object":"response","created_at":1,"status":"completed","model":"large","output":[{"id":"msg_9","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"W\\u00f6rld","annotations":[],"x":1.0}]}],"store":false,"usage":{"input_tokens":11,"output_tokens":7,"total_tokens":18},"x_new":true}',
  },
];

/** Asks a gateway with one key before an upstream with one answer. */
async function asked(
  { format, path, ask }: Case,
  stream: boolean,
  answer: string,
  more: Partial<RelayOptions> = {},
  wrap = (backend: ModelBackend) => backend,
) {
  await using upstream = await rawUpstream((socket) =>
    socket.end(stream ? STREAM_HEAD + answer : whole(200, "application/json", answer)),
  );
  const backend = relay({ format, baseUrl: upstream.url, apiKey: "sk-upstream-key", ...more });
  const quotas = memoryQuotaStore([{ apiKey: "sk-caller", name: "caller", granted: 10_000 }]);
  const gateway = createGateway({ backend: wrap(backend), quotas, onFailure: ({ text }) => failures.push(text) });
  const failures: string[] = [];
  const { model: _model, ...body } = ask as { model?: string };
  const model = more.models ? "fast" : "large";
  const response = await gateway.fetch(
    new Request(`http://local${path(stream).replace("large", model)}`, {
      method: "POST",
      headers: {
        authorization: "Bearer sk-caller",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
      },
      body: JSON.stringify({ ...body, ...("model" in ask && { model, stream }) }),
    }),
  );
  const text = await response.text();
  const used = await quotas.balance((await quotas.find("caller"))?.id ?? "");
  return {
    status: response.status,
    headers: response.headers,
    text,
    used: used?.used,
    failures,
    sent: upstream.requests[0],
  };
}

/** Answers whose tool calls no other format can express: two with one id, and arguments that are no JSON. */
const ODD: Readonly<Partial<Record<RelayFormat, string>>> = {
  messages:
    '{"id":"msg_9","type":"message","role":"assistant","model":"large","content":[{"type":"tool_use","id":"t","name":"a","input":{}},{"type":"tool_use","id":"t","name":"b","input":{}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":7}}',
  "generate-content":
    '{"candidates":[{"content":{"parts":[{"functionCall":{"id":"t","name":"a","args":{}}},{"functionCall":{"id":"t","name":"b","args":{}}}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":11,"candidatesTokenCount":7,"totalTokenCount":18},"modelVersion":"large","responseId":"r"}',
  "chat-completions":
    '{"id":"c","object":"chat.completion","created":1,"model":"large","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"a","arguments":"not json"}},{"id":"t","type":"function","function":{"name":"b","arguments":"[1"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}',
  responses:
    '{"id":"resp_9","object":"response","created_at":1,"status":"completed","model":"large","output":[{"type":"function_call","id":"fc_1","status":"completed","call_id":"t","name":"a","arguments":"not json"},{"type":"function_call","id":"fc_2","status":"completed","call_id":"t","name":"b","arguments":"[1"}],"usage":{"input_tokens":11,"output_tokens":7,"total_tokens":18}}',
};

const ERROR = { type: "server_error", message: "Broken", status: "INTERNAL" };
const RESPONSES_COUNTS = { input_tokens: 11, output_tokens: 7, total_tokens: 18 };

/** Failures with counts: the frame in a stream, and the complete answer. */
const COUNTED: Readonly<Partial<Record<RelayFormat, readonly [frame: object, complete: object]>>> = {
  messages: [
    { type: "error", error: ERROR, usage: { input_tokens: 11, output_tokens: 7 } },
    { type: "error", error: ERROR, usage: { input_tokens: 11, output_tokens: 7 } },
  ],
  "generate-content": [
    { error: ERROR, usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7 } },
    { error: ERROR, usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7 } },
  ],
  "chat-completions": [
    { choices: [{ index: 0, delta: {}, finish_reason: "error" }], usage: { prompt_tokens: 11, completion_tokens: 7 } },
    { error: ERROR, choices: [], usage: { prompt_tokens: 11, completion_tokens: 7 } },
  ],
  responses: [
    { type: "response.failed", response: { status: "failed", error: ERROR, output: [], usage: RESPONSES_COUNTS } },
    { status: "failed", error: ERROR, output: [], usage: RESPONSES_COUNTS },
  ],
};

describe.each(CASES)("$format", (its) => {
  it("charges the counts of a failure, which begins no answer: another upstream of a route is still asked", async () => {
    const [frame, complete] = (COUNTED[its.format] ?? []).map((failure) => JSON.stringify(failure));
    const name = its.format === "messages" ? "event: error\n" : "";
    const failed = `${name}data: ${frame}\n\n`;
    const begun = its.stream.slice(0, its.stream.indexOf("\n\n", its.stream.indexOf("\\u00f6")) + 2);
    for (const [stream, answer] of [
      [false, complete ?? ""],
      [true, failed],
      [true, begun + failed],
    ] as const) {
      const { status, text, used } = await asked(its, stream, answer);
      expect([answer, status >= 500, used]).toEqual([answer, answer !== begun + failed, 18]);
      expect(text).toContain("error");
      const other: ModelBackend = {
        async *chat() {
          yield "From another upstream";
        },
      };
      const routed = await asked(its, stream, answer, {}, (backend) =>
        route({ routes: { "*": { upstreams: [backend, { backend: other, weight: 0 }] } } }),
      );
      expect(routed.text.includes("From another upstream")).toBe(answer !== begun + failed);
    }
  });

  it("passes on a complete answer to the letter that no other format could say, and charges its counts", async () => {
    const odd = ODD[its.format] ?? "";
    const { status, text, used, failures } = await asked(its, false, odd);
    expect({ status, text, used, failures }).toEqual({ status: 200, text: passed(its, odd), used: 18, failures: [] });
  });

  it.each([true, false])(
    "passes on what the upstream says, to the letter, and charges its counts (stream: %s)",
    async (stream) => {
      const answer = stream ? its.stream : its.complete;
      const { status, text, used, failures, sent, headers } = await asked(its, stream, answer);
      expect({ status, failures }).toEqual({ status: 200, failures: [] });
      expect(text).toBe(passed(its, answer));
      expect(used).toBe(18);
      expect(headers.get("polygate-dropped")).toBeNull();
      expect(sent?.head.split("\r\n")[0]).toBe(its.line(stream));
      expect(sent?.head.toLowerCase()).toContain(its.credential);
      expect(sent?.head).not.toContain("sk-caller");
      expect(JSON.parse(sent?.body ?? "")).toMatchObject(its.ask);
    },
  );

  it("writes each frame on one line, also for clients that end a line at U+0085, U+2028 and U+2029", async () => {
    const frames = its.stream.split(/(?<=\n\n)/);
    const at = frames.findIndex((frame) => frame.includes(String.raw`W\u00f6`));
    const odd = (frames[at] ?? "").replace(String.raw`W\u00f6`, "W\u0085r\u2028l\u2029d");
    // The second copy differs from the first by its text alone.
    const stream = frames.toSpliced(at + 1, 0, odd, odd.replace("data: {", "data: {\ndata: ")).join("");
    const { status, text } = await asked(its, true, stream);
    expect(status).toBe(200);
    expect(text.split(String.raw`W\u0085r\u2028l\u2029d`)).toHaveLength(3);
    expect(text).not.toMatch(/[\u0085\u2028\u2029]|data: .*\ndata: /);
  });

  it.each([true, false])(
    "tells a caller nothing of the upstream's name for a model that they know by another (stream: %s)",
    async (stream) => {
      const answer = stream ? its.stream : its.complete;
      const { status, text, sent } = await asked(its, stream, answer, { models: { fast: "large" } });
      expect(status).toBe(200);
      expect(text).toContain('"fast"');
      expect(text).not.toContain("large");
      expect(sent?.head + (sent?.body ?? "")).toContain("large");
      const shown = await asked(its, stream, answer, { models: { fast: "large" }, showUpstreamModel: true });
      expect(shown.text).toBe(passed(its, answer));
    },
  );

  it("charges what came, as an estimate, and tells of an answer that broke off", async () => {
    const half = its.stream.slice(0, its.stream.indexOf("rld") - 7 + (its.format === "generate-content" ? -7 : 0));
    const cut = half.slice(0, half.lastIndexOf("\n\n") + 2);
    const { text, used, failures } = await asked(its, true, cut);
    expect(text).toMatch(/error/);
    expect(failures.join()).toContain("broke off");
    expect(used).toBeLessThan(60);
  });
});
