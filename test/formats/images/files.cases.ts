/** Files that are taken and that are refused, with the bytes at every boundary (spec 2.2, 2.3, 8). */

import type { ImageFile } from "../../../src/index.ts";
import {
  type Bytes,
  chunk,
  CLEAR,
  GIF,
  JPEG,
  joined,
  OPAQUE,
  padded,
  png,
  type PngOptions,
  WEBP,
  WEBP_EXTENDED,
  WEBP_LOSSLESS,
} from "./pictures.ts";
import { editing, EDITS, file, type FormFields, VARIATIONS, varying } from "./requests.ts";

type Seen = Omit<ImageFile, "bytes">;
/** Forms are made when they are sent: some are large. */
export type Taken = readonly [
  name: string,
  path: string,
  fields: () => FormFields,
  images: readonly Seen[],
  mask?: Seen | undefined,
];
/** Without words, the message only has to begin with the field. */
export type Refused = readonly [name: string, path: string, fields: () => FormFields, param: string, message?: string];

const MULTI = "image-model-multi";
const MIB = 1024 * 1024;
const SMALL_LIMIT = 4 * MIB;
const LARGE_LIMIT = 25 * MIB;

/** Large files are made once. */
const made = new Map<string, Bytes>();
function large(bytes: Bytes, length: number): Bytes {
  const key = `${bytes === CLEAR ? "clear" : "opaque"} ${length}`;
  const file = made.get(key) ?? padded(bytes, length);
  made.set(key, file);
  return file;
}

const seen = (mediaType: Seen["mediaType"], width = 8, height = width, name = "picture.png"): Seen => ({
  mediaType,
  width,
  height,
  name,
});
const SQUARE = seen("image/png");

const edited = (name: string, image: () => Bytes, fields: FormFields = {}): Taken => [
  name,
  EDITS,
  () => editing({ image: file(image()), ...fields }),
  [SQUARE],
];

/** PNGs in which a pixel is fully transparent. */
const TRANSPARENT: readonly (readonly [name: string, options: PngOptions])[] = [
  ["one transparent pixel", { last: [9, 9, 9, 0] }],
  ["nothing but transparent pixels", { pixel: [0, 0, 0, 0] }],
  ["16 bits a sample", { depth: 16, last: [9, 9, 9, 0] }],
  ["a transparent gray pixel", { kind: "gray-alpha", last: [9, 0] }],
  ["a transparent gray pixel of 16 bits", { kind: "gray-alpha", depth: 16, last: [9, 0] }],
  ["tRNS that names a gray that it has", { kind: "gray", last: [7], trns: [0, 7] }],
  ["tRNS that names a colour that it has", { kind: "rgb", last: [1, 2, 3], trns: [0, 1, 0, 2, 0, 3] }],
  ["tRNS that names a colour of 16 bits", { kind: "rgb", depth: 16, last: [258, 2, 3], trns: [1, 2, 0, 2, 0, 3] }],
  ["tRNS for a colour of its palette", { kind: "palette", palette: [1, 1, 1, 2, 2, 2], last: [1], trns: [255, 0] }],
];

/** PNGs in which none is. */
const SOLID: readonly (readonly [name: string, options: PngOptions])[] = [
  ["opaque pixels", {}],
  ["an almost transparent pixel", { last: [0, 0, 0, 1] }],
  ["an almost transparent pixel of 16 bits", { depth: 16, last: [0, 0, 0, 1] }],
  ["no alpha channel", { kind: "rgb" }],
  ["gray pixels", { kind: "gray" }],
  ["opaque gray pixels", { kind: "gray-alpha" }],
  ["tRNS that names a gray that it has not", { kind: "gray", trns: [0, 7] }],
  ["tRNS that names a colour that it has not", { kind: "rgb", last: [3, 2, 1], trns: [0, 1, 0, 2, 0, 3] }],
  ["tRNS for a colour that no pixel has", { kind: "palette", palette: [1, 1, 1, 2, 2, 2], trns: [255, 0] }],
  ["tRNS that is not wholly transparent", { kind: "palette", palette: [1, 1, 1], trns: [1] }],
];

const ofMulti = (name: string, bytes: () => Bytes, image: Seen, fileName?: string, type?: string): Taken => [
  name,
  EDITS,
  () => editing({ model: MULTI, image: file(bytes(), fileName, type) }),
  [fileName === undefined ? image : { ...image, name: fileName }],
];

const masked = (name: string, image: Bytes, mask: () => Bytes, fields: FormFields = {}, size: Seen = SQUARE): Taken => [
  name,
  EDITS,
  () => editing({ ...fields, image: file(image), mask: file(mask()) }),
  [size],
  size,
];

export const FILES: readonly Taken[] = [
  ...TRANSPARENT.map(([name, options]) => edited(`an edit of a PNG with ${name}`, () => png(options))),
  ...[...TRANSPARENT, ...SOLID].map(([name, options]): Taken => [
    `a variation of a PNG with ${name}`,
    VARIATIONS,
    () => varying({ image: file(png(options)) }),
    [SQUARE],
  ]),
  ...SOLID.map(([name, options]) => masked(`an edit of a PNG with ${name} and a mask`, png(options), () => CLEAR)),
  masked("a mask by tRNS", OPAQUE, () => png({ kind: "gray", last: [7], trns: [0, 7] })),
  masked("a mask beside a picture that is transparent itself", CLEAR, () => CLEAR),
  masked(
    "a mask that is as large as a picture that is not square",
    png({ width: 9, height: 4 }),
    () => png({ width: 9, height: 4, last: [0, 0, 0, 0] }),
    { model: MULTI },
    seen("image/png", 9, 4),
  ),
  [
    "a mask beside a JPEG",
    EDITS,
    () => editing({ model: MULTI, image: file(JPEG), mask: file(CLEAR) }),
    [seen("image/jpeg")],
    SQUARE,
  ],
  [
    "a PNG of one pixel",
    EDITS,
    () => editing({ image: file(png({ width: 1, last: [0, 0, 0, 0] })) }),
    [seen("image/png", 1)],
  ],
  masked("a mask that marks nothing", CLEAR, () => OPAQUE),
  ofMulti("a PNG for image-model-multi", () => OPAQUE, SQUARE),
  ofMulti(
    "a PNG that is not square for image-model-multi",
    () => png({ width: 3, height: 5 }),
    seen("image/png", 3, 5),
  ),
  ofMulti("a JPEG for image-model-multi", () => JPEG, seen("image/jpeg"), "a.jpg", "image/jpeg"),
  ofMulti("a WEBP for image-model-multi", () => WEBP, seen("image/webp"), "a.webp", "image/webp"),
  ofMulti("a lossless WEBP for image-model-multi", () => WEBP_LOSSLESS, seen("image/webp"), "a.webp", "image/webp"),
  ofMulti("a WEBP with alpha for image-model-multi", () => WEBP_EXTENDED, seen("image/webp"), "a.webp", "image/webp"),
  ofMulti("a JPEG that calls itself a PNG", () => JPEG, seen("image/jpeg"), "a.png", "image/png"),
  ofMulti("a PNG that calls itself a WEBP", () => OPAQUE, SQUARE, "a.webp", "image/webp"),
  ofMulti("a WEBP that calls itself a text", () => WEBP, seen("image/webp"), "a.txt", "text/plain"),
  [
    "a PNG that calls itself a JPEG, for image-model-2",
    EDITS,
    () => editing({ image: file(CLEAR, "a.jpg", "image/jpeg") }),
    [seen("image/png", 8, 8, "a.jpg")],
  ],
  [
    "a PNG of unknown type, as streamed from a disk",
    VARIATIONS,
    () => varying({ image: file(OPAQUE, "blob", "application/octet-stream") }),
    [seen("image/png", 8, 8, "blob")],
  ],
];

export const LARGE_FILES: readonly Taken[] = [
  edited("an edit of a PNG of 4 MiB less 1 byte", () => large(CLEAR, SMALL_LIMIT - 1)),
  [
    "a variation of a PNG of 4 MiB less 1 byte",
    VARIATIONS,
    () => varying({ image: file(large(OPAQUE, SMALL_LIMIT - 1)) }),
    [SQUARE],
  ],
  masked("a mask of 4 MiB less 1 byte", OPAQUE, () => large(CLEAR, SMALL_LIMIT - 1)),
  masked("a mask of 4 MiB less 1 byte for image-model-multi", OPAQUE, () => large(CLEAR, SMALL_LIMIT - 1), {
    model: MULTI,
  }),
  ofMulti("a PNG of 4 MiB for image-model-multi", () => large(OPAQUE, SMALL_LIMIT), SQUARE),
  ofMulti("a PNG of 25 MiB less 1 byte for image-model-multi", () => large(OPAQUE, LARGE_LIMIT - 1), SQUARE),
];

/** PNGs of which something is broken, made from one that is whole. */
const BROKEN: readonly (readonly [name: string, bytes: Bytes])[] = [
  ["an empty file", new Uint8Array()],
  ["a text", new TextEncoder().encode("picture")],
  ["a GIF", GIF],
  ["a signature alone", CLEAR.slice(0, 8)],
  ["a PNG that breaks off in its pixels", CLEAR.slice(0, -20)],
  ["a PNG without its end", CLEAR.slice(0, -12)],
  ["a PNG with a wrong checksum in its header", flipped(CLEAR, 29)],
  ["a PNG with a wrong checksum in its pixels", flipped(CLEAR, CLEAR.length - 13)],
  [
    "a PNG whose size is not that of its pixels",
    joined(CLEAR.slice(0, 8), png({ width: 9 }).slice(8, 33), CLEAR.slice(33)),
  ],
  ["a PNG whose pixels do not inflate", joined(CLEAR.slice(0, 33), chunk("IDAT", new Uint8Array(9)), CLEAR.slice(-12))],
  ["a PNG without pixels", joined(CLEAR.slice(0, 33), CLEAR.slice(-12))],
];

/** With one bit changed. */
function flipped(bytes: Bytes, at: number): Bytes {
  const other = bytes.slice();
  other[at] = (other[at] ?? 0) ^ 1;
  return other;
}

const NOT_SQUARE = "must be square, not 8 × 4 pixels";
const oblong = (): Bytes => png({ width: 8, height: 4, last: [0, 0, 0, 0] });
const NOT_CLEAR = "must have transparent areas, which are to be edited, where no mask is sent";
const ONLY_PNG = "must be a PNG file";

const refusedFor2: readonly Refused[] = [
  ...SOLID.map(([name, options]): Refused => [
    `an edit of a PNG with ${name} and no mask`,
    EDITS,
    () => editing({ image: file(png(options)) }),
    "image",
    NOT_CLEAR,
  ]),
  ...[JPEG, WEBP].flatMap((bytes, index): Refused[] => [
    [`${["a JPEG", "a WEBP"][index]} for an edit`, EDITS, () => editing({ image: file(bytes) }), "image", ONLY_PNG],
    [
      `${["a JPEG", "a WEBP"][index]} for a variation`,
      VARIATIONS,
      () => varying({ image: file(bytes) }),
      "image",
      ONLY_PNG,
    ],
    [
      `${["a JPEG", "a WEBP"][index]} for a mask`,
      EDITS,
      () => editing({ image: file(OPAQUE), mask: file(bytes) }),
      "mask",
      ONLY_PNG,
    ],
  ]),
  ["a picture that is not square for an edit", EDITS, () => editing({ image: file(oblong()) }), "image", NOT_SQUARE],
  [
    "a picture that is not square for a variation",
    VARIATIONS,
    () => varying({ image: file(oblong()) }),
    "image",
    NOT_SQUARE,
  ],
];

const refusedMasks: readonly Refused[] = [
  [
    "a mask of another size",
    EDITS,
    () => editing({ image: file(OPAQUE), mask: file(png({ width: 9, last: [0, 0, 0, 0] })) }),
    "mask",
    "must be as large as the image, 8 × 8 pixels, not 9 × 9",
  ],
  ["a mask that is lower", EDITS, () => editing({ image: file(OPAQUE), mask: file(oblong()) }), "mask"],
  [
    "a mask of the second picture's size",
    EDITS,
    () => editing({ image: [file(OPAQUE), file(oblong())], mask: file(oblong()) }),
    "mask",
  ],
  [
    "a JPEG for a mask of image-model-multi",
    EDITS,
    () => editing({ model: MULTI, mask: file(JPEG) }),
    "mask",
    ONLY_PNG,
  ],
];

const refusedAnywhere: readonly Refused[] = BROKEN.flatMap(([name, bytes]): Refused[] => [
  [`${name} for an edit`, EDITS, () => editing({ image: file(bytes) }), "image"],
  [`${name} for a variation`, VARIATIONS, () => varying({ image: file(bytes) }), "image"],
  [`${name} for a mask`, EDITS, () => editing({ mask: file(bytes) }), "mask"],
  [`${name} for image-model-multi`, EDITS, () => editing({ model: MULTI, image: file(bytes) }), "image"],
  [`${name} among others`, EDITS, () => editing({ image: [file(JPEG), file(bytes), file(OPAQUE)] }), "image.1"],
]);

export const REFUSED_FILES: readonly Refused[] = [
  ...refusedFor2,
  ...refusedMasks,
  ...refusedAnywhere,
  [
    "a JPEG that breaks off in its header",
    EDITS,
    () => editing({ model: MULTI, image: file(JPEG.slice(0, 4)) }),
    "image",
  ],
  ...[
    ["a JPEG that breaks off in its pixels", JPEG.slice(0, -2)] as const,
    ["a WEBP that breaks off in its pixels", WEBP.slice(0, -2)] as const,
    ["a WEBP of a header alone", WEBP_EXTENDED.slice(0, 30)] as const,
  ].map(([name, bytes]): Refused => [name, EDITS, () => editing({ model: MULTI, image: file(bytes) }), "image"]),
  [
    "a WEBP that breaks off in its header",
    EDITS,
    () => editing({ model: MULTI, image: file(WEBP.slice(0, 12)) }),
    "image",
  ],
];

const SMALLER = `must be smaller than ${SMALL_LIMIT} bytes (4 MiB)`;
const SMALLER_THAN_LARGE = `must be smaller than ${LARGE_LIMIT} bytes (25 MiB)`;

export const TOO_LARGE_FILES: readonly Refused[] = [
  ["a PNG of 4 MiB for an edit", EDITS, () => editing({ image: file(large(CLEAR, SMALL_LIMIT)) }), "image", SMALLER],
  [
    "a PNG of 4 MiB for a variation",
    VARIATIONS,
    () => varying({ image: file(large(CLEAR, SMALL_LIMIT)) }),
    "image",
    SMALLER,
  ],
  ["a mask of 4 MiB", EDITS, () => editing({ mask: file(large(CLEAR, SMALL_LIMIT)) }), "mask", SMALLER],
  [
    "a mask of 4 MiB for image-model-multi",
    EDITS,
    () => editing({ model: MULTI, mask: file(large(CLEAR, SMALL_LIMIT)) }),
    "mask",
    SMALLER,
  ],
  [
    "a PNG of 25 MiB for image-model-multi",
    EDITS,
    () => editing({ model: MULTI, image: file(large(OPAQUE, LARGE_LIMIT)) }),
    "image",
    SMALLER_THAN_LARGE,
  ],
  [
    "a PNG of 25 MiB among others",
    EDITS,
    () => editing({ image: [file(OPAQUE), file(large(OPAQUE, LARGE_LIMIT))] }),
    "image.1",
    SMALLER_THAN_LARGE,
  ],
  [
    "a PNG of 25 MiB and 1 byte, by the transport",
    EDITS,
    () => editing({ model: MULTI, image: file(large(OPAQUE, LARGE_LIMIT + 1)) }),
    "image",
  ],
];
