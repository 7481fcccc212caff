/** Text: complete and streamed, from words, images, sounds and documents. */

import { generateText, streamText } from "ai";
import { describe, expect, it } from "vitest";
import { png } from "../../png.ts";
import { conversationSuite, piecesSuite } from "../shared.suites.ts";
import type { Stage } from "./stage.ts";

export function textSuite(stage: Stage): void {
  const { plain, modelFor } = stage;
  describe("complete", () => {
    it("answers, counts and names the request", async () => {
      const result = await generateText({ ...plain(), instructions: "Be very brief", prompt: "Hello there" });
      expect(result.text).toBe("You said: Hello there");
      expect(result.finishReason).toBe("stop");
      expect(result.usage).toMatchObject({ inputTokens: 5, outputTokens: 4, totalTokens: 9 });
      expect(result.warnings).toEqual([]);
      expect(result.response.id).toMatch(/\w/);
      expect(result.response.headers?.["request-id"]).toMatch(/^req_\w+$/);
    });

    it.each(["v1", "v1beta"])("answers under /%s", async (version) => {
      const { text } = await generateText({
        ...plain(),
        model: modelFor("sk-demo", "demo-chat", version),
        prompt: "Hi",
      });
      expect(text).toBe("You said: Hi");
    });

    conversationSuite(stage);

    it.each([
      ["its limit", { maxOutputTokens: 3 }, "one two three four", "You said: one", "length"],
      ["a stop sequence", { stopSequences: ["three"] }, "one two three four", "You said: one two ", "stop"],
    ])("ends at %s", async (_what, settings, prompt, text, finishReason) => {
      expect(await generateText({ ...plain(), ...settings, prompt })).toMatchObject({ text, finishReason });
    });

    it.each([
      ["an image", "image/png", png(12, 34), "I was shown an image (image/png, 12 × 34 pixels)."],
      ["a sound", "audio/mp3", Buffer.from("ID3 and more"), "I was shown an audio (audio/mp3, 12 bytes)."],
      ["a film", "video/mp4", Buffer.from("ftyp and more"), "I was shown a video (video/mp4, 13 bytes)."],
      [
        "a PDF",
        "application/pdf",
        Buffer.from("%PDF-1.4\n%%EOF\n"),
        "I was given a document (application/pdf, 15 bytes).",
      ],
    ])("shows the model %s from bytes", async (_what, mediaType, bytes, seen) => {
      const content = [
        { type: "text" as const, text: "What is this?" },
        { type: "file" as const, mediaType, data: new Uint8Array(bytes) },
      ];
      const { text } = await generateText({ ...plain(), messages: [{ role: "user", content }] });
      expect(text).toBe(`${seen} You said: What is this?`);
    });

    it("tells that a prompt was blocked", async () => {
      const result = await generateText({ ...plain(), prompt: "/block this" });
      expect(result.finishReason).toBe("content-filter");
      expect(result.text).toBe("");
      expect(result.providerMetadata?.["google"]?.["promptFeedback"]).toMatchObject({ blockReason: "SAFETY" });
    });
  });

  describe("streamed", () => {
    piecesSuite(stage);

    it("tells that a prompt was blocked", async () => {
      const result = streamText({ ...plain(), prompt: "/block this" });
      expect(await result.finishReason).toBe("content-filter");
      expect(await result.text).toBe("");
    });
  });
}
