/** However much the demo model is asked at once, it lets the event loop serve others. */

import { expect, it } from "vitest";
import { demoModel } from "../../src/demo/backend.ts";
import { satisfyAside } from "../../src/demo/satisfy-aside.ts";
import type { CallContext, ChatEvent, ChatRequest, JsonObject } from "../../src/index.ts";

const MEBIBYTE = 1024 * 1024;
/** As much as a body may hold. */
const MOST_WORDS = "Hello there, ".repeat((25 * MEBIBYTE) / 13);
const WORDS = MOST_WORDS.slice(0, 3 * MEBIBYTE);

const call: CallContext = { requestId: "req_1", signal: new AbortController().signal } as CallContext;

/** What some work came to, and how many turns of the event loop others had meanwhile. */
interface Beside<T> {
  readonly said: T;
  readonly turns: number;
}

async function besideOthers<T>(work: () => Promise<T>): Promise<Beside<T>> {
  let turns = 0;
  const others = setInterval(() => turns++, 0);
  try {
    const said = await work();
    return { said, turns };
  } finally {
    clearInterval(others);
  }
}

/** What the demo answers. */
function answerTo(text: string, changes: Partial<ChatRequest>): Promise<Beside<string>> {
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
  return besideOthers(async () => {
    let said = "";
    for await (const event of demoModel().chat?.(request, call) ?? []) said += pieceOf(event);
    return said;
  });
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
const texts = {
  type: "object",
  properties: { x: { type: "array", minItems: 20, items: { type: "string", pattern: "^[a-z]+$", minLength: 40 } } },
  required: ["x"],
};
const forced = { type: "tool", name: "it", parallel: true } as const;

it.each<[what: string, text: string, changes: Partial<ChatRequest>, said: string | RegExp]>([
  ["25 MB of words", MOST_WORDS, {}, /^You said: Hello there,/],
  ["one long word", "x".repeat(3 * MEBIBYTE), {}, /^You said: xxx/],
  ["many words to tools", WORDS, { tools: [tool({ type: "object" }, "Tells the weather.")] }, /^You said: Hello/],
  ["a tool's many words", "Hello", { tools: [tool({ type: "object" }, "weather ".repeat(MEBIBYTE / 2))] }, /^You/],
  [
    "thoughts on many words",
    MOST_WORDS.slice(0, 10 * MEBIBYTE),
    { reasoning: { type: "adaptive" } },
    /^You said: Hello/,
  ],
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
  [
    "a schema of many texts",
    "Hello",
    { tools: [tool(texts)], toolChoice: forced, maxOutputTokens: 5_000 },
    /^\{"x":\["[a-z]{40}/,
  ],
  ["many words to repeat", "/repeat 200000", { maxOutputTokens: 1_000_000 }, /^word word/],
])("%s leaves others their turns", async (_what, text, changes, said) => {
  const answer = await answerTo(text, changes);
  expect(answer.said).toMatch(said);
  expect(answer.turns).toBeGreaterThan(5);
});

it("a schema that takes long leaves others their turns, and is refused", async () => {
  const schema = { type: "string", pattern: "((a{1000}){1000}){1000}" };
  const { said, turns } = await besideOthers(() => satisfyAside(schema, "Hello", "it", 200).catch(String));
  expect(said).toContain("would take too long");
  expect(turns).toBeGreaterThan(5);
});
