/** Files inside a request or an answer, as `data:` URLs of base64. */

import type { MediaSource } from "../../kinds/chat/request.ts";

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[\w.+-]+)*;base64,/;

/** The longest beginning of a `data:` URL, before its base64, in characters. */
const MAX_HEAD = 200;

/** Returns the media type and the base64 of a `data:` URL; undefined for any other text. Does not check the base64. */
export function splitDataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  const [head, mediaType] = DATA_URL.exec(url.slice(0, MAX_HEAD)) ?? [];
  return head === undefined || mediaType === undefined ? undefined : { mediaType, data: url.slice(head.length) };
}

/**
 * Returns the source of a document that stands in `file_data`. Base64 without the beginning of a `data:` URL names no media type: the files
 * of these formats are PDFs.
 */
export function fileSource(data: string): Extract<MediaSource, { readonly type: "base64" | "url" }> {
  if (/^https?:\/\//i.test(data.slice(0, MAX_HEAD))) return { type: "url", url: data };
  return { type: "base64", ...(splitDataUrl(data) ?? { mediaType: "application/pdf", data }) };
}

export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`;
