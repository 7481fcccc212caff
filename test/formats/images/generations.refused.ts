/** TwoGenerationMap that must be refused, each with the field and the words of the error: the failing side of spec 2.1 and 8. */

import { ASTRAL } from "../messages/bodies.ts";
import { type Fields, generating } from "./requests.ts";

/** Without words, the message only has to begin with the field. */
export type Refused = readonly [name: string, fields: Fields, param: string, message?: string];

const TWO = "image-model-2";
const THREE = "image-model-3";
const MULTI = "image-model-multi";

const named = (model: string, fields: Fields): Fields => generating({ model, ...fields });

const prompts: readonly Refused[] = [
  ["no prompt", generating({ prompt: undefined }), "prompt", 'is required for the model "image-model-2"'],
  ["a prompt of null", generating({ prompt: null }), "prompt"],
  ["a prompt that is no text", generating({ prompt: 7 }), "prompt"],
  ["a prompt of several", generating({ prompt: ["a", "b"] }), "prompt"],
  ["an empty prompt", generating({ prompt: "" }), "prompt", "must not be empty"],
  [
    "1001 characters for image-model-2",
    named(TWO, { prompt: "x".repeat(1_001) }),
    "prompt",
    `must be at most 1000 characters long for the model "${TWO}"; ${THREE} and ${MULTI} take it`,
  ],
  ["1001 astral characters for image-model-2", named(TWO, { prompt: ASTRAL.repeat(1_001) }), "prompt"],
  [
    "1001 characters where no model is named",
    generating({ prompt: "x".repeat(1_001) }),
    "prompt",
    `must be at most 1000 characters long for the model "${TWO}"; ${THREE} and ${MULTI} take it`,
  ],
  [
    "4001 characters for image-model-3",
    named(THREE, { prompt: "x".repeat(4_001) }),
    "prompt",
    `must be at most 4000 characters long for the model "${THREE}"; ${MULTI} takes it`,
  ],
  ["4001 astral characters for image-model-3", named(THREE, { prompt: ASTRAL.repeat(4_001) }), "prompt"],
  [
    "32001 characters for image-model-multi",
    named(MULTI, { prompt: "x".repeat(32_001) }),
    "prompt",
    `must be at most 32000 characters long for the model "${MULTI}"`,
  ],
  ["32001 astral characters for image-model-multi", named(MULTI, { prompt: ASTRAL.repeat(32_001) }), "prompt"],
];

const counts: readonly Refused[] = [
  ["n 0", generating({ n: 0 }), "n", `must be from 1 to 10 for the model "${TWO}"`],
  ["n 11", generating({ n: 11 }), "n", `must be from 1 to 10 for the model "${TWO}"`],
  ["n -1", generating({ n: -1 }), "n"],
  ["n 1.5", generating({ n: 1.5 }), "n"],
  ["n that is no number", generating({ n: "1" }), "n"],
  ["n 0 for image-model-multi", named(MULTI, { n: 0 }), "n"],
  ["n 11 for image-model-multi", named(MULTI, { n: 11 }), "n", `must be from 1 to 10 for the model "${MULTI}"`],
  [
    "n 2 for image-model-3",
    named(THREE, { n: 2 }),
    "n",
    `must be 1 for the model "${THREE}"; ${TWO} and ${MULTI} take it`,
  ],
  ["n 0 for image-model-3", named(THREE, { n: 0 }), "n", `must be 1 for the model "${THREE}"`],
  ["n 11 beside what only image-model-multi takes", named(MULTI, { n: 11, background: "opaque" }), "n"],
];

const OF_TWO = `must be "1024x1024" or "256x256" or "512x512" for the model "${TWO}"`;

const sizes: readonly Refused[] = [
  ["size 1792x1024 for image-model-2", named(TWO, { size: "1792x1024" }), "size", `${OF_TWO}; ${THREE} takes it`],
  ["size 1792x1024 where no model is named", generating({ size: "1792x1024" }), "size", `${OF_TWO}; ${THREE} takes it`],
  ["size 1536x1024 for image-model-2", named(TWO, { size: "1536x1024" }), "size", `${OF_TWO}; ${MULTI} takes it`],
  ["size auto for image-model-2", named(TWO, { size: "auto" }), "size", `${OF_TWO}; ${MULTI} takes it`],
  ["size 256x256 for image-model-3", named(THREE, { size: "256x256" }), "size"],
  ["size 512x512 for image-model-3", named(THREE, { size: "512x512" }), "size"],
  ["size 1536x1024 for image-model-3", named(THREE, { size: "1536x1024" }), "size"],
  ["size auto for image-model-3", named(THREE, { size: "auto" }), "size"],
  ["size 256x256 for image-model-multi", named(MULTI, { size: "256x256" }), "size"],
  ["size 1792x1024 for image-model-multi", named(MULTI, { size: "1792x1024" }), "size"],
  ["a size that nobody takes", generating({ size: "64x64" }), "size", OF_TWO],
  ["a size in capitals", generating({ size: "1024X1024" }), "size"],
  ["an empty size", generating({ size: "" }), "size"],
  ["a size that is no text", generating({ size: 1024 }), "size"],
];

const qualities: readonly Refused[] = [
  [
    "quality hd for image-model-2",
    named(TWO, { quality: "hd" }),
    "quality",
    `must be "standard" for the model "${TWO}"; ${THREE} takes it`,
  ],
  ...["high", "medium", "low", "auto"].map((quality): Refused => [
    `quality ${quality} for image-model-2`,
    named(TWO, { quality }),
    "quality",
    `must be "standard" for the model "${TWO}"; ${MULTI} takes it`,
  ]),
  [
    "quality high for image-model-3",
    named(THREE, { quality: "high" }),
    "quality",
    `must be "standard" or "hd" for the model "${THREE}"; ${MULTI} takes it`,
  ],
  ["quality hd for image-model-multi", named(MULTI, { quality: "hd" }), "quality"],
  ["quality standard for image-model-multi", named(MULTI, { quality: "standard" }), "quality"],
  ["a quality that nobody takes", generating({ quality: "best" }), "quality"],
  ["a quality that is no text", named(THREE, { quality: 1 }), "quality"],
];

const styles: readonly Refused[] = [
  [
    "style loud for image-model-3",
    named(THREE, { style: "loud" }),
    "style",
    `must be "vivid" or "natural" for the model "${THREE}"`,
  ],
  ["a style that is no text", named(THREE, { style: true }), "style"],
  ...[undefined, TWO, MULTI].map((model): Refused => [
    `style vivid for ${model ?? "the default model"}`,
    generating({ model, style: "vivid" }),
    "style",
    `is not supported for the model "${model ?? TWO}"; ${THREE} takes it`,
  ]),
];

const FINISHING: readonly Fields[] = [
  { background: "transparent" },
  { moderation: "low" },
  { output_format: "webp" },
  { output_compression: 50 },
  { partial_images: 1 },
];

const others: readonly Refused[] = [
  ["response_format png", generating({ response_format: "png" }), "response_format"],
  ["response_format in capitals", generating({ response_format: "URL" }), "response_format"],
  ["a response_format that is no text", generating({ response_format: 1 }), "response_format"],
  ["a user that is no text", generating({ user: 7 }), "user"],
  ["an empty model", generating({ model: "" }), "model"],
  ["a model that is no text", generating({ model: 3 }), "model"],
  ["stream that is no boolean", generating({ stream: "true" }), "stream"],
  ...FINISHING.flatMap((fields) =>
    [TWO, THREE].map((model): Refused => {
      const [field = ""] = Object.keys(fields);
      const message = `is not supported for the model "${model}"; ${MULTI} takes it`;
      return [`${JSON.stringify(fields)} for ${model}`, named(model, fields), field, message];
    }),
  ),
  ["a background that is none", named(MULTI, { background: "red" }), "background"],
  ["a moderation that is none", named(MULTI, { moderation: "high" }), "moderation"],
  ["an output_format that is none", named(MULTI, { output_format: "gif" }), "output_format"],
  ["output_compression -1", named(MULTI, { output_compression: -1 }), "output_compression"],
  ["output_compression 101", named(MULTI, { output_compression: 101 }), "output_compression"],
  ["output_compression 0.5", named(MULTI, { output_compression: 0.5 }), "output_compression"],
  ["partial_images -1", named(MULTI, { partial_images: -1 }), "partial_images"],
  ["partial_images 4", named(MULTI, { partial_images: 4 }), "partial_images"],
  ["input_fidelity", named(MULTI, { input_fidelity: "high" }), "input_fidelity"],
];

const refused: readonly Refused[] = [...prompts, ...counts, ...sizes, ...qualities, ...styles, ...others];

/** Where no model is named, image-model-2 applies, whatever else is asked for. */
const byDefault = refused
  .filter(([, { model }]) => model === TWO)
  .map(([name, fields, ...error]): Refused => [`${name}, by default`, { ...fields, model: undefined }, ...error]);

export const REFUSED: readonly Refused[] = [...refused, ...byDefault];
