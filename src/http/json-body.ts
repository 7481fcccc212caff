/** Reads a JSON request body within its limits, and says clearly what is wrong with one that cannot be read. */

import { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { BodyIntake } from "./body-chunks.ts";
import { readText } from "./body-text.ts";

type JsonLimits = Pick<Limits, "maxJsonBytes" | "maxJsonDepth" | "maxJsonValues">;

/**
 * The parsed body of a request. Throws `unsupported_media_type`, `malformed_body`, and what `readText` throws.
 *
 * @param read Is given the text before it is parsed.
 */
export async function readJson(
  request: Request,
  limits: JsonLimits,
  intake: BodyIntake,
  read?: (text: string) => void,
): Promise<unknown> {
  assertJsonType(request.headers);
  const text = withoutByteOrderMark(await readText(request, limits.maxJsonBytes, intake));
  read?.(text);
  if (text.trim() === "") throw malformed("is empty; a JSON object is expected");
  assertWithinLimits(text, limits);
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

// Looked for in the text, before it is parsed: a hostile body of ten million arrays takes seconds to become them. What is no
// JSON may be counted wrongly, but not before the place where the parser will stop.
function assertWithinLimits(text: string, { maxJsonDepth, maxJsonValues }: JsonLimits): void {
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
