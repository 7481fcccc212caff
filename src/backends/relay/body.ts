/** Reads the body of an upstream's answer, within a limit. */

import { GatewayError } from "../../errors.ts";
import { GrowingBytes } from "../../http/growing-bytes.ts";
import type { UpstreamResponse } from "./transport.ts";

const decoder = new TextDecoder();

/**
 * The whole body, as text. Throws `backend_failed` as soon as there are more than `maxBytes`.
 *
 * @param came Told of each piece.
 */
export async function readText(response: UpstreamResponse, maxBytes: number, came: () => void): Promise<string> {
  const first = await response.read();
  if (!first) return "";
  came();
  assertRoom(first.length, maxBytes);
  const second = await response.read();
  // Most answers come in one piece, which is not copied.
  if (!second) return decoder.decode(first);
  const bytes = new GrowingBytes(maxBytes);
  bytes.append(first);
  for (let piece: Uint8Array | undefined = second; piece; piece = await response.read()) {
    came();
    assertRoom(bytes.length + piece.length, maxBytes);
    bytes.append(piece);
  }
  return decoder.decode(bytes.seal());
}

/** The whole body. Throws `backend_failed` as soon as there are more than `maxBytes`. */
export async function readBytes(response: UpstreamResponse, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new GrowingBytes(maxBytes);
  for (let piece = await response.read(); piece; piece = await response.read()) {
    assertRoom(bytes.length + piece.length, maxBytes);
    bytes.append(piece);
  }
  return bytes.seal();
}

function assertRoom(length: number, maxBytes: number): void {
  if (length > maxBytes) throw tooLarge(`The upstream's answer is larger than ${maxBytes} bytes.`);
}

/** The first `maxBytes` of the body, as text; as many of them as have come, where the rest cannot be read. */
export async function readBeginning(response: UpstreamResponse, maxBytes: number): Promise<string> {
  const bytes = new GrowingBytes(maxBytes);
  try {
    while (bytes.length < maxBytes) {
      const piece = await response.read();
      if (!piece) break;
      bytes.append(piece.subarray(0, maxBytes - bytes.length));
    }
  } catch {
    // The status has come, which says more than the rest of the words.
  }
  return decoder.decode(bytes.seal());
}

export const tooLarge = (why: string): GatewayError =>
  new GatewayError("backend_failed", "The model backend failed.", { port: "model-backend", cause: new Error(why) });
