/** Tells how much a medium holds (pixels, pages, seconds) by its headers. Reads little, decodes nothing, and believes no more than it must. */

import { imageMeta } from "image-meta";
import type { Base64File } from "./base64.ts";
import { findJpegSize } from "./jpeg.ts";
import type { ImageSize } from "./size.ts";

/** The beginning of a picture in which its size is looked for: JPEGs have thumbnails and colour profiles before it. */
const PICTURE_HEAD_BYTES = 256 * 1024;
/** The beginning that is shown to the reader of all other formats of pictures, which walks from box to box. */
const OTHER_HEAD_BYTES = 4 * 1024;

/** Returns the size of a picture in pixels, or undefined where its header tells none. */
export function pictureSize(file: Base64File): ImageSize | undefined {
  try {
    const [first, second] = file.bytes(0, 2);
    if (first === 0xff && second === 0xd8) return findJpegSize(file.bytes(0, PICTURE_HEAD_BYTES));
    // Drawings in XML have no pixels, and no vendor takes them.
    if (first === 0x3c || first === undefined) return undefined;
    const { width, height } = imageMeta(file.bytes(0, OTHER_HEAD_BYTES));
    return width >= 1 && height >= 1 ? { width, height } : undefined;
  } catch {
    return undefined;
  }
}

/** How much of a document is decoded at a time, in bytes: a multiple of three. */
const PIECE_BYTES = 192 * 1024;
/** How far pieces overlap, so that no entry of a page is cut. */
const OVERLAP_BYTES = 96;
/** The most names of a document that are looked at: more only keep everyone busy. */
const MOST_NAMES = 200_000;

/**
 * Returns the number of pages of a PDF that its plain objects tell: the page objects, or the largest count of a page tree, whichever is
 * more. Undefined where none is told, as in files whose objects are compressed. One linear pass (ISO 32000-1, 7.7.3).
 */
export function pdfPages(file: Base64File): number | undefined {
  const count = new PageCount();
  try {
    for (let start = 0; start < file.length && !count.isFull; start += PIECE_BYTES)
      count.scan(file.bytes(start, PIECE_BYTES + OVERLAP_BYTES), PIECE_BYTES);
  } catch {
    return undefined;
  }
  return count.pages > 0 ? count.pages : undefined;
}

const SLASH = 0x2f;
const LETTER_E = 0x65;
/** What must stand before a letter that is looked at: a slash before those of Type, Count, Linearized and N, and an e before n. */
const LETTERS = new Uint8Array(256);
for (const letter of "TCLN") LETTERS[letter.charCodeAt(0)] = SLASH;
LETTERS["n".charCodeAt(0)] = LETTER_E;

class PageCount {
  #objects = 0;
  #most = 0;
  #names = 0;
  /** Whether the object at hand is a node of the page tree, and the count that it has. */
  #isTree = false;
  #count = 0;
  /** Whether the file tells its pages in its first object, as those that are made for the web do (annex F). */
  #isLinear = false;

  get pages(): number {
    return Math.max(this.#objects, this.#most);
  }

  get isFull(): boolean {
    return this.#names >= MOST_NAMES;
  }

  /** Looks at what begins in the first `length` bytes. Most bytes are passed over by one comparison, and most names by two. */
  scan(bytes: Uint8Array, length: number): void {
    const end = Math.min(length, bytes.length);
    for (let at = 0; at < end; at++) {
      const byte = bytes[at];
      if (byte !== SLASH && byte !== LETTER_E) continue;
      const next = bytes[at + 1];
      if (next === undefined || LETTERS[next] !== byte) continue;
      if (byte === SLASH) this.#name(bytes, at + 1);
      else if (startsWith(bytes, at, "endobj")) this.#endObject();
      if (this.#names >= MOST_NAMES) return;
    }
  }

  #name(bytes: Uint8Array, at: number): void {
    if (startsWith(bytes, at, "Type")) this.#type(bytes, afterSpace(bytes, at + 4));
    else if (startsWith(bytes, at, "Count")) this.#count = numberAt(bytes, at + 5) ?? this.#count;
    else if (startsWith(bytes, at, "Linearized")) this.#isLinear = true;
    else if (this.#isLinear && startsWith(bytes, at, "N"))
      this.#most = Math.max(this.#most, numberAt(bytes, at + 1) ?? 0);
    else return;
    this.#names++;
  }

  #type(bytes: Uint8Array, at: number): void {
    if (bytes[at] !== SLASH || !startsWith(bytes, at + 1, "Page")) return;
    if (startsWith(bytes, at + 5, "s")) this.#isTree = true;
    else if (!isRegular(bytes[at + 5])) this.#objects++;
  }

  #endObject(): void {
    if (this.#isTree) this.#most = Math.max(this.#most, this.#count);
    this.#isTree = false;
    this.#isLinear = false;
    this.#count = 0;
    this.#names++;
  }
}

/** The number of at most six digits behind white space; undefined where none is. */
function numberAt(bytes: Uint8Array, from: number): number | undefined {
  let at = afterSpace(bytes, from);
  if (at === from) return undefined;
  const end = at + 6;
  let number: number | undefined;
  for (let digit = digitAt(bytes, at); digit !== undefined && at < end; digit = digitAt(bytes, ++at))
    number = (number ?? 0) * 10 + digit;
  return number;
}

function startsWith(bytes: Uint8Array, at: number, text: string): boolean {
  for (let index = 0; index < text.length; index++) if (bytes[at + index] !== text.charCodeAt(index)) return false;
  return true;
}

function digitAt(bytes: Uint8Array, at: number): number | undefined {
  const byte = bytes[at];
  return byte !== undefined && byte >= 0x30 && byte <= 0x39 ? byte - 0x30 : undefined;
}

/** The place behind at most 16 characters of white space. */
function afterSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < from + 16 && (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09)) at++;
  return at;
}

/** Whether a byte goes on with a name. */
const isRegular = (byte: number | undefined): boolean =>
  byte !== undefined &&
  ((byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a) || (byte >= 0x30 && byte <= 0x39));

/** The largest head, and tail, of a recording that is read, in bytes. */
const HEAD_BYTES = 64 * 1024;
/** The most chunks or frames that are walked over, and the most boxes of an MP4, each of which is decoded by itself. */
const MOST_STEPS = 1_000;
const MOST_BOXES = 50;

/** Returns how long a sound or a film lasts, in seconds, or undefined where its header tells nothing that can be true. */
export function recordingSeconds(file: Base64File): number | undefined {
  try {
    const seconds = secondsOf(file);
    return seconds !== undefined && Number.isFinite(seconds) && seconds > 0 ? seconds : undefined;
  } catch {
    return undefined;
  }
}

function secondsOf(file: Base64File): number | undefined {
  const head = file.bytes(0, HEAD_BYTES);
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  const magic = String.fromCharCode(...head.subarray(0, 12));
  if (magic.startsWith("RIFF") && magic.endsWith("WAVE")) return wavSeconds(view, file.length);
  if (magic.startsWith("FORM") && /AIF[FC]$/.test(magic)) return aiffSeconds(view);
  if (magic.startsWith("fLaC")) return flacSeconds(view);
  if (magic.startsWith("OggS")) return oggSeconds(view, file);
  if (magic.slice(4, 8) === "ftyp") return mp4Seconds(file);
  if (magic.startsWith("\x1a\x45\xdf\xa3")) return matroskaSeconds(view);
  if (magic.startsWith("ID3")) return frameSeconds(file, 10 + syncSafe(head.subarray(6, 10)));
  return frameSeconds(file, 0);
}

/** The chunks of a RIFF or an IFF file: their names, and where their content begins. */
function* chunksIn(view: DataView, littleEndian: boolean): Generator<{ name: string; at: number; size: number }> {
  for (let at = 12, step = 0; at + 8 <= view.byteLength && step < MOST_STEPS; step++) {
    const size = view.getUint32(at + 4, littleEndian);
    yield { name: nameAt(view, at), at: at + 8, size };
    at += 8 + size + (size % 2);
  }
}

const nameAt = (view: DataView, at: number): string =>
  String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));

function wavSeconds(view: DataView, length: number): number | undefined {
  let bytesPerSecond = 0;
  for (const { name, at } of chunksIn(view, true)) {
    if (name === "fmt ") bytesPerSecond = view.getUint32(at + 8, true);
    // A stream's header tells no length, so that of the file is taken.
    if (name === "data") return (length - at) / bytesPerSecond;
  }
  return undefined;
}

function aiffSeconds(view: DataView): number | undefined {
  for (const { name, at } of chunksIn(view, false)) {
    if (name !== "COMM") continue;
    // The rate is an 80-bit float: an exponent, and a mantissa of which 32 bits are enough.
    const rate = view.getUint32(at + 10) * 2 ** ((view.getUint16(at + 8) & 0x7fff) - 16_383 - 31);
    return view.getUint32(at + 2) / rate;
  }
  return undefined;
}

function flacSeconds(view: DataView): number {
  const rate = view.getUint32(18) >>> 12;
  const samples = (view.getUint8(21) & 0x0f) * 2 ** 32 + view.getUint32(22);
  return samples / rate;
}

/** By the position that the last page tells (RFC 3533). */
function oggSeconds(view: DataView, file: Base64File): number | undefined {
  const begin = 27 + view.getUint8(26);
  const name = nameAt(view, begin) + nameAt(view, begin + 4);
  const rate =
    name === "OpusHead"
      ? 48_000
      : name.endsWith("vorbis\0") || name.startsWith("\x01vorbis")
        ? view.getUint32(begin + 12, true)
        : undefined;
  if (rate === undefined) return undefined;
  const start = Math.max(0, file.length - HEAD_BYTES);
  const tail = file.bytes(start, HEAD_BYTES);
  for (let at = tail.length - 14; at >= 0; at--)
    if (tail[at] === 0x4f && startsWith(tail, at, "OggS")) {
      const page = new DataView(tail.buffer, tail.byteOffset + at, 14);
      return (page.getUint32(6, true) + page.getUint32(10, true) * 2 ** 32) / rate;
    }
  return undefined;
}

/** The first box of a name in an MP4 between two places: where its content begins and ends (ISO 14496-12). */
function boxIn(file: Base64File, name: string, from: number, to: number): { start: number; end: number } | undefined {
  for (let at = from, step = 0; at + 8 <= to && step < MOST_BOXES; step++) {
    const bytes = file.bytes(at, 16);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const short = view.getUint32(0);
    const size = short === 1 ? view.getUint32(8) * 2 ** 32 + view.getUint32(12) : short === 0 ? to - at : short;
    if (size < 8) return undefined;
    if (nameAt(view, 4) === name) return { start: at + (short === 1 ? 16 : 8), end: Math.min(to, at + size) };
    at += size;
  }
  return undefined;
}

/** By the first movie header of the first movie: a file has one of each. */
function mp4Seconds(file: Base64File): number | undefined {
  const movie = boxIn(file, "moov", 0, file.length);
  const header = movie && boxIn(file, "mvhd", movie.start, movie.end);
  if (!header) return undefined;
  const bytes = file.bytes(header.start, 32);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return view.getUint8(0) === 1
    ? (view.getUint32(24) * 2 ** 32 + view.getUint32(28)) / view.getUint32(20)
    : view.getUint32(16) / view.getUint32(12);
}

/** By the elements Duration and TimestampScale near the beginning (RFC 9559). */
function matroskaSeconds(view: DataView): number | undefined {
  let scale = 1_000_000;
  let duration: number | undefined;
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  for (let at = 0; at + 11 <= bytes.length; at++) {
    const first = bytes[at];
    // Most bytes begin neither.
    if (first !== 0x2a && first !== 0x44) continue;
    if (first === 0x2a && bytes[at + 1] === 0xd7 && bytes[at + 2] === 0xb1 && bytes[at + 3] === 0x83)
      scale = view.getUint32(at + 3) & 0xffffff;
    if (first !== 0x44 || bytes[at + 1] !== 0x89 || duration !== undefined) continue;
    if (view.getUint8(at + 2) === 0x84) duration = view.getFloat32(at + 3);
    else if (view.getUint8(at + 2) === 0x88) duration = view.getFloat64(at + 3);
  }
  return duration === undefined ? undefined : (duration * scale) / 1e9;
}

const syncSafe = (bytes: Uint8Array): number => bytes.reduce((sum, byte) => sum * 128 + (byte & 0x7f), 0);

/** Kilobits a second by version (1; 2 and 2.5) and layer (1, 2, 3) of MPEG audio (ISO 11172-3, 2.4.2.3). */
const KILOBITS: Readonly<Record<string, readonly number[]>> = {
  "1.1": [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
  "1.2": [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
  "1.3": [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  "2.1": [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
  "2.2": [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  "2.3": [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
};

/** Of MP3 and of AAC in ADTS, whose frames begin with eleven bits that are set. */
function frameSeconds(file: Base64File, start: number): number | undefined {
  const bytes = file.bytes(start, HEAD_BYTES);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 8 || view.getUint16(0) < 0xffe0) return undefined;
  const layer = (bytes[1] ?? 0) & 6;
  return layer === 0 ? adtsSeconds(view, file.length - start) : mpegSeconds(view, file.length - start);
}

/** By the frames that the first one counts, or by its bitrate. */
function mpegSeconds(view: DataView, length: number): number | undefined {
  const [version, layer] = [(view.getUint8(1) >> 3) & 3, 4 - ((view.getUint8(1) >> 1) & 3)];
  const kilobits = KILOBITS[`${version === 3 ? 1 : 2}.${layer}`]?.[view.getUint8(2) >> 4];
  const rate =
    ([44_100, 48_000, 32_000][(view.getUint8(2) >> 2) & 3] ?? 0) / (version === 3 ? 1 : version === 2 ? 2 : 4);
  const samples = layer === 1 ? 384 : layer === 3 && version !== 3 ? 576 : 1_152;
  // The tag of a file whose bitrate varies stands in its first frame, behind the side information.
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

/** By the average length of the first frames, each of 1,024 samples (ISO 13818-7, 6.2). */
function adtsSeconds(view: DataView, length: number): number | undefined {
  const rate = AAC_RATES[(view.getUint8(2) >> 2) & 15];
  let [at, frames] = [0, 0];
  for (; at + 7 <= view.byteLength && frames < MOST_STEPS; frames++) {
    const size = ((view.getUint8(at + 3) & 3) << 11) | (view.getUint8(at + 4) << 3) | (view.getUint8(at + 5) >> 5);
    if (view.getUint16(at) < 0xfff0 || size < 7) break;
    at += size;
  }
  return rate === undefined || frames === 0 ? undefined : ((length / at) * frames * 1_024) / rate;
}
