/** Images as a kind of generation: generations, edits and variations, counted by the image. */

import type { ImageEndpoint } from "../../formats/format.ts";
import { askStore } from "../../pipeline/ask-store.ts";
import { answeringUpstream, upstreamsOf } from "../../pipeline/attempts.ts";
import type { Call } from "../../pipeline/call.ts";
import { doubt, report } from "../../pipeline/failures.ts";
import type { Kind } from "../../pipeline/kind.ts";
import type { ImageBooking } from "../../ports/image-store.ts";
import type { ApiKey } from "../../ports/quota-store.ts";
import { imagePriceAmong } from "../other-models.ts";
import { assertImageEvent, imageAmounts, ImageMeter, type Published } from "./meter.ts";
import { type ImageAnswerEvent, type ImageDrawn, type ImageRequest, saidModel } from "./request.ts";

export const image: Kind<ImageEndpoint, ImageRequest, Published, ImageAnswerEvent> = {
  model: (endpoint, request) => ({
    name: request.model,
    said: saidModel(request),
    aliases: endpoint.aliasesOf(request.model),
    kind: "image",
  }),

  fit: (_endpoint, request) => request,

  amounts: (call, request) =>
    imageAmounts(
      request,
      imagePriceAmong(call.services.imagePrice, request.native),
      upstreamsOf(call, request.model, "image"),
    ),

  /** Checks the pixels of the uploaded files, then books room for links. A broken file is a 400 even when the room is full. */
  async prepare(call, key, endpoint, request) {
    await endpoint.inspect(request, call);
    await book(call, key, endpoint, request);
  },

  afford: (_call, request) => request,

  mayRunCode: () => false,

  ask: (backend, request, context) => backend.image?.(request, context),

  generation(call, endpoint, request) {
    const { imagePrice, countTokens } = call.services;
    return {
      meter: new ImageMeter(
        request,
        imagePriceAmong(imagePrice, request.native),
        countTokens,
        (why) => doubt(call, why),
        () => answeringUpstream(call),
      ),
      shape: (events) => publishEach(call, endpoint, request, events),
    };
  },
};

async function book(call: Call, key: ApiKey, endpoint: ImageEndpoint, request: ImageRequest): Promise<void> {
  const ask = (): Promise<ImageBooking | undefined> => endpoint.book(request, key.id);
  const booking = await askStore(call, "image-store", "book", ask, releasing(call));
  if (booking) call.defer(() => release(call, booking));
  call.assertLive();
  call.booking = booking;
}

/** Gives each finished image its address before the image counts as delivered, when the caller wants addresses. */
async function* publishEach(
  call: Call,
  endpoint: ImageEndpoint,
  request: ImageRequest,
  events: AsyncIterable<Published>,
): AsyncGenerator<Published> {
  let drawn = 0;
  try {
    for await (const event of events) {
      assertImageEvent(event);
      if (event.type !== "image") yield event;
      // Ignore surplus images.
      else if (drawn < request.count) {
        const url = request.delivery === "data" ? {} : { url: await publish(call, endpoint, event) };
        drawn++;
        yield { ...event, ...url };
      }
    }
  } catch (error) {
    // The images so far are paid for: a caller who waits for the whole answer gets them instead of an error.
    if (drawn === 0 || request.stream || call.isEnded) throw error;
    report(call, error, "model-backend");
  }
}

/** Publishes an image, and returns its address. A failure is the image store's, not the backend's. */
const publish = (call: Call, endpoint: ImageEndpoint, picture: ImageDrawn): Promise<string> =>
  askStore(call, "image-store", "put", () => endpoint.publish(picture, call, call.booking));

/** Releases a booking that comes after the call has ended. A function of its own, so that it holds nothing but the call. */
const releasing =
  (call: Call) =>
  (booked: ImageBooking | undefined): void =>
    booked && release(call, booked);

function release(call: Call, booking: ImageBooking): void {
  try {
    booking.release();
  } catch (error) {
    report(call, error, "image-store");
  }
}
