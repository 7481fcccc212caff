/**
 * Composes a scene from a prompt as SVG. Equal prompts get equal scenes, and different prompts get different scenes. Draws text as squares,
 * because a machine may have no fonts.
 */

import { createHash } from "node:crypto";

/** A size in pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

export const USUAL_SIZE: Size = { width: 1024, height: 1024 };

/** Reads a size such as `1024x1024`; undefined for `auto`. */
export function sizeOf(size: string | undefined): Size | undefined {
  const [, width, height] = /^(\d+)x(\d+)$/.exec(size ?? "") ?? [];
  return width === undefined ? undefined : { width: Number(width), height: Number(height) };
}

export interface Scene extends Size {
  readonly prompt: string;
  /** `low` and `standard` are plain; `high` and `hd` have more of everything. */
  readonly quality?: string;
  /** `vivid` is bright, `natural` is muted. */
  readonly style?: string;
  /** The number of this scene among the scenes of its prompt, from 0. */
  readonly index: number;
  /** True to leave out the sky. */
  readonly isTransparent?: boolean;
}

/** The number of shapes by the quality, and true if their edges are drawn. */
const DETAIL: Readonly<Record<string, { readonly shapes: number; readonly hasEdges: boolean }>> = {
  low: { shapes: 6, hasEdges: false },
  standard: { shapes: 18, hasEdges: false },
  medium: { shapes: 18, hasEdges: false },
  high: { shapes: 60, hasEdges: true },
  hd: { shapes: 60, hasEdges: true },
};
const USUAL_DETAIL = { shapes: 18, hasEdges: false };

/** Returns a generator of pseudo-random numbers from 0 up to 1. Equal words get equal numbers. */
export function chanceOf(...words: readonly (string | number | Uint8Array)[]): () => number {
  const hash = createHash("sha256");
  for (const word of words) hash.update(typeof word === "number" ? `#${word}` : word);
  let state = hash.digest().readUInt32LE(0);
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The colours of a scene: the first hue in degrees, and the saturation in percent. */
export interface Palette {
  readonly chance: () => number;
  readonly hue: number;
  readonly saturation: number;
}

/** Chooses the colours of a scene. `chance` then continues with the shapes. */
export function paletteOf({ prompt, index, style }: Pick<Scene, "prompt" | "index" | "style">): Palette {
  const chance = chanceOf(prompt, index, style ?? "vivid");
  return { chance, hue: Math.floor(chance() * 360), saturation: style === "natural" ? 25 : 80 };
}

/** Returns a scene as an SVG document, which needs no fonts. */
export function sceneOf(scene: Scene): string {
  const { width, height } = scene;
  const { chance, hue, saturation } = paletteOf(scene);
  const color = (shift: number, lightness: number): string =>
    `hsl(${Math.floor(hue + shift) % 360} ${saturation}% ${lightness}%)`;
  const sky = `<linearGradient id="sky" x2="0.3" y2="1"><stop stop-color="${color(0, 30)}"/><stop offset="1" stop-color="${color(60, 70)}"/></linearGradient>`;
  const background = scene.isTransparent ? "" : `<rect width="${width}" height="${height}" fill="url(#sky)"/>`;
  const { shapes, hasEdges } = DETAIL[scene.quality ?? ""] ?? USUAL_DETAIL;
  const edge = hasEdges ? ` stroke="${color(0, 15)}" stroke-width="${Math.max(1, Math.round(width / 400))}"` : "";
  const painted = Array.from({ length: shapes }, (_, index) => {
    const fill = `fill="${color(chance() * 200, 35 + Math.floor(chance() * 45))}" fill-opacity="0.75"${edge}`;
    return `<${shapeOf(chance, width, height, 1 - index / shapes)} ${fill}/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><defs>${sky}</defs>${background}${painted.join("")}${captionOf(scene)}</svg>`;
}

/** Returns a circle, a triangle or a rotated box. A smaller `share` makes the shape smaller. */
function shapeOf(chance: () => number, width: number, height: number, share: number): string {
  const [x, y] = [Math.round(chance() * width), Math.round(chance() * height)];
  const size = Math.round(Math.min(width, height) * (0.05 + 0.25 * share * chance()));
  const kind = Math.floor(chance() * 3);
  if (kind === 0) return `circle cx="${x}" cy="${y}" r="${size}"`;
  if (kind === 1) return `polygon points="${x},${y - size} ${x + size},${y + size} ${x - size},${y + size}"`;
  const turn = Math.floor(chance() * 90);
  return `rect x="${x - size}" y="${y - size}" width="${2 * size}" height="${size}" transform="rotate(${turn} ${x} ${y})"`;
}

/** Returns the prompt in white on a dark board at the foot of the scene. */
function captionOf({ prompt, ...size }: Scene): string {
  const { path, margin, top, height } = boardOf(prompt, size);
  if (path === "") return "";
  const board = `<rect x="${margin}" y="${top - margin}" width="${size.width - 2 * margin}" height="${height}" rx="${margin / 2}" fill="#10131a" fill-opacity="0.85"/>`;
  return `${board}<path transform="translate(${2 * margin} ${top})" fill="#fff" shape-rendering="crispEdges" d="${path}"/>`;
}

export interface Board {
  /** The words as squares in the syntax of an SVG path; empty for no words. */
  readonly path: string;
  /** The room around the board, and around the words on it, in pixels. */
  readonly margin: number;
  /** The distance of the words from the top of the scene, in pixels. */
  readonly top: number;
  /** The height of the board, in pixels. */
  readonly height: number;
}

/** Lays out the prompt on a board at the foot of a scene. */
export function boardOf(prompt: string, { width, height }: Size): Board {
  const margin = Math.ceil(Math.min(width, height) / 24);
  const box = { width: width - 4 * margin, height: height * 0.6, maxScale: Math.max(1, Math.round(width / 170)) };
  const text = lettering(prompt, box);
  const textHeight = Math.round(text.height);
  return { path: text.path, margin, top: height - 2 * margin - textHeight, height: textHeight + 2 * margin };
}

/** The letters from the space to the tilde: five columns each, as hexadecimal bytes with the lowest bit on top. */
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
/** The glyph of all other characters. */
const UNKNOWN_GLYPH = "7F4141417F";

/** The width of a letter and the height of a line, with the gaps after them, in squares. */
const LETTER_SQUARES = 6;
const LINE_SQUARES = 10;

/** A text laid out in a box. */
export interface Lettering {
  /** The outlines of all squares as an SVG path. The origin is the box's upper left corner. */
  readonly path: string;
  /** The height of all lines, in pixels. */
  readonly height: number;
}

/**
 * Lays out a text in lines that fit into a box, with the largest possible squares up to `maxScale` pixels. Ends a text that is too
 * long even for squares of one pixel with three dots.
 */
export function lettering(text: string, box: { width: number; height: number; maxScale: number }): Lettering {
  for (let scale = box.maxScale; ; scale--) {
    const perLine = Math.max(1, Math.floor(box.width / (LETTER_SQUARES * scale)));
    const fitting = Math.floor(box.height / (LINE_SQUARES * scale));
    const lines = linesOf(text, perLine);
    if (lines.length > fitting && scale > 1) continue;
    const shown = lines.slice(0, Math.max(1, fitting));
    if (lines.length > shown.length) shown.push(`${(shown.pop() ?? "").slice(0, Math.max(0, perLine - 3))}...`);
    const path = shown.map((line, row) => linePath(line, row * LINE_SQUARES * scale, scale)).join("");
    return { path, height: shown.length * LINE_SQUARES * scale };
  }
}

/** Breaks a text into lines of at most `perLine` characters, between words if possible. */
function linesOf(text: string, perLine: number): string[] {
  const lines: string[] = [];
  for (const word of withGlyphs(text)
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

/** Removes accents, and replaces typographic quotes and dashes, because they have no glyphs. */
const withGlyphs = (text: string): string =>
  text
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/[“”„«»]/g, '"')
    .replaceAll(/[‘’‚]/g, "'")
    .replaceAll(/\p{Pd}/gu, "-");

const linePath = (line: string, top: number, scale: number): string =>
  Array.from(line, (character, index) => glyphPath(character, index * LETTER_SQUARES * scale, top, scale)).join("");

function glyphPath(character: string, left: number, top: number, scale: number): string {
  const code = character.codePointAt(0) ?? 0;
  const columns = (GLYPHS[code - 32] ?? UNKNOWN_GLYPH).match(/../g) ?? [];
  return columns
    .flatMap((column, x) => {
      const bits = Number.parseInt(column, 16);
      return Array.from({ length: 8 }, (_, y) =>
        bits & (1 << y) ? `M${left + x * scale} ${top + y * scale}h${scale}v${scale}h-${scale}z` : "",
      );
    })
    .join("");
}
