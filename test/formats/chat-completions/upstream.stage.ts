/** What an upstream of this format gets, and what its answers mean. */

import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { CodecOptions } from "../../../src/formats/format.ts";
import type { ChatEvent, ChatRequest, Part } from "../../../src/index.ts";

const meaning = (events: readonly ChatEvent[]): readonly ChatEvent[] =>
  events.flatMap((event): readonly ChatEvent[] => (event.type === "native" ? event.events : [event]));

/** What an upstream's answer means: a stream of deltas, or one complete message. */
export function read(...deltas: readonly object[]): readonly ChatEvent[] {
  const decoder = chatCompletionsCodec().answerDecoder();
  const chunks = [
    ...deltas.map((delta) => ({ choices: [{ delta }] })),
    { choices: [{ delta: {}, finish_reason: "stop" }] },
  ];
  return meaning(chunks.flatMap((chunk) => decoder.frame(undefined, JSON.stringify(chunk))));
}

export function readWhole(message: object): readonly ChatEvent[] {
  const body = JSON.stringify({ choices: [{ message, finish_reason: "stop" }] });
  return meaning(chatCompletionsCodec().answerDecoder().answer(body));
}

export const asking = (parts: readonly Part[], changes: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "model-a",
  messages: [
    { role: "user", parts: [{ type: "text", text: "Hi" }] },
    { role: "assistant", parts },
    { role: "user", parts: [{ type: "text", text: "On" }] },
  ],
  system: [],
  tools: [],
  stopSequences: [],
  maxOutputTokens: 100,
  stream: false,
  ...changes,
});

export interface Sent {
  readonly message: object;
  readonly conversions: Readonly<Record<string, string>>;
}

export function sent(parts: readonly Part[], options: CodecOptions = {}, changes: Partial<ChatRequest> = {}): Sent {
  const { body, conversions } = chatCompletionsCodec(options).encodeRequest(asking(parts, changes));
  const [, message] = body["messages"] as object[];
  return {
    message: message ?? {},
    conversions: Object.fromEntries(conversions.map(({ field, conversion }) => [field, conversion])),
  };
}

/** A call in a message. */
export const CALLED: { readonly tool_calls: readonly object[] } = {
  tool_calls: [{ type: "function", id: "a", function: { name: "clock", arguments: "{}" } }],
};
