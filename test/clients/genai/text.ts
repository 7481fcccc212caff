/** Plain questions: what an answer holds, what may be asked, and what ends an answer. */

import type { GenerateContentConfig, GenerateContentParameters } from "@google/genai";
import { describe, expect, it } from "vitest";
import { partsOf, recordingFetch, say, type Stage, textOf } from "./sdk.ts";

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

  it("carries a conversation of many turns", async () => {
    const response = await ask(
      say([
        { role: "user", parts: [{ text: "first question" }] },
        { role: "model", parts: [{ text: "first answer" }] },
        { role: "user", parts: [{ text: "and more" }] },
      ]),
    );
    expect(textOf(response)).toBe("You said: and more");
    expect(response.usageMetadata?.promptTokenCount).toBe(6);
  });

  it("goes on from a last turn of the model", async () => {
    const response = await ask(
      say([
        { role: "user", parts: [{ text: "Hello there" }] },
        { role: "model", parts: [{ text: "You said:" }] },
      ]),
    );
    expect(textOf(response)).toBe(" Hello there");
  });

  it.each<[string, NonNullable<GenerateContentConfig["systemInstruction"]>]>([
    ["a string", "Be very brief"],
    ["a list of strings", ["Be very", "brief"]],
    ["a Content", { parts: [{ text: "Be very brief" }] }],
    ["a Content of some role", { role: "system", parts: [{ text: "Be very brief" }] }],
  ])("takes a system instruction as %s", async (_form, systemInstruction) => {
    const response = await ask(say("Hello", { systemInstruction }));
    expect(textOf(response)).toBe("You said: Hello");
    // One word of the user's and three of the system's: the backend was given both.
    expect(response.usageMetadata?.promptTokenCount).toBe(4);
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

    it("at its limit in the middle of one long word", async () => {
      const response = await ask(say("x".repeat(1_000), { maxOutputTokens: 5 }));
      expect(textOf(response)).toMatch(/^You said: x{8,24}$/);
      expect(response.candidates?.[0]?.finishReason).toBe("MAX_TOKENS");
    });

    it("with nothing said", async () => {
      const response = await ask(say("/repeat 0"));
      expect(textOf(response)).toBe("");
      expect(response.candidates?.[0]).toMatchObject({ finishReason: "STOP", content: { role: "model" } });
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

  it("limits each of several candidates", async () => {
    const response = await ask(say("/repeat 9", { candidateCount: 2, maxOutputTokens: 3 }));
    expect([textOf(response, 0), textOf(response, 1)]).toEqual(["word word word", "word1 word1 word1"]);
    expect(response.candidates?.map(({ finishReason }) => finishReason)).toEqual(["MAX_TOKENS", "MAX_TOKENS"]);
  });

  it("gives log probabilities of each token, and of as many others as were asked for", async () => {
    const { candidates } = await ask(say("Hello", { responseLogprobs: true, logprobs: 2 }));
    const [candidate] = candidates ?? [];
    const chosen = candidate?.logprobsResult?.chosenCandidates ?? [];
    const top = candidate?.logprobsResult?.topCandidates ?? [];
    expect(chosen.map(({ token }) => token).join("")).toBe("You said: Hello");
    expect(top.map((step) => step.candidates?.length)).toEqual([2, 2, 2]);
    expect(top.map((step) => step.candidates?.[0])).toEqual(chosen);
    const sum = chosen.reduce((all, { logProbability }) => all + (logProbability ?? 0), 0);
    expect(candidate?.avgLogprobs).toBeCloseTo(sum / 3);
  });

  it.each<[string, GenerateContentConfig]>([
    ["the coldest temperature", { temperature: 0 }],
    ["the warmest temperature", { temperature: 2 }],
    ["every sampling field", { topP: 1, topK: 40, seed: -7, presencePenalty: 0.5, frequencyPenalty: -0.5 }],
    ["no stop sequences", { stopSequences: [] }],
    ["no safety settings", { safetySettings: [] }],
    ["no tools", { tools: [] }],
    ["plain text asked for by name", { responseMimeType: "text/plain" }],
    ["text as the one modality", { responseModalities: ["TEXT"] }],
    ["the enhanced civic answers", { enableEnhancedCivicAnswers: true }],
    ["tools of the provider's own", { tools: [{ googleSearch: {} }, { urlContext: {} }] }],
    ["a field that is not known", { httpOptions: { extraBody: { someday: { soon: true } } } }],
  ])("takes %s", async (_what, config) => {
    expect(textOf(await ask(say("Hello", config)))).toBe("You said: Hello");
  });

  it("carries any text unharmed", async () => {
    const text = 'naïve 😀 \u2028 line\u2029 "quoted" \\ data: y\n\nend';
    expect(textOf(await ask(say(text)))).toBe(`You said: ${text}`);
    expect(partsOf(await ask(say("Hello")))).toHaveLength(1);
  });
}
