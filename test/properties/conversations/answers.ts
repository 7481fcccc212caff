/** The law of answers: what an upstream says in its format is what a caller reads in another one, but for what is listed here. */

import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { chatCompletions } from "../../../src/formats/chat-completions/index.ts";
import type { EndpointOf } from "../../../src/formats/format.ts";
import { generateContent } from "../../../src/formats/generate-content/index.ts";
import { messages } from "../../../src/formats/messages/index.ts";
import { responses } from "../../../src/formats/responses/index.ts";
import { unwrapSeal } from "../../../src/formats/shared/seal.ts";
import { type ChatEvent, type ChatRequest, type FinishReason, systemClock } from "../../../src/index.ts";
import type { ChatKind } from "../../../src/kinds/chat/index.ts";
import { chatOf } from "../../kinds/chat.ts";
import { metered } from "../upstream-answers.ts";
import type { Format, FormatName } from "./formats.ts";

export const ENDPOINTS: Readonly<Record<FormatName, EndpointOf<ChatKind>>> = {
  messages: chatOf(messages()),
  "generate-content": chatOf(generateContent()),
  "chat-completions": chatOf(chatCompletions({ clock: systemClock })),
  responses: chatOf(responses({ clock: systemClock })),
};

const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
  fc.string({ minLength: 1, maxLength: 12, unit: "grapheme" }),
);
const name = fc.stringMatching(/^[a-z]\w{0,9}$/);
const seal = fc.uint8Array({ minLength: 3, maxLength: 9 }).map((bytes) => Buffer.from(bytes).toString("base64"));
const input = fc
  .dictionary(name, fc.oneof({ weight: 3, arbitrary: fc.jsonValue({ maxDepth: 0 }) }, fc.jsonValue({ maxDepth: 2 })), {
    maxKeys: 3,
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as Record<string, never>);
const count = fc.nat({ max: 60_000 });

const REASONS = ["stop", "length", "tool-calls", "content-filter"] as const satisfies readonly FinishReason[];

/** An answer that every chat format has words for: thoughts, text, calls in parallel, and counts. */
export const answer: fc.Arbitrary<readonly ChatEvent[]> = fc
  .record({
    thoughts: fc.array(text, { maxLength: 2 }),
    signature: fc.option(seal, { nil: undefined }),
    texts: fc.array(text, { maxLength: 2 }),
    calls: fc.array(fc.record({ name, input }), { maxLength: 2 }),
    inPieces: fc.boolean(),
    reason: fc.constantFrom(...REASONS),
    counts: fc.record({ inputTokens: count, outputTokens: count, share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  })
  .map(({ thoughts, signature, texts, calls, inPieces, reason, counts: { share, ...counts } }) => [
    { type: "start", id: "answer_1", model: "m" },
    ...thoughts.map((thought): ChatEvent => ({ type: "reasoning-delta", text: thought })),
    ...(signature !== undefined && thoughts.length > 0 ? [{ type: "reasoning-signature", signature } as const] : []),
    ...texts.map((said): ChatEvent => ({ type: "text-delta", text: said })),
    ...calls.flatMap((call, index) => called(`call_${index}`, call, inPieces)),
    {
      type: "finish",
      reason: calls.length > 0 ? "tool-calls" : reason === "tool-calls" ? "stop" : reason,
      usage: {
        ...counts,
        outputTokens: counts.outputTokens + 1_000,
        cacheReadTokens: Math.floor(counts.inputTokens * share),
      },
    },
  ]);

function called(id: string, call: { name: string; input: Record<string, never> }, inPieces: boolean): ChatEvent[] {
  if (!inPieces) return [{ type: "tool-call", id, ...call }];
  const json = JSON.stringify(call.input);
  return [
    { type: "tool-call-start", id, name: call.name },
    { type: "tool-call-delta", id, json: json.slice(0, 2) },
    { type: "tool-call-delta", id, json: json.slice(2) },
    { type: "tool-call-end", id },
  ];
}

export interface Told {
  thoughts: string;
  signature: string | undefined;
  text: string;
  calls: { id: string; name: string; input: unknown }[];
  reason: string | undefined;
  usage: { inputTokens?: number; outputTokens?: number; cacheReadTokens?: number };
}

/** What an answer says, in whatever pieces. */
function toldBy(events: readonly ChatEvent[]): Told {
  const told: Told = { thoughts: "", signature: undefined, text: "", calls: [], reason: undefined, usage: {} };
  const pieces = new Map<string, string>();
  const meant = events.flatMap((event): readonly ChatEvent[] => (event.type === "native" ? event.events : [event]));
  for (const event of meant) {
    if (event.type === "reasoning-delta") told.thoughts += event.text;
    if (event.type === "reasoning-signature") told.signature = unwrapSeal(event.signature)?.value ?? event.signature;
    if (event.type === "text-delta") told.text += event.text;
    if (event.type === "tool-call") told.calls.push({ id: event.id, name: event.name, input: event.input });
    if (event.type === "tool-call-start") told.calls.push({ id: event.id, name: event.name, input: undefined });
    if (event.type === "tool-call-delta") pieces.set(event.id, (pieces.get(event.id) ?? "") + event.json);
    if (event.type === "finish") told.reason = event.reason;
    if ("usage" in event) Object.assign(told.usage, event.usage);
  }
  const calls = told.calls.map((one) => ({
    ...one,
    input: one.input ?? (JSON.parse(pieces.get(one.id) || "{}") as unknown),
  }));
  const { inputTokens = 0, outputTokens = 0, cacheReadTokens = 0 } = told.usage;
  return { ...told, calls, usage: { inputTokens, outputTokens, cacheReadTokens } };
}

/** What the answers of a format cannot say: they leave it out. */
const LEFT_OUT: Readonly<Record<FormatName, readonly (keyof Told)[]>> = {
  messages: [],
  "generate-content": [],
  "chat-completions": ["signature"],
  responses: [],
};

/** The ends that the answers of a format name otherwise. */
const NEAREST: Readonly<Record<FormatName, Readonly<Record<string, string>>>> = {
  messages: { "content-filter": "refusal" },
  "generate-content": { refusal: "content-filter" },
  "chat-completions": { refusal: "content-filter" },
  responses: { refusal: "content-filter" },
};

/** An answer of an upstream, as a relay has read it. */
export interface Answered {
  readonly upstream: Format;
  readonly said: readonly ChatEvent[];
  readonly sent: readonly ChatEvent[];
  readonly stream: boolean;
}

export const answered = (upstream: Format, said: readonly ChatEvent[], stream: boolean): Answered => ({
  upstream,
  said,
  sent: through(upstream, said, stream),
  stream,
});

/** Throws an error that names what did not reach the caller as the upstream said it. */
export function assertAnswered(caller: Format, { upstream, said, sent, stream }: Answered): void {
  const read = through(caller, sent, stream);
  const [expected, seen] = [toldBy(said), toldBy(read)];
  for (const { name: format } of [upstream, caller])
    expected.reason = NEAREST[format][expected.reason ?? ""] ?? expected.reason;
  const left = new Set([...LEFT_OUT[caller.name], ...LEFT_OUT[upstream.name]]);
  for (const field of Object.keys(expected) as (keyof Told)[]) {
    if (left.has(field)) continue;
    const [one, other] = [JSON.stringify(expected[field]), JSON.stringify(seen[field])];
    if (one !== other) throw new Error(`The answer's ${field} is ${other}, where the upstream said ${one}.`);
  }
}

/** The events as one who asks in a format reads them from a gateway that has them from its backend. */
export function through(
  { name: format, codec }: Format,
  events: readonly ChatEvent[],
  stream: boolean,
  candidateCount = 1,
): ChatEvent[] {
  const request = { ...asking(format, stream), candidateCount };
  const context = { request, requestId: "req_1" };
  const decoder = codec.answerDecoder();
  const passed = metered(events, request, { countTokens: () => 0 });
  if (!stream) {
    const collector = ENDPOINTS[format].complete(context);
    for (const event of passed) collector.add(event);
    const body: unknown = collector.body();
    const raw = body as { readonly text?: unknown };
    return decoder.answer(typeof raw.text === "string" ? raw.text : JSON.stringify(body));
  }
  const encoder = ENDPOINTS[format].stream(context);
  const read: ChatEvent[] = [];
  const parser = createParser({ onEvent: ({ event, data }) => void read.push(...decoder.frame(event, data)) });
  for (const event of passed) parser.feed(encoder.encode(event));
  decoder.end();
  return read;
}

export const asking = (format: FormatName, stream: boolean): ChatRequest => ({
  model: "m",
  messages: [],
  system: [],
  tools: [],
  maxOutputTokens: 10_000_000,
  stopSequences: [],
  stream,
  reasoning: { type: "adaptive" },
  native: {
    format,
    betas: [],
    body: format === "chat-completions" ? { stream_options: { include_usage: true } } : {},
    ...(format === "generate-content" && { framing: "sse" }),
  },
});
