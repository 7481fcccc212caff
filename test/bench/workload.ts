/** The workload of every contestant: the request, the complete answer, and the same answer as frames. */

import type { ModelBackend } from "../../src/index.ts";

/** The scenarios of chat, which all benchmarks have. */
export const CHATS = ["complete", "streamed"] as const;
export type ChatName = (typeof CHATS)[number];
export type ScenarioName = ChatName | "responses" | "embeddings";

export interface Scenario {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  /** The calls after which a server has reached its full speed. */
  readonly warmUpCalls: number;
  /** The end of a complete answer's body. */
  readonly end: string;
  readonly body: string;
  /** Makes the answer of the bare contestants, with as many bytes as the gateway's. */
  readonly answer: () => object;
}

export const API_KEY = "sk-bench-0123456789abcdef0123456789abcdef";

const MODEL = "bench-1";

/** The pieces of the answer's text, one for each text delta. */
const PIECES: readonly string[] = Array.from({ length: 64 }, (_, index) => `piece ${index} of the answer, `);
const TEXT: string = PIECES.join("");

const question = (stream: boolean): string =>
  JSON.stringify({
    model: MODEL,
    max_tokens: 1024,
    stream,
    temperature: 0.5,
    system: "You answer every question in sixty-four pieces, whatever the question is.",
    messages: [
      { role: "user", content: "What makes one server faster than another?" },
      { role: "assistant", content: [{ type: "text", text: "What it leaves out." }] },
      { role: "user", content: [{ type: "text", text: "And what makes one that leaves nothing out fast enough?" }] },
    ],
  });

/** The texts to embed, and their vectors: as many numbers as a small model has, in the encoding of OpenAI's clients. */
const TEXTS: readonly string[] = Array.from({ length: 16 }, (_, index) =>
  `Text ${index} is as long as a short paragraph. `.repeat(4),
);
const VECTORS: readonly (readonly number[])[] = TEXTS.map((_, text) =>
  Array.from({ length: 1_536 }, (_, index) => Math.fround(Math.sin(text + index))),
);

const MESSAGES = { path: "/v1/messages", headers: { "x-api-key": API_KEY, "anthropic-version": "2023-06-01" } };
const OPENAI = { headers: { authorization: `Bearer ${API_KEY}` } };

/** The scenarios: a row has all that the load and the contestants need. */
export const SCENARIOS: Readonly<Record<ScenarioName, Scenario>> = {
  complete: {
    ...MESSAGES,
    connections: 50,
    warmUpCalls: 15_000,
    end: "}",
    body: question(false),
    answer: completeAnswer,
  },
  streamed: {
    ...MESSAGES,
    connections: 100,
    warmUpCalls: 3_000,
    end: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    body: question(true),
    answer: completeAnswer,
  },
  responses: {
    ...OPENAI,
    path: "/v1/responses",
    connections: 50,
    warmUpCalls: 15_000,
    end: "}",
    body: JSON.stringify(responsesQuestion()),
    answer: responsesAnswer,
  },
  embeddings: {
    ...OPENAI,
    path: "/v1/embeddings",
    connections: 50,
    warmUpCalls: 3_000,
    end: "}",
    body: JSON.stringify({ model: MODEL, input: TEXTS, encoding_format: "base64" }),
    answer: embeddingsAnswer,
  },
};

const ID = `msg_${"0".repeat(32)}`;
const USAGE = { input_tokens: 48, output_tokens: 432, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };

export function completeAnswer(): object {
  const content = [{ type: "text", text: TEXT }];
  return {
    id: ID,
    type: "message",
    role: "assistant",
    model: MODEL,
    content,
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: USAGE,
  };
}

/** The question of `complete` as a request of Responses. */
function responsesQuestion(): object {
  const { max_tokens, system, messages, ...fields } = JSON.parse(question(false)) as Record<string, unknown>;
  return { ...fields, max_output_tokens: max_tokens, instructions: system, input: responsesInput(messages) };
}

function responsesInput(messages: unknown): object[] {
  return (messages as { role: string; content: string | { text: string }[] }[]).map(({ role, content }) => {
    const type = role === "assistant" ? "output_text" : "input_text";
    return { role, content: typeof content === "string" ? content : content.map(({ text }) => ({ type, text })) };
  });
}

/** The answer of `complete` as a response, with all fields that the gateway's has. */
function responsesAnswer(): object {
  const { system: instructions, temperature } = JSON.parse(question(false)) as Record<string, unknown>;
  const part = { type: "output_text", text: TEXT, annotations: [], logprobs: [] };
  const id = "0".repeat(32);
  return {
    id: `resp_${id}`,
    object: "response",
    created_at: 1_767_225_600,
    status: "completed",
    error: null,
    incomplete_details: null,
    model: MODEL,
    output: [{ type: "message", id: `msg_${id}_0`, status: "completed", role: "assistant", content: [part] }],
    usage: {
      input_tokens: 48,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 432,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 480,
    },
    completed_at: 1_767_225_600,
    background: false,
    store: false,
    service_tier: "default",
    instructions,
    max_output_tokens: 1_024,
    max_tool_calls: null,
    metadata: {},
    parallel_tool_calls: true,
    previous_response_id: null,
    prompt_cache_key: null,
    reasoning: { effort: null, summary: null },
    safety_identifier: null,
    temperature,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_logprobs: 0,
    top_p: 1,
    truncation: "disabled",
    user: null,
  };
}

const base64 = (vector: readonly number[]): string => Buffer.from(Float32Array.from(vector).buffer).toString("base64");

function embeddingsAnswer(): object {
  const data = VECTORS.map((vector, index) => ({ object: "embedding", index, embedding: base64(vector) }));
  return { object: "list", data, model: MODEL, usage: { prompt_tokens: 740, total_tokens: 740 } };
}

/** Makes the frames of the same answer on demand, as a model does. */
export async function* streamedAnswer(): AsyncGenerator<string, void, undefined> {
  const usage = { ...USAGE, output_tokens: 0 };
  yield frame({
    type: "message_start",
    message: { ...completeAnswer(), content: [], stop_reason: null, stop_sequence: null, usage },
  });
  yield frame({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } });
  for (const text of PIECES)
    yield frame({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  yield frame({ type: "content_block_stop", index: 0 });
  const { input_tokens, output_tokens } = USAGE;
  const delta = { stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens, output_tokens } };
  yield frame({ type: "message_delta", delta, usage: USAGE });
  yield frame({ type: "message_stop" });
}

const frame = (value: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

/** Streams the frames as the body of a fetch handler. */
export function streamOf(frames: AsyncIterator<string, void>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const step = await frames.next();
      if (step.done) controller.close();
      else controller.enqueue(encoder.encode(step.value));
    },
  });
}

/** The backend of every gateway. It answers at once, so that the gateway alone takes time. */
export const backend: ModelBackend = {
  async *chat({ stream }) {
    if (stream) yield* PIECES;
    else yield TEXT;
  },
  async *embed({ inputs }) {
    yield* VECTORS.slice(0, inputs.length);
  },
};
