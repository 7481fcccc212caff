/** Images and documents: what the model is shown. */

import type { DocumentBlockParam } from "@anthropic-ai/sdk/resources/messages";
import { expect, it } from "vitest";
import { png } from "../png.ts";
import { errorOf, say, type Stage, textOf } from "./sdk.ts";

/** The header of a GIF of 5 by 7 pixels, and its end. */
const gif = Buffer.from("GIF89a\u0005\0\u0007\0\0\0\0;", "latin1");
const pdf = Buffer.from("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n");

const show = (media_type: "image/png" | "image/gif", bytes: Buffer) => ({
  type: "image" as const,
  source: { type: "base64" as const, media_type, data: bytes.toString("base64") },
});

export function mediaSuite({ sdk, connect }: Stage): void {
  it("shows the model an image", async () => {
    const message = await connect().messages.create(
      say([show("image/png", png(31, 17)), { type: "text", text: "What is this?" }]),
    );
    expect(textOf(message)).toBe("I was shown an image (image/png, 31 × 17 pixels). You said: What is this?");
  });

  it("shows the model several images in their order", async () => {
    const message = await connect().messages.create(say([show("image/gif", gif), show("image/png", png(2, 3))]));
    expect(textOf(message)).toBe(
      "I was shown an image (image/gif, 5 × 7 pixels). I was shown an image (image/png, 2 × 3 pixels).",
    );
  });

  it.each<[string, Omit<DocumentBlockParam, "type">, string]>([
    [
      "a PDF",
      { source: { type: "base64", media_type: "application/pdf", data: pdf.toString("base64") } },
      `I was given a document (application/pdf, ${pdf.length} bytes).`,
    ],
    [
      "a PDF with all its fields",
      {
        source: { type: "base64", media_type: "application/pdf", data: pdf.toString("base64") },
        title: "Report",
        context: "The year's",
        citations: { enabled: true },
        cache_control: { type: "ephemeral", ttl: "1h" },
      },
      `I was given the document "Report" (application/pdf, ${pdf.length} bytes).`,
    ],
    [
      "plain text",
      { source: { type: "text", media_type: "text/plain", data: "Hello world" } },
      "I was given a document (11 characters).",
    ],
    [
      "content blocks",
      { source: { type: "content", content: [{ type: "text", text: "one" }, show("image/png", png(1, 1))] } },
      "I was given a document (2 parts).",
    ],
  ])("gives the model a document: %s", async (_what, document, answer) => {
    const message = await connect().messages.create(say([{ type: "document", ...document }]));
    expect(textOf(message)).toBe(answer);
  });

  it.each([
    ["a media type of no image", { type: "base64", media_type: "image/tiff", data: "AAAA" }, "media_type"],
    ["data that is no base64", { type: "base64", media_type: "image/png", data: "not base64!" }, "data"],
    ["an address instead of the data", { type: "url", url: "http://127.0.0.1/a.png" }, "type"],
  ])("refuses an image with %s, and names the field", async (_what, source, field) => {
    // The types would not allow it; callers without types do it.
    const image = { type: "image", source } as unknown as ReturnType<typeof show>;
    const error = await errorOf(connect().messages.create(say([image])));
    expect(error).toBeInstanceOf(sdk.Anthropic.BadRequestError);
    expect(error.message).toContain(`messages.0.content.0.source.${field}:`);
  });
}
