/** Composes a scene from a prompt as SVG. Equal prompts get equal scenes, and different prompts get different scenes. */

import { createHash } from "node:crypto";
import { lettering } from "./lettering.ts";

/** A size in pixels. */
export interface Size {
  readonly width: number;
  readonly height: number;
}

/** The default size of an image. */
export const USUAL_SIZE: Size = { width: 1024, height: 1024 };

/** Reads a size such as `1024x1024`; undefined for `auto`. */
export function sizeOf(size: string | undefined): Size | undefined {
  const [, width, height] = /^(\d+)x(\d+)$/.exec(size ?? "") ?? [];
  return width === undefined ? undefined : { width: Number(width), height: Number(height) };
}

/** The input of a scene. */
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

/** A board with words. */
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
