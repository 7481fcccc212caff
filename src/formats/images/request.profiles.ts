/** The image models as data: the rules for each operation of each model (spec 2.1 to 2.3, 8). Other code depends on no single model. */

import type { ImageDelivery, ImageMediaType, ImageOperation } from "../../model/image.ts";
import { fieldsOf, listOf, mapOf, portOf, type Shapes } from "../../options.ts";
import type { ImageStore } from "../../ports/image-store.ts";

/** The operations of an image model, and the defaults for its answers. */
export interface ImageProfile {
  /** The rules for each operation. A missing operation is not supported. */
  readonly operations: Readonly<Partial<Record<ImageOperation, OperationProfile>>>;
  /** The delivery of pictures for a request without `response_format`. */
  readonly delivery: ImageDelivery;
  /** True when answers have token counts. */
  readonly tellsUsage: boolean;
}

/** The rules of one operation of a model. A missing rule means that the model does not support the parameter. */
export interface OperationProfile {
  /** The largest length of the prompt, in code points. */
  readonly maxPromptLength: number;
  /** The largest number of pictures for one request. */
  readonly maxCount: number;
  /** The allowed sizes. The first one is the default. */
  readonly sizes: readonly [string, ...string[]];
  /** Allows any other size, such as `2048x1152`, of at most so many pixels. Default: only `sizes`. */
  readonly maxPixels?: number;
  /** The allowed qualities. The first one is the default. */
  readonly qualities?: readonly [string, ...string[]];
  /** The allowed styles. The first one is the default. */
  readonly styles?: readonly [string, ...string[]];
  /** True for support of `background`, `moderation`, `output_format`, `output_compression` and `partial_images`. */
  readonly finishing?: boolean;
  /** True for support of `input_fidelity`. */
  readonly fidelity?: boolean;
  /**
   * The rules for the pictures that are sent to be edited or varied, and the most files. With `transparentUnlessMasked`, the first picture
   * of a request without a mask needs transparent areas.
   */
  readonly originals?: FileProfile & { readonly maxFiles: number; readonly transparentUnlessMasked: boolean };
  /** The rules for the mask. */
  readonly mask?: FileProfile;
}

/** The image models that a host adds, and its aliases for image models. */
export interface ImageCatalog {
  /** More models by name, beside those that are built in. */
  readonly models?: Readonly<Record<string, ImageProfile>>;
  /** More names for models: an alias and the name of its model. */
  readonly aliases?: Readonly<Record<string, string>>;
}

/** The options of a host for the images format. */
export interface ImagesOptions extends ImageCatalog {
  /** Keeps the pictures that are delivered as URLs. Default: in memory, up to 256 MiB in all, and up to half of it for one key. */
  readonly store?: ImageStore;
  /**
   * The address of the gateway, as callers see it: `https://example.com/ai`. Default: the address of the request. This default is wrong
   * behind a proxy.
   */
  readonly publicUrl?: string;
}

/** The rules for a file in a request. */
export interface FileProfile {
  /** The allowed formats. */
  readonly formats: readonly ImageMediaType[];
  /** A file must be smaller than this, in bytes. */
  readonly belowBytes: number;
  /** True when the picture must be square. */
  readonly square: boolean;
}

const FILE: Shapes<FileProfile> = {
  formats: listOf(["image/png", "image/jpeg", "image/webp"] satisfies ImageMediaType[]),
  belowBytes: "number",
  square: "boolean",
};

const NAMES = listOf("string");
const OPERATION = {
  optional: fieldsOf<OperationProfile>({
    maxPromptLength: "number",
    maxCount: "number",
    sizes: NAMES,
    maxPixels: "number?",
    qualities: { optional: NAMES },
    styles: { optional: NAMES },
    finishing: "boolean?",
    fidelity: "boolean?",
    originals: {
      optional: fieldsOf<NonNullable<OperationProfile["originals"]>>({
        ...FILE,
        maxFiles: "number",
        transparentUnlessMasked: "boolean",
      }),
    },
    mask: { optional: fieldsOf(FILE) },
  }),
};

export const IMAGES_SHAPES: Shapes<ImagesOptions> = {
  models: {
    optional: mapOf(
      fieldsOf<ImageProfile>({
        operations: fieldsOf<ImageProfile["operations"]>({ generate: OPERATION, edit: OPERATION, vary: OPERATION }),
        delivery: ["url", "data", "both"] satisfies ImageDelivery[],
        tellsUsage: "boolean",
      }),
    ),
  },
  aliases: { optional: mapOf("string") },
  store: { optional: portOf(["put", "get"], "an ImageStore, such as memoryImageStore()") },
  publicUrl: "string?",
};

const MIB = 1024 * 1024;

const PNG: FileProfile = { formats: ["image/png"], belowBytes: 4 * MIB, square: true };
const MASK: FileProfile = { ...PNG, square: false };

const SMALL_SIZES = ["1024x1024", "256x256", "512x512"] as const;
const LARGE_SIZES = ["1024x1024", "1536x1024", "1024x1536"] as const;
const MULTI = {
  maxPromptLength: 32_000,
  maxCount: 10,
  qualities: ["auto", "high", "medium", "low"],
  finishing: true,
} as const;

/** The models of the spec. */
export const IMAGE_PROFILES: Readonly<Record<string, ImageProfile>> = {
  "image-model-2": {
    delivery: "url",
    tellsUsage: false,
    operations: {
      // `standard` means the same as no quality (spec 2.1), so this model accepts it.
      generate: { maxPromptLength: 1_000, maxCount: 10, sizes: SMALL_SIZES, qualities: ["standard"] },
      edit: {
        maxPromptLength: 1_000,
        maxCount: 10,
        sizes: SMALL_SIZES,
        // Both values mean the same as no quality (spec 2.2).
        qualities: ["standard", "auto"],
        originals: { ...PNG, maxFiles: 1, transparentUnlessMasked: true },
        mask: MASK,
      },
      vary: {
        maxPromptLength: 0,
        maxCount: 10,
        sizes: SMALL_SIZES,
        originals: { ...PNG, maxFiles: 1, transparentUnlessMasked: false },
      },
    },
  },
  "image-model-3": {
    delivery: "url",
    tellsUsage: false,
    operations: {
      generate: {
        maxPromptLength: 4_000,
        maxCount: 1,
        sizes: ["1024x1024", "1792x1024", "1024x1792"],
        qualities: ["standard", "hd"],
        styles: ["vivid", "natural"],
      },
    },
  },
  "image-model-multi": {
    delivery: "both",
    tellsUsage: true,
    operations: {
      generate: { ...MULTI, sizes: [...LARGE_SIZES, "auto"] },
      edit: {
        ...MULTI,
        // The default is `auto` for an edit (spec 2.2), but 1024x1024 for a generation (2.1).
        sizes: ["auto", ...LARGE_SIZES],
        fidelity: true,
        originals: {
          formats: ["image/png", "image/webp", "image/jpeg"],
          belowBytes: 25 * MIB,
          square: false,
          maxFiles: 16,
          transparentUnlessMasked: false,
        },
        mask: MASK,
      },
    },
  },
};

/** The names that official clients use for these models: those of `ImageModel` in the `openai` package, version 7.59. */
export const IMAGE_ALIASES: Readonly<Record<string, string>> = {
  "dall-e-2": "image-model-2",
  "dall-e-3": "image-model-3",
  "gpt-image-1": "image-model-multi",
  "gpt-image-1-mini": "image-model-multi",
  "gpt-image-1.5": "image-model-multi",
  "gpt-image-2": "image-model-multi",
  "gpt-image-2-2026-04-21": "image-model-multi",
  "gpt-image-2.5-sunburst": "image-model-multi",
  "gpt-image-2.5-sunburst-2026-09-08": "image-model-multi",
  "gpt-image-2.5-flare": "image-model-multi",
  "gpt-image-2.5-flare-2026-09-08": "image-model-multi",
  "gpt-image-2.6-sunburst": "image-model-multi",
  "gpt-image-2.6-flare": "image-model-multi",
  "chatgpt-image-latest": "image-model-multi",
};

/** The model of a request without `model` (spec 2.1 to 2.3). */
export const DEFAULT_MODEL = "image-model-2";
/** The model of an edit without `model`, if the edit has a parameter that only this model supports (spec 2.2). */
export const DEFAULT_MULTI_MODEL = "image-model-multi";
