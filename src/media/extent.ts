/**
 * Estimates the size of a media file (pixels, pages or seconds) from its headers. Reads little of the file, and decodes no content.
 *
 * The packages for this are large: music-metadata 12 has 1.2 MB and ten dependencies, unpdf 1.8 (PDF.js) has 2.3 MB. Both read whole files.
 */

import { imageDimensionsFromData } from "image-dimensions";
import type { Base64File } from "./base64.ts";
import { type ImageSize, jpegSize } from "./picture.ts";

/** The bytes at the beginning of a JPEG that are searched for its size. Thumbnails and colour profiles come before the size. */
const JPEG_HEAD_BYTES = 256 * 1024;
/** The bytes at the beginning of any other picture that image-dimensions receives. A HEIC in tiles has several KiB before its size. */
const PICTURE_HEAD_BYTES = 16 * 1024;

/** Returns the size of a picture, or undefined for a header without a size. */
export function pictureSize(file: Base64File): ImageSize | undefined {
  try {
    const [first, second] = file.bytes(0, 2);
    if (first === 0xff && second === 0xd8) return jpegSize(file.bytes(0, JPEG_HEAD_BYTES), true);
    const head = file.bytes(0, PICTURE_HEAD_BYTES);
    assertFewBoxes(viewOf(head));
    const size = imageDimensionsFromData(head);
    return size && size.width >= 1 && size.height >= 1 ? { width: size.width, height: size.height } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The most boxes and brands of a HEIC or AVIF whose size is read. Usual pictures have fewer than a hundred.
 * image-dimensions takes milliseconds for thousands of them.
 */
const MAX_PICTURE_BOXES = 256;

/** The bytes between the header of a box and the boxes in it (ISO 14496-12). */
const BOXES_FROM: Readonly<Record<string, number>> = { meta: 4, iprp: 0, ipco: 0 };

/** Throws a RangeError for a HEIC or AVIF with too many brands, or with too many boxes on the way to its size. */
function assertFewBoxes(view: DataView): void {
  if (view.byteLength < 8 || nameAt(view, 4) !== "ftyp") return;
  let boxes = 0;
  const count = (from: number, to: number): void => {
    for (let at = from; at + 8 <= to;) {
      const short = view.getUint32(at);
      const start = at + (short === 1 ? 16 : 8);
      const end = short === 1 && start <= to ? at + Number(view.getBigUint64(at + 8)) : short === 0 ? to : at + short;
      if (end < start || end > to) return;
      const name = nameAt(view, at + 4);
      // A brand costs as much as a box.
      boxes += name === "ftyp" ? (end - start) / 4 : 1;
      if (boxes > MAX_PICTURE_BOXES) throw new RangeError("The picture has too many boxes");
      const skipped = BOXES_FROM[name];
      if (skipped !== undefined) count(start + skipped, end);
      at = end;
    }
  };
  count(0, view.byteLength);
}

/** The bytes of a document that are decoded at a time. A multiple of three, because base64 encodes three bytes together. */
const PIECE_BYTES = 192 * 1024;
/** The overlap of two pieces, in bytes. Longer than any match, so that each match is whole in one piece. */
const OVERLAP_BYTES = 96;
/** The most matches that are counted in a document. */
const MAX_MATCHES = 200_000;

/** Matches entries about pages, and the end of an object. The amount of white space is limited, so that the search takes linear time. */
const PDF_ENTRY =
  /\/Type[ \t\r\n]{0,16}\/Page(?:(s)|(?![A-Za-z0-9]))|\/Count[ \t\r\n]{1,16}(\d{1,6})|\/(Linearized)|\/N[ \t\r\n]{1,16}(\d{1,6})|(endobj)/g;

/**
 * Returns the number of pages of a PDF, or undefined if the number is hidden in compressed objects. Takes the number of page objects or the
 * largest count of a page tree, whichever is larger (ISO 32000-1, 7.7.3). A linearized file also has the number in its first object (annex
 * F).
 */
export function pdfPages(file: Base64File): number | undefined {
  const decoder = new TextDecoder("latin1");
  let pageObjects = 0;
  let largestCount = 0;
  let object = { isTree: false, isLinearized: false, count: 0 };
  let matches = 0;
  try {
    for (let start = 0; start < file.length && matches < MAX_MATCHES; start += PIECE_BYTES) {
      const text = decoder.decode(file.bytes(start, PIECE_BYTES + OVERLAP_BYTES));
      for (const { index, 1: tree, 2: count, 3: linearized, 4: pages, 5: end } of text.matchAll(PDF_ENTRY)) {
        // Leave matches in the overlap to the next piece.
        if (index >= PIECE_BYTES || ++matches > MAX_MATCHES) break;
        if (tree) object.isTree = true;
        else if (count) object.count = Number(count);
        else if (linearized) object.isLinearized = true;
        else if (pages) largestCount = object.isLinearized ? Math.max(largestCount, Number(pages)) : largestCount;
        else if (!end) pageObjects++;
        else {
          if (object.isTree) largestCount = Math.max(largestCount, object.count);
          object = { isTree: false, isLinearized: false, count: 0 };
        }
      }
    }
  } catch {
    return undefined;
  }
  return Math.max(pageObjects, largestCount) || undefined;
}

/** The bytes that are read at the beginning of a recording, and at its end. */
const RECORDING_BYTES = 64 * 1024;
/** The most chunks or frames that are read. */
const MAX_STEPS = 1_000;
/** The most boxes of an MP4 that are read. Each box is decoded separately, which costs time. */
const MAX_BOXES = 50;

/** Returns the length of a sound or a film in seconds, or undefined for a header without a plausible length. */
export function recordingSeconds(file: Base64File): number | undefined {
  try {
    const seconds = secondsOf(file);
    return seconds !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
  } catch {
    return undefined;
  }
}

function secondsOf(file: Base64File): number | undefined {
  const head = file.bytes(0, RECORDING_BYTES);
  const view = viewOf(head);
  const magic = String.fromCharCode(...head.subarray(0, 12));
  if (magic.startsWith("RIFF") && magic.endsWith("WAVE")) return wavSeconds(view, file.length);
  if (magic.startsWith("FORM") && /AIF[FC]$/.test(magic)) return aiffSeconds(view);
  if (magic.startsWith("fLaC")) return flacSeconds(view);
  if (magic.startsWith("OggS")) return oggSeconds(view, file);
  if (magic.slice(4, 8) === "ftyp") return mp4Seconds(file);
  if (magic.startsWith("\x1a\x45\xdf\xa3")) return matroskaSeconds(view);
  // An ID3 tag may come before the frames. Each byte of its length has seven bits.
  const tagBytes = magic.startsWith("ID3")
    ? 10 + head.subarray(6, 10).reduce((sum, byte) => sum * 128 + (byte & 0x7f), 0)
    : 0;
  return frameSeconds(viewOf(file.bytes(tagBytes, RECORDING_BYTES)), file.length - tagBytes);
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

const nameAt = (view: DataView, at: number): string =>
  String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));

/** Returns the offset of the content of the first RIFF or IFF chunk of a name, or undefined. */
function chunkIn(view: DataView, wanted: string, littleEndian: boolean): number | undefined {
  for (let at = 12, step = 0; at + 8 <= view.byteLength && step < MAX_STEPS; step++) {
    if (nameAt(view, at) === wanted) return at + 8;
    const size = view.getUint32(at + 4, littleEndian);
    at += 8 + size + (size % 2);
  }
  return undefined;
}

function wavSeconds(view: DataView, length: number): number | undefined {
  const format = chunkIn(view, "fmt ", true);
  const data = chunkIn(view, "data", true);
  if (format === undefined || data === undefined) return undefined;
  // The header of a streamed WAV has no length, so use the length of the file.
  return (length - data) / view.getUint32(format + 8, true);
}

function aiffSeconds(view: DataView): number | undefined {
  const common = chunkIn(view, "COMM", false);
  if (common === undefined) return undefined;
  // The rate is an 80-bit float: an exponent, and a mantissa whose first 32 bits are enough.
  const rate = view.getUint32(common + 10) * 2 ** ((view.getUint16(common + 8) & 0x7fff) - 16_383 - 31);
  return view.getUint32(common + 2) / rate;
}

function flacSeconds(view: DataView): number {
  const rate = view.getUint32(18) >>> 12;
  const samples = (view.getUint8(21) & 0x0f) * 2 ** 32 + view.getUint32(22);
  return samples / rate;
}

/** Reads the sample position in the last Ogg page (RFC 3533). */
function oggSeconds(head: DataView, file: Base64File): number | undefined {
  const codec = 27 + head.getUint8(26);
  const name = nameAt(head, codec) + nameAt(head, codec + 4);
  const isVorbis = name.startsWith("\x01vorbis");
  if (!isVorbis && name !== "OpusHead") return undefined;
  const rate = isVorbis ? head.getUint32(codec + 12, true) : 48_000;
  const end = viewOf(file.bytes(Math.max(0, file.length - RECORDING_BYTES), RECORDING_BYTES));
  for (let at = end.byteLength - 14; at >= 0; at--)
    if (end.getUint8(at) === 0x4f && nameAt(end, at) === "OggS")
      return (end.getUint32(at + 6, true) + end.getUint32(at + 10, true) * 2 ** 32) / rate;
  return undefined;
}

/** Reads the movie header. A file has one movie with one header (ISO 14496-12). */
function mp4Seconds(file: Base64File): number | undefined {
  const movie = boxIn(file, "moov", 0, file.length);
  const header = movie && boxIn(file, "mvhd", movie.start, movie.end);
  if (!header) return undefined;
  const view = viewOf(file.bytes(header.start, 32));
  return view.getUint8(0) === 1
    ? (view.getUint32(24) * 2 ** 32 + view.getUint32(28)) / view.getUint32(20)
    : view.getUint32(16) / view.getUint32(12);
}

/** Returns the content of the first MP4 box of a name between two offsets. */
function boxIn(file: Base64File, name: string, from: number, to: number): { start: number; end: number } | undefined {
  for (let at = from, step = 0; at + 8 <= to && step < MAX_BOXES; step++) {
    const view = viewOf(file.bytes(at, 16));
    const short = view.getUint32(0);
    const size = short === 1 ? view.getUint32(8) * 2 ** 32 + view.getUint32(12) : short === 0 ? to - at : short;
    if (size < 8) return undefined;
    if (nameAt(view, 4) === name) return { start: at + (short === 1 ? 16 : 8), end: Math.min(to, at + size) };
    at += size;
  }
  return undefined;
}

/** Reads the elements Duration and TimestampScale near the beginning (RFC 9559). */
function matroskaSeconds(view: DataView): number | undefined {
  let scale = 1_000_000;
  let duration: number | undefined;
  for (let at = 0; at + 11 <= view.byteLength; at++) {
    const first = view.getUint8(at);
    if (first === 0x2a && view.getUint32(at) === 0x2ad7b183) scale = view.getUint32(at + 3) & 0xffffff;
    if (first !== 0x44 || view.getUint8(at + 1) !== 0x89 || duration !== undefined) continue;
    if (view.getUint8(at + 2) === 0x84) duration = view.getFloat32(at + 3);
    else if (view.getUint8(at + 2) === 0x88) duration = view.getFloat64(at + 3);
  }
  return duration === undefined ? undefined : (duration * scale) / 1e9;
}

/** Kilobits a second by version (1; 2 and 2.5) and layer (1, 2, 3) of MPEG audio (ISO 11172-3, 2.4.2.3). */
const KILOBITS: Readonly<Record<string, readonly number[]>> = {
  "1.1": [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  "1.2": [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  "1.3": [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  "2.1": [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  "2.2": [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  "2.3": [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
};

/** Reads MP3, and AAC in ADTS: their frames begin with eleven set bits. */
function frameSeconds(view: DataView, length: number): number | undefined {
  if (view.byteLength < 8 || view.getUint16(0) < 0xffe0) return undefined;
  const layer = view.getUint8(1) & 6;
  return layer === 0 ? adtsSeconds(view, length) : mpegSeconds(view, length);
}

/** Uses the number of frames, if the first frame has a tag with this number. Otherwise uses the bitrate. */
function mpegSeconds(view: DataView, length: number): number | undefined {
  const version = (view.getUint8(1) >> 3) & 3;
  const layer = 4 - ((view.getUint8(1) >> 1) & 3);
  const kilobits = KILOBITS[`${version === 3 ? 1 : 2}.${layer}`]?.[view.getUint8(2) >> 4];
  const baseRate = [44_100, 48_000, 32_000][(view.getUint8(2) >> 2) & 3] ?? 0;
  const rate = baseRate / (version === 3 ? 1 : version === 2 ? 2 : 4);
  const samples = layer === 1 ? 384 : layer === 3 && version !== 3 ? 576 : 1_152;
  // A file of varying bitrate has a tag in its first frame, after the side information.
  for (let at = 4; at < 48 && at + 12 <= view.byteLength; at++) {
    const name = nameAt(view, at);
    if ((name === "Xing" || name === "Info") && view.getUint8(at + 7) & 1)
      return (view.getUint32(at + 8) * samples) / rate;
  }
  return kilobits ? (length * 8) / (kilobits * 1_000) : undefined;
}

const AAC_RATES: readonly number[] = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
];

/** Uses the average length of the first frames, each of 1,024 samples (ISO 13818-7, 6.2). */
function adtsSeconds(view: DataView, length: number): number | undefined {
  const rate = AAC_RATES[(view.getUint8(2) >> 2) & 15];
  let at = 0;
  let frames = 0;
  for (; at + 7 <= view.byteLength && frames < MAX_STEPS; frames++) {
    const size = ((view.getUint8(at + 3) & 3) << 11) | (view.getUint8(at + 4) << 3) | (view.getUint8(at + 5) >> 5);
    if (view.getUint16(at) < 0xfff0 || size < 7) break;
    at += size;
  }
  return rate === undefined || frames === 0 ? undefined : ((length / at) * frames * 1_024) / rate;
}
