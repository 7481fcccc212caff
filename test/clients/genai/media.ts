/** Pictures, sounds, films and documents: what the model is shown, and what it draws. */

import { createPartFromBase64, createPartFromUri, type MediaResolution, type Part } from "@google/genai";
import { imageDimensionsFromData } from "image-dimensions";
import { describe, expect, it } from "vitest";
import { png } from "../png.ts";
import { errorOf, partsOf, say, type Stage, textOf, wireError } from "./sdk.ts";

const image = (width = 31, height = 17): Part =>
  createPartFromBase64(png(width, height).toString("base64"), "image/png");
const pdf = Buffer.from("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n");

export function mediaSuite({ sdk, ask, chunks }: Stage): void {
  it("shows the model an image", async () => {
    const response = await ask(say([image(), { text: "What is this?" }]));
    expect(textOf(response)).toBe("I was shown an image (image/png, 31 × 17 pixels). You said: What is this?");
    expect(response.usageMetadata?.promptTokensDetails).toEqual([
      { modality: "IMAGE", tokenCount: 256 },
      { modality: "TEXT", tokenCount: 3 },
    ]);
  });

  it("shows the model several images in their order", async () => {
    expect(textOf(await ask(say([image(1, 2), "and", image(3, 4)])))).toBe(
      "I was shown an image (image/png, 1 × 2 pixels). I was shown an image (image/png, 3 × 4 pixels). You said: and",
    );
  });

  it.each([
    ["audio/wav", "an audio", "AUDIO"],
    ["audio/mp3", "an audio", "AUDIO"],
    ["video/mp4", "a video", "VIDEO"],
    ["application/pdf", "a document", "DOCUMENT"],
  ])("gives the model %s", async (mimeType, kind, modality) => {
    const response = await ask(say([createPartFromBase64(pdf.toString("base64"), mimeType)]));
    expect(textOf(response)).toMatch(new RegExp(`${kind} \\(${mimeType}, ${pdf.length} bytes\\)`));
    expect(response.usageMetadata?.promptTokensDetails).toEqual([{ modality, tokenCount: 256 }]);
  });

  it.each([
    ["MEDIA_RESOLUTION_LOW", 64],
    ["MEDIA_RESOLUTION_MEDIUM", 256],
    ["MEDIA_RESOLUTION_HIGH", 256],
  ])("counts an image by %s", async (resolution, tokens) => {
    const response = await ask(say([image()], { mediaResolution: resolution as MediaResolution }));
    expect(response.usageMetadata?.promptTokenCount).toBe(tokens);
  });

  it("gives the model the address of an image", async () => {
    const part = createPartFromUri("https://images.example/cat.png", "image/png");
    expect(textOf(await ask(say([part])))).toContain("https://images.example/cat.png");
  });

  it.each<[string, Part, string]>([
    ["a sound by its address", createPartFromUri("https://a.example/a.mp3", "audio/mp3"), "inlineData"],
    ["a film by its address", createPartFromUri("https://a.example/a.mp4", "video/mp4"), "inlineData"],
    ["a PDF by its address", createPartFromUri("https://a.example/a.pdf", "application/pdf"), "inlineData"],
    ["a medium of a type that is not supported", createPartFromBase64("AAAA", "image/tiff"), "inlineData.mimeType"],
    ["data that is no base64", createPartFromBase64("not base64!", "image/png"), "base64"],
  ])("refuses %s, and says why", async (_what, part, reason) => {
    const error = await errorOf(ask(say([part])));
    expect(error).toBeInstanceOf(sdk.ApiError);
    expect(wireError(error)).toMatchObject({ code: 400, status: "INVALID_ARGUMENT" });
    expect(wireError(error).message).toContain(reason);
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

    it("are different pictures for different prompts", async () => {
      const prompts = ["a cat", "a cat", "a dog"];
      const [cat, again, dog] = await Promise.all(
        prompts.map(async (text) => (await ask(say(text, { responseModalities: ["IMAGE"] }))).data),
      );
      expect(again).toBe(cat);
      expect(dog).not.toBe(cat);
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

    it("leave a picture out where it does not fit into the limit", async () => {
      const response = await ask(say("Draw", { responseModalities: ["IMAGE"], maxOutputTokens: 100 }));
      expect(response.candidates?.[0]?.finishReason).toBe("MAX_TOKENS");
      expect(partsOf(response).filter(({ inlineData }) => inlineData)).toEqual([]);
    });
  });
}
