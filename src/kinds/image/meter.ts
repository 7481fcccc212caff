/** The meter of images: counts the images that arrive, and the tokens that the backend reports. */

import type { Certainty, NativeUsage } from "../../model/usage.ts";
import { quoted, shown, type Shapes } from "../../options.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { abandon, assertTokens, type CountTokens } from "../count-tokens.ts";
import { type Amounts, backendFailed, isCount, isTooHigh, type Meter, type MeterReport, wrongEvent } from "../meter.ts";
import type { ImageAnswerEvent, ImageEvent, ImageMediaType, ImageRequest, ImageUsage } from "./request.ts";

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
export type ImagePrice = (image: ImageKind) => number;

/** The quota units of one image of medium or unknown quality, by model and size. */
const BY_SIZE: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  "image-model-2": { "256x256": 1_600, "512x512": 1_800, "1024x1024": 2_000 },
  "image-model-3": { "1024x1024": 4_000, "1792x1024": 8_000, "1024x1792": 8_000 },
  "image-model-multi": { "1024x1024": 4_200, "1536x1024": 6_300, "1024x1536": 6_300 },
};

/** The quota units of an image whose model or size is not in the table, such as the size `auto`. */
const OTHERWISE = 8_000;

const TIMES: Readonly<Record<string, number>> = { low: 0.25, medium: 1, high: 4, hd: 2 };

/** The default price: a table by model, size and quality. The ratios of the prices follow those of public providers. */
export const imagePriceTable: ImagePrice = ({ model, size, quality }) =>
  (BY_SIZE[model]?.[size] ?? OTHERWISE) * (TIMES[quality ?? ""] ?? 1);

/** Returns the units of one image, rounded up. Throws a RangeError when a host's price is not a finite number from 0 up. */
function unitsOfOne({ model, size, quality }: ImageRequest, price: ImagePrice, upstream?: UpstreamModel): number {
  const cost = price({ model, size, quality, ...(upstream && { upstream }) });
  const units = Math.ceil(cost);
  if (Number.isSafeInteger(units) && cost >= 0) return units;
  abandon(cost);
  throw new RangeError(`The price of a picture by "${model}" must be a number from 0 up, not ${quoted(cost)}`);
}

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

const MEDIA_TYPES: readonly string[] = ["image/png", "image/jpeg", "image/webp"] satisfies ImageMediaType[];

const SHAPES = {
  image: { bytes: "object", mediaType: MEDIA_TYPES, revisedPrompt: "string?" },
  "partial-image": { image: "number", step: "number", bytes: "object", mediaType: MEDIA_TYPES },
  usage: { usage: "object", native: "any?" },
} satisfies { readonly [Type in ImageEvent["type"]]: Shapes<Omit<Extract<ImageEvent, { type: Type }>, "type">> };

/** Throws `backend_failed` for an event of an unknown type or without an image, before the image is charged. */
export function assertImageEvent(event: ImageEvent): void {
  if (!Object.hasOwn(SHAPES, event?.type)) throw wrongEvent("image", event, SHAPES);
  if (event.type === "usage") {
    if (typeof event.usage !== "object" || event.usage === null) throw wrongEvent("image", event, SHAPES);
    return;
  }
  const { bytes, mediaType } = event;
  const isPicture = bytes instanceof Uint8Array && bytes.length > 0;
  if (isPicture && MEDIA_TYPES.includes(mediaType)) return;
  const message = "The model backend drew something that is no picture.";
  if (bytes === undefined || isPicture) throw wrongEvent("image", event, SHAPES, "", message);
  const given = bytes instanceof Uint8Array ? "an empty one" : shown(bytes);
  throw backendFailed(message, `image: the event ${event.type}: bytes must be a Uint8Array, not ${given}.`);
}

/** The estimated tokens of an uploaded image and of a finished image, until the backend reports its counts. */
const INPUT_IMAGE_TOKENS = 256;
const OUTPUT_IMAGE_TOKENS = 1_056;

/** A backend's event. A finished image also has the URL at which the caller can fetch the image. */
export type Published = ImageEvent & { readonly url?: string };

export class ImageMeter implements Meter<Published, ImageAnswerEvent> {
  readonly certainty: Certainty = "exact";
  readonly overrun = false;
  readonly #request: ImageRequest;
  readonly #price: ImagePrice;
  readonly #upstream: (() => UpstreamModel | undefined) | undefined;
  readonly #doubt: (why: string) => void;
  /** The estimated tokens of the prompt. */
  readonly #inputTextTokens: number;
  #usage: ImageUsage;
  #native: NativeUsage | undefined;
  #drawn = 0;
  /** True once an unfinished version of the next image has come: it shows most of the image, and is charged like it. */
  #isBegun = false;
  #units = 0;
  #priceError: { readonly error: unknown } | undefined;

  /**
   * @param doubt Called with a message when the backend reports counts that cannot be true.
   * @param upstream Returns the upstream that was asked last. Default: the upstream is unknown.
   */
  constructor(
    request: ImageRequest,
    price: ImagePrice,
    countTokens: CountTokens,
    doubt: (why: string) => void,
    upstream?: () => UpstreamModel | undefined,
  ) {
    this.#doubt = doubt;
    this.#request = request;
    this.#price = price;
    this.#upstream = upstream;
    this.#inputTextTokens = Math.ceil(assertTokens(countTokens(request.prompt)));
    this.#usage = {
      inputTextTokens: this.#inputTextTokens,
      inputImageTokens: INPUT_IMAGE_TOKENS * (request.images.length + (request.mask ? 1 : 0)),
      outputTokens: 0,
    };
  }

  start(): ImageAnswerEvent {
    return { type: "start" };
  }

  observe(event: Published): ImageAnswerEvent | undefined {
    switch (event.type) {
      case "usage":
        this.#native = event.native;
        this.#learn(event.usage);
        return undefined;
      case "partial-image":
        // Behind the last image, no other one is begun.
        if (this.#drawn >= this.#request.count) return event;
        if (!this.#isBegun) this.#addPrice();
        this.#isBegun = true;
        return event;
      case "image":
        if (!this.#isBegun) this.#addPrice();
        this.#isBegun = false;
        return { ...event, number: this.#drawn++ };
      default:
        throw event satisfies never;
    }
  }

  /** Adds the price of one image. A price that fails does not take the image, which is paid for, from its caller. */
  #addPrice(): void {
    try {
      this.#units += unitsOfOne(this.#request, this.#price, this.#upstream?.());
    } catch (error) {
      this.#priceError ??= { error };
    }
  }

  /** The cost of the images so far. Throws the error of a price that has failed for one of them. */
  get units(): number {
    if (this.#priceError) throw this.#priceError.error;
    return this.#units;
  }

  /** Updates the counts, which rate limits use. Ignores a report with a wrong count: the charge depends on the number of images alone. */
  #learn(usage: Partial<ImageUsage>): void {
    const { count, images } = this.#request;
    const most = Math.max(this.#inputTextTokens, (count + images.length + 1) * OUTPUT_IMAGE_TOKENS);
    const wrong = Object.entries(usage).find(([, tokens]) => !isCount(tokens) || isTooHigh(tokens, most));
    if (wrong) this.#doubt(`The model backend reported a usage that is no count: ${wrong[0]}.`);
    else this.#usage = { ...this.#usage, ...usage };
  }

  complete(): void {
    if (this.#drawn > 0) return;
    throw backendFailed(
      "The model backend drew no picture.",
      'image: yield { type: "image", bytes, mediaType } for each picture.',
    );
  }

  finish(): ImageAnswerEvent {
    return { type: "finish", usage: this.#completedUsage(), ...(this.#native && { native: this.#native }) };
  }

  assertPrice(upstream: UpstreamModel): void {
    unitsOfOne(this.#request, this.#price, upstream);
  }

  get report(): MeterReport {
    const usage = this.#completedUsage();
    const { inputTextTokens, inputImageTokens, outputTokens } = usage;
    const tokens = this.#drawn === 0 && !this.#isBegun ? 0 : inputTextTokens + inputImageTokens + outputTokens;
    return { images: { count: this.#drawn, usage }, tokens };
  }

  /** Returns the counts so far. Estimates the output tokens when the backend has not reported them. */
  #completedUsage(): ImageUsage {
    return { ...this.#usage, outputTokens: this.#usage.outputTokens || this.#drawn * OUTPUT_IMAGE_TOKENS };
  }
}
