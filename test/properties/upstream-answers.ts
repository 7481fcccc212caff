/** Recorded answers of upstreams on their way through the gateway: text → frames → native events → meter → the caller's format. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createParser } from "eventsource-parser";
import { chatCompletions } from "../../src/formats/chat-completions/index.ts";
import { chatCompletionsCodec } from "../../src/formats/chat-completions/upstream.ts";
import type { ChatCodec, AnswerCollector, AnswerStream, EndpointOf } from "../../src/formats/format.ts";
import { generateContent } from "../../src/formats/generate-content/index.ts";
import { generateContentCodec } from "../../src/formats/generate-content/upstream.ts";
import { messages } from "../../src/formats/messages/index.ts";
import { messagesCodec } from "../../src/formats/messages/upstream.ts";
import { responses } from "../../src/formats/responses/index.ts";
import { responsesCodec } from "../../src/formats/responses/upstream.ts";
import { RawJson } from "../../src/http/answer.ts";
import { type ChatEvent, type ChatRequest, systemClock } from "../../src/index.ts";
import type { ChatKind } from "../../src/kinds/chat/index.ts";
import { ChatMeter } from "../../src/kinds/chat/meter.ts";
import type { AnswerEvent } from "../../src/model/chat-event.ts";
import { chatOf, meteredCall } from "../kinds/chat.ts";

export type Name = "messages" | "generate-content" | "chat-completions" | "responses";

const FOLDER = join(import.meta.dirname, "..", "recordings", "upstream");

/** The recordings of a format, by name: the streams (`txt`) or the complete answers (`json`). */
export const recordings = (name: Name, kind: "txt" | "json"): [string, string][] =>
  readdirSync(join(FOLDER, name))
    .filter((file) => file.endsWith(`.${kind}`))
    .toSorted()
    .map((file) => [file.slice(0, -kind.length - 1), readFileSync(join(FOLDER, name, file), "utf8")]);

export const recording = (name: Name, file: string): string => readFileSync(join(FOLDER, name, file), "utf8");

export const CODECS: Readonly<Record<Name, ChatCodec>> = {
  messages: messagesCodec(),
  "generate-content": generateContentCodec(),
  "chat-completions": chatCompletionsCodec(),
  responses: responsesCodec(),
};

/** The events of a stream whose bytes come in pieces. */
export function decodedStream(name: Name, ...pieces: readonly Uint8Array[]): ChatEvent[] {
  const [decoder, text] = [CODECS[name].answerDecoder(), new TextDecoder()];
  const events: ChatEvent[] = [];
  const parser = createParser({ onEvent: ({ event, data }) => events.push(...decoder.frame(event, data)) });
  for (const piece of pieces) parser.feed(text.decode(piece, { stream: true }));
  parser.feed(text.decode());
  decoder.end();
  return events;
}

export const decodedText = (name: Name, text: string): ChatEvent[] =>
  decodedStream(name, new TextEncoder().encode(text));

/** What native events mean; the others as they are. */
export const meant = (events: readonly ChatEvent[]): ChatEvent[] =>
  events.flatMap((event): readonly ChatEvent[] => (event.type === "native" ? event.events : [event]));

const ENDPOINTS: Readonly<Record<Name, EndpointOf<ChatKind>>> = {
  messages: chatOf(messages()),
  "generate-content": chatOf(generateContent()),
  "chat-completions": chatOf(chatCompletions({ clock: systemClock })),
  responses: chatOf(responses({ clock: systemClock })),
};

/** A request of a caller who speaks a format. */
export const requestOf = (name: Name, changes: Partial<ChatRequest> = {}): ChatRequest => ({
  model: "m",
  messages: [{ role: "user", parts: [{ type: "text", text: "Hi" }] }],
  system: [],
  tools: [],
  maxOutputTokens: 100_000,
  stopSequences: [],
  stream: true,
  native: {
    format: name,
    body: name === "chat-completions" ? { stream_options: { include_usage: true } } : {},
    betas: [],
    ...(name === "generate-content" && { framing: "sse" }),
  },
  ...changes,
});

const doubt = (why: string): never => {
  throw new Error(why);
};

/** A backend's events as the metering hands them on; after `quiet`, the answer has begun without the first of them. */
export function metered(
  events: readonly ChatEvent[],
  request: ChatRequest,
  {
    quiet = false,
    countTokens = (text: string): number => text.length / 4,
  }: { quiet?: boolean; countTokens?: (text: string) => number } = {},
): AnswerEvent[] {
  const meter = new ChatMeter(meteredCall({ countTokens, prices: { price: () => 1 }, doubt }), request, 5);
  const answer: AnswerEvent[] = [meter.start(quiet ? undefined : events[0])];
  for (const event of events) {
    if (meter.overrun) break;
    const passed = meter.observe(event);
    if (passed) answer.push(passed);
  }
  meter.complete();
  return [...answer, meter.finish()];
}

const contextOf = (request: ChatRequest) => ({ request, requestId: "req_1" });

export const streamOf = (name: Name, request: ChatRequest = requestOf(name)): AnswerStream<AnswerEvent> =>
  ENDPOINTS[name].stream(contextOf(request));

export const streamedText = (
  name: Name,
  answer: readonly AnswerEvent[],
  request: ChatRequest = requestOf(name),
): string => {
  const stream = streamOf(name, request);
  return answer.map((event) => stream.encode(event)).join("");
};

/** The body of a complete answer, as text. */
export function completedText(
  name: Name,
  answer: readonly AnswerEvent[],
  request: ChatRequest = requestOf(name),
): string {
  const collector: AnswerCollector<AnswerEvent> = ENDPOINTS[name].complete(contextOf(request));
  for (const event of answer) collector.add(event);
  const body = collector.body();
  return body instanceof RawJson ? body.text : JSON.stringify(body);
}
