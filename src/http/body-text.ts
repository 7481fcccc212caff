/** Reads the text of a request body within its limit, also where a middleware of the host has read it before the gateway. */

import { GatewayError } from "../errors.ts";

/**
 * The whole body. Throws `body_too_large` (before reading, where the length is declared), `unsupported_media_type` for one
 * that is compressed, `malformed_body` or `client_closed`.
 */
export async function readText(request: Request, maxBytes: number): Promise<string> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > maxBytes) throw tooLarge(maxBytes);
  const text = leftBehind(request) ?? (await readUnread(request, declared, maxBytes));
  // Not every host holds a body to its declared length. No text has more characters than bytes.
  if (text.length > maxBytes) throw tooLarge(maxBytes);
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

const tooLarge = (maxBytes: number): GatewayError =>
  new GatewayError("body_too_large", `The request body is larger than ${maxBytes} bytes.`);

/** Node's own request, in reach of the fetch request that stands for it; `body` is where its body parsers leave theirs. */
interface NodeSource {
  readonly readableDidRead?: boolean;
  readonly readableEnded?: boolean;
  readonly body?: unknown;
  readonly rawBody?: unknown;
}

/** What is left of a body that a middleware has read; undefined where none has. */
function leftBehind(request: Request): string | undefined {
  const source = (request as { runtime?: { node?: { req?: NodeSource } } }).runtime?.node?.req;
  // Some parsers leave an empty object where they read nothing, so a body counts only where the stream was read.
  if (!request.bodyUsed && !source?.readableDidRead) return source?.readableEnded ? "" : undefined;
  const left = source?.rawBody instanceof Uint8Array ? source.rawBody : source?.body;
  if (left == null)
    throw new GatewayError(
      "malformed_body",
      "The request body was read by another middleware of this server before it came to the gateway. The gateway must be " +
        "mounted before that middleware, or find what it has parsed in req.body.",
    );
  if (typeof left === "string") return left;
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
