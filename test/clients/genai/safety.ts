/** Safety: prompts that are blocked, ratings, and the settings that ask for them. */

import { HarmBlockThreshold as Threshold, HarmCategory as Category, type SafetySetting } from "@google/genai";
import { describe, expect, it } from "vitest";
import { say, type Stage, textOf } from "./sdk.ts";

export function safetySuite({ ask, chunks }: Stage): void {
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
}
