/** Images as a kind of generation: generations, edits and variations, counted by the image, and kept for callers who want links. */

import {
  IMAGE,
  type ImageAnswerEvent,
  type ImageDrawn,
  type ImageEvent,
  type ImageTraits,
  type ImageMediaType,
  type ImageRequest,
  type ImageUsage,
  saidModel,
} from "../../model/image.ts";
import { type Certainty, type NativeUsage } from "../../model/usage.ts";
import { FROM_ZERO, shown, type Shapes } from "../../options.ts";
import type { Clock } from "../../ports/clock.ts";
import { type ImageBooking, type ImageStore, newImageId } from "../../ports/image-store.ts";
import type { UpstreamModel } from "../../ports/model-backend.ts";
import { assertTokens } from "../count-tokens.ts";
import type { KindCall, KindModule } from "../kind.ts";
import {
  wrongBackend,
  countFault,
  isCount,
  isTooHigh,
  type Meter,
  type MeterReport,
  noCount,
  tooMany,
  wrongEvent,
  wrongField,
} from "../meter.ts";
import { imagePriceAmong } from "../other-models.ts";
import { imageAmounts, type ImagePrice, imagePriceTable, unitsOfOne } from "./price.ts";

/** The fields of an endpoint of images, beside its codec. */
export interface ImageNeeds {
  /** Returns the other names of a model. */
  aliasesOf(model: string): readonly string[];
  /** Checks the pixels of the files, after quota is held. Throws `invalid_request` with the name of the file. */
  readonly inspect: (request: ImageRequest, signal: AbortSignal) => Promise<void>;
  readonly links: ImageLinks;
}

/** The host's store for images that callers fetch by their links. */
export interface ImageLinks {
  readonly store: ImageStore;
  readonly clock: Clock;
  /** Returns the most bytes that the images of a request take. */
  readonly maxBytes: (request: ImageRequest) => number;
  /** Returns the address of an image. */
  readonly urlOf: (id: string, call: Pick<KindCall, "baseUrl">) => string;
}

/** The lifetime of an image's link (spec 3), in milliseconds. */
const LINK_LIFETIME_MS = 3_600_000;

/** Images as a kind of generation. */
export const image: KindModule<ImageNeeds, ImageRequest, Published, ImageAnswerEvent, ImageBooking> = {
  name: IMAGE,
  verb: "image",
  counts: ["count"],

  isPricedByUpstream: ({ imagePrice = imagePriceTable }) => imagePrice !== imagePriceTable,
  hasFreeModels: ({ imagePrice = imagePriceTable }) =>
    imagePrice === imagePriceTable ? false : imagePrice.hasFreeModels,

  names: (endpoint, request) => ({ said: saidModel(request), aliases: endpoint.aliasesOf(request.model) }),

  cost: (call, request) => ({
    ...imageAmounts(request, priceOf(call, request), call.upstreamsOf(request.model)),
    inputTokens: 0,
    maxOutputTokens: 0,
  }),

  /** Checks the pixels of the uploaded files, then books room for links. A broken file is a 400 even when the room is full. */
  async prepare(call, { inspect, links }, request) {
    await inspect(request, call.signal);
    return request.delivery === "data" ? undefined : book(call, links, request);
  },

  ask: (backend, request, context) => backend.image?.(request, context),

  generation: (call, { links }, request, { prepared }) => ({
    meter: new ImageMeter(call, request),
    shape: (events) => publishEach(call, links, request, prepared, events),
  }),
};

const priceOf = (call: KindCall, { native }: ImageRequest): ImagePrice =>
  imagePriceAmong(call.prices.imagePrice ?? imagePriceTable, native, (field) => call.leavesOut(field));

/** Books room for images that will be linked; undefined for a store that books none. Throws `busy` when there is no room. */
async function book(call: KindCall, links: ImageLinks, request: ImageRequest): Promise<ImageBooking | undefined> {
  const { store } = links;
  if (!store.book) return undefined;
  const wanted = { keyId: call.key.id, bytes: links.maxBytes(request) };
  const ask = async (): Promise<ImageBooking | undefined> => store.book?.(wanted);
  const booking = await call.askStore("image-store", "book", ask, releasing(call));
  if (booking) call.defer(() => release(call, booking));
  call.assertLive();
  return booking;
}

/** Gives each finished image its address before the image counts as delivered, when the caller wants addresses. */
async function* publishEach(
  call: KindCall,
  links: ImageLinks,
  request: ImageRequest,
  booking: ImageBooking | undefined,
  events: AsyncIterable<Published>,
): AsyncGenerator<Published> {
  let drawn = 0;
  try {
    for await (const event of events) {
      assertImageEvent(event);
      if (event.type !== "image") yield event;
      // Ignore surplus images.
      else if (drawn < request.count) {
        const url = request.delivery === "data" ? {} : { url: await publish(call, links, event, booking) };
        drawn++;
        yield { ...event, ...url };
      }
    }
  } catch (error) {
    // The images so far are paid for: a caller who waits for the whole answer gets them instead of an error.
    if (drawn === 0 || request.stream || call.isEnded) throw error;
    call.report(error, "model-backend");
  }
}

/** Stores a finished image for its caller, and returns its address. A failure is the image store's, not the backend's. */
const publish = (
  call: KindCall,
  { store, clock, urlOf }: ImageLinks,
  { bytes, mediaType }: ImageDrawn,
  booking: ImageBooking | undefined,
): Promise<string> =>
  call.askStore("image-store", "put", () => {
    const id = newImageId();
    const url = urlOf(id, call);
    return urlAfter(store.put({ id, bytes, mediaType, expiresAt: clock.now() + LINK_LIFETIME_MS }, booking), url);
  });

/**
 * Resolves with an address once its image is stored. A function of its own that does not wait: a store that hangs keeps what is in its reach,
 * and the image and its call are not.
 */
const urlAfter = (putting: PromiseLike<void> | void, url: string): Promise<string> =>
  Promise.resolve(putting).then(() => url);

/** Releases a booking that comes after the call has ended. A function of its own, so that it holds nothing but the call. */
const releasing =
  (call: KindCall) =>
  (booked: ImageBooking | undefined): void =>
    booked && release(call, booked);

function release(call: KindCall, booking: ImageBooking): void {
  try {
    booking.release();
  } catch (error) {
    call.report(error, "image-store");
  }
}

const MEDIA_TYPES: readonly string[] = ["image/png", "image/jpeg", "image/webp"] satisfies ImageMediaType[];

const TRAITS: Shapes<ImageTraits> = { size: "string?", quality: "string?", background: "string?" };

const SHAPES = {
  image: { bytes: "object", mediaType: MEDIA_TYPES, revisedPrompt: "string?", ...TRAITS },
  "partial-image": { image: FROM_ZERO, step: FROM_ZERO, bytes: "object", mediaType: MEDIA_TYPES, ...TRAITS },
  usage: { usage: "object", native: "any?" },
} satisfies { readonly [Type in ImageEvent["type"]]: Shapes<Omit<Extract<ImageEvent, { type: Type }>, "type">> };

/** Throws `backend_failed` for an event of an unknown type, or with a wrong field, before the image is charged. */
function assertImageEvent(event: ImageEvent): void {
  if (!Object.hasOwn(SHAPES, event?.type)) throw wrongEvent(IMAGE, event, SHAPES);
  if (event.type === "usage") {
    if (typeof event.usage !== "object" || event.usage === null) throw wrongEvent(IMAGE, event, SHAPES);
    return;
  }
  const { bytes } = event;
  const isPicture = bytes instanceof Uint8Array && bytes.length > 0;
  // Upstreams write null for a field that they do not tell.
  const told = Object.fromEntries(Object.entries(event).filter(([, value]) => value !== null));
  if (isPicture && wrongField(event.type, told, SHAPES[event.type]) === undefined) return;
  const message = "The model backend drew something that is no picture.";
  if (bytes === undefined || isPicture) throw wrongEvent(IMAGE, event, SHAPES, "", message);
  const given = bytes instanceof Uint8Array ? "an empty one" : shown(bytes);
  throw wrongBackend(message, `image: the event ${event.type}: bytes must be a Uint8Array, not ${given}.`);
}

/** The estimated tokens of an uploaded image and of a finished image, until the backend reports its counts. */
const INPUT_IMAGE_TOKENS = 256;
const OUTPUT_IMAGE_TOKENS = 1_056;

/** A backend's event. A finished image also has the URL at which the caller can fetch the image. */
type Published = ImageEvent & { readonly url?: string };

class ImageMeter implements Meter<Published, ImageAnswerEvent> {
  readonly certainty: Certainty = "exact";
  readonly overrun = false;
  readonly #call: KindCall;
  readonly #request: ImageRequest;
  readonly #price: ImagePrice;
  readonly #inputTextTokens: number;
  #usage: ImageUsage;
  #native: NativeUsage | undefined;
  #drawn = 0;
  /** True once an unfinished version of the next image has come: it shows most of the image, and is charged like it. */
  #isBegun = false;
  #units = 0;
  #priceError: { readonly error: unknown } | undefined;

  constructor(call: KindCall, request: ImageRequest) {
    this.#call = call;
    this.#request = request;
    this.#price = priceOf(call, request);
    this.#inputTextTokens = Math.ceil(assertTokens(call.countTokens(request.prompt)));
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
      this.#units += unitsOfOne(this.#request, this.#price, this.#call.answeringUpstream());
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
    if (wrong) this.#call.doubt(isCount(wrong[1]) ? tooMany(wrong[0], wrong[1], most) : noCount(countFault(...wrong)));
    else this.#usage = { ...this.#usage, ...usage };
  }

  complete(): void {
    if (this.#drawn > 0) return;
    throw wrongBackend(
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
