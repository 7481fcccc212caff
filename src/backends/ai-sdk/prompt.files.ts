/** Pictures, sounds, films and documents, as each version of the providers' interface takes them. */

import { toBase64 } from "../../media/base64.ts";
import type { DocumentPart, MediaPart } from "../../model/chat.ts";
import type { JsonObject } from "../../model/json.ts";
import type { FileData, FileOption, PromptPart, ToolOutputPart } from "./call-options.ts";
import { mediaTypeOf } from "./fates.ts";
import type { ProviderOptions } from "./options.ts";
import type { Traits } from "./traits.ts";

/** A file of a turn; a document may be several parts, or a text. */
export function encodeFile(part: MediaPart | DocumentPart, traits: Traits): readonly PromptPart[] {
  const { source } = part;
  switch (source.type) {
    // Its fate refuses the request.
    case "file":
      return [];
    case "text":
      return [textDocument(part, source.text, traits)];
    case "parts":
      return [
        ...(part.type === "document" && part.title !== undefined ? [{ type: "text" as const, text: part.title }] : []),
        ...source.parts.flatMap((inner): readonly PromptPart[] =>
          inner.type === "text" ? [{ type: "text", text: inner.text }] : encodeFile(inner, traits),
        ),
      ];
    case "base64":
      return [fileOf(part, { type: "data", data: source.data }, traits)];
    case "url":
      // As above, where the model's service does not fetch it.
      if (!traits.urls.takes(source.url, mediaTypeOf(part))) return [];
      return [fileOf(part, { type: "url", url: new URL(source.url) }, traits)];
  }
}

/** A file of a tool's result. */
export function encodeResultFile(part: MediaPart | DocumentPart, traits: Traits): readonly ToolOutputPart[] {
  const { version } = traits;
  return encodeFile(part, traits).map((file): ToolOutputPart => {
    if (!("mediaType" in file)) return { type: "text", text: "text" in file ? file.text : "" };
    const { mediaType, data } = file;
    const isImage = mediaType.startsWith("image/");
    if (typeof data === "object" && "type" in data) return { type: "file", mediaType, data };
    if (data instanceof URL) return { type: isImage ? "image-url" : "file-url", url: data.href };
    return { type: version === "v2" ? "media" : isImage ? "image-data" : "file-data", mediaType, data };
  });
}

function fileOf(part: MediaPart | DocumentPart, data: FileData, traits: Traits): FileOption {
  const { source } = part;
  const title = part.type === "document" ? part.title : undefined;
  return {
    type: part.thought && traits.version === "v4" ? "reasoning-file" : "file",
    mediaType: source.type === "base64" ? source.mediaType : source.type === "text" ? "text/plain" : mediaTypeOf(part),
    data: traits.version === "v4" ? data : olderData(data),
    ...(title !== undefined && { filename: title }),
    ...optionsOf(part, traits),
  };
}

/** A text is said as bytes by versions that know no texts. */
function olderData(data: FileData): string | URL {
  if (data.type === "url") return data.url;
  return data.type === "data" ? data.data : toBase64(new TextEncoder().encode(data.text));
}

function textDocument(part: MediaPart | DocumentPart, text: string, traits: Traits): PromptPart {
  if (traits.says.has("messages.document.text")) return fileOf(part, { type: "text", text }, traits);
  const title = part.type === "document" && part.title !== undefined ? `${part.title}\n\n` : "";
  return { type: "text", text: title + text };
}

function optionsOf(
  part: MediaPart | DocumentPart,
  { isAnthropic, isOpenai }: Traits,
): { providerOptions?: ProviderOptions } {
  if (part.type === "media")
    return isOpenai && part.detail !== undefined ? { providerOptions: { openai: { imageDetail: part.detail } } } : {};
  if (!isAnthropic) return {};
  const anthropic: JsonObject = {
    ...(part.title !== undefined && { title: part.title }),
    ...(part.context !== undefined && { context: part.context }),
    ...(part.citations !== undefined && { citations: { enabled: part.citations } }),
  };
  return Object.keys(anthropic).length > 0 ? { providerOptions: { anthropic } } : {};
}
