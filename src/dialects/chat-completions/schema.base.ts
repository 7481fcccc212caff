/** What every object of the chat-completions format is made of. */

import * as v from "valibot";
import { object } from "../../http/validation.ts";
import { isBase64 } from "../../media/base64.ts";
import type { JsonObject } from "../../model/json.ts";

/** The name that `native` parts of the neutral model carry. */
export const DIALECT = "chat-completions";

// What JSON.parse made holds nothing but JSON.
export const jsonObject = object({}) as v.GenericSchema as v.GenericSchema<JsonObject>;

/** An integer between two bounds, both included. */
export const integer = (least: number, most: number = Number.MAX_SAFE_INTEGER) => {
  const message =
    most === Number.MAX_SAFE_INTEGER
      ? `must be an integer of at least ${least}`
      : `must be between ${least} and ${most}`;
  return v.pipe(v.number(), v.integer(), v.minValue(least, message), v.maxValue(most, message));
};

/** A number between two bounds, both included. */
export const between = (least: number, most: number) => {
  const message = `must be between ${least} and ${most}`;
  return v.pipe(v.number(), v.minValue(least, message), v.maxValue(most, message));
};

const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[\w.+-]+)*;base64,/;

/** The media type and the base64 of a `data:` URL; undefined for any other text. The base64 is not looked at. */
export function splitDataUrl(url: string): { readonly mediaType: string; readonly data: string } | undefined {
  const [head, mediaType] = DATA_URL.exec(url.slice(0, MAX_HEAD)) ?? [];
  return head === undefined || mediaType === undefined ? undefined : { mediaType, data: url.slice(head.length) };
}

/** No head of a `data:` URL is longer. */
const MAX_HEAD = 200;

export const dataUrl = (mediaType: string, data: string): string => `data:${mediaType};base64,${data}`;

/** Whether a text is a `data:` URL whose base64 decodes. */
export function isDataUrl(url: string): boolean {
  const split = splitDataUrl(url);
  return split !== undefined && isBase64(split.data);
}

/** An address on the web, or the data itself. */
export const webOrDataUrl = v.pipe(
  v.string(),
  v.check(
    (url) => (url.startsWith("data:") ? isDataUrl(url) : /^https?:\/\//i.test(url) && URL.canParse(url)),
    "must be an http or https URL, or a data: URL of base64",
  ),
  v.metadata({ pattern: "^(?:data:|[hH][tT][tT][pP][sS]?://)" }),
);
