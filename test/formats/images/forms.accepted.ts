/** Edits and variations that are answered, each with what the backend is then asked: the passing side of spec 2.2, 2.3, 8. */

import type { ImageRequest } from "../../../src/index.ts";
import { ASTRAL } from "../messages/bodies.ts";
import { CLEAR, JPEG, OPAQUE, png, WEBP } from "./pictures.ts";
import { editing, file, type FormFields, varying } from "./requests.ts";

export type Accepted = readonly [name: string, fields: FormFields, asked: Partial<ImageRequest>];

const TWO = "image-model-2";
const MULTI = "image-model-multi";

const DEFAULTS: Partial<ImageRequest> = { model: TWO, count: 1, size: "1024x1024", delivery: "url", stream: false };

/** Fields that edits and variations share, as form texts, for image-model-2. */
const shared = (having: (fields: FormFields) => FormFields): readonly Accepted[] => [
  ["image-model-2 by its name", having({ model: TWO }), DEFAULTS],
  ["dall-e-2", having({ model: "dall-e-2" }), { model: TWO }],
  [
    "fields of null, as if they were not there",
    having({ model: "null", n: "null", size: "null", response_format: "null", quality: "null", stream: "null" }),
    DEFAULTS,
  ],
  ...["1", "10"].map((n): Accepted => [`n ${n}`, having({ n }), { count: Number(n) }]),
  ...["256x256", "512x512", "1024x1024"].map((size): Accepted => [`size ${size}`, having({ size }), { size }]),
  ["response_format url", having({ response_format: "url" }), { delivery: "url" }],
  ["response_format b64_json", having({ response_format: "b64_json" }), { delivery: "data" }],
  ["a user", having({ user: "someone" }), { endUser: "someone" }],
  ["a user who is called null", having({ user: "null" }), { endUser: "null" }],
  ["stream false", having({ stream: "false" }), { stream: false }],
  ["fields that nobody knows", having({ unknown: ["1"], "metadata[a]": "2" }), DEFAULTS],
];

const ofMulti = (fields: FormFields = {}): FormFields => editing({ model: MULTI, ...fields });

const prompts: readonly Accepted[] = [
  ["a prompt alone", editing(), DEFAULTS],
  ["a prompt that is the word null", editing({ prompt: "null" }), { prompt: "null" }],
  ["a prompt that is a number", editing({ prompt: "7" }), { prompt: "7" }],
  ["1000 characters for image-model-2", editing({ prompt: "x".repeat(1_000) }), { model: TWO }],
  ["1000 astral characters for image-model-2", editing({ model: TWO, prompt: ASTRAL.repeat(1_000) }), { model: TWO }],
  ["32000 characters for image-model-multi", ofMulti({ prompt: "x".repeat(32_000) }), { model: MULTI }],
  ["32000 astral characters for image-model-multi", ofMulti({ prompt: ASTRAL.repeat(32_000) }), { model: MULTI }],
];

const multi: readonly Accepted[] = [
  ["image-model-multi by its name", ofMulti(), { model: MULTI, size: "auto", quality: "auto", delivery: "both" }],
  ...["gpt-image-1", "gpt-image-1-mini", "gpt-image-1.5", "gpt-image-2"].map((alias): Accepted => [
    alias,
    ofMulti({ model: alias }),
    { model: MULTI, delivery: "both" },
  ]),
  ...["1", "10"].map((n): Accepted => [`n ${n} for image-model-multi`, ofMulti({ n }), { count: Number(n) }]),
  ["response_format url of image-model-multi", ofMulti({ response_format: "url" }), { delivery: "url" }],
  ["response_format b64_json of image-model-multi", ofMulti({ response_format: "b64_json" }), { delivery: "data" }],
  ["size 1024x1024 for image-model-multi", ofMulti({ size: "1024x1024" }), { size: "1024x1024" }],
  ["quality standard where no model is named", editing({ quality: "standard" }), { model: TWO, quality: "standard" }],
  ["quality auto where no model is named", editing({ quality: "auto" }), { model: TWO, quality: "auto" }],
  ["quality standard for image-model-2", editing({ model: TWO, quality: "standard" }), { quality: "standard" }],
];

/** What only image-model-multi takes. */
const MORE: readonly (readonly [fields: FormFields, asked: Partial<ImageRequest>])[] = [
  ...(["high", "medium", "low"] as const).map((quality) => [{ quality }, { quality }] as const),
  ...(["1536x1024", "1024x1536", "auto"] as const).map((size) => [{ size }, { size }] as const),
  [{ background: "transparent" }, { background: "transparent" }],
  [{ moderation: "low" }, { moderation: "low" }],
  [{ output_format: "webp" }, { outputFormat: "webp" }],
  [{ output_compression: "0" }, { outputCompression: 0 }],
  [{ output_compression: "100" }, { outputCompression: 100 }],
  [{ partial_images: "0" }, { partialImages: 0 }],
  [{ partial_images: "3" }, { partialImages: 3 }],
  [{ input_fidelity: "high" }, { inputFidelity: "high" }],
  [{ input_fidelity: "low" }, { inputFidelity: "low" }],
];

const more = MORE.flatMap(([fields, asked]): Accepted[] => [
  [`${JSON.stringify(fields)} for image-model-multi`, ofMulti(fields), { model: MULTI, ...asked }],
  [
    `${JSON.stringify(fields)} where no model is named, by image-model-multi`,
    editing(fields),
    { model: MULTI, delivery: "both", ...asked },
  ],
]);

const two = [file(OPAQUE), file(JPEG)];
const SQUARE = { mediaType: "image/png", width: 8, height: 8 } as const;
const files = (count: number): File[] => Array.from({ length: count }, () => file(OPAQUE));
const asked = (count: number): Partial<ImageRequest> => ({
  model: MULTI,
  images: Array.from({ length: count }, () => ({ ...SQUARE, bytes: OPAQUE, name: "picture.png" })),
});

const several: readonly Accepted[] = [
  ["image[] of one picture", editing({ image: undefined, "image[]": file(CLEAR) }), { model: TWO }],
  ["image[] of two pictures", editing({ image: undefined, "image[]": two }), { model: MULTI }],
  ["image twice", editing({ image: two }), { model: MULTI }],
  ["image[0] and image[1]", editing({ image: undefined, "image[0]": two[0], "image[1]": two[1] }), { model: MULTI }],
  [
    "image[1] before image[0], of which the mask has the size",
    editing({
      image: undefined,
      "image[1]": file(png({ width: 9, height: 4 })),
      "image[0]": file(OPAQUE),
      mask: file(CLEAR),
    }),
    { model: MULTI },
  ],
  ["16 pictures", editing({ image: undefined, "image[]": files(16) }), asked(16)],
  [
    "16 pictures and a mask",
    editing({ image: undefined, "image[]": files(16), mask: file(CLEAR) }),
    { ...asked(16), mask: { ...SQUARE, bytes: CLEAR, name: "picture.png" } },
  ],
  [
    "a mask of the first picture's size, where the second has another",
    editing({ image: undefined, "image[]": [file(OPAQUE), file(png({ width: 9, height: 4 }))], mask: file(CLEAR) }),
    { model: MULTI },
  ],
  [
    "pictures of all formats",
    ofMulti({ image: undefined, "image[]": [OPAQUE, JPEG, WEBP].map((each) => file(each)) }),
    {},
  ],
];

export const ACCEPTED_EDITS: readonly Accepted[] = [...shared(editing), ...prompts, ...multi, ...more, ...several];

export const ACCEPTED_VARIATIONS: readonly Accepted[] = [
  ["a picture alone", varying(), { ...DEFAULTS, prompt: "" }],
  ["an opaque picture", varying({ image: file(OPAQUE) }), DEFAULTS],
  ["a prompt, which variations do not know", varying({ prompt: "x".repeat(40_000) }), { ...DEFAULTS, prompt: "" }],
  ["an empty prompt, which variations do not know", varying({ prompt: "" }), { ...DEFAULTS, prompt: "" }],
  ...shared(varying),
];
