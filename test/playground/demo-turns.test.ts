/** However much the demo model is asked at once, it lets the event loop serve others. */

import { expect, it } from "vitest";
import { demoBackend } from "../../playground/demo/backend.ts";
import type { CallContext, ChatEvent, ChatRequest, JsonObject } from "../../src/index.ts";

const MEBIBYTE = 1024 * 1024;
/** As much as a body may hold. */
const MOST_WORDS = "Hello there, ".repeat((25 * MEBIBYTE) / 13);
const WORDS = MOST_WORDS.slice(0, 3 * MEBIBYTE);

const call: CallContext = { requestId: "req_1", signal: new AbortController().signal } as CallContext;

/** What the demo answers, and how many turns of the event loop others had meanwhile. */
async function answerTo(text: string, changes: Partial<ChatRequest>): Promise<{ said: string; turns: number }> {
  const request: ChatRequest = {
    model: "demo-chat",
    messages: [{ role: "user", parts: [{ type: "text", text }] }],
    system: [],
    tools: [],
    maxOutputTokens: 100,
    stopSequences: [],
    stream: false,
    ...changes,
  };
  let turns = 0;
  const others = setInterval(() => turns++, 0);
  try {
    let said = "";
    for await (const event of demoBackend().chat?.(request, call) ?? []) said += pieceOf(event);
    return { said, turns };
  } finally {
    clearInterval(others);
  }
}

function pieceOf(event: ChatEvent | string): string {
  if (typeof event === "string") return event;
  if (event.type === "text-delta") return event.text;
  return event.type === "tool-call-delta" ? event.json : "";
}

const MANY = Array.from({ length: 100_000 }, (_, index) => `Value number ${index}`);
const tool = (inputSchema: JsonObject, description = "") =>
  ({ type: "function", name: "it", description, inputSchema }) as const;
const required = { type: "object", properties: { x: { enum: MANY } }, required: ["x"] };
const forced = { type: "tool", name: "it", parallel: true } as const;

it.each<[what: string, text: string, changes: Partial<ChatRequest>, said: string | RegExp]>([
  ["25 MB of words", MOST_WORDS, {}, /^You said: Hello there,/],
  ["one long word", "x".repeat(3 * MEBIBYTE), {}, /^You said: xxx/],
  ["many words to tools", WORDS, { tools: [tool({ type: "object" }, "Tells the weather.")] }, /^You said: Hello/],
  ["a tool's many words", "Hello", { tools: [tool({ type: "object" }, "weather ".repeat(MEBIBYTE / 2))] }, /^You/],
  ["thoughts on many words", WORDS, { reasoning: { type: "adaptive" } }, /^You said: Hello/],
  [
    "a choice for many words",
    `${WORDS} value number 77`,
    { responseFormat: { type: "enum", values: MANY } },
    MANY[77] ?? "",
  ],
  [
    "a long answer",
    WORDS.slice(0, MEBIBYTE / 2),
    { maxOutputTokens: 5_000_000, stopSequences: ["never"] },
    /^You said/,
  ],
  [
    "100,000 values in a schema",
    "Hello",
    { tools: [tool(required)], toolChoice: forced },
    /^\{"x":"Value number \d+"\}$/,
  ],
  ["many words to repeat", "/repeat 200000", { maxOutputTokens: 1_000_000 }, /^word word/],
])("%s leaves others their turns", async (_what, text, changes, said) => {
  const answer = await answerTo(text, changes);
  expect(answer.said).toMatch(said);
  expect(answer.turns).toBeGreaterThan(5);
});

it("a schema that takes long leaves others their turns, and is refused", async () => {
  const inputSchema = { type: "object", properties: { x: { type: "string", pattern: "((a{1000}){1000}){1000}" } } };
  let turns = 0;
  const others = setInterval(() => turns++, 0);
  const asked = answerTo("Hello", { tools: [tool({ ...inputSchema, required: ["x"] })], toolChoice: forced });
  await expect(asked).rejects.toThrow("would take too long");
  clearInterval(others);
  expect(turns).toBeGreaterThan(5);
});
