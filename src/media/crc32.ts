/** The checksum of PNG chunks. */

const TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

/** The CRC-32 of bytes, as an unsigned integer; give the checksum of what came before them to go on from there. */
export function crc32(bytes: Uint8Array, before = 0): number {
  let crc = ~before;
  // By index, because an iterator takes five times as long.
  for (let at = 0; at < bytes.length; at++) crc = (TABLE[(crc ^ (bytes[at] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8);
  return ~crc >>> 0;
}
