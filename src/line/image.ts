/** Pictures, as the line draws them. */

import type { ImageEndpoint } from "../dialects/dialect.ts";
import { assertPicture, imageAmounts, ImageMeter, type Published } from "../metering/image-meter.ts";
import {
  type ImageAnswerEvent,
  type ImageDrawn,
  type ImageEvent,
  type ImageRequest,
  saidModel,
} from "../model/image.ts";
import type { ImageBooking } from "../ports/image-store.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import { askStore } from "./ask-store.ts";
import { BackendContext } from "./backend-context.ts";
import type { Call } from "./call.ts";
import { eventsOf } from "./chat.ts";
import { doubt, report } from "./failure.ts";
import type { Operation } from "./operation.ts";
import { BackendEvents } from "./run-backend.ts";

export const image: Operation<ImageEndpoint, ImageRequest, Published, ImageAnswerEvent> = {
  model: (endpoint, request) => ({
    name: request.model,
    said: saidModel(request),
    aliases: endpoint.aliasesOf(request.model),
    kind: "image",
  }),

  fit: (_endpoint, request) => request,

  /** Looks at the pixels that were sent, and sets room aside for links. A broken file is 400 also where the room is full. */
  async prepare(call, key, endpoint, request) {
    await endpoint.inspect(request, call);
    await book(call, key, endpoint, request);
  },

  amounts: (call, request) => imageAmounts(request, call.services.imagePrice),

  run(call, key, endpoint, request) {
    const { imagePrice, countTokens, backend } = call.services;
    const context = new BackendContext(call, key);
    const pictures = (): AsyncIterable<ImageEvent> =>
      new BackendEvents(call, eventsOf(backend.image?.(request, context)));
    return {
      request,
      meter: new ImageMeter(request, imagePrice, countTokens, (why) => doubt(call, why)),
      events: () => published(call, endpoint, request, pictures()),
    };
  },
};

async function book(call: Call, key: ApiKey, endpoint: ImageEndpoint, request: ImageRequest): Promise<void> {
  const book = (): Promise<ImageBooking | undefined> => endpoint.book(request, key.id);
  const booking = await askStore(call, "image-store", "book", book, releasing(call));
  if (booking) call.defer(() => release(call, booking));
  call.assertLive();
  call.booking = booking;
}

/** Gives each finished picture its address before it counts as delivered, where its caller wants one. */
async function* published(
  call: Call,
  endpoint: ImageEndpoint,
  request: ImageRequest,
  events: AsyncIterable<ImageEvent>,
): AsyncGenerator<Published> {
  let drawn = 0;
  try {
    for await (const event of events) {
      if (event.type !== "image") yield event;
      // Ignore surplus pictures.
      else if (drawn < request.count) {
        assertPicture(event);
        const url = request.delivery === "data" ? {} : { url: await linked(call, endpoint, event) };
        drawn++;
        yield { ...event, ...url };
      }
    }
  } catch (error) {
    // What has come is paid for: a caller who waits for all of it gets that, and not an error in its place.
    if (drawn === 0 || request.stream || call.isEnded) throw error;
    report(call, error, "model-backend");
  }
}

/** The address of a picture. A store that fails is the host's own, and no fault of the backend. */
const linked = (call: Call, endpoint: ImageEndpoint, picture: ImageDrawn): Promise<string> =>
  askStore(call, "image-store", "put", () => endpoint.publish(picture, call, call.booking));

/** Gives room back that comes when nobody waits for it any more. Written here, where the function holds nothing but the call. */
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
