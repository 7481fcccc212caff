/** Chooses how the demo draws images: with the package sharp, or with plain code if sharp is not installed. */

import { crc32, deflateSync } from "node:zlib";
import { GatewayError } from "../errors.ts";
import type * as drawing from "./drawing.ts";
import { boardOf, paletteOf, type Size, sizeOf, USUAL_SIZE } from "./scene.ts";

type Painter = Pick<typeof drawing, "draw" | "edit" | "vary" | "unfinished" | "isReadable">;

let loaded: Promise<Painter> | undefined;

/** Loads sharp with the first image, because most hosts never ask for images. */
export const painter = (): Promise<Painter> => (loaded ??= import("./drawing.ts").catch(withoutSharp));

function withoutSharp(cause: unknown): Painter {
  if ((cause as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
  const refuse = async (): Promise<never> => {
    throw new GatewayError(
      "failed_precondition",
      "The demo needs the package sharp for this image: npm install sharp",
      {
        cause,
      },
    );
  };
  return {
    async draw({ size, outputFormat = "image/png", ...scene }) {
      return outputFormat === "image/png" ? plainPicture({ ...scene, ...(sizeOf(size) ?? USUAL_SIZE) }) : refuse();
    },
    edit: refuse,
    vary: refuse,
    unfinished: async (image) => image,
    isReadable: refuse,
  };
}

/** The parts of a drawing that a plain picture shows. */
interface PlainDrawing extends Size {
  readonly prompt: string;
  readonly index: number;
  readonly style?: string;
  /** `transparent` leaves out the sky. */
  readonly background?: string;
}

type Color = readonly [red: number, green: number, blue: number, alpha: number];

const BOARD: Color = [16, 19, 26, 255];
const WORDS: Color = [255, 255, 255, 255];
const NOTHING: Color = [0, 0, 0, 0];

/** Draws a PNG without an image library: the sky of the scene, and the prompt on a board. Equal drawings get equal images. */
function plainPicture(drawing: PlainDrawing): Uint8Array {
  const { prompt, width, height } = drawing;
  const { hue, saturation } = paletteOf(drawing);
  const pixels = Buffer.alloc(width * height * 4);
  const fill = (left: number, top: number, right: number, bottom: number, color: Color): void => {
    const [first, last] = [Math.max(0, left), Math.min(width, right)];
    for (let y = Math.max(0, top); y < Math.min(height, bottom); y++)
      if (last > first) pixels.fill(Uint8Array.from(color), (y * width + first) * 4, (y * width + last) * 4);
  };
  for (let y = 0; y < height; y++) {
    const share = y / height;
    const sky = rgbOf(hue + 60 * share, saturation, 30 + 40 * share);
    fill(0, y, width, y + 1, drawing.background === "transparent" ? NOTHING : sky);
  }
  const board = boardOf(prompt, drawing);
  const { margin, top } = board;
  if (board.path !== "") fill(margin, top - margin, width - margin, top - margin + board.height, BOARD);
  for (const [, x, y, side] of board.path.matchAll(/M(\d+) (\d+)h(\d+)/g)) {
    const [left, upper] = [2 * margin + Number(x), top + Number(y)];
    fill(left, upper, left + Number(side), upper + Number(side), WORDS);
  }
  return pngOf(pixels, width, height);
}

/** Converts a colour from hue in degrees, and saturation and lightness in percent. */
function rgbOf(hue: number, saturation: number, lightness: number): Color {
  const light = lightness / 100;
  const reach = (saturation / 100) * Math.min(light, 1 - light);
  const channel = (shift: number): number => {
    const turn = (shift + hue / 30) % 12;
    return Math.round(255 * (light - reach * Math.max(-1, Math.min(turn - 3, 9 - turn, 1))));
  };
  return [channel(0), channel(8), channel(4), 255];
}

/** Eight bits a channel, with alpha (PNG, section 11.2.1). */
const RGBA_8 = [8, 6, 0, 0, 0];

/** Encodes pixels of red, green, blue and alpha as a PNG whose rows have no filter. */
function pngOf(pixels: Buffer, width: number, height: number): Uint8Array {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set(RGBA_8, 8);
  const rows = Buffer.alloc((width * 4 + 1) * height);
  for (let y = 0; y < height; y++) pixels.copy(rows, y * (width * 4 + 1) + 1, y * width * 4, (y + 1) * width * 4);
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunkOf("IHDR", header),
    chunkOf("IDAT", deflateSync(rows, { level: 1 })),
    chunkOf("IEND", Buffer.alloc(0)),
  ]);
}

function chunkOf(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}
