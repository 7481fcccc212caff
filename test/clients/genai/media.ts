/** Pictures, sounds, films and documents: what the model is shown, and what it draws. */

import { createPartFromBase64, type Part } from "@google/genai";
import { imageDimensionsFromData } from "image-dimensions";
import { describe, expect, it } from "vitest";
import { png } from "../png.ts";
import { partsOf, say, type Stage, textOf } from "./sdk.ts";

const image = (width = 31, height = 17): Part =>
  createPartFromBase64(png(width, height).toString("base64"), "image/png");

export function mediaSuite({ ask, chunks }: Stage): void {
  it("shows the model an image", async () => {
    const response = await ask(say([image(), { text: "What is this?" }]));
    expect(textOf(response)).toBe("I was shown an image (image/png, 31 × 17 pixels). You said: What is this?");
    expect(response.usageMetadata?.promptTokensDetails).toEqual([
      { modality: "IMAGE", tokenCount: 256 },
      { modality: "TEXT", tokenCount: 3 },
    ]);
  });

  describe("answers", () => {
    it("hold a picture where that is asked for", async () => {
      const response = await ask(say("Draw a cat", { responseModalities: ["IMAGE"] }));
      const [part] = partsOf(response);
      expect(part?.inlineData?.mimeType).toBe("image/png");
      const bytes = Buffer.from(part?.inlineData?.data ?? "", "base64");
      expect(imageDimensionsFromData(bytes)).toMatchObject({ type: "png", width: 256, height: 256 });
      expect(response.usageMetadata?.candidatesTokensDetails).toEqual([{ modality: "IMAGE", tokenCount: 1_290 }]);
    });

    it("hold text and a picture", async () => {
      const streamed = await chunks(say("Draw a cat", { responseModalities: ["TEXT", "IMAGE"] }));
      const parts = streamed.flatMap((chunk) => partsOf(chunk)).filter(({ text }) => text !== "");
      expect(parts.slice(0, -1).map(({ text }) => text)).toEqual(["You", " said:", " Draw", " a", " cat"]);
      expect(parts.at(-1)?.inlineData?.mimeType).toBe("image/png");
    });

    it("are spoken where that is asked for", async () => {
      const speechConfig = { voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } }, languageCode: "en-US" };
      const response = await ask(say("Hello there", { responseModalities: ["AUDIO"], speechConfig }));
      const [part] = partsOf(response);
      expect(part?.inlineData?.mimeType).toBe("audio/wav");
      expect(
        Buffer.from(part?.inlineData?.data ?? "", "base64")
          .subarray(0, 4)
          .toString(),
      ).toBe("RIFF");
    });
  });
}
