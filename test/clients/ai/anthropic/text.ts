/** Text: complete and streamed, from words, images and documents. */

import { generateText } from "ai";
import { describe, expect, it } from "vitest";
import { png } from "../../png.ts";
import { conversationSuite, piecesSuite } from "../shared.suites.ts";
import type { Stage } from "./stage.ts";

export function textSuite(stage: Stage): void {
  const { plain } = stage;
  describe("complete", () => {
    it("answers, counts and names the request", async () => {
      const result = await generateText({ ...plain(), instructions: "Be very brief", prompt: "Hello there" });
      expect(result.text).toBe("You said: Hello there");
      expect(result.finishReason).toBe("stop");
      expect(result.usage).toMatchObject({ inputTokens: 5, outputTokens: 4, totalTokens: 9 });
      expect(result.usage.inputTokenDetails).toMatchObject({ cacheReadTokens: 0, cacheWriteTokens: 0 });
      expect(result.warnings).toEqual([]);
      expect(result.response.id).toMatch(/^msg_\w+$/);
      expect(result.response.modelId).toBe("demo-chat");
      expect(result.response.headers?.["request-id"]).toMatch(/^req_\w+$/);
    });

    conversationSuite(stage);

    it.each([
      ["its limit", { maxOutputTokens: 3 }, "one two three four", "You said: one", "length"],
      ["a stop sequence", { stopSequences: ["three"] }, "one two three four", "You said: one two ", "stop"],
    ])("ends at %s", async (_what, settings, prompt, text, finishReason) => {
      expect(await generateText({ ...plain(), ...settings, prompt })).toMatchObject({ text, finishReason });
    });

    it("shows the model an image from bytes", async () => {
      const image = new Uint8Array(png(12, 34));
      const { text } = await generateText({
        ...plain(),
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: "What is this?" },
              { type: "file", mediaType: "image", data: image },
            ],
          },
        ],
      });
      expect(text).toBe("I was shown an image (image/png, 12 × 34 pixels). You said: What is this?");
    });

    it("gives the model a PDF from bytes", async () => {
      const data = new Uint8Array(Buffer.from("%PDF-1.4\n%%EOF\n"));
      const content = [{ type: "file" as const, mediaType: "application/pdf", data, filename: "Report" }];
      const { text } = await generateText({ ...plain(), messages: [{ role: "user", content }] });
      expect(text).toBe('I was given the document "Report" (application/pdf, 15 bytes).');
    });
  });

  describe("streamed", () => {
    piecesSuite(stage);
  });
}
