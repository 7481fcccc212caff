/** Sees whether a WEBP is all there, and holds a picture (RFC 9649, section 2). */

const RIFF_HEADER_BYTES = 12;
const CHUNK_HEADER_BYTES = 8;

/** The chunks that pixels are in, of a still image or of a frame of an animation. */
const PIXELS: ReadonlySet<string> = new Set(["VP8 ", "VP8L", "ANMF"]);

/** The most chunks before the pixels. Profile, animation and alpha come before them, and what only few readers know. */
const MAX_CHUNKS = 1_000;

/** Throws a RangeError for a file that begins as a WEBP does and breaks off, or that holds no pixels. Trailing bytes are let be. */
export function assertWholeWebp(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = CHUNK_HEADER_BYTES + view.getUint32(4, true);
  if (end > bytes.length) throw new RangeError("The file is shorter than it tells");
  let at = RIFF_HEADER_BYTES;
  for (let count = 0; count < MAX_CHUNKS && at + CHUNK_HEADER_BYTES <= end; count++) {
    const type = String.fromCharCode(...bytes.subarray(at, at + 4));
    const length = view.getUint32(at + 4, true);
    at += CHUNK_HEADER_BYTES + length;
    if (at > end) throw new RangeError("A chunk is longer than the file");
    if (PIXELS.has(type) && length > 0) return;
    // Chunks begin at even places.
    at += length % 2;
  }
  throw new RangeError("The file has no pixels");
}
