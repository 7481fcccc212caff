/** Reads a JSON request body within its limits, and says clearly what is wrong with one that cannot be read. */

import { GatewayError } from "../errors.ts";
import { type JsonBudget, JsonLimitError, parseJson } from "../model/json.ts";
import type { BodyIntake } from "./body-chunks.ts";
import { readText } from "./body-text.ts";

/**
 * The parsed body of a request. Throws `unsupported_media_type`, `malformed_body`, and what `readText` throws.
 *
 * @param budget Holds the limits, and counts the body's values.
 * @param read Is given the text before it is parsed.
 */
export async function readJson(
  request: Request,
  budget: JsonBudget,
  intake: BodyIntake,
  read?: (text: string) => void,
): Promise<unknown> {
  assertJsonType(request.headers);
  const text = withoutByteOrderMark(await readText(request, budget.limits.maxJsonBytes, intake));
  read?.(text);
  if (text.trim() === "") throw malformed("is empty; a JSON object is expected");
  try {
    return parseJson(text, budget);
  } catch (cause) {
    if (cause instanceof JsonLimitError) throw malformed(cause.message);
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
