/** Edits and variations that must be refused for their fields, each with the field and the words of the error (spec 2.2, 2.3, 8). */

import { ASTRAL } from "../messages/bodies.ts";
import { CLEAR, OPAQUE } from "./pictures.ts";
import { editing, file, type FormFields, varying } from "./requests.ts";

/** Without words, the message only has to begin with the field. */
export type Refused = readonly [name: string, fields: FormFields, param: string, message?: string];

const TWO = "image-model-2";
const THREE = "image-model-3";
const MULTI = "image-model-multi";
const NO_FILE = "must be a file: the part of a file has a filename";

const ofMulti = (fields: FormFields = {}): FormFields => editing({ model: MULTI, ...fields });

/** What is wrong with an edit and a variation alike. */
const shared = (having: (fields: FormFields) => FormFields): readonly Refused[] => [
  ["no image", having({ image: undefined }), "image", "is required"],
  ["a text for an image", having({ image: "picture" }), "image", NO_FILE],
  ["a text for an image of an array", having({ image: undefined, "image[]": "picture" }), "image[]", NO_FILE],
  ["n 0", having({ n: "0" }), "n"],
  ["n 11", having({ n: "11" }), "n"],
  ["n -1", having({ n: "-1" }), "n"],
  ["n 1.5", having({ n: "1.5" }), "n"],
  ["n that is no number", having({ n: "two" }), "n"],
  ["n that is empty", having({ n: "" }), "n"],
  ["n of another notation", having({ n: "1e0" }), "n"],
  ["n with white space", having({ n: " 1" }), "n"],
  ["size auto for image-model-2", having({ model: TWO, size: "auto" }), "size"],
  ["size 1536x1024 for image-model-2", having({ model: TWO, size: "1536x1024" }), "size"],
  ["size 1792x1024", having({ size: "1792x1024" }), "size"],
  ["response_format png", having({ response_format: "png" }), "response_format"],
  ["stream that is no boolean", having({ stream: "yes" }), "stream"],
  ["an empty model", having({ model: "" }), "model"],
  ["style", having({ style: "vivid" }), "style"],
  ["n twice", having({ n: ["1", "2"] }), "n", "is given more than once"],
  ["model twice", having({ model: [TWO, TWO] }), "model", "is given more than once"],
  ["a file in a text field", having({ size: file(CLEAR) }), "size"],
  ["a file in a field that nobody knows", having({ photo: file(CLEAR) }), "photo"],
];

const HIGH = 'must be "standard" or "auto" for the model "image-model-2"; image-model-multi takes it';

const edits: readonly Refused[] = [
  ["no prompt", editing({ prompt: undefined }), "prompt"],
  ["an empty prompt", editing({ prompt: "" }), "prompt", "must not be empty"],
  ["a file for a prompt", editing({ prompt: file(CLEAR) }), "prompt"],
  ["a prompt twice", editing({ prompt: ["a", "b"] }), "prompt", "is given more than once"],
  [
    "1001 characters for image-model-2",
    editing({ prompt: "x".repeat(1_001) }),
    "prompt",
    `must be at most 1000 characters long for the model "${TWO}"; ${MULTI} takes it`,
  ],
  ["1001 astral characters for image-model-2", editing({ model: TWO, prompt: ASTRAL.repeat(1_001) }), "prompt"],
  [
    "32001 characters for image-model-multi",
    ofMulti({ prompt: "x".repeat(32_001) }),
    "prompt",
    `must be at most 32000 characters long for the model "${MULTI}"`,
  ],
  ["32001 astral characters for image-model-multi", ofMulti({ prompt: ASTRAL.repeat(32_001) }), "prompt"],
  ["n 0 for image-model-multi", ofMulti({ n: "0" }), "n"],
  ["n 11 for image-model-multi", ofMulti({ n: "11" }), "n"],
  ...["high", "medium", "low"].map((quality): Refused => [
    `quality ${quality} for image-model-2`,
    editing({ model: TWO, quality }),
    "quality",
    HIGH,
  ]),
  ["quality standard for image-model-multi", ofMulti({ quality: "standard" }), "quality"],
  ["quality hd", editing({ quality: "hd" }), "quality", 'must be "standard" or "auto" for the model "image-model-2"'],
  ["size 256x256 for image-model-multi", ofMulti({ size: "256x256" }), "size"],
  ["size 512x512 for image-model-multi", ofMulti({ size: "512x512" }), "size"],
  ["size 1792x1024 for image-model-multi", ofMulti({ size: "1792x1024" }), "size"],
  ["background for image-model-2", editing({ model: TWO, background: "opaque" }), "background"],
  [
    "input_fidelity for image-model-2",
    editing({ model: TWO, input_fidelity: "high" }),
    "input_fidelity",
    `is not supported for the model "${TWO}"; ${MULTI} takes it`,
  ],
  ["input_fidelity that is none", ofMulti({ input_fidelity: "middle" }), "input_fidelity"],
  ["output_compression 101", ofMulti({ output_compression: "101" }), "output_compression"],
  ["partial_images 4", ofMulti({ partial_images: "4" }), "partial_images"],
  ["image-model-3", editing({ model: THREE }), "model", `"${THREE}" does not edit images; ${TWO} and ${MULTI} do`],
  ["dall-e-3", editing({ model: "dall-e-3" }), "model"],
  [
    "two pictures for image-model-2",
    editing({ model: TWO, image: undefined, "image[]": [file(CLEAR), file(CLEAR)] }),
    "image",
    `must be a single file for the model "${TWO}"; ${MULTI} takes it`,
  ],
  [
    "17 pictures",
    editing({ image: undefined, "image[]": Array.from({ length: 17 }, () => file(OPAQUE)) }),
    "image",
    `must be at most 16 files for the model "${MULTI}"`,
  ],
  [
    "a quality of no model beside two pictures",
    editing({ image: undefined, "image[]": [file(OPAQUE), file(OPAQUE)], quality: "hd" }),
    "quality",
    `must be "auto" or "high" or "medium" or "low" for the model "${MULTI}"`,
  ],
  [
    "17 pictures for image-model-multi",
    ofMulti({ image: undefined, "image[]": Array.from({ length: 17 }, () => file(OPAQUE)) }),
    "image",
    `must be at most 16 files for the model "${MULTI}"`,
  ],
  ["a text for a mask", editing({ mask: "mask" }), "mask", NO_FILE],
  ["two masks", editing({ mask: [file(CLEAR), file(CLEAR)] }), "mask", "is given more than once"],
];

const variations: readonly Refused[] = [
  ["a mask", varying({ mask: file(CLEAR) }), "mask"],
  ["quality", varying({ quality: "standard" }), "quality"],
  ["two pictures", varying({ image: [file(CLEAR), file(CLEAR)] }), "image"],
  ["size 1536x1024", varying({ size: "1536x1024" }), "size"],
  ...[THREE, MULTI].map((model): Refused => [
    model,
    varying({ model }),
    "model",
    `"${model}" does not make variations; ${TWO} does`,
  ]),
];

export const REFUSED_EDITS: readonly Refused[] = [...shared(editing), ...edits];
export const REFUSED_VARIATIONS: readonly Refused[] = [...shared(varying), ...variations];
