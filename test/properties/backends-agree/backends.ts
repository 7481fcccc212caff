/** Backends in neutral words alone, each with a question to ask it and what its caller must see, whichever format that speaks. */

import type { ChatEvent, ChatRequest, Part } from "../../../src/index.ts";
import type { Seen } from "./clients.ts";
import type { Question } from "./questions.ts";

/** A backend's answer to a request. */
export type Answers = (request: ChatRequest) => readonly (ChatEvent | string)[];

export interface Case {
  readonly question?: Partial<Question>;
  readonly answers: Answers;
  readonly seen: Partial<Seen>;
  /** The pieces in which a stream shows the text. */
  readonly pieces?: readonly string[];
}

const START: ChatEvent = { type: "start", id: "answer_1", usage: { inputTokens: 11 } };
const finish = (outputTokens: number, more: Partial<Extract<ChatEvent, { type: "finish" }>> = {}): ChatEvent => ({
  type: "finish",
  reason: "stop",
  usage: { outputTokens },
  ...more,
});

const plays =
  (...events: readonly (ChatEvent | string)[]): Answers =>
  () =>
    events;

const WEATHER = {
  name: "get_weather",
  description: "The weather in a city.",
  schema: { properties: { city: { type: "string" } }, required: ["city"] },
};
const TIME = { name: "get_time", description: "The time.", schema: { properties: {} } };
const oslo = { id: "call_a", name: "get_weather", input: { city: "Oslo" } };
const noon = { id: "call_b", name: "get_time", input: { "zone/é": ["UTC", { constructor: null }] } };

const text: Readonly<Record<string, Case>> = {
  "text in pieces": {
    answers: plays(START, "Hel", "lo, ", "", { type: "text-delta", text: "世界 🌍\u2028" }, finish(5)),
    seen: { text: "Hello, 世界 🌍\u2028", tokens: { input: 11, output: 5, cached: 0 } },
    pieces: ["Hel", "lo, ", "世界 🌍\u2028"],
  },
  "nothing at all": { answers: plays(START, finish(1)), seen: {}, pieces: [] },
  "an answer that is cut": {
    answers: plays(START, "Once upon", finish(3, { reason: "length" })),
    seen: { text: "Once upon", end: "cut", tokens: { input: 11, output: 3, cached: 0 } },
  },
  "an answer that a stop sequence ends": {
    question: { stop: ["4"] },
    answers: ({ stopSequences }) => [
      START,
      "1 2 3 ",
      finish(4, { reason: "stop-sequence", stopSequence: stopSequences[0] ?? "" }),
    ],
    seen: { text: "1 2 3 ", tokens: { input: 11, output: 4, cached: 0 } },
  },
  "an answer that a filter ends": {
    answers: plays(START, "Well", finish(2, { reason: "content-filter" })),
    seen: { text: "Well", tokens: { input: 11, output: 2, cached: 0 } },
  },
  "reasoning and its seal": {
    question: { thinking: 1024 },
    answers: plays(
      START,
      { type: "reasoning-delta", text: "27 is " },
      { type: "reasoning-delta", text: "3 cubed." },
      { type: "reasoning-signature", signature: "c2VhbA==" },
      "3.",
      finish(9, { usage: { outputTokens: 9, reasoningTokens: 7 } }),
    ),
    seen: { text: "3.", thoughts: "27 is 3 cubed.", seals: ["c2VhbA=="], tokens: { input: 11, output: 9, cached: 0 } },
  },
  "counts of every kind": {
    answers: plays(
      { type: "start", usage: { inputTokens: 100, cacheReadTokens: 40, cacheWriteTokens: 10 } },
      "x",
      {
        type: "usage",
        usage: { outputTokens: 1 },
      },
      finish(7, { usage: { outputTokens: 7, reasoningTokens: 3, toolUseTokens: 20 } }),
    ),
    seen: { text: "x", tokens: { input: 100, output: 7, cached: 40 } },
  },
};

const calls: Readonly<Record<string, Case>> = {
  "a call in pieces": {
    question: { tools: [WEATHER] },
    answers: plays(
      START,
      "Let me see.",
      { type: "tool-call-start", id: "call_a", name: "get_weather" },
      { type: "tool-call-delta", id: "call_a", json: '{"ci' },
      { type: "tool-call-delta", id: "call_a", json: 'ty":"Oslo"}' },
      { type: "tool-call-end", id: "call_a" },
      finish(8, { reason: "tool-calls" }),
    ),
    seen: { text: "Let me see.", calls: [oslo], tokens: { input: 11, output: 8, cached: 0 } },
  },
  "calls in parallel, and text after them": {
    question: { tools: [WEATHER, TIME] },
    answers: plays(
      START,
      { type: "tool-call-start", id: "call_a", name: "get_weather" },
      { type: "tool-call-start", id: "call_b", name: "get_time" },
      { type: "tool-call-delta", id: "call_b", json: JSON.stringify(noon.input) },
      "Both.",
      { type: "tool-call-delta", id: "call_a", json: JSON.stringify(oslo.input) },
      { type: "tool-call-end", id: "call_b" },
      { type: "tool-call", id: "call_c", name: "get_time", input: {} },
      finish(20),
    ),
    seen: {
      text: "Both.",
      calls: [oslo, noon, { id: "call_c", name: "get_time", input: {} }],
      tokens: { input: 11, output: 20, cached: 0 },
    },
  },
  "code, told in words where there is no part for it": {
    answers: plays(
      START,
      "I run it.",
      { type: "code", language: "python", code: "print(1)\n" },
      { type: "code-result", outcome: "ok", output: "1\n" },
      "It is 1.",
      finish(9),
    ),
    seen: {
      text: "I run it.\n```python\nprint(1)\n```\n\n```\n1\n```\nIt is 1.",
      tokens: { input: 11, output: 9, cached: 0 },
    },
  },
  "a picture, left out where there is no part for it": {
    answers: plays(START, "Here:", { type: "media", mediaType: "image/png", data: "iVBORw0KGgo=" }, finish(9)),
    seen: { text: "Here:", tokens: { input: 11, output: 9, cached: 0 } },
  },
};

/** What a part says, in words. */
function wordsOf(part: Part): string {
  if (part.type === "text") return part.text;
  if (part.type === "media") return `[${part.kind} ${part.source.type === "base64" ? part.source.data : ""}]`;
  if (part.type === "tool-call") return `[calls ${part.name} with ${JSON.stringify(part.input)}]`;
  if (part.type !== "tool-result") return `[${part.type}]`;
  const told = part.parts.map((inner) => {
    if (inner.type === "json") return JSON.stringify(inner.value);
    return inner.type === "text" ? inner.text : `[${inner.type}]`;
  });
  return `[${part.callId}: ${told.join("")}]`;
}

const told = (reply: string): Answers => plays(START, reply, finish(3));

/** Tells what it was asked. */
const echo =
  (tell: (request: ChatRequest) => unknown): Answers =>
  (request) =>
    told(JSON.stringify(tell(request)))(request);

const echoed = (value: unknown): Partial<Seen> => ({
  text: JSON.stringify(value),
  tokens: { input: 11, output: 3, cached: 0 },
});

const requests: Readonly<Record<string, Case>> = {
  "the instructions and the conversation": {
    question: { system: "Be brief.", turns: [{ text: "One?" }, { text: "1." }, { text: "Two?" }] },
    answers: echo(({ system, messages }) => [
      system.map(wordsOf),
      ...messages.map(({ role, parts }) => [role, ...parts.map(wordsOf)]),
    ]),
    seen: echoed([["Be brief."], ["user", "One?"], ["assistant", "1."], ["user", "Two?"]]),
  },
  "a picture in the question": {
    question: { turns: [{ picture: "iVBORw0KGgo=", text: "What is it?" }] },
    answers: echo(({ messages }) => messages.flatMap(({ parts }) => parts.map(wordsOf))),
    seen: echoed(["[image iVBORw0KGgo=]", "What is it?"]),
  },
  "the results of calls": {
    question: {
      tools: [WEATHER, TIME],
      turns: [
        { text: "Well?" },
        { text: "Let me see.", calls: [oslo, noon] },
        {
          results: [
            { id: "call_b", name: "get_time", value: { time: "noon" } },
            { id: "call_a", name: "get_weather", value: { rain: true } },
          ],
        },
      ],
    },
    answers: echo(({ messages }) => messages.slice(1).map(({ role, parts }) => [role, ...parts.map(wordsOf)])),
    seen: echoed([
      [
        "assistant",
        "Let me see.",
        `[calls get_weather with ${JSON.stringify(oslo.input)}]`,
        `[calls get_time with ${JSON.stringify(noon.input)}]`,
      ],
      ["user", '[call_b: {"time":"noon"}]', '[call_a: {"rain":true}]'],
    ]),
  },
  "the tools": {
    question: { tools: [WEATHER, TIME] },
    answers: echo(({ tools }) =>
      tools.map((tool) => (tool.type === "function" ? [tool.name, tool.description, tool.inputSchema] : tool.type)),
    ),
    seen: echoed(
      [WEATHER, TIME].map(({ name, description, schema }) => [name, description, { type: "object", ...schema }]),
    ),
  },
  ...Object.fromEntries(
    (
      [
        [true, { type: "required", parallel: true }],
        [false, { type: "none" }],
        ["get_time", { type: "tool", name: "get_time", parallel: true }],
      ] as const
    ).map(([mustCall, choice]): [string, Case] => [
      `the choice of a tool: ${mustCall}`,
      {
        question: { tools: [WEATHER, TIME], mustCall },
        answers: echo(({ toolChoice }) => toolChoice),
        seen: echoed(choice),
      },
    ]),
  ),
  "how the answer is made": {
    // Written with escapes, so that the echo does not hold what ends it.
    question: {
      maxTokens: 77,
      temperature: 0.5,
      stop: ["\n1", "\t2"],
      schema: { type: "object", properties: { a: {} } },
    },
    answers: echo(({ model, maxOutputTokens, temperature, stopSequences, responseFormat }) => [
      model,
      maxOutputTokens,
      temperature,
      stopSequences,
      responseFormat,
    ]),
    seen: echoed([
      "model-a",
      77,
      0.5,
      ["\n1", "\t2"],
      { type: "json", schema: { type: "object", properties: { a: {} } } },
    ]),
  },
  "how much is thought": {
    question: { thinking: 2_000 },
    answers: echo(({ reasoning }) => (reasoning?.type === "enabled" ? reasoning.budgetTokens : reasoning)),
    seen: echoed(2_000),
  },
};

export const CASES: Readonly<Record<string, Case>> = { ...text, ...calls, ...requests };
