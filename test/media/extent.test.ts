/** How many pixels, pages and seconds media hold, by their headers: of every format that vendors take, and of files that lie or break off. */

import fc from "fast-check";
import sharp from "sharp";
import { describe, expect, it, vi } from "vitest";
import { Base64File } from "../../src/media/base64.ts";
import { pdfPages, pictureSize, recordingSeconds } from "../../src/media/extent.ts";
import { adts, aiff, flac, matroska, mp3, mp4, ogg, pdf, wav } from "./files.ts";

const fileOf = (bytes: Uint8Array): Base64File => new Base64File(Buffer.from(bytes).toString("base64"));

describe("a file in base64", () => {
  it("tells its length, and any of its bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(210), fc.nat(210), (bytes, start, count) => {
        const file = fileOf(bytes);
        expect(file.length).toBe(bytes.length);
        expect(Array.from(file.bytes(start, count))).toEqual(Array.from(bytes.subarray(start, start + count)));
      }),
    );
  });
});

/** A box of an MP4, a HEIC or an AVIF. */
function box(name: string, content: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt32BE(8 + content.length);
  head.write(name, 4);
  return Buffer.concat([head, content]);
}

/** Numbers of 32 bits. */
const fields = (...values: number[]): Buffer => Buffer.concat(values.map((value) => Buffer.from([0, 0, 0, value])));

/** The header of a HEIC of 9 × 8 pixels, as a camera writes it: in tiles, each with an entry of its own. */
function heic({ tiles = 48, brands = 2, boxes = 0 } = {}): Buffer {
  const properties = Array.from({ length: boxes }, () => box("free", Buffer.alloc(0)));
  const associations = Buffer.concat([fields(0, 1), Buffer.from([0, 1, 1, 1])]);
  return Buffer.concat([
    box("ftyp", Buffer.from("heic\0\0\0\0" + "mif1".repeat(brands))),
    box(
      "meta",
      Buffer.concat([
        fields(0),
        box("pitm", Buffer.from([0, 0, 0, 0, 0, 1])),
        box("iinf", Buffer.concat(Array.from({ length: tiles }, () => box("infe", Buffer.alloc(13))))),
        box(
          "iprp",
          Buffer.concat([
            box("ipco", Buffer.concat([box("ispe", fields(0, 9, 8)), ...properties])),
            box("ipma", associations),
          ]),
        ),
      ]),
    ),
    box("mdat", Buffer.alloc(40_000)),
  ]);
}

const plain = () => sharp({ create: { width: 1_234, height: 567, channels: 3, background: "#abc" } });

describe("the size of a picture", () => {
  it.each(["png", "jpeg", "webp", "gif", "avif"] as const)("is told by the header of %s", async (format) => {
    const file = await plain().toFormat(format).toBuffer();
    const size = pictureSize(fileOf(file));
    expect(size).toEqual({ width: 1_234, height: 567 });
  });

  it("is found in a JPEG behind what cameras and editors put before it", async () => {
    const file = await plain().jpeg().toBuffer();
    const segment = Buffer.concat([Buffer.from([0xff, 0xe2, 0xff, 0xff]), Buffer.alloc(65_533)]);
    const profiled = Buffer.concat([file.subarray(0, 2), segment, segment, file.subarray(2)]);
    expect(pictureSize(fileOf(profiled))).toEqual({ width: 1_234, height: 567 });
  });

  it("is read of a HEIC in many tiles, and not of one whose boxes or brands would take long", () => {
    const size = { width: 9, height: 8 };
    expect(pictureSize(fileOf(heic({ tiles: 400 })))).toEqual(size);
    expect(pictureSize(fileOf(heic({ brands: 100, boxes: 100 })))).toEqual(size);
    expect(pictureSize(fileOf(heic({ brands: 1_500 })))).toBeUndefined();
    expect(pictureSize(fileOf(heic({ boxes: 1_500 })))).toBeUndefined();
  });

  it("is unknown for what is no picture, breaks off, or is no base64", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("<svg width='1'/>"),
      Buffer.from("nothing"),
      Buffer.from([0xff, 0xd8]),
    ])
      expect(pictureSize(fileOf(bytes))).toBeUndefined();
    expect(pictureSize(new Base64File("****"))).toBeUndefined();
  });
});

describe("the pages of a PDF", () => {
  it.each([1, 2, 50, 700])("are the %i that its objects and its tree tell", (pages) => {
    expect(pdfPages(fileOf(pdf({ pages })))).toBe(pages);
    expect(pdfPages(fileOf(pdf({ pages, bytesAPage: 5_000 })))).toBe(pages);
  });

  it("are those that came, where the tree tells fewer, and those of the tree, where the pages are compressed", () => {
    expect(pdfPages(fileOf(pdf({ pages: 50, told: 1 })))).toBe(50);
    expect(pdfPages(fileOf(pdf({ pages: 0, told: 50 })))).toBe(50);
    expect(
      pdfPages(
        fileOf(Buffer.from("%PDF-1.7\n1 0 obj\n<</Linearized 1/L 9/N 31/T 9>>\nendobj\n2 0 obj\n<</N 3>>\nendobj")),
      ),
    ).toBe(31);
  });

  it("are not the entries of an outline, and unknown where all is compressed", () => {
    const outline = "%PDF-1.7\n1 0 obj\n<</Type/Outlines/Count 900>>\nendobj\n";
    expect(pdfPages(fileOf(Buffer.from(outline)))).toBeUndefined();
    expect(pdfPages(fileOf(Buffer.concat([Buffer.from(outline), pdf({ pages: 3 })])))).toBe(3);
  });

  it("are found wherever a piece of the file ends", () => {
    const file = pdf({ pages: 40 });
    for (let padding = 0; padding < 200; padding += 7) {
      const shifted = Buffer.concat([Buffer.alloc(192 * 1024 - 2_000 + padding, "%"), file]);
      expect([padding, pdfPages(fileOf(shifted))]).toEqual([padding, 40]);
    }
  });

  it("take bounded work, whatever names a file is full of", () => {
    for (const name of ["/", "/Type", "/Type /Page ", "/Count 1", "endobj", "/Type /Pages /Count 999999999 endobj "])
      expect(pdfPages(fileOf(Buffer.from(name.repeat(400_000))))).toSatisfy(
        (pages: number | undefined) => pages === undefined || pages <= 999_999,
      );
  });
});

describe("the length of a recording", () => {
  it.each<[format: string, file: Uint8Array]>([
    ["WAV", wav(12)],
    ["AIFF", aiff(12)],
    ["FLAC", flac(12)],
    ["Ogg with Opus", ogg(12, "opus")],
    ["Ogg with Vorbis", ogg(12, "vorbis")],
    ["MP3", mp3(12)],
    ["MP3 behind a tag", mp3(12, { tagged: true })],
    ["MP3 of varying bitrate", mp3(12, { varying: true })],
    ["AAC", adts(12)],
    ["MP4", mp4(12)],
    ["MP4 with its header last", mp4(12, { last: true })],
    ["MP4 of 64 bits", mp4(12, { wide: true })],
    ["Matroska", matroska(12)],
  ])("is told by the header of %s", (_format, file) => {
    expect(recordingSeconds(fileOf(file))).toSatisfy((seconds: number) => Math.abs(seconds - 12) < 0.2);
  });

  it.each<[name: string, first: number, kilobits: readonly number[]]>([
    ["1, layer 1", 0xff, [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448]],
    ["1, layer 2", 0xfd, [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384]],
    ["1, layer 3", 0xfb, [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]],
    ["2, layer 1", 0xf7, [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256]],
    ["2, layer 2", 0xf5, [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]],
    ["2.5, layer 3", 0xe3, [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]],
  ])("is told by each bitrate of MPEG %s, and unknown where that is free or none", (_name, first, kilobits) => {
    const secondsOf = (index: number): number | undefined =>
      recordingSeconds(fileOf(Buffer.concat([Buffer.from([0xff, first, index << 4, 0]), Buffer.alloc(7_996)])));
    for (const [at, one] of kilobits.entries()) expect(secondsOf(at + 1)).toBeCloseTo(64 / one, 6);
    expect([secondsOf(0), secondsOf(15)]).toEqual([undefined, undefined]);
  });

  it("is unknown for what is no recording, and for one that tells nothing", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("nothing at all"),
      Buffer.alloc(100, 0xff),
      flac(0),
      mp4(0),
      wav(0),
    ])
      expect(recordingSeconds(fileOf(bytes))).toBeUndefined();
  });

  it("is some number from 0 up, or unknown, for any bytes behind any beginning", () => {
    const beginnings = [
      wav(1),
      aiff(1),
      flac(1),
      ogg(1, "opus"),
      mp3(1),
      adts(1),
      mp4(1),
      matroska(1),
      pdf({ pages: 1 }),
    ];
    const cut = fc.tuple(fc.constantFrom(...beginnings), fc.nat(60), fc.uint8Array({ maxLength: 300 }));
    fc.assert(
      fc.property(cut, ([beginning, length, rest]) => {
        const file = fileOf(Buffer.concat([beginning.subarray(0, length), rest]));
        const seconds = recordingSeconds(file);
        expect(seconds === undefined || (Number.isFinite(seconds) && seconds > 0)).toBe(true);
        pictureSize(file);
        pdfPages(file);
      }),
      { numRuns: 300 },
    );
  });

  it("of an MP4 is looked for in its first movie alone, however many it has", () => {
    const empty = box("moov", Buffer.concat(Array.from({ length: 50 }, () => box("free", Buffer.alloc(0)))));
    const file = fileOf(Buffer.concat([box("ftyp", Buffer.alloc(8)), ...Array.from({ length: 40 }, () => empty)]));
    const reads = vi.spyOn(file, "bytes");
    expect(recordingSeconds(file)).toBeUndefined();
    expect(reads.mock.calls.length).toBeLessThan(60);
  });
});
