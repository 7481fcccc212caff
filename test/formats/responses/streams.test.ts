/** Laws of streamed Responses: the order of events, their numbers, and one answer in deltas, in items and in the final response. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ChatEvent } from "../../../src/index.ts";
import { answerEvents, hostileEvents } from "../../properties/arbitraries.ts";
import {
  CREATED,
  eventsIn,
  expectWhole,
  fails,
  having,
  openStage,
  plays,
  type StreamEvent,
  withoutIds,
} from "./stage.ts";

const stop: ChatEvent = { type: "finish", reason: "stop", usage: { inputTokens: 5, outputTokens: 7 } };
const TOOLS = [
  { type: "function", name: "look", parameters: { type: "object", properties: {} } },
  { type: "custom", name: "run" },
  { type: "code_interpreter", container: { type: "auto" } },
];

async function streamed(events: readonly (ChatEvent | string)[], changes: object = {}): Promise<StreamEvent[]> {
  const response = await openStage(plays(...events)).ask(having({ stream: true, tools: TOOLS, ...changes }));
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const text = await response.text();
  expect(text).not.toContain("[DONE]");
  return eventsIn(text);
}

async function completed(events: readonly (ChatEvent | string)[], changes: object = {}): Promise<object> {
  const response = await openStage(plays(...events)).ask(having({ tools: TOOLS, ...changes }));
  expect(response.status).toBe(200);
  return (await response.json()) as object;
}

/** The types of the events between the first two and the last, without the name that all share. */
const typesOf = (events: readonly StreamEvent[]): string[] =>
  events.slice(2, -1).map(({ type }) => type.replace(/^response\./, ""));

const SUMMARY = ["part.added", "text.delta", "text.done", "part.done"].map((step) => `reasoning_summary_${step}`);
const ADDED = "output_item.added";
const DONE = "output_item.done";
const CODE = [
  "code_interpreter_call.in_progress",
  "code_interpreter_call_code.delta",
  "code_interpreter_call_code.done",
  "code_interpreter_call.interpreting",
  "code_interpreter_call.completed",
];
const PICTURE = ["in_progress", "generating", "completed"].map((step) => `image_generation_call.${step}`);
const text = (kind: string, deltas: number): string[] => [
  "content_part.added",
  ...Array.from({ length: deltas }, () => `${kind}.delta`),
  `${kind}.done`,
  "content_part.done",
];

type Streamed = readonly [name: string, events: readonly (ChatEvent | string)[], types: readonly string[]];

const STREAMED: readonly Streamed[] = [
  ["nothing", [stop], []],
  ["text", ["Hel", "", "lo.", stop], [ADDED, ...text("output_text", 2), DONE]],
  [
    "a refusal behind text",
    ["Well. ", { type: "refusal-delta", text: "I won't." }, { type: "finish", reason: "refusal" }],
    [ADDED, ...text("output_text", 1), ...text("refusal", 1), DONE],
  ],
  ["text that was cut", ["Hel", { type: "finish", reason: "length" }], [ADDED, ...text("output_text", 1), DONE]],
  [
    "text that was filtered",
    ["Hel", { type: "finish", reason: "content-filter" }],
    [ADDED, ...text("output_text", 1), DONE],
  ],
  [
    "reasoning in two blocks, its seal, and text",
    [
      { type: "reasoning-delta", text: "One", block: "1" },
      { type: "reasoning-delta", text: "Two", block: "2" },
      { type: "reasoning-signature", signature: "c2VhbA==" },
      "Yes",
      stop,
    ],
    [ADDED, ...SUMMARY, ...SUMMARY, DONE, ADDED, ...text("output_text", 1), DONE],
  ],
  ["encrypted reasoning", [{ type: "redacted-reasoning", data: "c2VhbA==" }, stop], [ADDED, DONE]],
  [
    "calls that come by turns",
    [
      { type: "tool-call-start", id: "a", name: "look" },
      { type: "tool-call-start", id: "b", name: "run" },
      { type: "tool-call-delta", id: "a", json: '{"at":' },
      { type: "tool-call-delta", id: "b", json: '{"input":"go"}' },
      { type: "tool-call-delta", id: "a", json: "1}" },
      { type: "tool-call-end", id: "b" },
      stop,
    ],
    [
      ADDED,
      ADDED,
      "function_call_arguments.delta",
      "function_call_arguments.delta",
      "custom_tool_call_input.delta",
      "custom_tool_call_input.done",
      DONE,
      "function_call_arguments.done",
      DONE,
    ],
  ],
  [
    "a call without arguments, behind text",
    ["Wait.", { type: "tool-call-start", id: "a", name: "look" }, stop],
    [
      ADDED,
      ...text("output_text", 1),
      DONE,
      ADDED,
      "function_call_arguments.delta",
      "function_call_arguments.done",
      DONE,
    ],
  ],
  [
    "a call with a signature",
    [{ type: "tool-call", id: "a", name: "look", input: {}, signature: "c2VhbA==", maker: "generate-content" }, stop],
    [ADDED, DONE, ADDED, "function_call_arguments.delta", "function_call_arguments.done", DONE],
  ],
  [
    "code that was run",
    [
      { type: "code", language: "python", code: "1" },
      { type: "code-result", outcome: "ok", output: "1" },
      "It is 1.",
      stop,
    ],
    [ADDED, ...CODE, DONE, ADDED, ...text("output_text", 1), DONE],
  ],
  ["a picture", [{ type: "media", mediaType: "image/png", data: "iVBORw==" }, stop], [ADDED, ...PICTURE, DONE]],
  [
    "sources",
    [
      "See there.",
      {
        type: "annotation",
        annotation: { type: "grounding", chunks: [{ uri: "https://a.b", title: "A" }, { uri: "https://c.d" }] },
      },
      stop,
    ],
    [
      ADDED,
      "content_part.added",
      "output_text.delta",
      "output_text.annotation.added",
      "output_text.annotation.added",
      "output_text.done",
      "content_part.done",
      DONE,
    ],
  ],
  [
    "an item of the format itself, which has failed",
    [
      {
        type: "provider",
        format: "responses",
        value: { type: "mcp_call", id: "mcp_1", name: "n", server_label: "s", arguments: "{}", status: "failed" },
      },
      {
        type: "provider",
        format: "responses",
        value: { type: "mcp_list_tools", id: "mcpl_1", server_label: "s", tools: [] },
      },
      stop,
    ],
    [ADDED, DONE, ADDED, DONE],
  ],
];

const likely = (token: string): ChatEvent => ({
  type: "annotation",
  annotation: { type: "logprobs", chosen: [{ token, logProbability: -1 }], top: [] },
});

describe("a stream", () => {
  it.each(STREAMED)("has its events in order: %s", async (_name, events, types) => {
    const changes = { reasoning: { effort: "low", summary: "auto" } };
    const told = await streamed(events, changes);
    expect(typesOf(told)).toEqual(types);
    const response = expectWhole(told);
    expect(told.at(-1)?.type).toBe(`response.${response.status}`);
    expect(withoutIds(response)).toEqual(withoutIds(await completed(events, changes)));
  });

  it.each([
    ["stop", "completed", null],
    ["stop-sequence", "completed", null],
    ["pause", "completed", null],
    ["length", "incomplete", { reason: "max_output_tokens" }],
    ["context-window", "incomplete", { reason: "max_output_tokens" }],
    ["content-filter", "incomplete", { reason: "content_filter" }],
    ["refusal", "incomplete", { reason: "content_filter" }],
  ] as const)("that ends with %s is %s", async (reason, status, incomplete_details) => {
    const told = await streamed(["Hi", { type: "finish", reason }]);
    const ending = { status, incomplete_details, output: [{ status }] };
    expect(told.at(-1)).toMatchObject({ type: `response.${status}`, response: ending });
    expect(expectWhole(told).completed_at ?? null).toBe(status === "completed" ? CREATED : null);
  });

  it("has the log probabilities in deltas, too, where some clients read them", async () => {
    const told = await streamed(["Hel", likely("Hel"), "lo.", likely("lo."), stop]);
    const [message] = expectWhole(told).output;
    const [part] = message?.type === "message" ? message.content : [];
    const logprobs = told.flatMap((event) =>
      event.type === "response.output_text.delta" && "logprobs" in event ? event.logprobs : [],
    );
    expect(logprobs).toMatchObject([{ token: "Hel" }, { token: "lo." }]);
    expect(part).toMatchObject({ text: "Hello.", logprobs });
  });

  it("names the model that answered", async () => {
    const events = [{ type: "start", model: "model-b" } as const, "Hi", stop];
    expect(await completed(events)).toMatchObject({ model: "model-b" });
    expect(expectWhole(await streamed(events)).model).toBe("model-b");
  });

  it("tells the same answer in deltas, in items, at its end and complete, whatever the backend says", async () => {
    await fc.assert(
      fc.asyncProperty(answerEvents, async (events) => {
        const response = expectWhole(await streamed(events));
        expect(withoutIds(response)).toEqual(withoutIds(await completed(events)));
      }),
      { numRuns: 40 },
    );
  });

  it("ends in one way, and can be read by the official client, whatever a hostile backend says", async () => {
    await fc.assert(
      fc.asyncProperty(hostileEvents, async (events) => {
        const response = await openStage(plays(...events)).ask(having({ stream: true, tools: TOOLS }));
        const told = eventsIn(await response.text());
        if (response.status !== 200) return;
        const hasFailed = told.at(-1)?.type === "response.failed";
        expect(told.map(({ type }) => type).indexOf("error")).toBe(hasFailed ? told.length - 2 : -1);
        if (!hasFailed) expectWhole(told);
      }),
      { numRuns: 60 },
    );
  });

  it.each([
    ["text", ["Hel", "lo"], [{ type: "message", content: [{ type: "output_text", text: "Hello" }] }]],
    [
      "a refusal",
      [{ type: "refusal-delta", text: "I won't" }],
      [{ type: "message", content: [{ type: "refusal", refusal: "I won't" }] }],
    ],
    [
      "reasoning",
      [{ type: "reasoning-delta", text: "Hm" }],
      [{ type: "reasoning", summary: [{ type: "summary_text", text: "Hm" }] }],
    ],
    [
      "a call",
      [
        { type: "tool-call-start", id: "a", name: "look" },
        { type: "tool-call-delta", id: "a", json: '{"at"' },
      ],
      [{ type: "function_call", call_id: "a", name: "look", arguments: '{"at"' }],
    ],
    [
      "code",
      [{ type: "code", language: "python", code: "1" }],
      [{ type: "code_interpreter_call", code: "1", outputs: null }],
    ],
  ] as const)("that fails in the middle of %s ends with all that was said", async (_name, events, output) => {
    const play = fails(new Error("secret"), ...(events as readonly (ChatEvent | string)[]));
    const changes = { stream: true, tools: TOOLS, reasoning: { effort: "low", summary: "auto" } };
    const told = eventsIn(await (await openStage(play).ask(having(changes))).text());
    expect(told.map(({ sequence_number }) => sequence_number)).toEqual(told.map((_, index) => index));
    expect(told.slice(-2)).toMatchObject([
      { type: "error", code: "backend_failed", param: null, error: { type: "server_error", code: "backend_failed" } },
      {
        type: "response.failed",
        response: {
          status: "failed",
          error: { code: "server_error", message: "The model backend failed." },
          usage: null,
          output: output.map((item) => ({ ...item, status: "incomplete" })),
        },
      },
    ]);
    expect(JSON.stringify(told)).not.toContain("secret");
  });
});
