/** Reads the text of a request body within its limit, also where a middleware of the host has read it before the gateway. */

import { GatewayError } from "../errors.ts";
import { leftOf } from "./left-behind.ts";

/**
 * The whole body. Throws `body_too_large` (before reading, where the length is declared), `unsupported_media_type` for one
 * that is compressed, `malformed_body` or `client_closed`.
 */
export async function readText(request: Request, maxBytes: number): Promise<string> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) throw tooLarge(maxBytes);
  const text = leftBehind(request) ?? (await readUnread(request, declared, maxBytes));
  // Not every host holds a body to its declared length, and what another has read has no length of its own.
  if (isLarger(text, maxBytes)) throw tooLarge(maxBytes);
  return text;
}

async function readUnread(request: Request, declared: string | null, maxBytes: number): Promise<string> {
  const encoding = request.headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity")
    throw new GatewayError("unsupported_media_type", "The request body must not be compressed (content-encoding).");
  try {
    // A server holds a body to its declared length, so the fast path needs no counting.
    return declared === null ? await readChunks(request, maxBytes) : await request.text();
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

/** Whether a text has more bytes, which are counted only where it can matter: a character has three at most, and one at least. */
const isLarger = (text: string, maxBytes: number): boolean =>
  text.length > maxBytes || (text.length * 3 > maxBytes && new TextEncoder().encode(text).length > maxBytes);

const tooLarge = (maxBytes: number): GatewayError =>
  new GatewayError("body_too_large", `The request body is larger than ${maxBytes} bytes.`);

/** The text that is left of a body that a middleware has read; undefined where none has. */
function leftBehind(request: Request): string | undefined {
  const left = leftOf(request);
  if (left === undefined || typeof left === "string") return left;
  return left instanceof Uint8Array ? new TextDecoder().decode(left) : writtenAgain(left);
}

/** A parsed body as text, so that it is held to the same limits as any other. */
function writtenAgain(parsed: unknown): string {
  let cause: unknown;
  try {
    const text: string | undefined = JSON.stringify(parsed);
    if (text !== undefined) return text;
  } catch (error) {
    // Nested beyond what can be written, or no JSON at all.
    cause = error;
  }
  throw new GatewayError("malformed_body", "The request body that another middleware has parsed is no JSON.", {
    cause,
  });
}
