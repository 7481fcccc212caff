/** Base64 as text: whether it decodes, its two alphabets, and the way to bytes and back. All of it is linear work. */

const ALPHABET = /^[A-Za-z0-9+/]+={0,2}$/;

/** Whether a non-empty text is base64 of RFC 4648, section 4: whole groups of four, padded, no white space. */
export const isBase64 = (text: string): boolean => text.length % 4 === 0 && ALPHABET.test(text);
const EITHER_ALPHABET = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** The same for either alphabet, the standard one or that for URLs (section 5). */
export const isAnyBase64 = (text: string): boolean => text.length % 4 === 0 && EITHER_ALPHABET.test(text);

type Base64Format = {
  readonly contentEncoding: string;
  readonly pattern: string;
};

const format = (digit: string): Base64Format => ({
  contentEncoding: "base64",
  pattern: `^(?:${digit}{4})*(?:${digit}{4}|${digit}{3}=|${digit}{2}==)$`,
});

/** What JSON Schema says of a base64 text, and of one in either alphabet. */
export const BASE64_FORMAT: Base64Format = format("[A-Za-z0-9+/]");
export const ANY_BASE64_FORMAT: Base64Format = format("[A-Za-z0-9+/_-]");

/** Characters or bytes that are worked on at a time. */
const PIECE = 0x8000;

/** What each byte of a text in either alphabet is in the standard one. */
const STANDARD = Uint8Array.from({ length: 256 }, (_, byte) => byte);
STANDARD.set([0x2b], 0x2d);
STANDARD.set([0x2f], 0x5f);

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Base64 of either alphabet in the standard one. By bytes: `replaceAll` keeps each of the places that it finds, which for a
 * picture ends the process for want of memory.
 */
export function inStandardAlphabet(text: string): string {
  if (!/[-_]/.test(text)) return text;
  const pieces: string[] = [];
  const bytes = new Uint8Array(Math.min(PIECE, text.length));
  for (let start = 0; start < text.length; start += PIECE) {
    const { written } = encoder.encodeInto(text.slice(start, start + PIECE), bytes);
    for (let at = 0; at < written; at++) bytes[at] = STANDARD[bytes[at] ?? 0] ?? 0;
    pieces.push(decoder.decode(bytes.subarray(0, written)));
  }
  return pieces.join("");
}

interface NodeBuffer {
  from(bytes: ArrayBufferLike, offset: number, length: number): { toString(encoding: "base64"): string };
  from(text: string, encoding: "base64"): Uint8Array;
}

const nodeBuffer = (): NodeBuffer | undefined => (globalThis as { Buffer?: NodeBuffer }).Buffer;

/** Bytes as base64: natively where the runtime can, which for a picture is a hundred times faster. */
export function toBase64(bytes: Uint8Array): string {
  const native = (bytes as { toBase64?: () => string }).toBase64;
  if (native) return native.call(bytes);
  const Buffer = nodeBuffer();
  if (Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let binary = "";
  // In pieces: a call cannot have as many arguments as a picture has bytes.
  for (let start = 0; start < bytes.length; start += PIECE)
    binary += String.fromCharCode(...bytes.subarray(start, start + PIECE));
  return btoa(binary);
}

/** The bytes that base64 in the standard alphabet stands for. The text must be valid: `isBase64` tells. */
export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native) return native(text);
  const Buffer = nodeBuffer();
  if (Buffer) return Buffer.from(text, "base64");
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** The UTF-8 text that base64 of either alphabet stands for, or undefined where the bytes are no UTF-8. */
export function textOfBase64(text: string): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(fromBase64(inStandardAlphabet(text)));
  } catch {
    return undefined;
  }
}

/** The bytes that a base64 text stands for, of which only those that are read are decoded. */
export class Base64File {
  /** In bytes. */
  readonly length: number;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    const padding = text.endsWith("==") ? 2 : Number(text.endsWith("="));
    this.length = Math.max(0, Math.floor(text.length / 4) * 3 - padding);
  }

  /** Returns the bytes from `start` on, `count` of them or as many as there are. Throws for a text that is no base64 there. */
  bytes(start: number, count: number): Uint8Array {
    const end = Math.min(start + count, this.length);
    if (start >= end) return new Uint8Array();
    const from = Math.floor(start / 3);
    const decoded = fromBase64(inStandardAlphabet(this.#text.slice(from * 4, Math.ceil(end / 3) * 4)));
    return decoded.subarray(start - from * 3, end - from * 3);
  }
}
