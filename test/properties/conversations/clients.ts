/** The clients of the formats: the message that each keeps of an answer, and the request that it makes of all its messages. */

import { createParser } from "eventsource-parser";
import { RawJson } from "../../../src/http/answer.ts";
import type { ChatEvent, JsonObject } from "../../../src/index.ts";
import type { AnswerEvent } from "../../../src/model/chat-event.ts";
import { metered } from "../upstream-answers.ts";
import { asking, ENDPOINTS } from "./answers.ts";
import type { FormatName } from "./formats.ts";

/**
 * The message that a client keeps of an answer: unchanged, or with the pieces of a stream joined as official clients join them.
 *
 * @param told Receives the fields that the format drops from the answer.
 */
export function clientKeeps(
  format: FormatName,
  events: readonly ChatEvent[],
  isStreamed: boolean,
  told: Set<string>,
): JsonObject {
  const request = asking(format, isStreamed);
  const context = { request, requestId: "req_1" };
  const endpoint = ENDPOINTS[format];
  const passed = metered(events, request, { countTokens: () => 0 });
  for (const event of passed)
    for (const { field, conversion } of endpoint.conversionsOfEvent(event))
      if (conversion === "dropped") told.add(field);
  const client = CLIENTS[format];
  if (isStreamed) return client.joined(framesOf(endpoint.stream(context), passed) as never);
  const collector = endpoint.complete(context);
  for (const event of passed) collector.add(event);
  const body = collector.body();
  return client.message(JSON.parse(body instanceof RawJson ? body.text : JSON.stringify(body)) as never);
}

function framesOf(encoder: { encode(event: AnswerEvent): string }, events: readonly AnswerEvent[]): unknown[] {
  const frames: unknown[] = [];
  const parser = createParser({ onEvent: ({ data }) => void (data === "[DONE]" || frames.push(JSON.parse(data))) });
  for (const event of events) parser.feed(encoder.encode(event));
  return frames;
}

/** The request of a client: a first word, each of its messages, and after each the results of its calls or another word. */
export function requestOf(format: FormatName, model: string, messages: readonly JsonObject[]): JsonObject {
  const client = CLIENTS[format];
  const asked = messages.flatMap((message) => [message, ...client.answers(message as never)]);
  return JSON.parse(JSON.stringify(client.request(model, asked))) as JsonObject;
}

/** A client of a format whose wire objects have these types, as far as the client looks into them. */
interface Client<Body, Frame, Message> {
  /** Returns the message of a complete answer. */
  message(body: Body): Message;
  /** Joins the pieces of a stream to the message. */
  joined(frames: readonly Frame[]): Message;
  /** Returns the messages that follow: the results of the calls, or a word. */
  answers(message: Message): readonly object[];
  request(model: string, messages: readonly object[]): object;
}

interface Block {
  type?: string;
  id?: string;
  text?: string;
  thinking?: string;
  signature?: string;
  input?: unknown;
}
interface Message {
  role: string;
  content: Block[];
}
interface MessageFrame {
  type: string;
  index: number;
  content_block: Block;
  delta: { type: string; text: string; thinking: string; signature: string; partial_json: string };
}

const messages: Client<Message, MessageFrame, Message> = {
  message: ({ content }) => ({ role: "assistant", content }),
  joined(frames) {
    const content: Block[] = [];
    const inputs = new Map<number, string>();
    for (const { type, index, content_block, delta } of frames) {
      if (type === "content_block_start") content[index] = { ...content_block };
      const block = content[index];
      if (type !== "content_block_delta" || !block) continue;
      if (delta.type === "text_delta") block.text = (block.text ?? "") + delta.text;
      if (delta.type === "thinking_delta") block.thinking = (block.thinking ?? "") + delta.thinking;
      if (delta.type === "signature_delta") block.signature = delta.signature;
      if (delta.type === "input_json_delta") inputs.set(index, (inputs.get(index) ?? "") + delta.partial_json);
    }
    for (const [index, json] of inputs) content[index] = { ...content[index], input: JSON.parse(json || "{}") };
    return { role: "assistant", content };
  },
  answers({ content }) {
    const calls = content.filter(({ type }) => type === "tool_use");
    const results = calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "Seen" }));
    return [{ role: "user", content: results.length > 0 ? results : "Go on" }];
  },
  request: (model, said) => ({ model, max_tokens: 10_000, messages: [{ role: "user", content: "Go" }, ...said] }),
};

interface Content {
  role: string;
  parts: { functionCall?: { id: string; name: string } }[];
}
interface Candidates {
  candidates?: { content?: Content }[];
}

const partsOf = ({ candidates }: Candidates): Content["parts"] => candidates?.[0]?.content?.parts ?? [];

const generateContent: Client<Candidates, Candidates, Content> = {
  message: (body) => ({ role: "model", parts: partsOf(body) }),
  joined: (frames) => ({ role: "model", parts: frames.flatMap(partsOf) }),
  answers({ parts }) {
    const calls = parts.flatMap(({ functionCall }) => functionCall ?? []);
    const response = { output: "Seen" };
    const results = calls.map(({ id, name }) => ({ functionResponse: { id, name, response } }));
    return [{ role: "user", parts: results.length > 0 ? results : [{ text: "Go on" }] }];
  },
  request: (_model, said) => ({
    generationConfig: { maxOutputTokens: 10_000 },
    contents: [{ role: "user", parts: [{ text: "Go" }] }, ...said],
  }),
};

interface Call {
  readonly index: number;
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}
interface Completed {
  readonly [field: string]: unknown;
  readonly tool_calls?: Call[];
  readonly reasoning_details?: unknown[];
}
interface Completion {
  readonly choices: readonly { readonly message: Completed; readonly delta: Completed }[];
}

const chatCompletions: Client<Completion, Completion, Completed> = {
  message: ({ choices }) => choices[0]?.message ?? {},
  joined(frames) {
    const message: Record<string, unknown> = { role: "assistant", content: null };
    const details: unknown[] = [];
    const calls: Call[] = [];
    for (const { choices } of frames) {
      const { tool_calls = [], reasoning_details = [], ...delta } = choices[0]?.delta ?? {};
      for (const [field, value] of Object.entries(delta)) {
        const before = message[field];
        const isText = typeof before === "string" && typeof value === "string" && field !== "role";
        message[field] = isText ? before + value : value;
      }
      details.push(...reasoning_details);
      for (const { function: piece, ...call } of tool_calls) {
        const { function: known, ...before } = calls[call.index] ?? {};
        const name = (known?.name ?? "") + (piece?.name ?? "");
        const json = (known?.arguments ?? "") + (piece?.arguments ?? "");
        calls[call.index] = { ...before, ...call, function: { name, arguments: json } };
      }
    }
    return {
      ...message,
      ...(details.length > 0 && { reasoning_details: details }),
      ...(calls.length > 0 && { tool_calls: calls.map(({ index: _index, ...call }) => call as Call) }),
    };
  },
  answers({ tool_calls = [] }) {
    const results = tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "Seen" }));
    return results.length > 0 ? results : [{ role: "user", content: "Go on" }];
  },
  request: (model, said) => ({
    model,
    max_completion_tokens: 10_000,
    messages: [{ role: "user", content: "Go" }, ...said],
  }),
};

interface Item {
  readonly type: string;
  readonly call_id?: string;
}
interface Output {
  readonly output: readonly Item[];
}
interface ItemFrame {
  readonly type: string;
  readonly output_index: number;
  readonly item: Item;
}

const responses: Client<Output, ItemFrame, Output> = {
  message: ({ output }) => ({ output }),
  joined(frames) {
    const output: Item[] = [];
    for (const { type, output_index, item } of frames)
      if (type === "response.output_item.done") output[output_index] = item;
    return { output };
  },
  answers({ output }) {
    const calls = output.filter(({ type }) => type === "function_call");
    const results = calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: "Seen" }));
    return results.length > 0 ? results : [{ role: "user", content: "Go on" }];
  },
  request: (model, said) => ({
    model,
    max_output_tokens: 10_000,
    store: false,
    include: ["reasoning.encrypted_content"],
    input: [
      { role: "user", content: "Go" },
      ...(said as readonly (Item | Output)[]).flatMap((one) =>
        "output" in one && Array.isArray(one.output) ? one.output : [one],
      ),
    ],
  }),
};

const CLIENTS = {
  messages,
  "generate-content": generateContent,
  "chat-completions": chatCompletions,
  responses,
} as unknown as Readonly<Record<FormatName, Client<never, never, JsonObject>>>;
