/** Reads a JSON request body within its limits, and says clearly what is wrong with one that cannot be read. */

import { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";

type JsonLimits = Pick<Limits, "maxJsonBytes" | "maxJsonDepth">;

/**
 * The parsed body of a request. Throws `unsupported_media_type`, `body_too_large` (before reading, where the length is
 * declared) or `malformed_body`.
 */
export async function readJson(request: Request, limits: JsonLimits): Promise<unknown> {
  assertJsonType(request.headers);
  const text = withoutByteOrderMark(await readText(request, limits.maxJsonBytes));
  if (text.trim() === "")
    throw new GatewayError("malformed_body", "The request body is empty; a JSON object is expected.");
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (cause) {
    // The parser's own message quotes the body, which may hold secrets.
    throw new GatewayError("malformed_body", "The request body is not valid JSON.", { cause });
  }
  if (isDeeperThan(body, limits.maxJsonDepth))
    throw new GatewayError("malformed_body", `The request body is nested deeper than ${limits.maxJsonDepth} levels.`);
  return body;
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

function assertJsonType(headers: Headers): void {
  const type = headers.get("content-type");
  if (type === null || !JSON_TYPE.test(type))
    throw new GatewayError("unsupported_media_type", "The request's content-type must be application/json.");
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity")
    throw new GatewayError("unsupported_media_type", "The request body must not be compressed (content-encoding).");
}

async function readText(request: Request, maxBytes: number): Promise<string> {
  const declared = request.headers.get("content-length");
  try {
    if (declared === null) return await readChunks(request, maxBytes);
    if (Number(declared) > maxBytes) throw tooLarge(maxBytes);
    // The server holds a body to its declared length, so the fast path needs no counting.
    return await request.text();
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    throw request.signal.aborted
      ? new GatewayError("client_closed", "The client closed the connection.", { cause: error })
      : new GatewayError("malformed_body", "The request body could not be read to its end.", { cause: error });
  }
}

async function readChunks(request: Request, maxBytes: number): Promise<string> {
  if (request.body === null) return "";
  const reader = request.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (let step = await reader.read(); !step.done; step = await reader.read()) {
    bytes += step.value.byteLength;
    if (bytes > maxBytes) {
      // Let go of, not cancelled: on Node that would close the connection before the caller is told.
      reader.releaseLock();
      throw tooLarge(maxBytes);
    }
    text += decoder.decode(step.value, { stream: true });
  }
  return text + decoder.decode();
}

const tooLarge = (maxBytes: number): GatewayError =>
  new GatewayError("body_too_large", `The request body is larger than ${maxBytes} bytes.`);

const withoutByteOrderMark = (text: string): string => (text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);

// A list of what is still to be seen instead of recursion: the depth of the input must not be the depth of the stack.
function isDeeperThan(value: unknown, maxDepth: number): boolean {
  let level = containersIn([value]);
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > maxDepth) return true;
    level = level.flatMap((container) => containersIn(Object.values(container)));
  }
  return false;
}

const containersIn = (values: readonly unknown[]): object[] =>
  values.filter((value): value is object => typeof value === "object" && value !== null);
