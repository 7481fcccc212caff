/** Makes the smallest files of each format that tell how long they are. */

const ascii = (text: string): Buffer => Buffer.from(text, "latin1");
const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const u32le = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

export function pdf({
  pages,
  told = pages,
  bytesAPage = 0,
}: {
  pages: number;
  told?: number;
  bytesAPage?: number;
}): Buffer {
  const objects = Array.from(
    { length: pages },
    (_, page) => `${page + 3} 0 obj\n<< /Type /Page /Parent 2 0 R >>\nendobj\n${" ".repeat(bytesAPage)}`,
  );
  const kids = objects.map((_, page) => `${page + 3} 0 R`).join(" ");
  const tree = `2 0 obj\n<< /Type /Pages /Kids [${kids}] /Count ${told} >>\nendobj\n`;
  return ascii(`%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n${tree}${objects.join("")}%%EOF\n`);
}

/** 8,000 bytes a second. */
export const wav = (seconds: number): Buffer =>
  Buffer.concat([
    ascii("RIFF\0\0\0\0WAVEfmt "),
    u32le(16),
    Buffer.from([1, 0, 1, 0]),
    u32le(8_000),
    u32le(8_000),
    Buffer.from([1, 0, 8, 0]),
    ascii("data"),
    u32le(0xffffffff),
    Buffer.alloc(seconds * 8_000),
  ]);

export const aiff = (seconds: number): Buffer =>
  Buffer.concat([
    ascii("FORM\0\0\0\0AIFFCOMM"),
    u32(18),
    Buffer.from([0, 1]),
    u32(seconds * 44_100),
    Buffer.from([0, 16]),
    // 44,100 as an 80-bit float.
    Buffer.from([0x40, 0x0e, 0xac, 0x44, 0, 0, 0, 0, 0, 0]),
  ]);

export const flac = (seconds: number): Buffer =>
  Buffer.concat([
    ascii("fLaC\0\0\0\x22"),
    Buffer.alloc(10),
    u32((44_100 << 12) >>> 0).subarray(0, 3),
    Buffer.from([0]),
    u32(seconds * 44_100),
    Buffer.alloc(16),
  ]);

export function ogg(seconds: number, codec: "opus" | "vorbis"): Buffer {
  const page = (samples: number, body: Buffer): Buffer =>
    Buffer.concat([ascii("OggS\0\0"), u32le(samples), u32le(0), Buffer.alloc(12), Buffer.from([1, body.length]), body]);
  const head =
    codec === "opus"
      ? ascii("OpusHead\x01\x01\0\0\0\0\0\0")
      : Buffer.concat([ascii("\x01vorbis"), u32le(0), Buffer.from([1]), u32le(44_100)]);
  return Buffer.concat([
    page(0, head),
    page(5, ascii("more")),
    page(seconds * (codec === "opus" ? 48_000 : 44_100), ascii("last")),
  ]);
}

/** 128 kbit a second, 44.1 kHz. */
export function mp3(
  seconds: number,
  { tagged = false, varying = false }: { tagged?: boolean; varying?: boolean } = {},
): Buffer {
  const tag = tagged
    ? Buffer.concat([ascii("ID3\x04\0\0"), Buffer.from([0, 0, 2, 0]), Buffer.alloc(256)])
    : Buffer.alloc(0);
  const frame = Buffer.from([0xff, 0xfb, 0x90, 0x00]);
  if (!varying) return Buffer.concat([tag, frame, Buffer.alloc(seconds * 16_000 - 4)]);
  const frames = u32(Math.round((seconds * 44_100) / 1_152));
  return Buffer.concat([frame, Buffer.alloc(32), ascii("Xing"), u32(1), frames, Buffer.alloc(5_000)]);
}

/** 44.1 kHz, frames of 200 bytes. */
export const adts = (seconds: number): Buffer =>
  Buffer.concat(
    Array.from({ length: Math.round((seconds * 44_100) / 1_024) }, () =>
      Buffer.concat([
        Buffer.from([0xff, 0xf1, 0x50, 0x80 | (200 >> 11), (200 >> 3) & 0xff, (200 & 7) << 5, 0]),
        Buffer.alloc(193),
      ]),
    ),
  );

export function mp4(seconds: number, { last = false, wide = false }: { last?: boolean; wide?: boolean } = {}): Buffer {
  const box = (name: string, ...content: Buffer[]): Buffer => {
    const body = Buffer.concat(content);
    return Buffer.concat([u32(8 + body.length), ascii(name), body]);
  };
  const header = wide
    ? box("mvhd", u32(0x01000000), Buffer.alloc(16), u32(600), u32(0), u32(seconds * 600), Buffer.alloc(80))
    : box("mvhd", Buffer.alloc(12), u32(600), u32(seconds * 600), Buffer.alloc(80));
  const [type, movie, data] = [
    box("ftyp", ascii("isom\0\0\0\0")),
    box("moov", box("free"), header),
    box("mdat", Buffer.alloc(99)),
  ];
  return Buffer.concat(last ? [type, data, movie] : [type, movie, data]);
}

/** A timestamp of 1 ms, and a Duration as a double. */
export function matroska(seconds: number): Buffer {
  const duration = Buffer.alloc(8);
  duration.writeDoubleBE(seconds * 1_000);
  return Buffer.concat([
    Buffer.from([0x1a, 0x45, 0xdf, 0xa3, 0x80, 0x2a, 0xd7, 0xb1, 0x83, 0x0f, 0x42, 0x40, 0x44, 0x89, 0x88]),
    duration,
    Buffer.alloc(20),
  ]);
}
