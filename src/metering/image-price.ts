/** What pictures cost, in the quota's unit. */

/** What the price of a picture depends on. */
export interface ImageKind {
  readonly model: string;
  /** `1024x1024` or `auto`. */
  readonly size: string;
  readonly quality: string | undefined;
}

/**
 * The price of one picture, in quota units; fractions are rounded up. What is reserved for a request is this for each picture
 * that it asks for; what is charged is this for each that really came.
 */
export type ImagePrice = (image: ImageKind) => number;

/** Units by model and size, for pictures of ordinary quality. */
const BY_SIZE: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  "image-model-2": { "256x256": 1_600, "512x512": 1_800, "1024x1024": 2_000 },
  "image-model-3": { "1024x1024": 4_000, "1792x1024": 8_000, "1024x1792": 8_000 },
  "image-model-multi": { "1024x1024": 4_200, "1536x1024": 6_300, "1024x1536": 6_300 },
};

/** Of a model or size that the table does not have, `auto` among them. */
const OTHERWISE = 8_000;

const TIMES: Readonly<Record<string, number>> = { low: 0.25, medium: 1, high: 4, hd: 2 };

/** The default: a table by model, size and quality, in the proportions that such pictures cost elsewhere. */
export const imagePriceTable: ImagePrice = ({ model, size, quality }) =>
  (BY_SIZE[model]?.[size] ?? OTHERWISE) * (TIMES[quality ?? ""] ?? 1);
