/** Safety: prompts that are blocked, ratings, and the settings that ask for them. */

import { HarmBlockThreshold as Threshold, HarmCategory as Category, type SafetySetting } from "@google/genai";
import { describe, expect, it } from "vitest";
import { errorOf, say, type Stage, textOf, wireError } from "./sdk.ts";

/** The types would not allow it; callers without types do it. */
const setting = (category: string, threshold = "BLOCK_NONE"): SafetySetting =>
  ({ category, threshold }) as unknown as SafetySetting;

export function safetySuite({ sdk, ask, chunks }: Stage): void {
  describe("a blocked prompt", () => {
    const blocked = {
      blockReason: "SAFETY",
      safetyRatings: [{ category: "HARM_CATEGORY_DANGEROUS_CONTENT", probability: "HIGH", blocked: true }],
    };

    it("has a reason and no candidates", async () => {
      const response = await ask(say("/block this"));
      expect(response.promptFeedback).toEqual(blocked);
      expect(response.candidates).toBeUndefined();
      expect(response.text).toBeUndefined();
      expect(response.usageMetadata?.promptTokenCount).toBe(2);
      expect(response.usageMetadata?.candidatesTokenCount ?? 0).toBe(0);
    });

    it("has the same in a stream", async () => {
      const streamed = await chunks(say("/block this"));
      expect(streamed.flatMap(({ promptFeedback }) => promptFeedback ?? [])).toEqual([blocked]);
      expect(streamed.flatMap(({ candidates }) => candidates ?? [])).toEqual([]);
    });
  });

  it("rates an answer for what is set, in the order of the settings", async () => {
    const safetySettings: SafetySetting[] = [
      { category: Category.HARM_CATEGORY_HATE_SPEECH, threshold: Threshold.BLOCK_ONLY_HIGH },
      { category: Category.HARM_CATEGORY_HARASSMENT, threshold: Threshold.BLOCK_NONE },
    ];
    const response = await ask(say("Hello", { safetySettings }));
    expect(textOf(response)).toBe("You said: Hello");
    expect(response.candidates?.[0]?.safetyRatings).toEqual([
      { category: "HARM_CATEGORY_HATE_SPEECH", probability: "NEGLIGIBLE" },
      { category: "HARM_CATEGORY_HARASSMENT", probability: "NEGLIGIBLE" },
    ]);
  });

  it.each(Object.values(Threshold))("takes the threshold %s for every category that can be set", async (threshold) => {
    const safetySettings = [
      Category.HARM_CATEGORY_HARASSMENT,
      Category.HARM_CATEGORY_HATE_SPEECH,
      Category.HARM_CATEGORY_SEXUALLY_EXPLICIT,
      Category.HARM_CATEGORY_DANGEROUS_CONTENT,
      Category.HARM_CATEGORY_CIVIC_INTEGRITY,
    ].map((category) => ({ category, threshold }));
    expect(textOf(await ask(say("Hello", { safetySettings })))).toBe("You said: Hello");
  });

  it.each<[string, SafetySetting[], string]>([
    ["a legacy category", [setting("HARM_CATEGORY_TOXICITY")], "HARM_CATEGORY_TOXICITY"],
    ["a category of no kind", [setting("HARM_CATEGORY_NOISE")], "HARM_CATEGORY_NOISE"],
    ["a threshold of no kind", [setting("HARM_CATEGORY_HARASSMENT", "BLOCK_SOME")], "BLOCK_SOME"],
    [
      "a category twice",
      [setting("HARM_CATEGORY_HARASSMENT"), setting("HARM_CATEGORY_HARASSMENT", "OFF")],
      "HARM_CATEGORY_HARASSMENT",
    ],
  ])("refuses %s, and names it", async (_what, safetySettings, named) => {
    const error = await errorOf(ask(say("Hello", { safetySettings })));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(wireError(error)).toMatchObject({ code: 400, status: "INVALID_ARGUMENT" });
    expect(wireError(error).message).toContain("safetySettings");
    expect(wireError(error).message).toContain(named);
  });
}
