/** Reads a JSON request body within its limits, and says clearly what is wrong with one that cannot be read. */

import { GatewayError } from "../errors.ts";
import { type JsonBudget, JsonLimitError, parseJson } from "../model/json.ts";
import type { BodyIntake } from "./body-chunks.ts";
import { readText } from "./body-text.ts";

/** The text of a JSON body, not parsed yet. Throws `unsupported_media_type`, `malformed_body` for an empty one, and what `readText` throws. */
export async function readJsonText(request: Request, maxJsonBytes: number, intake: BodyIntake): Promise<string> {
  assertJsonType(request.headers);
  const text = withoutByteOrderMark(await readText(request, maxJsonBytes, intake));
  if (text.trim() === "") throw malformed("is empty; a JSON object is expected");
  return text;
}

/** The value of a JSON body's text. Throws `malformed_body`, and what the budget's booking throws where there is no room for the value. */
export function parseJsonText(text: string, budget: JsonBudget): unknown {
  try {
    return parseJson(text, budget);
  } catch (cause) {
    if (cause instanceof JsonLimitError) throw malformed(cause.message);
    // The parser's own message quotes the body, which may hold secrets.
    if (cause instanceof SyntaxError) throw malformed("is not valid JSON", cause);
    throw cause;
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
