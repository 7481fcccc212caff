/** TwoGenerationMap that are answered, each with what the backend is then asked: the passing side of spec 2.1 and 8. */

import type { ImageRequest } from "../../../src/index.ts";
import { ASTRAL } from "../messages/bodies.ts";
import { type Fields, generating } from "./requests.ts";

export type Accepted = readonly [name: string, fields: Fields, asked: Partial<ImageRequest>];

const TWO = "image-model-2";
const THREE = "image-model-3";
const MULTI = "image-model-multi";

const named = (model: string, fields: Fields = {}): Fields => generating({ model, ...fields });

const DEFAULTS: Partial<ImageRequest> = {
  model: TWO,
  count: 1,
  size: "1024x1024",
  quality: "standard",
  delivery: "url",
  stream: false,
};

const defaults: readonly Accepted[] = [
  ["a prompt alone", generating(), DEFAULTS],
  [
    "fields of null, as if they were not there",
    generating({ model: null, n: null, quality: null, response_format: null, size: null, style: null, user: null }),
    DEFAULTS,
  ],
  ["image-model-2 by its name", named(TWO), DEFAULTS],
  ["image-model-3 by its name", named(THREE), { ...DEFAULTS, model: THREE, quality: "standard", style: "vivid" }],
  ["image-model-multi by its name", named(MULTI), { ...DEFAULTS, model: MULTI, quality: "auto", delivery: "both" }],
];

const aliases: readonly Accepted[] = [
  ["dall-e-2", named("dall-e-2"), { model: TWO }],
  ["dall-e-3", named("dall-e-3"), { model: THREE }],
  ...["gpt-image-1", "gpt-image-1-mini", "gpt-image-1.5", "gpt-image-2"].map((alias): Accepted => [
    alias,
    named(alias),
    { model: MULTI, delivery: "both" },
  ]),
];

const prompts: readonly Accepted[] = [
  ["a prompt of 1 character", generating({ prompt: "x" }), { prompt: "x" }],
  ["1000 characters for image-model-2", named(TWO, { prompt: "x".repeat(1_000) }), { prompt: "x".repeat(1_000) }],
  ["1000 astral characters where no model is named", generating({ prompt: ASTRAL.repeat(1_000) }), { model: TWO }],
  ["1000 astral characters for image-model-2", named(TWO, { prompt: ASTRAL.repeat(1_000) }), { model: TWO }],
  ["4000 characters for image-model-3", named(THREE, { prompt: "x".repeat(4_000) }), { model: THREE }],
  ["4000 astral characters for image-model-3", named(THREE, { prompt: ASTRAL.repeat(4_000) }), { model: THREE }],
  ["32000 characters for image-model-multi", named(MULTI, { prompt: "x".repeat(32_000) }), { model: MULTI }],
  ["32000 astral characters for image-model-multi", named(MULTI, { prompt: ASTRAL.repeat(32_000) }), { model: MULTI }],
  ["a prompt with white space around it, kept", generating({ prompt: " x\n" }), { prompt: " x\n" }],
];

const counts: readonly Accepted[] = [
  ...[TWO, MULTI].flatMap((model): Accepted[] =>
    [1, 2, 10].map((n) => [`n ${n} for ${model}`, named(model, { n }), { model, count: n }]),
  ),
  ["n 10 where no model is named", generating({ n: 10 }), { model: TWO, count: 10 }],
  ["n 1 for image-model-3", named(THREE, { n: 1 }), { count: 1 }],
];

const SIZES: Readonly<Record<string, readonly string[]>> = {
  [TWO]: ["256x256", "512x512", "1024x1024"],
  [THREE]: ["1024x1024", "1792x1024", "1024x1792"],
  [MULTI]: ["auto", "1024x1024", "1536x1024", "1024x1536"],
};

const sizes: readonly Accepted[] = Object.entries(SIZES).flatMap(([model, all]) =>
  all.map((size): Accepted => [`size ${size} for ${model}`, named(model, { size }), { model, size }]),
);

const QUALITIES: Readonly<Record<string, readonly string[]>> = {
  [TWO]: ["standard"],
  [THREE]: ["standard", "hd"],
  [MULTI]: ["auto", "high", "medium", "low"],
};

const qualities: readonly Accepted[] = Object.entries(QUALITIES).flatMap(([model, all]) =>
  all.map((quality): Accepted => [`quality ${quality} for ${model}`, named(model, { quality }), { model, quality }]),
);

const styles: readonly Accepted[] = ["vivid", "natural"].map((style) => [
  `style ${style} for image-model-3`,
  named(THREE, { style }),
  { style },
]);

const formats: readonly Accepted[] = [
  ...[TWO, THREE, MULTI].flatMap((model): Accepted[] => [
    [`response_format url of ${model}`, named(model, { response_format: "url" }), { delivery: "url" }],
    [`response_format b64_json of ${model}`, named(model, { response_format: "b64_json" }), { delivery: "data" }],
  ]),
  ["response_format null of image-model-multi", named(MULTI, { response_format: null }), { delivery: "both" }],
];

const others: readonly Accepted[] = [
  ["a user", generating({ user: "someone" }), { endUser: "someone" }],
  ["stream false", generating({ stream: false }), { stream: false }],
  ["stream null", generating({ stream: null }), { stream: false }],
  ["fields that nobody knows", generating({ unknown: { deep: [1] }, safety_identifier: "x", input: null }), DEFAULTS],
];

/** What only image-model-multi takes, where it is named. */
const MORE: readonly (readonly [fields: Fields, asked: Partial<ImageRequest>])[] = [
  ...(["transparent", "opaque", "auto"] as const).map((background) => [{ background }, { background }] as const),
  ...(["low", "auto"] as const).map((moderation) => [{ moderation }, { moderation }] as const),
  ...(["png", "jpeg", "webp"] as const).map((format) => [{ output_format: format }, { outputFormat: format }] as const),
  ...[0, 1, 100].map((percent) => [{ output_compression: percent }, { outputCompression: percent }] as const),
  ...[0, 1, 3].map((count) => [{ partial_images: count }, { partialImages: count }] as const),
];

const more: readonly Accepted[] = MORE.map(([fields, asked]): Accepted => [
  `${JSON.stringify(fields)} for image-model-multi`,
  named(MULTI, fields),
  { model: MULTI, ...asked },
]);

export const ACCEPTED: readonly Accepted[] = [
  ...defaults,
  ...aliases,
  ...prompts,
  ...counts,
  ...sizes,
  ...qualities,
  ...styles,
  ...formats,
  ...others,
  ...more,
];
