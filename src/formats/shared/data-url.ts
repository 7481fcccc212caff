/** Files inside a request or an answer, as `data:` URLs of base64. */

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[\w.+-]+)*;base64,/;

/** The longest beginning of a `data:` URL, before its base64, in characters. */
const MAX_HEAD = 200;

/** Returns the media type and the base64 of a `data:` URL; undefined for any other text. Does not check the base64. */
export function splitDataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  const [head, mediaType] = DATA_URL.exec(url.slice(0, MAX_HEAD)) ?? [];
  return head === undefined || mediaType === undefined ? undefined : { mediaType, data: url.slice(head.length) };
}

export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`;
