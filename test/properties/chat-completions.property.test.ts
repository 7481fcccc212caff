/** The chat-completions format as laws: requests and answers survive the wire and back, wherever a stream is cut. */

import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CompletionDecoder } from "../../src/formats/chat-completions/answer.decode.ts";
import { chatCompletions } from "../../src/formats/chat-completions/index.ts";
import { decodeRequest, encodeRequest } from "../../src/formats/chat-completions/request.ts";
import { ChatCompletionsRequest } from "../../src/formats/chat-completions/schema.ts";
import { NAMELESS_FILE } from "../../src/formats/shared/openai.ts";
import { assertValid } from "../../src/http/validation.ts";
import { type ChatEvent, type ChatRequest, systemClock } from "../../src/index.ts";
import { ChatMeter } from "../../src/kinds/chat/meter.ts";
import type { Part } from "../../src/model/chat-request.ts";
import { chatOf, meteredCall } from "../kinds/chat.ts";
import { answer, type Said, saidBy } from "./chat-completions.arbitraries.answer.ts";
import { chatRequest } from "./chat-completions.arbitraries.request.ts";
import { isOfOpenAI, throughOpenAI } from "./codecs.lossy.ts";

describe("chat-completions requests", () => {
  it("decode(encode(x)) = x, through JSON and validation, and nothing is lost", () => {
    fc.assert(
      fc.property(chatRequest, (request) => {
        const { body, conversions } = encodeRequest(request);
        const wire: unknown = JSON.parse(JSON.stringify(body));
        assertValid(ChatCompletionsRequest, wire);
        const { native, ...decoded } = decodeRequest(wire, 1);
        expect(decoded).toEqual(throughOpenAI(withNamedFiles(request), conversions));
        expect(native?.body).toEqual(wire);
        expect(conversions.filter((told) => !isOfOpenAI(told))).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});

/** A request as it arrives: the format has a name for each file. */
const withNamedFiles = (given: ChatRequest): ChatRequest => ({
  ...given,
  messages: given.messages.map((message) => ({ ...message, parts: message.parts.map(named) })),
});
const named = (part: Part): Part => {
  if (part.type === "tool-result")
    return { ...part, parts: part.parts.map((one) => (one.type === "document" ? (named(one) as typeof one) : one)) };
  const isNameless = part.type === "document" && part.source.type === "base64" && part.title === undefined;
  return isNameless ? { ...part, title: NAMELESS_FILE } : part;
};

const endpoint = chatOf(chatCompletions({ clock: systemClock }));

const request = (candidateCount: number): ChatRequest => ({
  model: "model-a",
  messages: [],
  system: [],
  tools: [],
  stopSequences: [],
  maxOutputTokens: 1_000_000,
  stream: true,
  candidateCount,
  native: { format: "chat-completions", betas: [], body: { stream_options: { include_usage: true } } },
});

/** What the gateway writes for events, as a stream and as a whole. */
function written(events: readonly ChatEvent[], candidates: number): { readonly stream: string; readonly body: string } {
  const asked = request(candidates);
  const context = { request: asked, requestId: "req_1" };
  const [stream, collector] = [endpoint.stream(context), endpoint.complete(context)];
  const meter = new ChatMeter(meteredCall(), asked, 1);
  let text = "";
  const write = (event: Parameters<typeof stream.encode>[0] | undefined): void => {
    if (!event) return;
    text += stream.encode(event);
    collector.add(event);
  };
  write(meter.start(events[0]));
  for (const event of events) write(meter.observe(event));
  meter.complete();
  write(meter.finish());
  return { stream: text, body: JSON.stringify(collector.body()) };
}

/** The events of a stream that comes in pieces. */
function readStream(pieces: Iterable<string>): ChatEvent[] {
  const events: ChatEvent[] = [];
  const decoder = new CompletionDecoder();
  const parser = createParser({ onEvent: ({ event, data }) => void events.push(...decoder.frame(event, data)) });
  for (const piece of pieces) parser.feed(piece);
  decoder.end();
  return events;
}

/** The same as a text: what is looked for only where it is asked for is no part of it. */
const textOf = (stream: Iterable<string>): string => JSON.stringify(readStream(stream));

/** The bytes of a text, cut into pieces of a length. */
function* pieces(text: string, length: number): Generator<string> {
  const bytes = new TextEncoder().encode(text);
  const decoder = new TextDecoder();
  for (let start = 0; start < bytes.length; start += length)
    yield decoder.decode(bytes.subarray(start, start + length), { stream: true });
}

describe("chat-completions answers", () => {
  it("decode(encode(x)) = x, streamed and complete", () => {
    fc.assert(
      fc.property(answer, ({ events, candidates }) => {
        const expected: Said = saidBy(events);
        const { stream, body } = written(events, candidates);
        expect(saidBy(readStream([stream]))).toEqual(expected);
        expect(saidBy(new CompletionDecoder().answer(body))).toEqual(expected);
      }),
      { numRuns: 80 },
    );
  });

  it("mean the same wherever their stream is cut", () => {
    fc.assert(
      fc.property(answer, ({ events, candidates }) => {
        const { stream } = written(events, candidates);
        for (const length of [1, 2, 3, 7]) expect(textOf(pieces(stream, length))).toBe(textOf([stream]));
      }),
      { numRuns: 20 },
    );
  });

  it("that are decoded and encoded again are the same bytes", () => {
    fc.assert(
      fc.property(answer, ({ events, candidates }) => {
        const { stream, body } = written(events, candidates);
        expect(written(readStream([stream]), candidates).stream).toBe(stream);
        const [whole] = new CompletionDecoder().answer(body);
        expect(written(whole ? [whole] : [], candidates).body).toBe(JSON.stringify({ text: body }));
      }),
      { numRuns: 20 },
    );
  });
});
