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
import { assertTokens, type CountTokens } from "./count-tokens.ts";
import type { ImagePrice } from "./image-price.ts";
import type { Meter, MeterReport } from "./meter.ts";
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
  readonly #unitsOfOne: number;
  readonly #doubt: (why: string) => void;
  #usage: ImageUsage;
  #drawn = 0;

  /** @param doubt Told of counts of the backend's that cannot be true. */
  constructor(request: ImageRequest, price: ImagePrice, countTokens: CountTokens, doubt: (why: string) => void) {
    this.#doubt = doubt;
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
        return { ...event, number: this.#drawn++ };
      default:
        event satisfies never;
        throw new GatewayError("backend_failed", "The model backend yielded an event of no known type.");
    }
  }

  complete(): void {
    if (this.#drawn === 0) throw new GatewayError("backend_failed", "The model backend drew no picture.");
  }

  finish(): ImageAnswerEvent {
    return { type: "finish", usage: this.#estimated };
  }

  get report(): MeterReport {
    return { images: { count: this.#drawn, usage: this.#estimated } };
  }

  /** What was counted, completed by an estimate. */
  get #estimated(): ImageUsage {
    return { ...this.#usage, outputTokens: this.#usage.outputTokens || this.#drawn * OUTPUT_IMAGE_TOKENS };
  }

  get units(): number {
    return this.#drawn * this.#unitsOfOne;
  }

  /** A count that is none is left to the estimate: pictures are charged by their number, whatever a backend counts. */
  #learn(usage: Partial<ImageUsage>): void {
    const wrong = Object.entries(usage).find(([, count]) => !Number.isSafeInteger(count) || count < 0);
    if (wrong) this.#doubt(`The model backend reported a usage that is no count: ${wrong[0]}.`);
    else this.#usage = { ...this.#usage, ...usage };
  }
}
