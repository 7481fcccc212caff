/** Media in a request (spec 2.8): base64 or a file, in both directions. */

import { inStandardAlphabet, textOfBase64 } from "../../media/base64.ts";
import type { DocumentPart, MediaPart, MediaSource } from "../../model/chat.ts";
import type { Part as WirePart } from "./schema.ts";
import { inlineKind, isPlainText, isSupportedMedia, mediaKind, type MediaKind, promisedType } from "./schema.media.ts";

type Held = Pick<WirePart, "inlineData" | "fileData">;

/** The medium that a part holds, if it does. */
export function decodeMedia({ inlineData, fileData }: Held): MediaPart | DocumentPart | undefined {
  if (inlineData) return decodeInline(inlineData);
  if (!fileData) return undefined;
  return mediaOf(mediaKind(fileData.mimeType), fileSource(fileData.fileUri));
}

function decodeInline({ mimeType, data }: NonNullable<WirePart["inlineData"]>): MediaPart | DocumentPart {
  if (isPlainText(mimeType)) return { type: "document", source: { type: "text", text: textOfBase64(data) ?? "" } };
  // The official Python client writes the alphabet for URLs.
  return mediaOf(inlineKind(mimeType), { type: "base64", mediaType: mimeType, data: inStandardAlphabet(data) });
}

const mediaOf = (kind: MediaKind = "image", source: MediaSource): MediaPart | DocumentPart =>
  kind === "document" ? { type: "document", source } : { type: "media", kind, source };

export const encodeMedia = (part: MediaPart): Held => encodeSource(part.source, part.kind);

const fileSource = (uri: string): MediaSource =>
  URL.canParse(uri) ? { type: "url", url: uri } : { type: "file", id: uri };

function encodeSource(source: MediaSource, kind: MediaKind): Held {
  if (source.type === "base64") return { inlineData: { mimeType: source.mediaType, data: source.data } };
  const fileUri = source.type === "url" ? source.url : source.id;
  return { fileData: { mimeType: promisedType(fileUri, kind), fileUri } };
}

/** Whether the format takes a medium, or the file of a document: by its type, and a picture alone by its address (spec 4, note 5). */
export const isSayable = (part: MediaPart | DocumentPart): boolean =>
  part.source.type === "base64"
    ? isSupportedMedia(part.source.mediaType)
    : part.type === "media" && part.kind === "image";

/** A document that is no PDF becomes the parts it is made of; its title and the wish for citations have no place. */
export function encodeDocument(part: DocumentPart): (Held & { text?: string })[] {
  const { source } = part;
  if (source.type === "text") return [{ text: source.text }];
  if (source.type !== "parts") return isSayable(part) ? [encodeSource(source, "document")] : [];
  return source.parts.flatMap((inner): (Held & { text?: string })[] => {
    if (inner.type === "text") return [{ text: inner.text }];
    return isSayable(inner) ? [encodeMedia(inner)] : [];
  });
}
