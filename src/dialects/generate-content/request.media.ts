/** Media in a request (spec 2.8): base64 or a file, in both directions. */

import { inStandardAlphabet } from "../../media/base64.ts";
import type { DocumentPart, MediaPart, MediaSource } from "../../model/chat.ts";
import type { Part as WirePart } from "./schema.ts";
import { mediaKind, type MediaKind, promisedType } from "./schema.media.ts";

type Held = Pick<WirePart, "inlineData" | "fileData">;

/** The medium that a part holds, if it does. */
export function decodeMedia({ inlineData, fileData }: Held): MediaPart | DocumentPart | undefined {
  const mimeType = inlineData?.mimeType ?? fileData?.mimeType;
  if (mimeType === undefined) return undefined;
  const source = inlineData ? inlineSource(inlineData) : fileSource(fileData?.fileUri ?? "");
  const kind = mediaKind(mimeType) ?? "image";
  return kind === "document" ? { type: "document", source } : { type: "media", kind, source };
}

export const encodeMedia = (part: MediaPart): Held => encodeSource(part.source, part.kind);

const inlineSource = ({ mimeType, data }: NonNullable<WirePart["inlineData"]>): MediaSource => ({
  type: "base64",
  mediaType: mimeType,
  // The official Python client writes the alphabet for URLs.
  data: inStandardAlphabet(data),
});
const fileSource = (uri: string): MediaSource =>
  URL.canParse(uri) ? { type: "url", url: uri } : { type: "file", id: uri };

function encodeSource(source: MediaSource, kind: MediaKind): Held {
  if (source.type === "base64") return { inlineData: { mimeType: source.mediaType, data: source.data } };
  const fileUri = source.type === "url" ? source.url : source.id;
  return { fileData: { mimeType: promisedType(fileUri, kind), fileUri } };
}

/** A document that is no PDF becomes the parts it is made of; its title and the wish for citations have no place. */
export function encodeDocument({ source }: DocumentPart): (Held & { text?: string })[] {
  if (source.type === "text") return [{ text: source.text }];
  if (source.type !== "parts") return [encodeSource(source, "document")];
  return source.parts.map((inner) => (inner.type === "text" ? { text: inner.text } : encodeMedia(inner)));
}
