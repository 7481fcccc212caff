/** Relays image calls: sends the request in the images format, and returns the upstream's pictures as bytes. */

import { encodeForm } from "../../http/form.ts";
import { IMAGE, type ImageEvent, type ImageRequest } from "../../model/image.ts";
import type { AnswerNotes, RelayedCall, RelayTools, RequestBelow } from "../module.ts";
import { pictureFailed } from "../shared/upstream.ts";
import {
  answerDecoder,
  decodeError,
  decodePicture,
  type Picture,
  type ToldEvent,
  type ToldPicture,
} from "./answer.decode.ts";
import { type EncodedRequest, encodeRequest, modelNames } from "./request.ts";

/**
 * Makes one request to an upstream that draws images.
 *
 * @param origins The origins from which pictures may be fetched.
 */
export function relayedImage(
  relay: RelayTools,
  origins: ReadonlySet<string>,
  request: ImageRequest,
  signal: AbortSignal,
): RelayedCall<ToldEvent, ImageEvent> {
  const names = modelNames(request);
  const model = relay.modelName(...names);
  const { path, body, stream } = encodeRequest(request, model);
  let remaining = request.count;
  /** The events that are not yielded yet. */
  let waiting: ToldEvent[] = [];
  const taken = <Event>(event: Event): Event => {
    waiting.shift();
    return event;
  };
  function* handedOn(
    exchange: { touch(): void },
    observation: AnswerNotes | undefined,
  ): Generator<ImageEvent | Promise<ImageEvent>> {
    for (const event of waiting.slice()) {
      observation?.onEvent();
      if (event.type !== "picture") yield taken(event);
      else if ("picture" in event) yield taken(drawn(event, event.picture));
      // The upstream charges a picture also when it cannot be fetched in time.
      else yield fetched(event, relay, origins, signal).then(taken);
      // Restart the time limit: the time for fetching the picture does not count as the upstream's silence.
      exchange.touch();
    }
  }
  return {
    kind: IMAGE,
    model,
    callerModel: names[0],
    path,
    ...bodyOf(body),
    stream,
    codec: { decodeError },
    decoder: answerDecoder(request, relay.json),
    isFinish: ({ type }) => type === "picture" && --remaining === 0,
    handOn(events, exchange, observation) {
      waiting = [...events];
      return handedOn(exchange, observation);
    },
    unread: (more) =>
      [...waiting, ...more].map((event) =>
        event.type === "picture" ? drawn(event, "picture" in event ? event.picture : UNFETCHED) : event,
      ),
  };
}

function bodyOf(body: EncodedRequest["body"]): Pick<RequestBelow, "headers" | "body"> {
  if (body.type === "json") return { headers: {}, body: JSON.stringify(body.fields) };
  const { contentType, bytes } = encodeForm(body.parts);
  return { headers: { "content-type": contentType }, body: bytes };
}

/** Stands for a picture that was not fetched, so that it is counted. */
const UNFETCHED: Picture = { bytes: new Uint8Array(), mediaType: "image/png" };

const drawn = ({ revisedPrompt }: ToldPicture, picture: Picture): ImageEvent => ({
  type: "image",
  ...picture,
  ...(revisedPrompt !== undefined && { revisedPrompt }),
});

async function fetched(
  told: ToldPicture & { readonly url: string },
  relay: RelayTools,
  origins: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<ImageEvent> {
  return drawn(told, decodePicture(await relay.fetchPicture(permitted(told.url, origins), signal)));
}

/** The longest accepted address of a picture, in characters. It is large, because signed addresses are long. */
const MAX_URL_CHARS = 8_192;

/**
 * Reads the address of a picture that an upstream answered with. The address is not trusted: it must lead to the upstream's own origin, or
 * to an origin that the host has named.
 */
function permitted(address: string, origins: ReadonlySet<string>): URL {
  const url = address.length <= MAX_URL_CHARS && URL.canParse(address) ? new URL(address) : undefined;
  if (!url) throw pictureFailed("The upstream's picture has an address that is none.");
  // Check the protocol as well: a `blob:` address has the origin of the address inside it.
  const isWeb = url.protocol === "http:" || url.protocol === "https:";
  if (!isWeb || !origins.has(url.origin) || url.username !== "" || url.password !== "")
    throw pictureFailed(`The upstream's picture is at ${url.origin}, which is none of the relay's imageOrigins.`);
  return url;
}
