/** The tables of answers are true: an exact field is read as it was written, and any other is read differently or not at all. */

import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { ANSWER_CONVERSIONS as CHAT_COMPLETIONS } from "../../src/formats/chat-completions/conversions.ts";
import { ANSWER_CONVERSIONS as GENERATE_CONTENT } from "../../src/formats/generate-content/conversions.ts";
import { ANSWER_CONVERSIONS as MESSAGES } from "../../src/formats/messages/conversions.ts";
import { ANSWER_CONVERSIONS as RESPONSES } from "../../src/formats/responses/conversions.ts";
import {
  type AnswerConversionTable,
  type AnswerField,
  listAnswerConversions,
} from "../../src/formats/shared/conversions.ts";
import type { Annotation, ChatEvent, FinishReason, Usage } from "../../src/index.ts";
import { through } from "./conversations/answers.ts";
import { FORMATS, type FormatName } from "./conversations/formats.ts";

const TABLES: Readonly<Record<FormatName, AnswerConversionTable>> = {
  messages: MESSAGES,
  "generate-content": GENERATE_CONTENT,
  "chat-completions": CHAT_COMPLETIONS,
  responses: RESPONSES,
};

type Meant = Exclude<ChatEvent, { type: "native" }>;

const finished = (reason: FinishReason): Meant => ({ type: "finish", reason });
const used = (usage: Partial<Usage>): Meant => ({ type: "finish", reason: "stop", usage });
const noted = (annotation: Annotation): Meant => ({ type: "annotation", annotation });
const PNG = "iVBORw0KGgo=";

/** The events of a backend that have each field. The test looks for the last event of a row. */
const SAID: Readonly<Record<Exclude<AnswerField, "answer.native" | `answer.finish.${string}`>, readonly Meant[]>> = {
  "answer.id": [{ type: "start", id: "foreign_1" }],
  "answer.candidate": [{ type: "text-delta", text: "Another", candidate: 1 }],
  "answer.text-delta": [{ type: "text-delta", text: "Hi" }],
  "answer.reasoning-delta": [{ type: "reasoning-delta", text: "Hm" }],
  "answer.reasoning-signature": [
    { type: "reasoning-delta", text: "Hm" },
    { type: "reasoning-signature", signature: "c2VhbA==" },
  ],
  "answer.redacted-reasoning": [{ type: "redacted-reasoning", data: "c2VhbA==" }],
  "answer.refusal-delta": [{ type: "refusal-delta", text: "No" }],
  "answer.tool-call": [{ type: "tool-call", id: "call_1", name: "f", input: { a: 1 } }],
  "answer.tool-call-start": [{ type: "tool-call-start", id: "call_1", name: "f" }],
  "answer.tool-call-delta": [
    { type: "tool-call-start", id: "call_1", name: "f" },
    { type: "tool-call-delta", id: "call_1", json: '{"a":1}' },
  ],
  "answer.tool-call-end": [
    { type: "tool-call-start", id: "call_1", name: "f" },
    { type: "tool-call-end", id: "call_1" },
  ],
  "answer.media": [{ type: "media", mediaType: "image/png", data: PNG }],
  "answer.media.audio": [{ type: "media", mediaType: "audio/wav", data: "UklGRgAAAABXQVZF" }],
  "answer.code": [{ type: "code", language: "python", code: "print(1)" }],
  "answer.code-result": [{ type: "code-result", outcome: "ok", output: "1" }],
  "answer.provider": [{ type: "provider", format: "elsewhere", value: { type: "own" } }],
  "answer.signature": [{ type: "text-delta", text: "Hi", signature: "c2VhbA==" }],
  "answer.thought": [{ type: "media", mediaType: "image/png", data: PNG, thought: true }],
  "answer.annotation.safety": [
    noted({ type: "safety", ratings: [{ category: "harassment", probability: "negligible" }] }),
  ],
  "answer.annotation.citations": [
    noted({ type: "citations", citations: [{ start: 0, end: 2, uri: "https://a.test/" }] }),
  ],
  "answer.annotation.grounding": [
    noted({ type: "grounding", chunks: [{ uri: "https://a.test/" }], searchQueries: ["a"] }),
  ],
  "answer.annotation.attributions": [noted({ type: "attributions", attributions: [{ text: "a" }] })],
  "answer.annotation.logprobs": [
    noted({ type: "logprobs", chosen: [{ token: "Hi", tokenId: 7, logProbability: -1 }], top: [[]], average: -1 }),
  ],
  "answer.annotation.retrieved-urls": [noted({ type: "retrieved-urls", urls: ["https://a.test/"] })],
  "answer.annotation.url-context": [
    noted({ type: "url-context", urls: [{ url: "https://a.test/", status: "success" }] }),
  ],
  "answer.annotation.token-count": [noted({ type: "token-count", tokens: 3 })],
  "answer.prompt-feedback": [{ type: "prompt-feedback", blockReason: "safety", ratings: [] }],
  "answer.stopSequence": [{ type: "finish", reason: "stop-sequence", stopSequence: "END" }],
  "answer.usage.inputTokens": [used({ inputTokens: 9 })],
  "answer.usage.outputTokens": [used({ outputTokens: 9 })],
  "answer.usage.cacheReadTokens": [used({ inputTokens: 9, cacheReadTokens: 4 })],
  "answer.usage.cacheWriteTokens": [used({ inputTokens: 9, cacheWriteTokens: 4 })],
  "answer.usage.reasoningTokens": [used({ outputTokens: 9, reasoningTokens: 4 })],
  "answer.usage.toolUseTokens": [used({ inputTokens: 9, toolUseTokens: 4 })],
  "answer.usage.cacheWritesByTtl": [
    used({ inputTokens: 9, cacheWriteTokens: 4, cacheWritesByTtl: { "5m": 1, "1h": 3 } }),
  ],
  "answer.usage.serverToolUses": [used({ serverToolUses: { web_search: 2 } })],
  "answer.usage.serviceTier": [used({ serviceTier: "priority" })],
  "answer.usage.speed": [used({ speed: "fast" })],
  "answer.usage.inferenceGeo": [used({ inferenceGeo: "us" })],
  "answer.usage.steps": [used({ inputTokens: 9, steps: [{ inputTokens: 4 }, { model: "n", inputTokens: 5 }] })],
  "answer.usage.details": [used({ inputTokens: 9, details: { input: [{ modality: "image", tokens: 9 }] } })],
};

/** Tells whether the last event is read from the answer unchanged. */
function isRead(field: string, said: readonly Meant[], read: readonly ChatEvent[]): boolean {
  const events = read.flatMap((event): readonly Meant[] => (event.type === "native" ? event.events : [event]));
  const last = said.at(-1);
  if (last?.type === "finish") {
    const [, , count] = field.split(".");
    if (field.startsWith("answer.usage.")) {
      const usage = Object.assign(
        {},
        ...events.map((event) => ("usage" in event ? event.usage : {})),
      ) as Partial<Usage>;
      const { [count as keyof Usage]: expected } = last.usage ?? {};
      return isDeepStrictEqual(usage[count as keyof Usage], expected);
    }
    const { usage: _, ...end } = last;
    return events.some((event) => event.type === "finish" && isWithin(end, event));
  }
  // A whole call has its start, its input and its end.
  const call = events.find(({ type }) => type === "tool-call");
  if (last?.type.startsWith("tool-call") && call) return true;
  if (last?.type === "tool-call")
    return events.some((event) => event.type === "tool-call-start" && event.id === last.id);
  return events.some((event) => isWithin(last, event));
}

const isWithin = (part: object | undefined, whole: object): boolean =>
  Object.entries(part ?? {}).every(([key, value]) => isDeepStrictEqual((whole as Record<string, unknown>)[key], value));

const REASONS = {
  stop: true,
  "stop-sequence": true,
  length: true,
  "tool-calls": true,
  pause: true,
  refusal: true,
  "context-window": true,
  "content-filter": true,
  recitation: true,
  language: true,
  blocklist: true,
  "prohibited-content": true,
  "personal-data": true,
  "unsafe-image": true,
  "malformed-tool-call": true,
  other: true,
} satisfies Record<FinishReason, true>;

/** Every field of an answer but those of one format alone, which have no neutral event. */
const ROWS: readonly (readonly [field: AnswerField, said: readonly Meant[]])[] = [
  ...(Object.entries(SAID) as [AnswerField, readonly Meant[]][]),
  ...(Object.keys(REASONS) as FinishReason[]).map((reason) => [`answer.finish.${reason}`, [finished(reason)]] as const),
];

describe.each(FORMATS.map((format) => [format.name, format] as const))("what is said in %s", (name, format) => {
  const table = TABLES[name];

  // The essence of an emulated field is there: it may be read either way.
  it.each(ROWS.filter(([field]) => table[field]?.conversion !== "emulated"))("%s", (field, said) => {
    const { conversion = "exact" } = table[field] ?? {};
    const before: Meant[] = said[0]?.type === "start" ? [] : [{ type: "start", id: "answer_1", model: "m" }];
    // A candidate that ends with calls has at least one.
    if (field === "answer.finish.tool-calls") before.push(...SAID["answer.tool-call"]);
    const after: Meant[] = said.at(-1)?.type === "finish" ? [] : [{ type: "finish", reason: "stop" }];
    // Frames of an unknown format: only their meaning can be encoded.
    const events = [...before, ...said, ...after];
    const frames = events.map((event): ChatEvent => ({
      type: "native",
      format: "elsewhere",
      frames: [{ data: "" }],
      events: [event],
    }));
    for (const stream of [true, false]) {
      const seen = isRead(field, said, through(format, frames, stream, field === "answer.candidate" ? 2 : 1));
      expect({ stream, seen }).toEqual({ stream, seen: conversion === "exact" });
    }
  });
});

it.each(["messages", "responses"] as const)(
  "a text is told to callers of %s where it is not of the first answer",
  (name) => {
    const told = (candidate?: number): string[] => {
      const text = { type: "text-delta", text: "Hi", ...(candidate !== undefined && { candidate }) } as const;
      return listAnswerConversions(TABLES[name], name, text).map(({ field }) => field);
    };
    expect([told(), told(0), told(1)]).toEqual([[], [], ["answer.candidate"]]);
  },
);
