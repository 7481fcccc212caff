/** Providers whose totals leave out some of the parts: everything that was used is charged. */

import { expect, it } from "vitest";
import { decodeUsage as decodeChatCompletions } from "../../src/formats/chat-completions/answer.decode.ts";
import { sumOfUsages, type Usage, type UsageDetails, withParts } from "../../src/model/usage.ts";
import { decodeUsage as decodeAiSdk } from "../../src/upstreams/ai-sdk/answer.ts";

const reasoning = (tokens: number) => ({ completion_tokens_details: { reasoning_tokens: tokens } });

it.each([
  ["more reasoning than completion", { prompt_tokens: 32, completion_tokens: 9, ...reasoning(94) }, 103],
  [
    "less reasoning, but a total of all three",
    { prompt_tokens: 32, completion_tokens: 90, total_tokens: 132, ...reasoning(10) },
    100,
  ],
  [
    "reasoning as a part of the completion",
    { prompt_tokens: 32, completion_tokens: 90, total_tokens: 122, ...reasoning(10) },
    90,
  ],
])("chat completions with %s", (_what, usage, outputTokens) => {
  expect(decodeChatCompletions(usage)).toMatchObject({ inputTokens: 32, outputTokens });
});

it("chat completions may tell a total without an input", () => {
  const usage = { completion_tokens: 90, total_tokens: 100, ...reasoning(10) };
  expect(decodeChatCompletions(usage)).toEqual({ outputTokens: 100, reasoningTokens: 10 });
});

it.each([
  [
    "whose input leaves the cache out",
    { inputTokens: 10, outputTokens: 5, cachedInputTokens: 5_000 },
    { inputTokens: 5_010, outputTokens: 5, cacheReadTokens: 5_000 },
  ],
  [
    "whose output leaves the thoughts out",
    { inputTokens: 10, outputTokens: 5, reasoningTokens: 300 },
    { inputTokens: 10, outputTokens: 305, reasoningTokens: 300 },
  ],
  [
    "whose wholes hold their parts",
    { inputTokens: 10, outputTokens: 5, cachedInputTokens: 4, reasoningTokens: 3 },
    { inputTokens: 10, outputTokens: 5, cacheReadTokens: 4, reasoningTokens: 3 },
  ],
])("a provider of the AI SDK's second version %s", (_what, usage, told) => {
  expect(decodeAiSdk(usage)).toEqual(told);
});

it.each([
  [{ inputTokens: 5, cacheReadTokens: 3, cacheWriteTokens: 4 }, 12],
  [{ inputTokens: 7, cacheReadTokens: 3, cacheWriteTokens: 4 }, 7],
  [{ inputTokens: 2, cacheReadTokens: 3 }, 5],
  [{ inputTokens: 3, cacheWriteTokens: 3 }, 3],
])("an input of %o is %i tokens", (counts, inputTokens) => {
  expect(withParts(counts)).toEqual({ ...counts, inputTokens });
});

const inputOf = (audio: number, text?: number): UsageDetails => ({
  input: [
    { modality: "audio", tokens: audio },
    ...(text === undefined ? [] : [{ modality: "text" as const, tokens: text }]),
  ],
});

it("the usage of several requests has the sum of every count, also by kinds of content", () => {
  const first = { inputTokens: 9, serverToolUses: { web: 1 }, serviceTier: "flex", details: inputOf(4) };
  const second = { inputTokens: 5, toolUseTokens: 2, serverToolUses: { web: 2, code: 1 }, details: inputOf(3, 1) };
  const sum = { inputTokens: 14, toolUseTokens: 2, serverToolUses: { web: 3, code: 1 }, serviceTier: "flex" };
  expect(sumOfUsages<Partial<Usage>>(first, second)).toEqual({ ...sum, details: inputOf(7, 1) });
  expect(sumOfUsages<Partial<Usage>>(first, {})).toEqual(first);
  const [one, other] = [{ inputTokens: 9 }, { model: "m", inputTokens: 5 }];
  expect(sumOfUsages<Partial<Usage>>({ steps: [one] }, { steps: [other] })).toEqual({ steps: [one, other] });
  expect(sumOfUsages<Partial<Usage>>({ steps: [one] }, second)).toMatchObject({ steps: [one] });
});
