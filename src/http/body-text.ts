/** Reads the text of a request body within its limit, also where a middleware of the host has read it before the gateway. */

import { GatewayError } from "../errors.ts";
import { utf8Length } from "../model/utf8-length.ts";
import { type BodyIntake, brokenOff, chunksOf, declaredBytes, stalled } from "./body-chunks.ts";
import { consumedBody } from "./consumed-body.ts";
import { GrowingBytes } from "./growing-bytes.ts";
import { LATE, within } from "./within.ts";

/** A body of up to so many bytes is read at once, and booked before: it is small beside what reading it takes. */
const SMALL_BYTES = 64 * 1024;

/**
 * The whole body. Throws `body_too_large` (before reading, where the length is declared), `unsupported_media_type` for one
 * that is compressed, `malformed_body`, `client_closed`, `deadline_exceeded` for one that stalls, `busy` where there is no room, or
 * `internal` where the host has read it and left nothing.
 */
export function readText(request: Request, maxBytes: number, intake: BodyIntake): string | Promise<string> {
  const declared = declaredBytes(request.headers);
  if (declared !== undefined && declared > maxBytes) throw tooLarge(maxBytes);
  const consumed = consumedText(request);
  if (consumed === undefined) return readUnread(request, declared, maxBytes, intake);
  intake.lease.take(consumed.length);
  assertFits(consumed, maxBytes);
  return consumed;
}

function readUnread(
  request: Request,
  declared: number | undefined,
  maxBytes: number,
  intake: BodyIntake,
): Promise<string> {
  const encoding = request.headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity")
    throw new GatewayError("unsupported_media_type", "The request body must not be compressed (content-encoding).");
  if (declared !== undefined && declared <= SMALL_BYTES) return readAtOnce(request, declared, maxBytes, intake);
  return readChunks(request, declared ?? maxBytes, intake);
}

async function readAtOnce(request: Request, declared: number, maxBytes: number, intake: BodyIntake): Promise<string> {
  const { lease, clock, stallMs } = intake;
  lease.take(declared);
  try {
    const reading = request.text();
    const text = await within(reading, stallMs, clock, (end) => intake.defer(end));
    if (text === LATE) throw stalled(stallMs);
    // Not every host holds a body to its declared length.
    assertFits(text, maxBytes);
    if (text.length > declared) lease.take(text.length - declared);
    return text;
  } catch (error) {
    throw brokenOff(request, error);
  }
}

async function readChunks(request: Request, maxBytes: number, intake: BodyIntake): Promise<string> {
  // Not a list of chunks: a client that sends its body byte by byte would make that far larger than the body.
  const bytes = new GrowingBytes(maxBytes);
  for await (const chunk of chunksOf(request, intake)) {
    if (bytes.length + chunk.length > maxBytes) throw tooLarge(maxBytes);
    bytes.append(chunk);
  }
  const text = new TextDecoder().decode(bytes.seal());
  // One character beyond Latin-1, and V8 keeps all of a string in two bytes a character.
  if (text.length < bytes.length) intake.lease.take(Math.max(0, 2 * text.length - bytes.length));
  return text;
}

/** Throws where a text has more bytes. They are counted only where it can matter: a character has three at most, and one at least. */
function assertFits(text: string, maxBytes: number): void {
  if (text.length > maxBytes || (text.length * 3 > maxBytes && utf8Length(text) > maxBytes)) throw tooLarge(maxBytes);
}

const tooLarge = (maxBytes: number): GatewayError =>
  new GatewayError("body_too_large", `The request body is larger than ${maxBytes} bytes.`);

/** The text of a body that a middleware has read; undefined where none has. */
function consumedText(request: Request): string | undefined {
  const left = consumedBody(request);
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
