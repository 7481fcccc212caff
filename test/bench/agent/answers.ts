/** The upstream's answers to an agent in each chat format, complete and streamed: text, then calls of tools. */

import type { ChatFormat } from "./requests.ts";

/** A third of the frames carry a tool call's arguments, as those of an agent that writes files. */
const shares = (frames: number): readonly [text: number, args: number] => {
  const args = Math.max(2, Math.floor(frames / 3));
  return [Math.max(1, frames - args), args];
};

const pieceOf = (index: number): string => ` word${index % 10} of`;
const textOf = (pieces: number): string => Array.from({ length: pieces }, (_, index) => pieceOf(index)).join("");

/** The arguments of a tool call in pieces, which are one JSON object together. */
const argsOf = (pieces: number): readonly string[] =>
  Array.from({ length: pieces }, (_, index) =>
    index === 0 ? '{"path":"a.ts","text":"' : index === pieces - 1 ? '"}' : `line ${index % 10} `,
  );

const data = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (value: { readonly type: string; readonly [field: string]: unknown }): string =>
  `event: ${value.type}\n${data(value)}`;

interface Answer {
  readonly frames: readonly string[];
  readonly complete: object;
  /** The end of a stream in this format, for the client that checks it. */
  readonly end: string;
}

const CHAT = { id: "chatcmpl-1", created: 1_790_000_000, model: "bench", system_fingerprint: "fp_1" } as const;

function chatCompletions(count: number): Answer {
  const [pieces, parts] = shares(count);
  const args = argsOf(parts);
  const usage = { prompt_tokens: 25_000, completion_tokens: 4 * count, total_tokens: 25_000 + 4 * count };
  const chunk = (delta: object, finish_reason: string | null = null): string =>
    data({
      ...CHAT,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      usage: null,
    });
  const call = { id: "call_01A09q90qw90lq917835lq9", type: "function", function: { name: "tool_1", arguments: "" } };
  const frames = [
    chunk({ role: "assistant", content: "", refusal: null }),
    ...Array.from({ length: pieces }, (_, index) => chunk({ content: pieceOf(index) })),
    chunk({ tool_calls: [{ index: 0, ...call }] }),
    ...args.map((piece) => chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
    chunk({}, "tool_calls"),
    data({ ...CHAT, object: "chat.completion.chunk", choices: [], usage }),
    "data: [DONE]\n\n",
  ];
  const message = {
    role: "assistant",
    content: textOf(pieces),
    refusal: null,
    tool_calls: [{ ...call, function: { name: "tool_1", arguments: args.join("") } }],
  };
  const choices = [{ index: 0, message, finish_reason: "tool_calls", logprobs: null }];
  return { frames, complete: { ...CHAT, object: "chat.completion", choices, usage }, end: "data: [DONE]\n\n" };
}

function messages(count: number): Answer {
  const [pieces, parts] = shares(count);
  const args = argsOf(parts);
  const usage = {
    input_tokens: 25_000,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: 4 * count,
  };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "bench" };
  const tool = { type: "tool_use", id: "toolu_01A09q90qw90lq917835lq9", name: "tool_1" };
  const delta = (index: number, piece: object): string => named({ type: "content_block_delta", index, delta: piece });
  const start = {
    ...message,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { ...usage, output_tokens: 1 },
  };
  const frames = [
    named({ type: "message_start", message: start }),
    named({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    ...Array.from({ length: pieces }, (_, index) => delta(0, { type: "text_delta", text: pieceOf(index) })),
    named({ type: "content_block_stop", index: 0 }),
    named({ type: "content_block_start", index: 1, content_block: { ...tool, input: {} } }),
    ...args.map((partial_json) => delta(1, { type: "input_json_delta", partial_json })),
    named({ type: "content_block_stop", index: 1 }),
    named({ type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage }),
    named({ type: "message_stop" }),
  ];
  const content = [
    { type: "text", text: textOf(pieces) },
    { ...tool, input: JSON.parse(args.join("")) as object },
  ];
  return {
    frames,
    complete: { ...message, content, stop_reason: "tool_use", stop_sequence: null, usage },
    end: 'event: message_stop\ndata: {"type":"message_stop"}\n\n',
  };
}

/** A tool call of generate-content. The format has no pieces of arguments: its tool calls come whole, so there are fewer. */
const geminiCall = (index: number): object => ({
  functionCall: { id: `call_${index}`, name: "tool_1", args: { path: "a.ts", text: `line ${index}` } },
});

function generateContent(count: number): Answer {
  const [pieces, calls] = shares(count);
  const usageMetadata = {
    promptTokenCount: 25_000,
    candidatesTokenCount: 4 * count,
    totalTokenCount: 25_000 + 4 * count,
  };
  const head = { modelVersion: "bench", responseId: "r_1" };
  const candidate = (parts: readonly object[], finishReason?: string): object => ({
    candidates: [{ content: { parts, role: "model" }, ...(finishReason && { finishReason }), index: 0 }],
    usageMetadata,
    ...head,
  });
  const whole = Array.from({ length: Math.ceil(calls / 20) }, (_, index) => geminiCall(index));
  const frames = [
    ...Array.from({ length: pieces + calls - whole.length }, (_, index) => data(candidate([{ text: pieceOf(index) }]))),
    ...whole.map((part) => data(candidate([part]))),
    data(candidate([{ text: "" }], "STOP")),
  ];
  return { frames, complete: candidate([{ text: textOf(pieces) }, ...whole], "STOP"), end: "}\n\n" };
}

function responses(count: number): Answer {
  const [pieces, parts] = shares(count);
  const args = argsOf(parts);
  const usage = {
    input_tokens: 25_000,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 4 * count,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 25_000 + 4 * count,
  };
  const response = {
    id: "resp_1",
    object: "response",
    created_at: 1_790_000_000,
    model: "bench",
    store: false,
    tools: [],
  };
  const running = { ...response, status: "in_progress", output: [], usage: null };
  const text = { type: "output_text", annotations: [], logprobs: [], text: textOf(pieces) };
  const message = { id: "msg_1", type: "message", status: "completed", role: "assistant", content: [text] };
  const call = {
    id: "fc_1",
    type: "function_call",
    status: "completed",
    call_id: "call_01A09q90qw90lq917835lq9",
    name: "tool_1",
  };
  const called = { ...call, arguments: args.join("") };
  const complete = { ...response, status: "completed", output: [message, called], usage };
  const at = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const callAt = { item_id: "fc_1", output_index: 1 };
  const events: readonly { readonly type: string; readonly [field: string]: unknown }[] = [
    { type: "response.created", response: running },
    { type: "response.in_progress", response: running },
    { type: "response.output_item.added", output_index: 0, item: { ...message, status: "in_progress", content: [] } },
    { type: "response.content_part.added", ...at, part: { ...text, text: "" } },
    ...Array.from({ length: pieces }, (_, index) => ({
      type: "response.output_text.delta",
      ...at,
      delta: pieceOf(index),
      logprobs: [],
    })),
    { type: "response.output_text.done", ...at, text: textOf(pieces), logprobs: [] },
    { type: "response.content_part.done", ...at, part: text },
    { type: "response.output_item.done", output_index: 0, item: message },
    { type: "response.output_item.added", output_index: 1, item: { ...call, status: "in_progress", arguments: "" } },
    ...args.map((delta) => ({ type: "response.function_call_arguments.delta", ...callAt, delta })),
    { type: "response.function_call_arguments.done", ...callAt, name: "tool_1", arguments: args.join("") },
    { type: "response.output_item.done", output_index: 1, item: called },
    { type: "response.completed", response: complete },
  ];
  return { frames: events.map((event, index) => named({ ...event, sequence_number: index })), complete, end: "}\n\n" };
}

const ANSWERS: Readonly<Record<ChatFormat, (frames: number) => Answer>> = {
  messages,
  "chat-completions": chatCompletions,
  "generate-content": generateContent,
  responses,
};

const made = new Map<string, Answer>();

/** Returns an answer. Makes each once, so that an upstream takes little of the machine. */
export function answerOf(format: ChatFormat, frames: number): Answer {
  const name = `${format} ${frames}`;
  const answer = made.get(name) ?? ANSWERS[format](frames);
  made.set(name, answer);
  return answer;
}
