/** The questions that clients ask through every pair of formats, and the meaning of their answers. */

import type { Seen } from "../properties/backends-agree/clients.ts";
import type { Question } from "../properties/backends-agree/questions.ts";

export const WEATHER: NonNullable<Question["tools"]>[number] = {
  name: "get_weather",
  description: "The weather in a city.",
  schema: { properties: { city: { type: "string" } }, required: ["city"] },
};

export const QUESTIONS: Readonly<Record<string, Question>> = {
  text: { turns: [{ text: "Hello there, wörld 🌍" }] },
  "a system prompt and several turns": {
    system: "Be short.",
    turns: [{ text: "One" }, { text: "Two" }, { text: "Three" }],
  },
  "a tool that must be called": {
    turns: [{ text: "The weather in Oslo?" }],
    tools: [WEATHER],
    mustCall: "get_weather",
  },
  "JSON of a schema": {
    turns: [{ text: "A city" }],
    schema: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
  "a limit that cuts": { turns: [{ text: "/repeat 400" }], maxTokens: 20 },
  "a stop sequence": { turns: [{ text: "/repeat 30" }], stop: ["word5"] },
};

export const RESULT: Question = {
  turns: [
    { text: "The weather in Oslo?" },
    { calls: [{ id: "call_1", name: "get_weather", input: { city: "Oslo" } }] },
    { results: [{ id: "call_1", name: "get_weather", value: { degrees: 7 } }] },
  ],
  tools: [WEATHER],
};

/** Returns the content of an answer, without the ids of calls and the signatures of reasoning, which differ between formats. */
export const meaningOf = ({ text, calls, end }: Seen): object => ({
  text,
  calls: calls.map(({ name, input }) => ({ name, input })),
  end,
});
