/** Writes text as squares, because a fresh machine may have no font at all. */

/** Five columns a letter as hexadecimal bytes, the lowest bit on top, from the space to the tilde. */
const GLYPHS = [
  "0000000000 00005F0000 0007000700 147F147F14 242A7F2A12 2313086462 3649562050 0008070300",
  "001C224100 0041221C00 2A1C7F1C2A 08083E0808 0080703000 0808080808 0000606000 2010080402",
  "3E5149453E 00427F4000 7249494946 2141494D33 1814127F10 2745454539 3C4A494931 4121110907",
  "3649494936 464949291E 0000140000 0040340000 0008142241 1414141414 0041221408 0201590906",
  "3E415D594E 7C1211127C 7F49494936 3E41414122 7F4141413E 7F49494941 7F09090901 3E41415173",
  "7F0808087F 00417F4100 2040413F01 7F08142241 7F40404040 7F021C027F 7F0408107F 3E4141413E",
  "7F09090906 3E4151215E 7F09192946 2649494932 03017F0103 3F4040403F 1F2040201F 3F4038403F",
  "6314081463 0304780403 6159494D43 007F414141 0204081020 004141417F 0402010204 4040404040",
  "0003070800 2054547840 7F28444438 3844444428 384444287F 3854545418 00087E0902 18A4A49C78",
  "7F08040478 00447D4000 2040403D00 7F10284400 00417F4000 7C04780478 7C08040478 3844444438",
  "FC18242418 18242418FC 7C08040408 4854545424 04043F4424 3C4040207C 1C2040201C 3C4030403C",
  "4428102844 4C9090907C 4464544C44 0008364100 0000770000 0041360800 0201020402",
].flatMap((line) => line.split(" "));
/** What stands for a character that has no glyph. */
const UNKNOWN = "7F4141417F";

/** A letter with the gap after it, and a line with the gap below it, in squares. */
const LETTER_SQUARES = 6;
const LINE_SQUARES = 10;

/** A text laid out in a box. */
export interface Lettering {
  /** The outlines of all its squares, for an SVG path, from the box's upper left corner on. */
  readonly path: string;
  /** How high it came to be, in pixels. */
  readonly height: number;
}

/**
 * A text in lines that fit into a box, as large as it can be, up to `maxScale` pixels a square. What does not fit even at
 * one pixel a square is cut off with three dots.
 */
export function lettering(text: string, box: { width: number; height: number; maxScale: number }): Lettering {
  for (let scale = box.maxScale; ; scale--) {
    const perLine = Math.max(1, Math.floor(box.width / (LETTER_SQUARES * scale)));
    const fitting = Math.floor(box.height / (LINE_SQUARES * scale));
    const lines = wrapped(text, perLine);
    if (lines.length > fitting && scale > 1) continue;
    const shown = lines.slice(0, Math.max(1, fitting));
    if (lines.length > shown.length) shown.push(`${(shown.pop() ?? "").slice(0, Math.max(0, perLine - 3))}...`);
    const path = shown.map((line, row) => lineOf(line, row * LINE_SQUARES * scale, scale)).join("");
    return { path, height: shown.length * LINE_SQUARES * scale };
  }
}

/** Lines of at most so many characters, broken between words where that can be. */
function wrapped(text: string, perLine: number): string[] {
  const lines: string[] = [];
  for (const word of plainly(text)
    .split(/\s+/)
    .filter((word) => word !== "")) {
    const last = lines.at(-1);
    const characters = Array.from(word);
    if (last !== undefined && Array.from(last).length + 1 + characters.length <= perLine) {
      lines[lines.length - 1] = `${last} ${word}`;
      continue;
    }
    for (let at = 0; at < characters.length; at += perLine) lines.push(characters.slice(at, at + perLine).join(""));
  }
  return lines;
}

/** A text without what has no glyph of its own: accents, and the finer quotes and dashes. */
const plainly = (text: string): string =>
  text
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/[“”„«»]/g, '"')
    .replaceAll(/[‘’‚]/g, "'")
    .replaceAll(/\p{Pd}/gu, "-");

const lineOf = (line: string, top: number, scale: number): string =>
  Array.from(line, (character, index) => glyphAt(character, index * LETTER_SQUARES * scale, top, scale)).join("");

function glyphAt(character: string, left: number, top: number, scale: number): string {
  const code = character.codePointAt(0) ?? 0;
  const columns = (GLYPHS[code - 32] ?? UNKNOWN).match(/../g) ?? [];
  return columns
    .flatMap((column, x) => {
      const bits = Number.parseInt(column, 16);
      return Array.from({ length: 8 }, (_, y) =>
        bits & (1 << y) ? `M${left + x * scale} ${top + y * scale}h${scale}v${scale}h-${scale}z` : "",
      );
    })
    .join("");
}
