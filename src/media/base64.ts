/** Base64 as text: checks, the two alphabets, and conversions to and from bytes. All work is linear. */

/** Matches base64 of RFC 4648, section 4, without white space, with padding only at the end. Does not check the length. */
const STANDARD = /^[A-Za-z0-9+/]+={0,2}$/;
/** Like `STANDARD`, but also matches the characters of the alphabet for URLs (section 5). */
const EITHER = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** Tells whether a text is base64 in the standard alphabet: not empty, padded, without white space. */
export const isBase64 = (text: string): boolean => text.length % 4 === 0 && STANDARD.test(text);

/** Tells whether a text is base64 in the standard alphabet or in the alphabet for URLs. */
export const isAnyBase64 = (text: string): boolean => text.length % 4 === 0 && EITHER.test(text);

type Base64Format = { readonly contentEncoding: string; readonly pattern: string };

const format = (digit: string): Base64Format => ({
  contentEncoding: "base64",
  pattern: `^(?:${digit}{4})*(?:${digit}{4}|${digit}{3}=|${digit}{2}==)$`,
});

/** JSON Schema keywords that match the same texts as `isBase64`. */
export const BASE64_FORMAT: Base64Format = format("[A-Za-z0-9+/]");
/** JSON Schema keywords that match the same texts as `isAnyBase64`. */
export const ANY_BASE64_FORMAT: Base64Format = format("[A-Za-z0-9+/_-]");

/** A step converts this many characters or bytes. */
const PIECE = 0x8000;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/**
 * Converts base64 of either alphabet to the standard alphabet. Works on bytes, because `replaceAll` stores the position of every match: for
 * a whole picture, the process runs out of memory.
 */
export function inStandardAlphabet(text: string): string {
  if (!/[-_]/.test(text)) return text;
  const pieces: string[] = [];
  const bytes = new Uint8Array(Math.min(PIECE, text.length));
  for (let start = 0; start < text.length; start += PIECE) {
    const { written } = encoder.encodeInto(text.slice(start, start + PIECE), bytes);
    for (let at = 0; at < written; at++) {
      if (bytes[at] === 0x2d) bytes[at] = 0x2b;
      else if (bytes[at] === 0x5f) bytes[at] = 0x2f;
    }
    pieces.push(decoder.decode(bytes.subarray(0, written)));
  }
  return pieces.join("");
}

interface NodeBuffer {
  from(bytes: ArrayBufferLike, offset: number, length: number): { toString(encoding: "base64"): string };
  from(text: string, encoding: "base64"): Uint8Array;
}

const nodeBuffer = (): NodeBuffer | undefined => (globalThis as { Buffer?: NodeBuffer }).Buffer;

/** Encodes bytes. Uses the runtime's own encoder if there is one: for a picture it is a hundred times faster. */
export function toBase64(bytes: Uint8Array): string {
  const native = (bytes as { toBase64?: () => string }).toBase64;
  if (native) return native.call(bytes);
  const Buffer = nodeBuffer();
  if (Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  let binary = "";
  // Convert in pieces: a call cannot have as many arguments as a picture has bytes.
  for (let start = 0; start < bytes.length; start += PIECE)
    binary += String.fromCharCode(...bytes.subarray(start, start + PIECE));
  return btoa(binary);
}

/** Decodes base64 in the standard alphabet. The text must be valid; check it with `isBase64` first. */
export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native) return native(text);
  const Buffer = nodeBuffer();
  if (Buffer) return Buffer.from(text, "base64");
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** Decodes base64 of either alphabet as UTF-8 text. Returns undefined for bytes that are not UTF-8. */
export function textOfBase64(text: string): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(fromBase64(inStandardAlphabet(text)));
  } catch {
    return undefined;
  }
}

/** Decodes base64 in the standard alphabet as UTF-8 text. Bytes that are not UTF-8 become U+FFFD. */
export const readableTextOf = (text: string): string => new TextDecoder().decode(fromBase64(text));

/** A file in base64. Only the bytes that are read are decoded. */
export class Base64File {
  /** The size of the file, in bytes. */
  readonly length: number;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    const padding = text.endsWith("==") ? 2 : Number(text.endsWith("="));
    this.length = Math.max(0, Math.floor(text.length / 4) * 3 - padding);
  }

  /** Returns `count` bytes from `start` on, fewer at the end of the file. Throws if that part of the text is not base64. */
  bytes(start: number, count: number): Uint8Array {
    const end = Math.min(start + count, this.length);
    if (start >= end) return new Uint8Array();
    const from = Math.floor(start / 3);
    const decoded = fromBase64(inStandardAlphabet(this.#text.slice(from * 4, Math.ceil(end / 3) * 4)));
    return decoded.subarray(start - from * 3, end - from * 3);
  }
}
