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
import { noBackend } from "./chat.ts";
import { doubt, report } from "./failure.ts";
import type { Operation } from "./operation.ts";
import { leavable } from "./run-backend.ts";

export const image: Operation<ImageEndpoint, ImageRequest, Published, ImageAnswerEvent> = {
  model: (endpoint, request) => ({
    name: request.model,
    said: saidModel(request),
    aliases: endpoint.aliasesOf(request.model),
    kind: "image",
  }),

  fit: (_endpoint, request) => request,

  /** Sets room aside for links, and looks at the pixels that were sent. */
  async prepare(call, key, endpoint, request) {
    await book(call, key, endpoint, request);
    await endpoint.inspect(request, call);
  },

  amounts: (call, request) => imageAmounts(request, call.services.imagePrice),

  run(call, key, endpoint, request) {
    const { imagePrice, countTokens, backend } = call.services;
    const context = new BackendContext(call, key);
    const pictures = (): AsyncIterable<ImageEvent> => leavable(call, backend.image?.(request, context) ?? noBackend());
    return {
      request,
      meter: new ImageMeter(request, imagePrice, countTokens, (why) => doubt(call, why)),
      events: () => published(call, endpoint, request, pictures()),
    };
  },
};

async function book(call: Call, key: ApiKey, endpoint: ImageEndpoint, request: ImageRequest): Promise<void> {
  const booking = await askStore(call, "image-store", "book", async () => {
    const booked = await endpoint.book(request, key.id);
    // Also for room that comes when nobody waits for it any more.
    if (booked) call.defer(() => release(call, booked));
    return booked;
  });
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

function release(call: Call, booking: ImageBooking): void {
  try {
    booking.release();
  } catch (error) {
    report(call, error, "image-store");
  }
}
