/** The complete messages answer (spec 2.7): every field, for every kind of event of a backend. */

import { describe, expect, it } from "vitest";
import type { ChatEvent, FinishReason } from "../../../src/index.ts";
import { type Mount, plays, sharedStage } from "../../hosts/stage.ts";
import { ASTRAL, having, MINIMAL } from "./bodies.ts";
import { UNCOUNTED, UNKNOWN } from "./frames.ts";
import { refusalOf, requestIdOf } from "./refusal.ts";

interface Answer {
  readonly id: string;
  readonly content: readonly { readonly type: string; readonly text: string }[];
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

type Events = readonly (ChatEvent | string)[];

const COUNTED: ChatEvent = { type: "start", id: "msg_1", model: "model-a-2026", usage: { inputTokens: 7 } };
const CALLED: ChatEvent = { type: "tool-call", id: "call_1", name: "clock", input: { zone: "UTC" } };
const DONE: ChatEvent = { type: "finish", reason: "stop", usage: { outputTokens: 3 } };

const STOP_REASONS: readonly (readonly [reason: FinishReason, stopReason: string])[] = [
  ["stop", "end_turn"],
  ["length", "max_tokens"],
  ["stop-sequence", "stop_sequence"],
  ["tool-calls", "tool_use"],
  ["refusal", "refusal"],
  ["content-filter", "refusal"],
  ["blocklist", "refusal"],
  ["prohibited-content", "refusal"],
  ["personal-data", "refusal"],
  ["unsafe-image", "refusal"],
  ["recitation", "refusal"],
  ["language", "end_turn"],
];

const thought = { type: "thinking", thinking: "Hm.", signature: "c2ln" };
const clockCall = { type: "tool_use", id: "call_1", name: "clock", input: { zone: "UTC" }, caller: { type: "direct" } };

const CONTENTS: readonly (readonly [name: string, events: Events, content: readonly object[]])[] = [
  ["nothing", [], []],
  ["empty texts", ["", { type: "text-delta", text: "" }], []],
  [
    "texts as one block",
    ["One ", { type: "text-delta", text: "two" }, " three"],
    [{ type: "text", text: "One two three", citations: [] }],
  ],
  [
    "a tool call that came whole",
    ["Let me see.", CALLED],
    [{ type: "text", text: "Let me see.", citations: [] }, clockCall],
  ],
  [
    "a tool call that came in pieces",
    [
      { type: "tool-call-start", id: "call_1", name: "clock" },
      { type: "tool-call-delta", id: "call_1", json: '{"zone":' },
      { type: "tool-call-delta", id: "call_1", json: '"UTC"}' },
      { type: "tool-call-end", id: "call_1" },
    ],
    [clockCall],
  ],
  [
    "a tool call without arguments",
    [
      { type: "tool-call-start", id: "call_1", name: "clock" },
      { type: "tool-call-end", id: "call_1" },
    ],
    [{ ...clockCall, input: {} }],
  ],
  [
    "a tool call that its backend did not end",
    [
      { type: "tool-call-start", id: "call_1", name: "clock" },
      { type: "tool-call-delta", id: "call_1", json: '{"zone":"UTC"}' },
    ],
    [clockCall],
  ],
  [
    "tool calls that ran in parallel",
    [
      { type: "tool-call-start", id: "a", name: "one" },
      { type: "tool-call-start", id: "b", name: "two" },
      { type: "tool-call-delta", id: "b", json: '{"n":2}' },
      { type: "tool-call-delta", id: "a", json: '{"n":1}' },
      { type: "tool-call-end", id: "b" },
      "After.",
      { type: "tool-call-end", id: "a" },
    ],
    [
      { type: "tool_use", id: "a", name: "one", input: { n: 1 }, caller: { type: "direct" } },
      { type: "tool_use", id: "b", name: "two", input: { n: 2 }, caller: { type: "direct" } },
      { type: "text", text: "After.", citations: [] },
    ],
  ],
  [
    "reasoning with its signature, then text",
    [
      { type: "reasoning-delta", text: "H" },
      { type: "reasoning-delta", text: "m." },
      { type: "reasoning-signature", signature: "c2ln" },
      "Noon.",
    ],
    [thought, { type: "text", text: "Noon.", citations: [] }],
  ],
  [
    "reasoning without a signature",
    [{ type: "reasoning-delta", text: "Hm." }, "Noon."],
    [
      { ...thought, signature: "" },
      { type: "text", text: "Noon.", citations: [] },
    ],
  ],
  [
    "reasoning twice",
    [
      { type: "reasoning-delta", text: "Hm." },
      { type: "reasoning-signature", signature: "c2ln" },
      { type: "reasoning-delta", text: "Hm." },
      { type: "reasoning-signature", signature: "c2ln" },
    ],
    [thought, thought],
  ],
  [
    "reasoning that is kept secret",
    [{ type: "redacted-reasoning", data: "c2Vj" }],
    [{ type: "redacted_thinking", data: "c2Vj" }],
  ],
];

const BACKEND_FAULTS: readonly (readonly [name: string, events: Events])[] = [
  [
    "arguments that are no JSON",
    [
      { type: "tool-call-start", id: "a", name: "n" },
      { type: "tool-call-delta", id: "a", json: "{" },
    ],
  ],
  [
    "arguments that are no object",
    [
      { type: "tool-call-start", id: "a", name: "n" },
      { type: "tool-call-delta", id: "a", json: "[]" },
    ],
  ],
  ["a tool call that was not begun", [{ type: "tool-call-delta", id: "a", json: "{}" }]],
  [
    "a tool call that was begun twice",
    [
      { type: "tool-call-start", id: "a", name: "n" },
      { type: "tool-call-start", id: "a", name: "n" },
    ],
  ],
];

export function answersSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  const answer = (...events: Events): Promise<Answer> => answerTo({}, ...events);

  async function answerTo(asked: object, ...events: Events): Promise<Answer> {
    const { backend, send } = stage();
    backend.play = plays(...events);
    const response = await send(having({ max_tokens: 10_000_000, ...asked }));
    requestIdOf(response);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    return (await response.json()) as Answer;
  }

  const lengths = async (...events: Events): Promise<number[]> =>
    (await answer(...events)).content.map(({ text }) => Array.from(text).length);

  it("has every field", async () => {
    expect(await answer(COUNTED, "Noon.", DONE)).toEqual({
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "model-a-2026",
      content: [{ type: "text", text: "Noon.", citations: [] }],
      stop_reason: "end_turn",
      stop_sequence: null,
      ...UNKNOWN,
      diagnostics: null,
      usage: { input_tokens: 7, output_tokens: 3, ...UNCOUNTED },
    });
  });

  // `@ai-sdk/anthropic` 2 and 3 refuse the whole answer when the citations of a text are null.
  it("lists the citations of each text, also when there are none", async () => {
    const content = (await answer("Before.", CALLED, "After.")).content.filter(({ type }) => type === "text");
    expect(content.map((block) => "citations" in block && block.citations)).toEqual([[], []]);
  });

  it("has every field when the backend yields text alone", async () => {
    expect(await answer("Noon.")).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: "message",
      role: "assistant",
      model: "model-a",
      content: [{ type: "text", text: "Noon.", citations: [] }],
      stop_reason: "end_turn",
      stop_sequence: null,
      ...UNKNOWN,
      diagnostics: null,
      usage: {
        input_tokens: expect.toSatisfy((count: number) => Number.isInteger(count) && count > 0),
        output_tokens: expect.toSatisfy((count: number) => Number.isInteger(count) && count > 0),
        ...UNCOUNTED,
      },
    });
  });

  it("has an id of its own each time", async () => {
    expect((await answer("a")).id).not.toBe((await answer("a")).id);
  });

  it.each(CONTENTS)("holds %s", async (_name, events, content) => {
    expect((await answer(...events)).content).toEqual(content);
  });

  it("keeps the seal of thoughts that its caller does not want to see", async () => {
    const thinking = { type: "adaptive", display: "omitted" };
    const events: Events = [
      { type: "reasoning-delta", text: "Hm." },
      { type: "reasoning-signature", signature: "c2ln" },
      "Noon.",
    ];
    const { content } = await answerTo({ thinking }, ...events);
    expect(content).toEqual([
      { ...thought, thinking: "" },
      { type: "text", text: "Noon.", citations: [] },
    ]);
    const unsealed = await answerTo({ thinking }, { type: "reasoning-delta", text: "Hm." }, "Noon.");
    expect(unsealed.content).toEqual([{ type: "text", text: "Noon.", citations: [] }]);
  });

  describe("stop_reason", () => {
    it.each(STOP_REASONS)("of %s is %s", async (reason, stop_reason) => {
      expect(await answer("x", { type: "finish", reason })).toMatchObject({ stop_reason, stop_sequence: null });
    });

    it("of a prompt that was blocked is a refusal, whatever reason its backend gives", async () => {
      const feedback: ChatEvent = { type: "prompt-feedback", blockReason: "safety", ratings: [] };
      expect(await answer(feedback)).toMatchObject({ stop_reason: "refusal", content: [] });
      const finish: ChatEvent = { type: "finish", reason: "other" };
      expect(await answer(feedback, finish)).toMatchObject({ stop_reason: "refusal" });
      expect(await answer({ type: "prompt-feedback", ratings: [] }, "Noon.")).toMatchObject({
        stop_reason: "end_turn",
      });
    });

    it("names the stop sequence that matched", async () => {
      const finish: ChatEvent = { type: "finish", reason: "stop-sequence", stopSequence: "END" };
      expect(await answer("x", finish)).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "END" });
    });

    it("of an answer that calls a tool is tool_use, though its backend says no more than stop", async () => {
      const call: ChatEvent = { type: "tool-call", id: "a", name: "n", input: {} };
      expect(await answer(call)).toMatchObject({ stop_reason: "tool_use" });
      expect(await answer(call, { type: "finish", reason: "stop" })).toMatchObject({ stop_reason: "tool_use" });
    });

    it("of a tool call that was cut off is max_tokens", async () => {
      const call: ChatEvent = { type: "tool-call", id: "a", name: "n", input: {} };
      expect(await answer(call, { type: "finish", reason: "length" })).toMatchObject({ stop_reason: "max_tokens" });
    });
  });

  describe("usage", () => {
    it("counts the input without what the cache gave and took", async () => {
      const usage = {
        inputTokens: 100,
        outputTokens: 9,
        cacheReadTokens: 30,
        cacheWriteTokens: 20,
        reasoningTokens: 4,
      };
      expect((await answer("x", { type: "finish", reason: "stop", usage })).usage).toEqual({
        ...UNCOUNTED,
        input_tokens: 50,
        output_tokens: 9,
        cache_creation_input_tokens: 20,
        cache_read_input_tokens: 30,
        output_tokens_details: { thinking_tokens: 4 },
      });
    });

    it("takes the last report, and adds nothing up", async () => {
      const reports: Events = [
        { type: "start", usage: { inputTokens: 7, outputTokens: 1 } },
        "x",
        { type: "usage", usage: { outputTokens: 5 } },
        { type: "finish", reason: "stop", usage: { outputTokens: 6 } },
      ];
      expect((await answer(...reports)).usage).toMatchObject({ input_tokens: 7, output_tokens: 6 });
    });

    it("of an empty reply is not 0", async () => {
      expect((await answer()).usage.output_tokens).toBeGreaterThanOrEqual(1);
      expect((await answer({ type: "finish", reason: "stop" })).usage.output_tokens).toBeGreaterThanOrEqual(1);
    });

    it("of an empty reply is not 0, though its backend says so", async () => {
      const none: ChatEvent = { type: "finish", reason: "stop", usage: { inputTokens: 7, outputTokens: 0 } };
      expect((await answer(none)).usage.output_tokens).toBeGreaterThanOrEqual(1);
    });
  });

  describe("a long text", () => {
    it("is one block up to 5,000,000 characters", async () => {
      expect(await lengths("x".repeat(2_500_000), "x".repeat(2_500_000))).toEqual([5_000_000]);
    });

    it("goes on in the next block", async () => {
      expect(await lengths("x".repeat(5_000_001))).toEqual([5_000_000, 1]);
    });

    it("is not cut within a character", async () => {
      const { content } = await answer("x".repeat(4_999_999), ASTRAL);
      expect(
        content
          .map(({ text }) => text)
          .join("")
          .endsWith(`x${ASTRAL}`),
      ).toBe(true);
      for (const { text } of content) expect(text.isWellFormed()).toBe(true);
    });
  });

  describe("is a server error for", () => {
    it.each(BACKEND_FAULTS)("%s", async (_name, events) => {
      const { backend, send } = stage();
      backend.play = plays(...events);
      expect(await refusalOf(await send(MINIMAL))).toMatchObject({
        status: 500,
        type: "server_error",
        code: "backend_failed",
      });
    });
  });
}
