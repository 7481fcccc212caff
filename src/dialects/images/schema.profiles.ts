/** The rules of the image models as data (spec 2.1 to 2.3, 8): what each can be asked for, so that no code knows a model. */

import type { ImageDelivery, ImageMediaType, ImageOperation } from "../../model/image.ts";

/** What a model takes, by operation. An operation that is missing is one that the model does not do. */
export interface ImageProfile {
  readonly operations: Readonly<Partial<Record<ImageOperation, OperationProfile>>>;
  /** How pictures are delivered where the request does not say. */
  readonly delivery: ImageDelivery;
  /** Whether answers tell the tokens that were used. */
  readonly tellsUsage: boolean;
}

/** What one operation of a model takes. A field that is missing is one that the model does not support. */
export interface OperationProfile {
  /** Most characters of the prompt, counted as code points. */
  readonly maxPromptLength: number;
  /** Most pictures of one request. */
  readonly maxCount: number;
  /** The first is the default. */
  readonly sizes: readonly [string, ...string[]];
  /** The first is the default. */
  readonly qualities?: readonly [string, ...string[]];
  /** The first is the default. */
  readonly styles?: readonly [string, ...string[]];
  /** Whether it takes background, moderation, output_format, output_compression and partial_images. */
  readonly finishing?: boolean;
  /** Whether it takes input_fidelity. */
  readonly fidelity?: boolean;
  /** The originals that it takes. */
  readonly originals?: FileProfile & { readonly maxFiles: number; readonly transparentUnlessMasked: boolean };
  readonly mask?: FileProfile;
}

/** The models that a gateway knows, and other names for them. */
export interface ImageCatalog {
  readonly models?: Readonly<Record<string, ImageProfile>>;
  readonly aliases?: Readonly<Record<string, string>>;
}

/** What a file that is sent must be. */
export interface FileProfile {
  readonly formats: readonly ImageMediaType[];
  /** A file must be smaller than this, in bytes. */
  readonly belowBytes: number;
  readonly square: boolean;
}

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
      // `standard` is what leaving the field out means (spec 2.1), so saying it asks for nothing that the model cannot do.
      generate: { maxPromptLength: 1_000, maxCount: 10, sizes: SMALL_SIZES, qualities: ["standard"] },
      edit: {
        maxPromptLength: 1_000,
        maxCount: 10,
        sizes: SMALL_SIZES,
        // Both mean what leaving the field out means (spec 2.2).
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
        // Spec 2.2 states `auto` as the default of this model's edits; a generation's is 1024x1024 (2.1).
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

/** What official clients call them. */
export const IMAGE_ALIASES: Readonly<Record<string, string>> = {
  "dall-e-2": "image-model-2",
  "dall-e-3": "image-model-3",
  "gpt-image-1": "image-model-multi",
  "gpt-image-1-mini": "image-model-multi",
  "gpt-image-1.5": "image-model-multi",
  "gpt-image-2": "image-model-multi",
};

/** Applies where a request names no model (spec 2.1 to 2.3). */
export const DEFAULT_MODEL = "image-model-2";
/** Applies instead to an edit that uses a parameter which only this model takes (spec 2.2). */
export const DEFAULT_MULTI_MODEL = "image-model-multi";
