/** What the recorded answers of Responses upstreams say. */

import { describe, expect, it } from "vitest";
import { type ChatEvent, GatewayError, type Usage } from "../../src/index.ts";
import { CODECS, decodedText, meant, recording } from "./upstream-answers.ts";

const read = (name: string): ChatEvent[] => meant(decodedText("responses", recording("responses", `${name}.txt`)));
const said = (events: readonly ChatEvent[], type: string): string =>
  events.map((event) => (event.type === type && "text" in event ? event.text : "")).join("");

/** The events without deltas, with one event for all counts: a stream counts the use of a tool with its item. */
function whole(events: readonly ChatEvent[]): ChatEvent[] {
  const usage = Object.assign({}, ...events.map((event) => (event.type === "usage" ? event.usage : {}))) as Usage;
  const others = events.filter(({ type }) => type !== "usage" && !type.endsWith("delta"));
  return [...others, { type: "usage", usage }];
}

describe("an answer of Responses", () => {
  it.each(["thinking-tools", "web-search", "unknown"])("means the same complete as streamed: %s", (name) => {
    const complete = meant(CODECS.responses.answerDecoder().answer(recording("responses", `${name}.json`)));
    const streamed = read(name);
    for (const type of ["text-delta", "reasoning-delta"]) expect(said(streamed, type)).toBe(said(complete, type));
    expect(whole(streamed)).toEqual(whole(complete));
  });

  it("is read as what it says: parallel calls, thoughts, refusals, sources, hosted tools, what was cached", () => {
    const tools = read("thinking-tools");
    expect(tools.filter(({ type }) => type === "tool-call-start")).toMatchObject([{ id: "call_a" }, { id: "call_b" }]);
    expect(said(tools, "reasoning-delta")).toBe("**Two cities** 🤔Two calls.");
    expect(tools.filter(({ type }) => type === "reasoning-signature")).toEqual([
      { type: "reasoning-signature", signature: "gAAAAABmade-up==", maker: "responses" },
    ]);
    expect(tools).toContainEqual({
      type: "usage",
      usage: { inputTokens: 1200, outputTokens: 90, cacheReadTokens: 1024, reasoningTokens: 60 },
    });
    expect(said(read("refusal"), "refusal-delta")).toBe("I can't help with that.");
    expect(read("refusal").at(-1)).toEqual({ type: "finish", reason: "refusal" });
    const searched = read("web-search");
    expect(searched).toContainEqual({
      type: "annotation",
      annotation: expect.objectContaining({
        type: "citations",
        citations: [{ uri: "https://weather.example/oslo", title: "Oslo", start: 0, end: 15 }],
      }),
    });
    expect(searched).toContainEqual({
      type: "provider",
      format: "responses",
      value: expect.objectContaining({ type: "web_search_call", action: expect.anything() as unknown }) as unknown,
    });
    expect(read("custom-tool")).toContainEqual({
      type: "tool-call",
      id: "call_p",
      name: "apply",
      input: { input: "*** Begin\n+x" },
    });
    expect(read("code")).toContainEqual({ type: "code", language: "python", code: "print(7)" });
    expect(read("code")).toContainEqual({ type: "code-result", outcome: "ok", output: "7\n" });
    expect(read("window").at(-1)).toEqual({ type: "finish", reason: "length" });
    expect(read("filtered").at(-1)).toEqual({ type: "finish", reason: "content-filter" });
  });

  it("is no answer where it broke off, or tells of an error, whose words stay with the host", () => {
    expect(() => read("broken-off")).toThrow("The model backend's answer broke off.");
    for (const [name, secret] of [
      ["failed", "10.0.0.7"],
      ["error", "org-secret"],
    ] as const) {
      let thrown: unknown;
      try {
        read(name);
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toBeInstanceOf(GatewayError);
      expect((thrown as GatewayError).message).not.toContain(secret);
    }
    expect(() => read("error")).toThrow(expect.objectContaining({ code: "rate_limited" }));
  });
});
