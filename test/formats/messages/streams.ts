/** The messages stream (spec 6.1): each frame in order, for events in any order. */

import { describe, expect, it } from "vitest";
import { GatewayError, type ChatEvent } from "../../../src/index.ts";
import { fails, type Mount, plays, sharedStage } from "../../hosts/stage.ts";
import { having } from "./bodies.ts";
import { block, type Frame, framesOf, start, stop, textBlock, toolBlock, UNCOUNTED } from "./frames.ts";
import { requestIdOf } from "./refusal.ts";

type Events = readonly (ChatEvent | string)[];

const BEGIN: ChatEvent = { type: "start", id: "msg_1", usage: { inputTokens: 7 } };
const END: ChatEvent = { type: "finish", reason: "stop", usage: { outputTokens: 3 } };
const STREAM = having({ stream: true });

const toolStart = (id: string, name: string): ChatEvent => ({ type: "tool-call-start", id, name });
const toolDelta = (id: string, json: string): ChatEvent => ({ type: "tool-call-delta", id, json });
const toolEnd = (id: string): ChatEvent => ({ type: "tool-call-end", id });

const EMPTY_THOUGHT = { type: "thinking", thinking: "", signature: "" };
const UNSIGNED = { type: "signature_delta", signature: "" };

const CASES: readonly (readonly [name: string, events: Events, frames: readonly Frame[], reason: string])[] = [
  ["nothing", [], [], "end_turn"],
  ["empty texts", ["", ""], [], "end_turn"],
  ["a blocked prompt", [{ type: "prompt-feedback", blockReason: "safety", ratings: [] }], [], "refusal"],
  ["text", ["Hel", "lo", "."], textBlock(0, "Hel", "lo", "."), "end_turn"],
  ["text of every kind", ['\n\r\u0085\u2028\u0000"\\𝄞'], textBlock(0, '\n\r\u0085\u2028\u0000"\\𝄞'), "end_turn"],
  [
    "a tool call that came whole",
    ["Hm.", { type: "tool-call", id: "a", name: "clock", input: { zone: "UTC" } }],
    [...textBlock(0, "Hm."), ...toolBlock(1, "a", "clock", '{"zone":"UTC"}')],
    "tool_use",
  ],
  [
    "a tool call that came in pieces",
    [toolStart("a", "clock"), toolDelta("a", '{"zo'), toolDelta("a", ""), toolDelta("a", 'ne":1}'), toolEnd("a")],
    toolBlock(0, "a", "clock", '{"zo', 'ne":1}'),
    "tool_use",
  ],
  ["a tool call without arguments", [toolStart("a", "clock"), toolEnd("a")], toolBlock(0, "a", "clock"), "tool_use"],
  [
    "a tool call that was not ended",
    [toolStart("a", "clock"), toolDelta("a", "{}")],
    toolBlock(0, "a", "clock", "{}"),
    "tool_use",
  ],
  [
    "tool calls in parallel, one after the other",
    [
      toolStart("a", "one"),
      toolDelta("a", '{"n"'),
      toolStart("b", "two"),
      toolDelta("b", '{"m"'),
      toolStart("c", "three"),
      toolDelta("a", ":1}"),
      toolDelta("c", "{}"),
      toolDelta("b", ":2}"),
      toolEnd("b"),
      toolEnd("a"),
      toolEnd("c"),
    ],
    [
      ...toolBlock(0, "a", "one", '{"n"', ":1}"),
      ...toolBlock(1, "b", "two", '{"m"', ":2}"),
      ...toolBlock(2, "c", "three", "{}"),
    ],
    "tool_use",
  ],
  [
    "text while a tool call is open, after it",
    [toolStart("a", "one"), "Meanwhile.", toolDelta("a", "{}"), toolEnd("a"), "Then."],
    [...toolBlock(0, "a", "one", "{}"), ...textBlock(1, "Meanwhile.", "Then.")],
    "tool_use",
  ],
  [
    "reasoning with its signature, then text",
    [
      { type: "reasoning-delta", text: "H" },
      { type: "reasoning-delta", text: "m." },
      { type: "reasoning-signature", signature: "c2ln" },
      "Noon.",
    ],
    [
      ...block(
        0,
        EMPTY_THOUGHT,
        { type: "thinking_delta", thinking: "H" },
        { type: "thinking_delta", thinking: "m." },
        { type: "signature_delta", signature: "c2ln" },
      ),
      ...textBlock(1, "Noon."),
    ],
    "end_turn",
  ],
  [
    "reasoning without a signature",
    [{ type: "reasoning-delta", text: "Hm." }, "Noon."],
    [...block(0, EMPTY_THOUGHT, { type: "thinking_delta", thinking: "Hm." }, UNSIGNED), ...textBlock(1, "Noon.")],
    "end_turn",
  ],
  [
    "text between reasoning",
    ["A", { type: "reasoning-delta", text: "B" }, "C"],
    [
      ...textBlock(0, "A"),
      ...block(1, EMPTY_THOUGHT, { type: "thinking_delta", thinking: "B" }, UNSIGNED),
      ...textBlock(2, "C"),
    ],
    "end_turn",
  ],
  [
    "reasoning that is kept secret",
    [{ type: "redacted-reasoning", data: "c2Vj" }, "Noon."],
    [...block(0, { type: "redacted_thinking", data: "c2Vj" }), ...textBlock(1, "Noon.")],
    "end_turn",
  ],
];

export function streamsSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  async function stream(...events: Events): Promise<Response> {
    const { backend, send } = stage();
    backend.play = plays(...events);
    const response = await send(STREAM);
    expect(response.status).toBe(200);
    return response;
  }

  it.each(CASES)("writes %s", async (_name, events, frames, reason) => {
    const counted: ChatEvent = { type: "finish", reason: "stop", usage: { outputTokens: 3 } };
    expect(await framesOf(await stream(BEGIN, ...events, counted))).toEqual([start(), ...frames, ...stop(reason, 3)]);
  });

  it("writes the fields in the order of the wire", async () => {
    const text = await (await stream(BEGIN, "Hi", END)).text();
    const usage =
      '"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":null,"output_tokens_details":null,"server_tool_use":null,"service_tier":null,"inference_geo":null,"speed":null}';
    expect(text).toBe(
      [
        "event: message_start",
        `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"model-a","content":[],"stop_reason":null,"stop_sequence":null,"container":null,"stop_details":null,"diagnostics":null,"usage":{"input_tokens":7,"output_tokens":0,${usage}}}`,
        "",
        "event: content_block_start",
        'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}',
        "",
        "event: content_block_delta",
        'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}',
        "",
        "event: content_block_stop",
        'data: {"type":"content_block_stop","index":0}',
        "",
        "event: message_delta",
        `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null,"container":null,"stop_details":null,"usage":{"input_tokens":7,"output_tokens":3}},"usage":{"input_tokens":7,"output_tokens":3,${usage}}`,
        "",
        "event: message_stop",
        'data: {"type":"message_stop"}',
        "\n",
      ].join("\n"),
    );
  });

  it("names the answer by itself when the backend does not", async () => {
    const response = await stream("Hi");
    const [first] = await framesOf(response);
    expect(first).toMatchObject({ message: { id: requestIdOf(response).replace("req_", "msg_"), model: "model-a" } });
  });

  it("names the stop sequence that matched", async () => {
    const end: ChatEvent = { type: "finish", reason: "stop-sequence", stopSequence: "END", usage: { outputTokens: 3 } };
    expect((await framesOf(await stream(BEGIN, "x", end))).slice(-2)).toEqual(stop("stop_sequence", 3, "END"));
  });

  it("tells the cache's part of the input at the start and at the end", async () => {
    const usage = { inputTokens: 100, cacheReadTokens: 30, cacheWriteTokens: 20 };
    const frames = await framesOf(await stream({ type: "start", id: "msg_1", usage }, "x", END));
    const counts = { input_tokens: 50, cache_creation_input_tokens: 20, cache_read_input_tokens: 30 };
    expect(frames[0]).toEqual(start({ usage: { ...UNCOUNTED, ...counts, output_tokens: 0 } }));
    expect(frames.at(-2)).toMatchObject({
      delta: { usage: { input_tokens: 50, output_tokens: 3 } },
      usage: { ...counts, output_tokens: 3 },
    });
  });

  it("starts at 0 output tokens, whatever the backend has counted by then", async () => {
    const frames = await framesOf(
      await stream({ type: "start", id: "msg_1", usage: { inputTokens: 7, outputTokens: 2 } }, "x", END),
    );
    expect(frames[0]).toEqual(start());
  });

  describe("a failure", () => {
    it("in the middle is an error event and a clean end", async () => {
      const { backend, send } = stage();
      backend.play = fails(new GatewayError("backend_unavailable", "Gone."), BEGIN, "Hel");
      const response = await send(STREAM);
      expect(response.status).toBe(200);
      expect(await framesOf(response)).toEqual([
        start(),
        ...textBlock(0, "Hel").slice(0, 2),
        {
          type: "error",
          error: { type: "server_error", message: "Gone.", code: "backend_unavailable" },
          request_id: requestIdOf(response),
        },
      ]);
    });
  });
}
