/** The tables of answers tell the truth: what is exact is read as it was said, and what is not is read otherwise or not at all. */

import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { ANSWER_FATES as CHAT_COMPLETIONS } from "../../src/dialects/chat-completions/fates.answer.ts";
import { ANSWER_FATES as GENERATE_CONTENT } from "../../src/dialects/generate-content/fates.answer.ts";
import { ANSWER_FATES as MESSAGES } from "../../src/dialects/messages/fates.answer.ts";
import type { AnswerField, AnswerFateTable } from "../../src/dialects/shared/answer-fates.ts";
import type { Annotation, ChatEvent, FinishReason, Usage } from "../../src/index.ts";
import { through } from "./conversations/answers.ts";
import { FORMATS, type FormatName } from "./conversations/formats.ts";

const TABLES: Readonly<Record<FormatName, AnswerFateTable>> = {
  messages: MESSAGES,
  "generate-content": GENERATE_CONTENT,
  "chat-completions": CHAT_COMPLETIONS,
};

type Meant = Exclude<ChatEvent, { type: "native" }>;

const finished = (reason: FinishReason): Meant => ({ type: "finish", reason });
const used = (usage: Partial<Usage>): Meant => ({ type: "finish", reason: "stop", usage });
const noted = (annotation: Annotation): Meant => ({ type: "annotation", annotation });
const PNG = "iVBORw0KGgo=";

/** One of each, as a backend says it: the last of a row is what is looked for. */
const SAID: Readonly<
  Record<Exclude<AnswerField, "answer.annotation" | "answer.native" | `answer.finish.${string}`>, readonly Meant[]>
> = {
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
  "answer.code": [{ type: "code", language: "python", code: "print(1)" }],
  "answer.code-result": [{ type: "code-result", outcome: "ok", output: "1" }],
  "answer.provider": [{ type: "provider", dialect: "elsewhere", value: { type: "own" } }],
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
  "answer.usage.details": [used({ inputTokens: 9, details: { input: [{ modality: "image", tokens: 9 }] } })],
};

/** Whether what was said last is read from the answer as it was said. */
function isRead(field: string, said: readonly Meant[], read: readonly ChatEvent[]): boolean {
  const means = read.flatMap((event): readonly Meant[] => (event.type === "native" ? event.means : [event]));
  const last = said.at(-1);
  if (last?.type === "finish") {
    const [, , count] = field.split(".");
    if (field.startsWith("answer.usage.")) {
      const usage = Object.assign({}, ...means.map((event) => ("usage" in event ? event.usage : {}))) as Partial<Usage>;
      const { [count as keyof Usage]: expected } = last.usage ?? {};
      return isDeepStrictEqual(usage[count as keyof Usage], expected);
    }
    const { usage: _, ...end } = last;
    return means.some((event) => event.type === "finish" && isWithin(end, event));
  }
  // A call that comes whole says its start, its input and its end.
  const call = means.find(({ type }) => type === "tool-call");
  if (last?.type.startsWith("tool-call") && call) return true;
  if (last?.type === "tool-call")
    return means.some((event) => event.type === "tool-call-start" && event.id === last.id);
  return means.some((event) => isWithin(last, event));
}

const isWithin = (part: object | undefined, whole: object): boolean =>
  Object.entries(part ?? {}).every(([key, value]) => isDeepStrictEqual((whole as Record<string, unknown>)[key], value));

const rows = (table: AnswerFateTable): [field: AnswerField, said: readonly Meant[]][] =>
  (Object.keys(table) as AnswerField[])
    // The kinds of notes stand for themselves, and what has no words has no event; what is emulated may be read either way, because
    // what matters of it is there.
    .filter((field) => field !== "answer.annotation" && field !== "answer.native" && table[field].fate !== "emulated")
    .map((field) => [
      field,
      field.startsWith("answer.finish.")
        ? [finished(field.slice("answer.finish.".length) as FinishReason)]
        : SAID[field as keyof typeof SAID],
    ]);

describe.each(FORMATS.map((format) => [format.name, format] as const))("what is said in %s", (name, format) => {
  const table = TABLES[name];

  it.each(rows(table))("%s", (field, said) => {
    const { fate } = table[field];
    const before: Meant[] = said[0]?.type === "start" ? [] : [{ type: "start", id: "answer_1", model: "m" }];
    // A candidate that ends with calls has called something.
    if (field === "answer.finish.tool-calls") before.push(...SAID["answer.tool-call"]);
    const after: Meant[] = said.at(-1)?.type === "finish" ? [] : [{ type: "finish", reason: "stop" }];
    // The dialect of an upstream that has none of these formats: what it means is what is encoded.
    const means = [...before, ...said, ...after];
    const frames = means.map((event): ChatEvent => ({
      type: "native",
      dialect: "elsewhere",
      frames: [{ data: "" }],
      means: [event],
    }));
    for (const stream of [true, false]) {
      const seen = isRead(field, said, through(format, frames, stream, field === "answer.candidate" ? 2 : 1));
      expect({ stream, seen }).toEqual({ stream, seen: fate === "exact" });
    }
  });
});
