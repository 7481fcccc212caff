/** Pictures that the demo draws: a pattern of its own for each text, as a PNG. */

import { createHash } from "node:crypto";
import { crc32, deflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
const CELLS = 8;
const CELL_PIXELS = 8;
const SIZE = CELLS * CELL_PIXELS;

/** Draws a picture of 64 × 64 pixels, the same for the same text, whose right half mirrors its left. */
export function drawPicture(text: string): Buffer {
  const seed = createHash("sha256").update(text).digest();
  const ink = seed.subarray(0, 3);
  const paper = Buffer.from([255, 255, 255]);
  const rows = Array.from({ length: SIZE }, (_, y) => {
    const pixels = Array.from({ length: SIZE }, (_, x) => (isInked(seed, x, y) ? ink : paper));
    // A row begins with its filter; 0 is none.
    return Buffer.concat([Buffer.of(0), ...pixels]);
  });
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header()),
    chunk("IDAT", deflateSync(Buffer.concat(rows))),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function isInked(seed: Buffer, x: number, y: number): boolean {
  const column = Math.floor(Math.min(x, SIZE - 1 - x) / CELL_PIXELS);
  const row = Math.floor(y / CELL_PIXELS);
  return (((seed[3 + row] ?? 0) >> column) & 1) === 1;
}

function header(): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(SIZE, 0);
  header.writeUInt32BE(SIZE, 4);
  // Eight bits a sample, and three samples a pixel; the compression, filter and interlace methods are 0.
  header.set([8, 2], 8);
  return header;
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const frame = Buffer.alloc(8);
  frame.writeUInt32BE(data.length, 0);
  frame.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
}
