/** Plain questions: what an answer holds, what may be asked, and what ends an answer. */

import type { GenerateContentParameters } from "@google/genai";
import { describe, expect, it } from "vitest";
import { recordingFetch, say, type Stage, textOf } from "./sdk.ts";

export function textSuite({ sdk, connect, ask, playground }: Stage): void {
  it("answers a question", async () => {
    const response = await ask(say("Hello there"));
    expect(response.text).toBe("You said: Hello there");
    expect(response.candidates).toEqual([
      {
        content: { role: "model", parts: [{ text: "You said: Hello there" }] },
        finishReason: "STOP",
        index: 0,
        tokenCount: 4,
      },
    ]);
    expect(response.usageMetadata).toMatchObject({
      promptTokenCount: 2,
      candidatesTokenCount: 4,
      totalTokenCount: 6,
      promptTokensDetails: [{ modality: "TEXT", tokenCount: 2 }],
      candidatesTokensDetails: [{ modality: "TEXT", tokenCount: 4 }],
    });
    expect(response.modelVersion).toBe("demo-chat");
    expect(response.promptFeedback).toBeUndefined();
  });

  it("gives each answer its own id, and names the request in the headers", async () => {
    const [one, other] = [await ask(say("Hello")), await ask(say("Hello"))];
    expect(one.responseId).toMatch(/\w/);
    expect(other.responseId).not.toBe(one.responseId);
    expect(one.sdkHttpResponse?.headers?.["request-id"]).toMatch(/^req_\w+$/);
    expect(one.sdkHttpResponse?.headers?.["x-request-id"]).toBe(one.sdkHttpResponse?.headers?.["request-id"]);
  });

  it("asks the path and sends the key as this major does", async () => {
    const { fetch, sent } = recordingFetch();
    await connect({ fetch }).models.generateContent(say("Hello"));
    const [request] = sent;
    expect(request?.url).toBe(`${playground().url}/${sdk.apiVersion}/models/demo-chat:generateContent`);
    expect(request?.headers.get("x-goog-api-key")).toBe("sk-demo");
  });

  it.each<[string, GenerateContentParameters["contents"], string]>([
    ["a string", "one two", "You said: one two"],
    ["a Content", { role: "user", parts: [{ text: "one two" }] }, "You said: one two"],
    ["a Content without a role", { parts: [{ text: "one two" }] }, "You said: one two"],
    ["a part", { text: "one two" }, "You said: one two"],
    ["a list of strings", ["one", "two"], "You said: one\ntwo"],
    ["a list of parts", [{ text: "one" }, { text: "two" }], "You said: one\ntwo"],
    ["a list of Contents", [{ role: "user", parts: [{ text: "one two" }] }], "You said: one two"],
  ])("takes %s", async (_what, contents, answer) => {
    expect(textOf(await ask(say(contents)))).toBe(answer);
  });

  describe("ends", () => {
    it("at a stop sequence, which is no part of the answer", async () => {
      const response = await ask(say("one two three", { stopSequences: ["never", "two"] }));
      expect(textOf(response)).toBe("You said: one ");
      expect(response.candidates?.[0]?.finishReason).toBe("STOP");
    });

    it("at its limit", async () => {
      const response = await ask(say("/repeat 50", { maxOutputTokens: 10 }));
      expect(textOf(response).split(" ")).toHaveLength(10);
      expect(response.candidates?.[0]?.finishReason).toBe("MAX_TOKENS");
      expect(response.usageMetadata?.candidatesTokenCount).toBe(10);
    });
  });

  it("gives several candidates, each its own answer and its own end", async () => {
    const response = await ask(say("Hello there", { candidateCount: 3 }));
    expect(response.candidates?.map(({ index, finishReason }) => [index, finishReason])).toEqual([
      [0, "STOP"],
      [1, "STOP"],
      [2, "STOP"],
    ]);
    expect([0, 1, 2].map((candidate) => textOf(response, candidate))).toEqual([
      "You said: Hello there",
      "Answer 2: You said: Hello there",
      "Answer 3: You said: Hello there",
    ]);
    expect(response.usageMetadata?.candidatesTokenCount).toBe(4 + 6 + 6);
  });
}
