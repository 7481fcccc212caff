/** Pictures to send: PNGs of any size and kind, padded to any length, and small ones of the other formats. */

import { crc32, deflateSync } from "node:zlib";

export type Bytes = Uint8Array<ArrayBuffer>;

/** Samples a pixel, by the PNG's colour type. */
const SAMPLES = { gray: [0, 1], rgb: [2, 3], palette: [3, 1], "gray-alpha": [4, 2], rgba: [6, 4] } as const;

export interface PngOptions {
  /** Default: 8. */
  readonly width?: number;
  /** Default: as the width. */
  readonly height?: number;
  /** Default: rgba. */
  readonly kind?: keyof typeof SAMPLES;
  /** Bits a sample: 8, unless told, or 16. */
  readonly depth?: 8 | 16;
  /** The samples of every pixel; by default those of an opaque one. */
  readonly pixel?: readonly number[];
  /** The samples of the last pixel, where they differ. */
  readonly last?: readonly number[];
  readonly palette?: readonly number[];
  readonly trns?: readonly number[];
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const END_BYTES = 12;

/** A PNG. */
export function png(options: PngOptions = {}): Bytes {
  const { width = 8, height = width, kind = "rgba", depth = 8, palette, trns } = options;
  const [colorType, samples] = SAMPLES[kind];
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([depth, colorType], 8);
  const opaque = Array.from({ length: samples }, () => (kind === "palette" ? 0 : 2 ** depth - 1));
  const { pixel = opaque, last = pixel } = options;
  const pixelBytes = (samples * depth) / 8;
  const rowBytes = 1 + width * pixelBytes;
  const row = Buffer.concat([Buffer.alloc(1), Buffer.alloc(rowBytes - 1, ofSamples(pixel, depth))]);
  const rows = Buffer.concat(Array.from({ length: height }, () => row));
  rows.set(ofSamples(last, depth), rows.length - pixelBytes);
  return joined(
    SIGNATURE,
    chunk("IHDR", header),
    ...(palette ? [chunk("PLTE", Uint8Array.from(palette))] : []),
    ...(trns ? [chunk("tRNS", Uint8Array.from(trns))] : []),
    chunk("IDAT", deflateSync(rows)),
    chunk("IEND", Buffer.alloc(0)),
  );
}

const ofSamples = (samples: readonly number[], depth: 8 | 16): Buffer =>
  Buffer.from(samples.flatMap((sample) => (depth === 8 ? [sample] : [sample >> 8, sample & 255])));

/** A chunk of a PNG, with its checksum. */
export function chunk(type: string, data: Uint8Array): Bytes {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return joined(length, body, check);
}

export const joined = (...pieces: readonly Uint8Array[]): Bytes => new Uint8Array(Buffer.concat(pieces));

/** The same PNG, made to be of exactly so many bytes by a chunk that every reader passes over. */
export function padded(bytes: Bytes, length: number): Bytes {
  const missing = length - bytes.length - 12;
  if (missing < 0) throw new RangeError(`A PNG of ${bytes.length} bytes cannot be padded to ${length}.`);
  const end = bytes.length - END_BYTES;
  return joined(bytes.subarray(0, end), chunk("paDd", new Uint8Array(missing)), bytes.subarray(end));
}

/** No pixel of it is transparent. */
export const OPAQUE: Bytes = png();
/** One pixel of it is, and so it needs no mask. */
export const CLEAR: Bytes = png({ last: [0, 0, 0, 0] });

const fromBase64 = (text: string): Bytes => new Uint8Array(Buffer.from(text, "base64"));

/** Pictures of 8 by 8 pixels in the other formats. */
export const JPEG: Bytes = fromBase64(
  "/9j/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/2wBDARESEhgVGC" +
    "8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2P/wAARCAAIAAgDASIAAhEBAxEB/8QAFQAB" +
    "AQAAAAAAAAAAAAAAAAAAAAX/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QAFQEBAQAAAAAAAAAAAAAAAAAAAQb/xAAUEQEAAAAAAAAAAAAAAAAAAA" +
    "AA/9oADAMBAAIRAxEAPwCcAFI//9k=",
);
export const WEBP: Bytes = fromBase64("UklGRjAAAABXRUJQVlA4ICQAAABQAQCdASoIAAgAAsBMJaAABAAAAP7qZWz///M0f/JH/sD1UAA=");
export const WEBP_LOSSLESS: Bytes = fromBase64("UklGRh4AAABXRUJQVlA4TBEAAAAvB8ABAAdQlCJXq/+BiOh/AAA=");
export const WEBP_EXTENDED: Bytes = fromBase64(
  "UklGRlQAAABXRUJQVlA4WAoAAAAQAAAABwAABwAAQUxQSAoAAAABB1DAiAhERP8DVlA4ICQAAABQAQCdASoIAAgAAsBMJaAABAAAAP7qZWz///M0f/JH/sD1UAA=",
);
export const GIF: Bytes = fromBase64("R0lGODlhCAAIAIAAAExpccgoWiH5BAUAAAAALAAAAAAIAAgAAAIHjI+py+1dAAA7");
