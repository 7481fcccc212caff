/** The complete generate-content answer (spec 2.9): every field, whatever a backend yields. */

import { describe, expect, it } from "vitest";
import type { ChatEvent, FinishEvent } from "../../../src/index.ts";
import { type Mount, plays, sharedStage } from "../../hosts/stage.ts";
import {
  BACKEND_FAULTS,
  CONTENTS,
  type Events,
  FINISH_REASONS,
  REPEATED_NOTES,
  toolDelta,
  toolStart,
  USAGES,
} from "./answer-cases.ts";
import { type Body, configured, MINIMAL } from "./bodies.ts";
import { GENERATE, send } from "./calls.ts";
import { chunk } from "./chunks.ts";
import { refusal, refusalOf, requestIdOf } from "./refusal.ts";

const COUNTED: ChatEvent = { type: "start", id: "resp_1", model: "model-a-2026", usage: { inputTokens: 7 } };
const DONE: FinishEvent = { type: "finish", reason: "stop", usage: { outputTokens: 3 } };
const aCount: unknown = expect.toSatisfy((count: number) => Number.isInteger(count) && count > 0);

interface Answer {
  readonly candidates: readonly { readonly content: { readonly parts: readonly object[] } }[];
  readonly responseId: string;
  readonly usageMetadata: object;
}

export function answersSuite(mount: Mount): void {
  const stage = sharedStage(mount);

  async function answer(events: Events, body: Body = MINIMAL): Promise<Answer> {
    stage().backend.play = plays(...events);
    const response = await send(stage(), GENERATE, body);
    requestIdOf(response);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    return (await response.json()) as Answer;
  }

  it("has every field", async () => {
    expect(await answer([COUNTED, "Noon.", DONE])).toEqual({
      candidates: [{ content: { role: "model", parts: [{ text: "Noon." }] }, finishReason: "STOP", index: 0 }],
      usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 3, totalTokenCount: 10 },
      modelVersion: "model-a-2026",
      responseId: "resp_1",
    });
  });

  it("has every field when the backend yields text alone", async () => {
    expect(await answer(["Noon."])).toEqual({
      candidates: [{ content: { role: "model", parts: [{ text: "Noon." }] }, finishReason: "STOP", index: 0 }],
      usageMetadata: { promptTokenCount: aCount, candidatesTokenCount: aCount, totalTokenCount: aCount },
      modelVersion: "model-a",
      responseId: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
    });
  });

  it("has an id of its own each time", async () => {
    expect((await answer(["a"])).responseId).not.toBe((await answer(["a"])).responseId);
  });

  it.each(Object.entries(CONTENTS))("holds %s", async (_name, { events, parts }) => {
    const { candidates } = await answer(events);
    expect(candidates.map(({ content }) => content)).toEqual([{ role: "model", parts }]);
    expect(JSON.stringify(candidates[0]?.content.parts)).toBe(JSON.stringify(parts));
  });

  describe("finishReason", () => {
    it.each(FINISH_REASONS)("of %s is %s", async (reason, finishReason) => {
      expect(await answer(["x", { type: "finish", reason }])).toMatchObject({ candidates: [{ finishReason }] });
    });

    it("of a function call is STOP", async () => {
      const call: ChatEvent = { type: "tool-call", id: "a", name: "n", input: {} };
      expect(await answer([call])).toMatchObject({ candidates: [{ finishReason: "STOP" }] });
    });

    it.each(["length", "malformed-tool-call"] as const)("of a function call that was cut short: %s", async (reason) => {
      const events: Events = ["Hm.", toolStart("a", "n"), toolDelta("a", '{"x":'), { type: "finish", reason }];
      const { candidates } = await answer(events);
      expect(candidates[0]?.content.parts).toEqual([{ text: "Hm." }]);
    });
  });

  it("holds a function call that was all said when the answer was cut short", async () => {
    const events: Events = [toolStart("a", "n"), toolDelta("a", '{"x":1}'), { type: "finish", reason: "length" }];
    const { candidates } = await answer(events);
    expect(candidates[0]?.content.parts).toEqual([{ functionCall: { id: "a", name: "n", args: { x: 1 } } }]);
  });

  describe("thoughts", () => {
    const thinking: Events = [
      { type: "reasoning-delta", text: "Hm." },
      { type: "reasoning-signature", signature: "c2ln" },
      { type: "media", mediaType: "image/png", data: "iVBORw0KGgo=", thought: true },
      "Noon.",
    ];

    it("are shown to who asks for them", async () => {
      const { candidates } = await answer(thinking, configured({ thinkingConfig: { includeThoughts: true } }));
      expect(candidates[0]?.content.parts).toEqual([
        { text: "Hm.", thought: true, thoughtSignature: "c2ln" },
        { inlineData: { mimeType: "image/png", data: "iVBORw0KGgo=" }, thought: true },
        { text: "Noon." },
      ]);
    });

    it.each([{ includeThoughts: false }, { thinkingBudget: 100 }])("are not shown with %j", async (thinkingConfig) => {
      const { candidates } = await answer(thinking, configured({ thinkingConfig }));
      const shown = JSON.stringify(candidates);
      expect(shown).toContain("Noon.");
      expect(shown).not.toContain("Hm.");
      expect(shown).not.toContain("inlineData");
    });
  });

  describe("one of several texts", () => {
    const enumerated = configured({
      responseMimeType: "text/x.enum",
      responseSchema: { type: "STRING", enum: ["red", "dark blue"] },
    });

    it.each<[said: string, events: Events, text: string]>([
      ["plainly", ["dark ", "blue"], "dark blue"],
      ["with a line's end", ["dark blue\n"], "dark blue"],
      ["as a string in JSON", ['"dark', ' blue"'], "dark blue"],
      ["in an object, as formats without such answers are asked for it", ['{"value": "dark', ' blue"}'], "dark blue"],
      ["as something else", ['{"value":"green"}'], '{"value":"green"}'],
      ["and is cut short", ['{"value":"re', { type: "finish", reason: "length" }], '{"value":"re'],
    ])("is told plainly where its backend says it %s", async (_said, events, text) => {
      const { candidates } = await answer(events, enumerated);
      expect(candidates[0]?.content.parts).toEqual([{ text }]);
    });

    it("keeps its seal, and stands behind what came before it", async () => {
      const events: Events = [
        { type: "reasoning-signature", signature: "c2ln" },
        { type: "text-delta", text: '{"value":"red"}', signature: "dGV4dA==" },
      ];
      const { candidates } = await answer(events, enumerated);
      expect(candidates[0]?.content.parts).toEqual([
        { text: "", thought: true, thoughtSignature: "c2ln" },
        { text: "", thoughtSignature: "dGV4dA==" },
        { text: "red" },
      ]);
    });
  });

  describe("notes", () => {
    it.each(REPEATED_NOTES)("hold %s", async (_name, notes, fields) => {
      const events = notes.map((annotation): ChatEvent => ({ type: "annotation", annotation }));
      expect(await answer(["x", ...events, DONE])).toEqual({
        ...chunk([{ text: "x" }], { finishReason: "STOP", ...fields }),
        usageMetadata: expect.any(Object) as object,
        responseId: expect.any(String) as string,
      });
    });
  });

  describe("prompt feedback", () => {
    const ratings = [{ category: "dangerous-content", probability: "high", blocked: true }] as const;
    const wire = [{ category: "HARM_CATEGORY_DANGEROUS_CONTENT", probability: "HIGH", blocked: true }];

    it("that blocks leaves no candidates", async () => {
      const feedback: ChatEvent = { type: "prompt-feedback", blockReason: "safety", ratings };
      expect(await answer([COUNTED, feedback, { ...DONE, usage: { outputTokens: 0 } }])).toEqual({
        promptFeedback: { blockReason: "SAFETY", safetyRatings: wire },
        usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 0, totalTokenCount: 7 },
        modelVersion: "model-a-2026",
        responseId: "resp_1",
      });
    });

    it("that comes too late to block stands beside what was said", async () => {
      const feedback: ChatEvent = { type: "prompt-feedback", blockReason: "safety", ratings };
      expect(await answer(["Noon.", feedback, { ...DONE, reason: "content-filter" }])).toMatchObject({
        promptFeedback: { blockReason: "SAFETY" },
        candidates: [{ content: { parts: [{ text: "Noon." }] }, finishReason: "SAFETY" }],
      });
    });

    it("that does not block stands beside the candidates", async () => {
      expect(await answer([{ type: "prompt-feedback", ratings }, "Noon."])).toMatchObject({
        promptFeedback: { safetyRatings: wire },
        candidates: [{ content: { parts: [{ text: "Noon." }] } }],
      });
    });
  });

  describe("candidates", () => {
    it("stand in the order of their index, each with its own end", async () => {
      const events: Events = [
        { type: "text-delta", text: "Third", candidate: 2 },
        { type: "text-delta", text: "Second", candidate: 1 },
        { type: "annotation", annotation: { type: "token-count", tokens: 5 }, candidate: 1 },
        { type: "tool-call", id: "a", name: "n", input: {}, candidate: 2 },
        { type: "finish", reason: "length", candidate: 1 },
        { type: "finish", reason: "content-filter" },
      ];
      const { candidates } = await answer(events, configured({ candidateCount: 3 }));
      expect(candidates).toEqual([
        { content: { role: "model", parts: [{ text: "" }] }, finishReason: "SAFETY", index: 0 },
        {
          content: { role: "model", parts: [{ text: "Second" }] },
          finishReason: "MAX_TOKENS",
          tokenCount: 5,
          index: 1,
        },
        {
          content: { role: "model", parts: [{ text: "Third" }, { functionCall: { id: "a", name: "n", args: {} } }] },
          finishReason: "STOP",
          index: 2,
        },
      ]);
    });

    it("may call functions of the same id, each its own", async () => {
      const events = [0, 1].map((candidate): ChatEvent => ({
        type: "tool-call",
        id: "a",
        name: "n",
        input: { candidate },
        candidate,
      }));
      const { candidates } = await answer(events, configured({ candidateCount: 2 }));
      expect(candidates.map(({ content }) => content.parts)).toEqual(
        [0, 1].map((candidate) => [{ functionCall: { id: "a", name: "n", args: { candidate } } }]),
      );
    });
  });

  describe("usageMetadata", () => {
    it.each(USAGES)("%s", async (_name, usage, metadata) => {
      expect((await answer(["x", { type: "finish", reason: "stop", usage }])).usageMetadata).toEqual(metadata);
    });

    it("takes the last report, and adds nothing up", async () => {
      const reports: Events = [
        { type: "start", usage: { inputTokens: 7, outputTokens: 1 } },
        "x",
        { type: "usage", usage: { outputTokens: 5 } },
        { type: "finish", reason: "stop", usage: { outputTokens: 6 } },
      ];
      expect((await answer(reports)).usageMetadata).toEqual({
        promptTokenCount: 7,
        candidatesTokenCount: 6,
        totalTokenCount: 13,
      });
    });

    it("is the sum of its counts, whatever a backend counts", async () => {
      const usage = { inputTokens: 1, outputTokens: 2, reasoningTokens: 5, toolUseTokens: 3 };
      const counts = (await answer([{ type: "finish", reason: "stop", usage }])).usageMetadata as Record<
        string,
        number
      >;
      for (const count of Object.values(counts)) expect(count).toBeGreaterThanOrEqual(0);
    });
  });

  it.each(BACKEND_FAULTS)("is a server error for %s", async (_name, events) => {
    stage().backend.play = plays(...events);
    expect(await refusalOf(await send(stage(), GENERATE, MINIMAL))).toEqual(refusal(500, "INTERNAL"));
  });
}
