/** The price of images, in quota units: by model, size and quality. */

import type { ImageRequest } from "../../model/image.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { checkedPrice, wholeUnits } from "../chat/price.ts";
import type { Amounts } from "../meter.ts";

/** The properties of an image that decide its price. */
export interface ImageKind {
  readonly model: string;
  /** `1024x1024` or `auto`. */
  readonly size: string;
  readonly quality: string | undefined;
  /** The upstream that draws, with its own name of the model; undefined when the backend does not tell its upstreams. */
  readonly upstream?: UpstreamModel | undefined;
}

/**
 * Returns the price of one image, in quota units; fractions are rounded up. The gateway reserves the highest price of the upstreams that may
 * draw for each requested image, and charges the price of the upstream that was asked last for each image that the backend yields.
 */
export interface ImagePrice {
  (image: ImageKind): number;
  /** The models that have a price by name, as in `Price`. Default: none. */
  readonly models?: readonly string[];
  /** The currency, if a quota unit is a millionth of it, as in `Price`. Default: amounts are units. */
  readonly currency?: string;
  /** Tells whether some images cost nothing, as in `Price`. Default: unknown. */
  readonly hasFreeModels?: boolean;
}

/** The quota units of one image of medium quality, by model and size. */
const BY_SIZE: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  "image-model-2": { "256x256": 1_600, "512x512": 1_800, "1024x1024": 2_000 },
  "image-model-3": { "1024x1024": 4_000, "1792x1024": 8_000, "1024x1792": 8_000 },
  "image-model-multi": { "1024x1024": 4_200, "1536x1024": 6_300, "1024x1536": 6_300 },
};

/** The quota units of an image whose model or size is not in the table, such as the size `auto`. */
const OTHERWISE = 8_000;

const HIGH = 4;
const TIMES: ReadonlyMap<string, number> = new Map([
  ["low", 0.25],
  ["medium", 1],
  ["standard", 1],
  ["auto", 1],
  ["hd", 2],
  ["high", HIGH],
]);

/**
 * The default price: a table by model, size and quality. The ratios of the prices follow those of public providers. A quality that the table
 * does not have, such as `max`, costs as much as `high`.
 */
export const imagePriceTable: ImagePrice = ({ model, size, quality = "medium" }) =>
  (BY_SIZE[model]?.[size] ?? OTHERWISE) * (TIMES.get(quality) ?? HIGH);

/** Returns a host's own price that throws for anything but a number. */
export const checkedImagePrice = (price: ImagePrice): ImagePrice =>
  price === imagePriceTable ? price : checkedPrice("imagePrice", price, ({ model }: ImageKind) => priced(model));

/** Returns the units of one image, rounded up. Throws a RangeError when a host's price is not a finite number from 0 up. */
export function unitsOfOne(
  { model, size, quality }: ImageRequest,
  price: ImagePrice,
  upstream?: UpstreamModel,
): number {
  return wholeUnits(price({ model, size, quality, ...(upstream && { upstream }) }), priced(model));
}

const priced = (model: string): string => `a picture by "${model}"`;

/** Returns the units of a request. A request is admitted for all of its images, or not at all. */
export function imageAmounts(
  request: ImageRequest,
  price: ImagePrice,
  upstreams: readonly UpstreamModel[] = [],
): Amounts {
  const dearest = Math.max(
    ...(upstreams.length === 0 ? [undefined] : upstreams).map((upstream) => unitsOfOne(request, price, upstream)),
  );
  const units = Math.min(Number.MAX_SAFE_INTEGER, dearest * request.count);
  return { atLeast: units, atMost: units };
}
