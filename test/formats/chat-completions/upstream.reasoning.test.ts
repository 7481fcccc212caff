/** The reasoning of upstreams of this format: how it is read, and that it goes back as it came. */

import { describe, expect, it } from "vitest";
import { restored } from "../../../src/formats/chat-completions/reasoning.ts";
import { chatCompletionsCodec } from "../../../src/formats/chat-completions/upstream.ts";
import type { CodecOptions } from "../../../src/formats/format.ts";
import type { ChatEvent, ChatRequest, Part } from "../../../src/index.ts";
import { asking, CALLED, read, readWhole, type Sent, sent } from "./upstream.stage.ts";

/** The turn that a caller of another format sends back after these events. */
function turnOf(events: readonly ChatEvent[]): Part[] {
  const parts: Part[] = [];
  let text = "";
  for (const event of events) {
    if (event.type === "reasoning-delta") text += event.text;
    else if (event.type === "reasoning-signature") {
      const { signature, maker = "" } = event;
      parts.push({ type: "reasoning", text, signature, maker });
      text = "";
    } else if (event.type === "redacted-reasoning")
      parts.push({ type: "redacted-reasoning", data: event.data, maker: event.maker ?? "" });
    else if (event.type === "text-delta") parts.push({ ...event, type: "text" });
    else if (event.type === "tool-call-start")
      parts.push({
        type: "tool-call",
        id: event.id,
        name: event.name,
        input: {},
        ...(event.signature && { signature: event.signature, maker: event.maker ?? "" }),
      });
  }
  return parts;
}

const call = { tool_calls: [{ index: 0, id: "a", function: { name: "clock", arguments: "{}" } }] };
it.each(["x", "longer"])("one detail holds all of a changed text: %s", (text) => {
  const type = "reasoning.text";
  expect(
    restored(
      [1, 1, 2].map((chars) => ({ type, chars })),
      text,
    ),
  ).toEqual([{ type, text }]);
});

describe("reasoning goes back as it came", () => {
  it.each<[string, readonly object[], object]>([
    [
      "reasoning_content, as DeepSeek, Kimi, GLM and Qwen have it",
      [{ reasoning_content: "H" }, { reasoning_content: "m" }, call],
      { reasoning_content: "Hm", ...CALLED },
    ],
    [
      "reasoning, as Groq and vLLM have it",
      [{ reasoning: "Hm" }, { content: "Yes" }],
      { reasoning: "Hm", content: "Yes" },
    ],
    [
      "parts of the content, as Mistral has them",
      [
        { content: [{ type: "thinking", thinking: [{ type: "text", text: "H" }] }] },
        { content: [{ type: "thinking", thinking: [{ type: "text", text: "m" }] }] },
        { content: "Yes" },
      ],
      {
        content: [
          { type: "thinking", thinking: [{ type: "text", text: "Hm" }] },
          { type: "text", text: "Yes" },
        ],
      },
    ],
    [
      "reasoning_details with the signature in the last piece, as OpenRouter has them",
      [
        {
          content: "",
          reasoning: "H",
          reasoning_details: [{ type: "reasoning.text", text: "H", format: "anthropic-claude-v1", index: 0 }],
        },
        {
          content: "",
          reasoning: "m",
          reasoning_details: [{ type: "reasoning.text", text: "m", format: "anthropic-claude-v1", index: 0 }],
        },
        {
          content: "",
          reasoning_details: [{ type: "reasoning.text", signature: "c2ln", format: "anthropic-claude-v1", index: 0 }],
        },
        call,
      ],
      {
        reasoning_details: [
          { type: "reasoning.text", text: "Hm", signature: "c2ln", format: "anthropic-claude-v1", index: 0 },
        ],
        ...CALLED,
      },
    ],
    [
      "a summary and encrypted reasoning of OpenAI's",
      [
        {
          reasoning: "So",
          reasoning_details: [{ type: "reasoning.summary", summary: "So", format: "openai-responses-v1", index: 0 }],
        },
        {
          reasoning: null,
          reasoning_details: [
            { type: "reasoning.encrypted", data: "gAAA", id: "rs_1", format: "openai-responses-v1", index: 0 },
          ],
        },
        { content: "Yes" },
      ],
      {
        reasoning_details: [
          { type: "reasoning.summary", format: "openai-responses-v1", index: 0, summary: "So" },
          { type: "reasoning.encrypted", data: "gAAA", id: "rs_1", format: "openai-responses-v1", index: 0 },
        ],
        content: "Yes",
      },
    ],
    [
      "encrypted reasoning that comes alone, with a call",
      [
        {
          ...call,
          reasoning_details: [
            { type: "reasoning.encrypted", data: "AAAA", id: "a", format: "google-gemini-v1", index: 0 },
          ],
        },
      ],
      {
        reasoning_details: [
          { type: "reasoning.encrypted", data: "AAAA", id: "a", format: "google-gemini-v1", index: 0 },
        ],
        ...CALLED,
      },
    ],
    [
      "two texts of one block",
      [
        {
          reasoning_details: [
            { type: "reasoning.text", text: "One", index: 0 },
            { type: "reasoning.text", text: "Two", index: 1, own: true },
          ],
        },
        { content: "Yes" },
      ],
      {
        reasoning_details: [
          { type: "reasoning.text", text: "One", index: 0 },
          { type: "reasoning.text", text: "Two", index: 1, own: true },
        ],
        content: "Yes",
      },
    ],
  ])("%s", (_name, deltas, expected) => {
    const { message, conversions } = sent(turnOf(read(...deltas)));
    expect(message).toEqual({ role: "assistant", ...expected });
    expect(conversions).toEqual({});
  });

  it("from a complete answer", () => {
    const message = {
      content: null,
      reasoning: "Hm",
      reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s" }],
      ...call,
    };
    expect(sent(turnOf(readWhole(message))).message).toEqual({
      role: "assistant",
      reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s" }],
      ...CALLED,
    });
  });

  it.each<[string, readonly object[], object, string]>([
    [
      "before its details, as another gateway shows it",
      [
        { reasoning_content: "H" },
        { reasoning_content: "m" },
        { reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s" }] },
        { content: "Yes" },
        { reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s" }] },
      ],
      { reasoning_details: [{ type: "reasoning.text", text: "Hm", signature: "s" }], content: "Yes" },
      "Hm",
    ],
    [
      "beside details without a text",
      [
        { reasoning: "H", reasoning_details: [] },
        { reasoning: "m", reasoning_details: [{ type: "reasoning.encrypted", data: "d" }] },
        { content: "Yes" },
      ],
      { reasoning: "Hm", reasoning_details: [{ type: "reasoning.encrypted", data: "d" }], content: "Yes" },
      "Hm",
    ],
    [
      "in two blocks of one list, each with its signature",
      [
        {
          reasoning_details: [
            { type: "reasoning.text", text: "a", signature: "1" },
            { type: "reasoning.text", text: "b", signature: "2" },
          ],
        },
        { content: "Yes" },
      ],
      {
        reasoning_details: [
          { type: "reasoning.text", text: "a", signature: "1" },
          { type: "reasoning.text", text: "b", signature: "2" },
        ],
        content: "Yes",
      },
      "ab",
    ],
  ])("once, where the text stands %s", (_name, deltas, message, text) => {
    const events = read(...deltas);
    expect(events.map((event) => (event.type === "reasoning-delta" ? event.text : "")).join("")).toBe(text);
    expect(sent(turnOf(events)).message).toEqual({ role: "assistant", ...message });
  });

  it("with all of a text that the caller has changed in one detail", () => {
    const [part] = turnOf(
      read({
        reasoning_details: [
          { type: "reasoning.text", text: "a", index: 0 },
          { type: "reasoning.text", text: "b", index: 1 },
        ],
      }),
    );
    expect(sent([{ ...part, text: "Other" } as Part]).message).toMatchObject({
      reasoning_details: [{ type: "reasoning.text", text: "Other", index: 0 }],
    });
  });

  it("is one block after the other, each with its own end", () => {
    const events = read({ reasoning_content: "a" }, { content: "b" }, { reasoning_content: "c" }, { content: "d" });
    expect(events.map(({ type }) => type)).toEqual([
      "start",
      "reasoning-delta",
      "reasoning-signature",
      "text-delta",
      "reasoning-delta",
      "reasoning-signature",
      "text-delta",
      "finish",
    ]);
  });

  it.each([
    '{"field":"none"}',
    '{"field":"reasoning_details","details":[1]}',
    '{"field":',
    `{"field":${"[".repeat(500)}`,
  ])("as a signature of its own, where a caller has written %s", (signature) => {
    const { message } = sent([{ type: "reasoning", text: "Hm", signature, maker: "chat-completions" }]);
    expect(message).toMatchObject({ reasoning_details: [{ type: "reasoning.text", text: "Hm", signature }] });
  });
});

describe("a history of several makers", () => {
  const claude: Part = { type: "reasoning", text: "Hm", signature: "c2ln", maker: "messages" };
  const hidden: Part = { type: "redacted-reasoning", data: "ZGF0YQ==", maker: "messages" };
  const plain: Part = { type: "reasoning", text: "Hm" };
  const text: Part = { type: "text", text: "Yes" };
  const clock: Part = { type: "tool-call", id: "a", name: "clock", input: {} };
  const own: Part = {
    type: "reasoning",
    text: "Own",
    signature: '{"field":"reasoning_content"}',
    maker: "chat-completions",
  };

  it.each<[string, Part[], CodecOptions, object, Sent["conversions"]]>([
    [
      "leaves out foreign reasoning",
      [claude, hidden, text],
      {},
      { content: "Yes" },
      { "messages.reasoning.foreign": "dropped", "messages.redacted-reasoning": "dropped" },
    ],
    [
      "says foreign reasoning as text",
      [claude, text],
      { foreignReasoning: "text" },
      { content: [{ type: "text", text: "Hm" }, text] },
      { "messages.reasoning.foreign": "approximated" },
    ],
    ["leaves out reasoning of nobody", [plain, text], {}, { content: "Yes" }, { "messages.reasoning": "dropped" }],
    [
      "sends all reasoning to one that demands it",
      [plain, clock],
      { reasoningHistory: "always" },
      { reasoning_content: "Hm", ...CALLED },
      {},
    ],
    [
      "fills in what the turn of another model lacks",
      [claude, clock],
      { reasoningHistory: "always" },
      { reasoning_content: "", ...CALLED },
      { "messages.reasoning.foreign": "dropped" },
    ],
    [
      "gives foreign reasoning to one that demands it, where the host wants its text",
      [claude, clock],
      { reasoningHistory: "always", foreignReasoning: "text" },
      { reasoning_content: "Hm", ...CALLED },
      { "messages.reasoning.foreign": "approximated" },
    ],
    [
      "sends none to one that refuses it",
      [own, text],
      { reasoningHistory: "never" },
      { content: "Yes" },
      { "messages.reasoning": "dropped" },
    ],
    ["sends its own", [own, text], {}, { reasoning_content: "Own", content: "Yes" }, {}],
    ["leaves out blank texts", [{ type: "text", text: "" }, clock], {}, CALLED, {}],
  ])("%s", (_name, parts, options, message, conversions) => {
    expect(sent(parts, options)).toEqual({ message: { role: "assistant", ...message }, conversions });
  });

  it.each<[string, Part[], object, Sent["conversions"]]>([
    ["gpt-5.1", [own, text], { content: "Yes" }, { "messages.reasoning": "dropped" }],
    ["mistral-large-latest", [own, text], { content: "Yes" }, { "messages.reasoning": "dropped" }],
    ["deepseek-v4", [clock], { reasoning_content: "", ...CALLED }, {}],
    ["moonshotai/kimi-k2.5", [own, clock], { reasoning_content: "Own", ...CALLED }, {}],
  ])("is as %s takes it", (model, parts, message, conversions) => {
    expect(sent(parts, {}, { model })).toEqual({ message: { role: "assistant", ...message }, conversions });
  });

  it("fills in the field for every turn with calls once one turn has it", () => {
    const messages: ChatRequest["messages"] = [
      { role: "assistant", parts: [clock] },
      { role: "user", parts: [{ type: "tool-result", callId: "a", parts: [{ type: "text", text: "12" }] }] },
      { role: "assistant", parts: [own, text] },
      { role: "user", parts: [text] },
    ];
    const { body } = chatCompletionsCodec().encodeRequest(asking([], { messages }));
    expect(body["messages"]).toMatchObject([{ reasoning_content: "" }, {}, { reasoning_content: "Own" }, {}]);
  });
});
