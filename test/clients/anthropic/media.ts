/** Images and documents: what the model is shown. */

import type { DocumentBlockParam } from "@anthropic-ai/sdk/resources/messages";
import { expect, it } from "vitest";
import { png } from "../png.ts";
import { say, type Stage, textOf } from "./sdk.ts";

const pdf = Buffer.from("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n");

const show = (media_type: "image/png" | "image/gif", bytes: Buffer) => ({
  type: "image" as const,
  source: { type: "base64" as const, media_type, data: bytes.toString("base64") },
});

export function mediaSuite({ connect }: Stage): void {
  it("shows the model an image", async () => {
    const message = await connect().messages.create(
      say([show("image/png", png(31, 17)), { type: "text", text: "What is this?" }]),
    );
    expect(textOf(message)).toBe("I was shown an image (image/png, 31 × 17 pixels). You said: What is this?");
  });

  it.each<[string, Omit<DocumentBlockParam, "type">, string]>([
    [
      "a PDF",
      { source: { type: "base64", media_type: "application/pdf", data: pdf.toString("base64") } },
      `I was given a document (application/pdf, ${pdf.length} bytes).`,
    ],
  ])("gives the model a document: %s", async (_what, document, answer) => {
    const message = await connect().messages.create(say([{ type: "document", ...document }]));
    expect(textOf(message)).toBe(answer);
  });
}
