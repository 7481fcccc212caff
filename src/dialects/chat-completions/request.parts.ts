/** The parts of messages in both directions: text, pictures, sounds, files. */

import type { DocumentPart, MediaPart, TextPart } from "../../model/chat.ts";
import { type FatedField, type Losses, marksOf } from "../shared/fates.ts";
import { dataUrl, splitDataUrl } from "./schema.base.ts";
import type { AudioPart, FilePart, ImagePart, TextPart as WireText, UserMessage } from "./schema.message.ts";

export type WirePart = Exclude<UserMessage["content"], string>[number];

/** Plain text is shorthand for one part; an empty one is none. */
export const textParts = (text: string): TextPart[] => (text === "" ? [] : [{ type: "text", text }]);

export function decodePart(part: WirePart): TextPart | MediaPart | DocumentPart {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "image_url":
      return decodeImage(part);
    case "input_audio": {
      const { data, format } = part.input_audio;
      return { type: "media", kind: "audio", source: { type: "base64", mediaType: `audio/${format}`, data } };
    }
    case "file":
      return decodeFile(part);
  }
}

/** The part, or several that say the same; none where the format cannot say it. */
export function encodePart(part: TextPart | MediaPart | DocumentPart, losses: Losses): WirePart[] {
  for (const loss of marksOf(part)) losses.add(loss);
  switch (part.type) {
    case "text":
      return [encodeText(part.text)];
    case "media":
      return encodeMedia(part, losses);
    case "document":
      return encodeDocument(part, losses);
  }
}

export const encodeText = (text: string): WireText => ({ type: "text", text });

function decodeImage({ image_url: { url, detail } }: ImagePart): MediaPart {
  const inline = splitDataUrl(url);
  return {
    type: "media",
    kind: "image",
    source: inline ? { type: "base64", ...inline } : { type: "url", url },
    // The finest detail that the neutral model knows.
    ...(detail != null && { detail: detail === "original" ? "high" : detail }),
  };
}

function encodeMedia({ kind, source, detail }: MediaPart, losses: Losses): (ImagePart | AudioPart)[] {
  if (kind === "video") return none(losses, "messages.media.video");
  if (source.type === "file") return none(losses, "messages.media");
  if (kind === "image") {
    const url = source.type === "url" ? source.url : dataUrl(source.mediaType, source.data);
    return [{ type: "image_url", image_url: { url, ...(detail && { detail }) } }];
  }
  if (source.type === "url") return none(losses, "messages.media.audio");
  return [{ type: "input_audio", input_audio: { data: source.data, format: audioFormat(source.mediaType) } }];
}

function none(losses: Losses, field: FatedField): [] {
  losses.add(field);
  return [];
}

/** The format calls sounds by the end of their files' names. */
function audioFormat(mediaType: string): string {
  const [, name = ""] = /^audio\/(?:x-|vnd\.)?([^;]+)/.exec(mediaType.toLowerCase()) ?? [];
  return { mpeg: "mp3", wave: "wav" }[name] ?? name;
}

const PDF = "application/pdf";

function decodeFile({ file: { file_data, file_id, filename } }: FilePart): DocumentPart {
  const title = filename == null ? {} : { title: filename };
  if (file_data == null) return { type: "document", source: { type: "file", id: file_id ?? "" }, ...title };
  // Plain base64 says no type: the format's files are PDFs.
  const inline = splitDataUrl(file_data) ?? { mediaType: PDF, data: file_data };
  return { type: "document", source: { type: "base64", ...inline }, ...title };
}

function encodeDocument({ source, title, context, citations }: DocumentPart, losses: Losses): WirePart[] {
  if (citations) losses.add("messages.document.citations");
  if (context !== undefined) losses.add("messages.document.context");
  const about = context === undefined ? [] : [encodeText(context)];
  switch (source.type) {
    case "url":
      return none(losses, "messages.document.url");
    case "file":
      return [
        ...about,
        { type: "file", file: { file_id: source.id, ...(title !== undefined && { filename: title }) } },
      ];
    case "base64": {
      const file_data = dataUrl(source.mediaType, source.data);
      return [...about, { type: "file", file: { file_data, ...(title !== undefined && { filename: title }) } }];
    }
    default: {
      losses.add("messages.document.text");
      const heading = title === undefined ? [] : [encodeText(title)];
      const told =
        source.type === "text" ? [encodeText(source.text)] : source.parts.flatMap((part) => encodePart(part, losses));
      return [...heading, ...about, ...told];
    }
  }
}
