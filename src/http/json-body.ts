/** Reads a JSON request body within its limits, and says clearly what is wrong with one that cannot be read. */

import { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { BodyIntake } from "./body-chunks.ts";
import type { BodyLease } from "./body-room.ts";
import { readText } from "./body-text.ts";

type JsonLimits = Pick<Limits, "maxJsonBytes" | "maxJsonDepth" | "maxJsonValues">;

/**
 * Memory that a value takes once it is parsed, beyond the bytes that it is written in: what the dearest values take in V8, objects
 * with a single numeric key, one within another. Most take a quarter of that. A test measures it.
 */
export const VALUE_BYTES = 208;

/** The text of a JSON body, not parsed yet. Throws `unsupported_media_type`, `malformed_body` for an empty one, and what `readText` throws. */
export async function readJsonText(request: Request, limits: JsonLimits, intake: BodyIntake): Promise<string> {
  assertJsonType(request.headers);
  const text = withoutByteOrderMark(await readText(request, limits.maxJsonBytes, intake));
  if (text.trim() === "") throw malformed("is empty; a JSON object is expected");
  return text;
}

/**
 * The value of a JSON body's text. What it will take is booked before it is parsed: throws `busy` or `body_too_large` where there is
 * no room, and `malformed_body`.
 */
export function parseJsonText(text: string, limits: JsonLimits, lease: BodyLease): unknown {
  lease.take(countValues(text, limits) * VALUE_BYTES);
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The parser's own message quotes the body, which may hold secrets.
    throw malformed("is not valid JSON", cause);
  }
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

function assertJsonType(headers: Headers): void {
  const type = headers.get("content-type");
  if (type === null || !JSON_TYPE.test(type))
    throw new GatewayError("unsupported_media_type", "The request's content-type must be application/json.");
}

const malformed = (what: string, cause?: unknown): GatewayError =>
  new GatewayError("malformed_body", `The request body ${what}.`, { cause });

const withoutByteOrderMark = (text: string): string => (text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);

/** The characters that hold JSON together. */
const QUOTE = 0x22;
const COMMA = 0x2c;
const ARRAY = 0x5b;
const BACKSLASH = 0x5c;
const ARRAY_END = 0x5d;
const OBJECT = 0x7b;
const OBJECT_END = 0x7d;

/**
 * How many values a text holds. Throws `malformed_body` beyond the limits, before the text is parsed: a hostile body of ten million
 * arrays takes seconds to become them. Text that is no JSON may be counted wrongly, but only behind the place where the parser stops.
 */
function countValues(text: string, { maxJsonDepth, maxJsonValues }: JsonLimits): number {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
        continue;
      case ARRAY:
      case OBJECT:
        if (++depth > maxJsonDepth) throw malformed(`is nested deeper than ${maxJsonDepth} levels`);
        break;
      case ARRAY_END:
      case OBJECT_END:
        depth--;
        continue;
      case COMMA:
        break;
      default:
        continue;
    }
    if (++values > maxJsonValues) throw malformed(`holds more than ${maxJsonValues} values`);
  }
  return values;
}

/** Where a string ends that starts at a quote: at the next quote that an even number of backslashes stands before. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let escapes = end;
    while (text.charCodeAt(escapes - 1) === BACKSLASH) escapes--;
    if ((end - escapes) % 2 === 0) return end;
  }
  return text.length;
}
