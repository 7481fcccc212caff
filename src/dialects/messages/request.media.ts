/** Pictures and documents in a messages request (spec 2.6): what of the neutral ones the format can hold, and how it says it. */

import { fromBase64 } from "../../media/base64.ts";
import type { DocumentPart, MediaPart, MediaSource, TextPart } from "../../model/chat.ts";
import type { Block, ImageBlock, ImageSource, TextBlock } from "./schema.ts";

type DocumentSource = Extract<Block, { type: "document" }>["source"];

const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);
const TEXT_TYPE = /^(?:text\/|application\/json\b)/;

/** Whether the format has a block for a medium or a document. */
export function isSayable(part: MediaPart | DocumentPart): boolean {
  if (part.type === "media")
    return part.kind === "image" && (part.source.type !== "base64" || IMAGE_TYPES.has(part.source.mediaType));
  const { source } = part;
  if (source.type === "parts") return source.parts.every((inner) => inner.type === "text" || isSayable(inner));
  return source.type !== "base64" || source.mediaType === "application/pdf" || TEXT_TYPE.test(source.mediaType);
}

export function encodeSource(source: MediaSource): ImageSource {
  switch (source.type) {
    case "base64":
      return { type: "base64", media_type: source.mediaType as "image/png", data: source.data };
    case "url":
      return { type: "url", url: source.url };
    case "file":
      return { type: "file", file_id: source.id };
  }
}

/** The source of a document; one of text in base64 is told as the text that it is. */
export function encodeDocumentSource(
  source: DocumentPart["source"],
  encodeInner: (part: TextPart | MediaPart) => TextBlock | ImageBlock,
): DocumentSource {
  if (source.type === "text") return { type: "text", media_type: "text/plain", data: source.text };
  if (source.type === "parts") return { type: "content", content: source.parts.map(encodeInner) };
  if (source.type === "base64" && TEXT_TYPE.test(source.mediaType))
    return { type: "text", media_type: "text/plain", data: textIn(source.data) };
  return encodeSource(source) as DocumentSource;
}

const textIn = (base64: string): string => new TextDecoder().decode(fromBase64(base64));
