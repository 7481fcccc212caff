/** What the recorded answers of chat-completions upstreams say. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, GatewayError } from "../../src/index.ts";
import { decodedText, meant, recording } from "./upstream-answers.ts";

const decoded = (name: string): ChatEvent[] =>
  decodedText("chat-completions", recording("chat-completions", `${name}.txt`));
const read = (name: string): ChatEvent[] => meant(decoded(name));

describe("an answer of chat completions", () => {
  it("is read as what it says: parallel calls, thoughts, refusals, sources, what was cached", () => {
    const tools = read("thinking-tools");
    expect(tools.filter(({ type }) => type === "tool-call-start")).toMatchObject([{ id: "call_a" }, { id: "call_b" }]);
    expect(tools.map((event) => (event.type === "reasoning-delta" ? event.text : "")).join("")).toBe(
      "Two cities, two calls… 🤔",
    );
    expect(tools).toContainEqual({
      type: "usage",
      usage: expect.objectContaining({ inputTokens: 1200, cacheReadTokens: 1024, reasoningTokens: 60 }) as unknown,
    });
    const refusal = read("refusal");
    expect(refusal.map((event) => (event.type === "refusal-delta" ? event.text : "")).join("")).toBe(
      "I can't help with that.",
    );
    expect(read("citations")).toContainEqual({
      type: "annotation",
      annotation: expect.objectContaining({
        type: "citations",
        citations: [{ uri: "https://weather.example/oslo", title: "Oslo", start: 0, end: 21 }],
      }),
    });
    expect(read("filtered")).toContainEqual({ type: "finish", reason: "content-filter" });
  });

  it("is no answer where it broke off, or tells of an error, whose words stay with the host", () => {
    expect(() => decoded("broken-off")).toThrow("The model backend's answer broke off.");
    let thrown: unknown;
    try {
      decoded("error");
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(GatewayError);
    expect(thrown).toMatchObject({ code: "backend_overloaded" });
    expect((thrown as GatewayError).message).not.toContain("10.0.0.7");
  });

  it.each([
    ["openrouter-reasoning", ["reasoning-signature"], []],
    ["mistral-thinking", ["reasoning-signature"], []],
    ["moonshot-usage-in-choice", ["reasoning-signature"], []],
    ["gemini-signatures", [], ["function-call-1", "function-call-2"]],
    ["ollama-index-0", [], ["call_o1", "call_o2"]],
    ["poolside-changing-ids", [], ["call_first"]],
    ["bedrock-empty-object", [], ["tooluse_1"]],
    ["repeated-message", [], []],
  ])("is read from %s as its server means it", (name, seals, ids) => {
    const events = read(name);
    const typeOf = (type: string): ChatEvent[] => events.filter((event) => event.type === type);
    expect(typeOf("reasoning-signature").map(({ type }) => type)).toEqual(seals);
    expect(typeOf("tool-call-start").map((event) => "id" in event && event.id)).toEqual(ids);
    expect(typeOf("tool-call-end")).toHaveLength(ids.length);
    const pieces = typeOf("tool-call-delta").map((event) => ("json" in event ? event.json : ""));
    expect(pieces.join("").split("}{")).toHaveLength(Math.max(1, ids.length));
    const texts = typeOf("text-delta").map((event) => ("text" in event ? event.text : ""));
    expect(texts.join("").match(/Hello|Oslo/g) ?? []).toHaveLength(ids.length > 0 ? 0 : 1);
    // A usage without counts stands for content that is held back.
    const counted = typeOf("usage").filter((event) => "usage" in event && Object.keys(event.usage ?? {}).length > 0);
    expect(counted).toMatchObject([{ usage: { inputTokens: 20, outputTokens: 12 } }]);
    expect(typeOf("finish")).toMatchObject([{ reason: ids.length > 0 ? "tool-calls" : "stop" }]);
  });

  it.each(["vllm-error", "openrouter-error", "only-done"])("is none where it is %s", (name) => {
    expect(() => decoded(name)).toThrow(GatewayError);
  });
});
