/** The meter of pictures: counts those that really came, and the tokens that the backend says they took. */

import { GatewayError } from "../errors.ts";
import type {
  ImageAnswerEvent,
  ImageDrawn,
  ImageEvent,
  ImageMediaType,
  ImageRequest,
  ImageUsage,
} from "../model/image.ts";
import type { Certainty } from "../model/usage.ts";
import { assertTokens, type CountTokens } from "./estimate.ts";
import type { ImagePrice } from "./image-price.ts";
import type { Meter } from "./meter.ts";
import type { Amounts } from "./price.ts";

/** What the units of one picture are; throws a RangeError when a host's price is no finite number from 0 up. */
function unitsOfOne({ model, size, quality }: ImageRequest, price: ImagePrice): number {
  const asked = price({ model, size, quality });
  const units = Math.ceil(asked);
  if (!Number.isSafeInteger(units) || asked < 0)
    throw new RangeError(`The price of a picture by "${model}" must be a number from 0 up, not ${asked}`);
  return units;
}

/** Pictures are not drawn by halves: a request is admitted whole, or not at all. */
export function imageAmounts(request: ImageRequest, price: ImagePrice): Amounts {
  const units = Math.min(Number.MAX_SAFE_INTEGER, unitsOfOne(request, price) * request.count);
  return { atLeast: units, atMost: units };
}

const MEDIA_TYPES: readonly string[] = ["image/png", "image/jpeg", "image/webp"] satisfies ImageMediaType[];

/** Throws `backend_failed` for what is no picture, before anyone is charged for it. */
export function assertPicture({ bytes, mediaType }: ImageDrawn): void {
  if (!(bytes instanceof Uint8Array) || bytes.length === 0 || !MEDIA_TYPES.includes(mediaType))
    throw new GatewayError("backend_failed", "The model backend drew something that is no picture.");
}

/** What a picture that was sent, and one that was drawn, is taken to cost its backend, where that has not said. */
const INPUT_IMAGE_TOKENS = 256;
const OUTPUT_IMAGE_TOKENS = 1_056;

export type Published = ImageEvent & { readonly url?: string };

export class ImageMeter implements Meter<Published, ImageAnswerEvent> {
  readonly certainty: Certainty = "exact";
  readonly overrun = false;
  readonly #count: number;
  readonly #unitsOfOne: number;
  #usage: ImageUsage;
  #drawn = 0;

  constructor(request: ImageRequest, price: ImagePrice, countTokens: CountTokens) {
    this.#count = request.count;
    this.#unitsOfOne = unitsOfOne(request, price);
    this.#usage = {
      inputTextTokens: Math.ceil(assertTokens(countTokens(request.prompt))),
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
        this.#learn(event.usage);
        return undefined;
      case "partial-image":
        return event;
      case "image":
        // What comes after as many as were asked for is nobody's.
        return this.#drawn < this.#count ? { ...event, number: this.#drawn++ } : undefined;
      default:
        event satisfies never;
        throw new GatewayError("backend_failed", "The model backend yielded an event of no known type.");
    }
  }

  complete(): void {
    if (this.#drawn === 0) throw new GatewayError("backend_failed", "The model backend drew no picture.");
  }

  finish(): ImageAnswerEvent {
    const outputTokens = this.#usage.outputTokens || this.#drawn * OUTPUT_IMAGE_TOKENS;
    return { type: "finish", usage: { ...this.#usage, outputTokens } };
  }

  get units(): number {
    return this.#drawn * this.#unitsOfOne;
  }

  #learn(usage: Partial<ImageUsage>): void {
    for (const [name, count] of Object.entries(usage))
      if (!Number.isSafeInteger(count) || count < 0)
        throw new GatewayError("backend_failed", `The model backend reported a usage that is no count: ${name}.`);
    this.#usage = { ...this.#usage, ...usage };
  }
}
