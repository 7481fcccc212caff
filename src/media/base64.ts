/** Tells whether a text is base64 that decodes, without decoding it. */

const ALPHABET = /^[A-Za-z0-9+/]+={0,2}$/;

/** Whether a non-empty text is base64 of RFC 4648, section 4: whole groups of four, padded, no white space. */
export const isBase64 = (text: string): boolean => text.length % 4 === 0 && ALPHABET.test(text);
const EITHER_ALPHABET = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** The same for either alphabet, the standard one or that for URLs (section 5). */
export const isAnyBase64 = (text: string): boolean => text.length % 4 === 0 && EITHER_ALPHABET.test(text);

/** Base64 of either alphabet in the standard one. */
export const inStandardAlphabet = (text: string): string => text.replaceAll("-", "+").replaceAll("_", "/");

interface NodeBuffer {
  from(bytes: ArrayBufferLike, offset: number, length: number): { toString(encoding: "base64"): string };
}

/** Bytes as base64: natively where the runtime can, which for a picture is a hundred times faster. */
export function toBase64(bytes: Uint8Array): string {
  const native = (bytes as { toBase64?: () => string }).toBase64;
  if (native) return native.call(bytes);
  const { Buffer } = globalThis as { Buffer?: NodeBuffer };
  if (Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let binary = "";
  // In pieces: a call cannot have as many arguments as a picture has bytes.
  for (let start = 0; start < bytes.length; start += PIECE)
    binary += String.fromCharCode(...bytes.subarray(start, start + PIECE));
  return btoa(binary);
}

const PIECE = 0x8000;
