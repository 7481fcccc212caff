/** Writes PNG files chunk by chunk, right ones and wrong ones. */

import { crc32, deflateSync } from "node:zlib";

export type Bytes = Uint8Array<ArrayBuffer>;

export const SIGNATURE: Bytes = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);

export const joined = (...pieces: readonly Uint8Array[]): Bytes => new Uint8Array(Buffer.concat(pieces));

const uint32 = (value: number): Bytes => {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
};

/** A chunk; its checksum is right unless another is given. */
export function chunk(type: string, data: Uint8Array = new Uint8Array(), crc?: number): Bytes {
  const checked = joined(Buffer.from(type, "latin1"), data);
  return joined(uint32(data.length), checked, uint32(crc ?? crc32(checked)));
}

export interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth?: number;
  readonly colorType?: number;
  readonly interlace?: number;
  readonly compression?: number;
  readonly filter?: number;
}

export const header = ({
  width,
  height,
  depth = 8,
  colorType = 0,
  interlace = 0,
  compression = 0,
  filter = 0,
}: Header): Bytes =>
  chunk("IHDR", joined(uint32(width), uint32(height), Uint8Array.of(depth, colorType, compression, filter, interlace)));

export const END: Bytes = chunk("IEND");

export const data = (rows: Uint8Array): Bytes => chunk("IDAT", deflateSync(rows));

export const file = (...chunks: readonly Uint8Array[]): Bytes => joined(SIGNATURE, ...chunks);

/** A picture of so many bytes of zeros, deflated: a thousandth of their size. */
export const zeros = (width: number, height: number, bytes: number): Bytes =>
  file(header({ width, height, colorType: 6 }), data(new Uint8Array(bytes)), END);

export const SAMPLES: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

export interface Picture extends Header {
  readonly depth: number;
  readonly colorType: number;
  /** All samples, row by row. */
  readonly samples: readonly number[];
  /** Filters of the rows, over and over. */
  readonly filters: readonly number[];
  readonly palette?: Uint8Array;
  readonly transparency?: Uint8Array;
  /** How large the pieces of its pixel data are, in bytes. */
  readonly pieceBytes: number;
}

/** A whole file. */
export function fileOf(picture: Picture): Bytes {
  const compressed = deflateSync(rowsOf(picture));
  const pieces: Bytes[] = [];
  for (let at = 0; at < compressed.length; at += picture.pieceBytes)
    pieces.push(chunk("IDAT", compressed.subarray(at, at + picture.pieceBytes)));
  return file(
    header(picture),
    ...(picture.palette ? [chunk("PLTE", picture.palette)] : []),
    ...(picture.transparency ? [chunk("tRNS", picture.transparency)] : []),
    ...pieces,
    END,
  );
}

const ADAM7 = ["1 6 4 6 2 6 4 6", "7 7 7 7 7 7 7 7", "5 6 5 6 5 6 5 6", "7 7 7 7 7 7 7 7", "3 6 4 6 3 6 4 6"];
/** The pass that each pixel of an 8 × 8 square belongs to, as the standard draws it. */
const PASS_OF = [0, 1, 2, 1, 4, 1, 2, 1].map((row) => ADAM7[row]?.split(" ").map(Number) ?? []);

function rowsOf({ width, height, depth, colorType, interlace, samples, filters }: Picture): Bytes {
  const perPixel = SAMPLES[colorType] ?? 1;
  const rows: Bytes[] = [];
  for (const pass of interlace ? [1, 2, 3, 4, 5, 6, 7] : [0]) {
    let above: Bytes | undefined;
    for (let y = 0; y < height; y++) {
      const row: number[] = [];
      for (let x = 0; x < width; x++)
        if (pass === 0 || PASS_OF[y % 8]?.[x % 8] === pass) {
          const at = (y * width + x) * perPixel;
          row.push(...samples.slice(at, at + perPixel));
        }
      if (row.length === 0) continue;
      const packed = pack(row, depth);
      rows.push(
        filtered(
          packed,
          above ?? new Uint8Array(packed.length),
          filters[rows.length % filters.length] ?? 0,
          Math.max(1, (perPixel * depth) / 8),
        ),
      );
      above = packed;
    }
  }
  return joined(...rows);
}

function pack(samples: readonly number[], depth: number): Bytes {
  const bits = samples.map((sample) => sample.toString(2).padStart(depth, "0")).join("");
  return Uint8Array.from(bits.match(/.{1,8}/g) ?? [], (byte) => Number.parseInt(byte.padEnd(8, "0"), 2));
}

function filtered(row: Bytes, above: Bytes, filter: number, step: number): Bytes {
  return joined(
    Uint8Array.of(filter),
    row.map((byte, at) => {
      const [a = 0, b = 0, c = 0] = [row[at - step], above[at], above[at - step]];
      const nearest = [a, b, c].toSorted((one, two) => Math.abs(a + b - c - one) - Math.abs(a + b - c - two))[0] ?? 0;
      return byte - ([0, a, b, Math.floor((a + b) / 2), nearest][filter] ?? 0);
    }),
  );
}
