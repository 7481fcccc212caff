/** Relays image calls: sends the request in the images format, and returns the upstream's pictures as bytes. */

import { GatewayError } from "../../errors.ts";
import type { EncodedImageRequest, ImageCodec, ToldEvent, ToldPicture } from "../../formats/format.ts";
import { encodeForm } from "../../http/form.ts";
import type { ImageEvent, ImageRequest } from "../../kinds/image/request.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { type RelayedCall, readBytes, relayed } from "./call.ts";
import { brokenOff } from "./failures.ts";
import type { UpstreamOptions } from "./options.ts";
import { Exchange, UNREAD } from "./transport.ts";
import type { RequestBelow, Upstream } from "./upstream.ts";

/** The function of a relay to an upstream that draws images. */
export type ImageRelay = Required<Pick<ModelBackend, "image">>;

export function imageRelay(upstream: Upstream, { imageOrigins = [] }: UpstreamOptions, codec: ImageCodec): ImageRelay {
  const pictures = new Pictures(upstream, imageOrigins);
  return {
    image: (request, call) =>
      relayed(upstream, call, () => relayedImage(upstream, codec, pictures, request, call.signal)),
  };
}

function relayedImage(
  upstream: Upstream,
  codec: ImageCodec,
  pictures: Pictures,
  request: ImageRequest,
  signal: AbortSignal,
): RelayedCall<ToldEvent, ImageEvent> {
  const names = codec.modelNames(request);
  const model = upstream.modelName(...names);
  const { path, body, stream } = codec.encodeRequest(request, model);
  let remaining = request.count;
  return {
    kind: "image",
    model,
    callerModel: names[0],
    path,
    ...bodyOf(body),
    stream,
    codec,
    decoder: codec.answerDecoder(request, upstream.json),
    isFinish: ({ type }) => type === "picture" && --remaining === 0,
    *handOn(events, exchange, observation) {
      for (const event of events) {
        observation?.onEvent();
        yield event.type === "picture" ? imageOf(event, codec, pictures, signal) : event;
        // Restart the time limit: the time for fetching the picture does not count as the upstream's silence.
        exchange.touch();
      }
    },
  };
}

function bodyOf(body: EncodedImageRequest["body"]): Pick<RequestBelow, "headers" | "body"> {
  if (body.type === "json") return { headers: {}, body: JSON.stringify(body.fields) };
  const { contentType, bytes } = encodeForm(body.parts);
  return { headers: { "content-type": contentType }, body: bytes };
}

async function imageOf(
  told: ToldPicture,
  codec: ImageCodec,
  pictures: Pictures,
  signal: AbortSignal,
): Promise<ImageEvent> {
  const picture = "picture" in told ? told.picture : codec.decodePicture(await pictures.fetch(told.url, signal));
  const { revisedPrompt } = told;
  return { type: "image", ...picture, ...(revisedPrompt !== undefined && { revisedPrompt }) };
}

/** The longest accepted address of a picture, in characters. It is large, because signed addresses are long. */
const MAX_URL_CHARS = 8_192;

/**
 * Fetches pictures from the addresses that an upstream answers with. The addresses are not trusted: requests go only to the
 * upstream's own origin and to origins that the host has named, without a credential, and follow no redirect.
 */
class Pictures {
  readonly #upstream: Upstream;
  readonly #origins: ReadonlySet<string>;

  /** Throws a TypeError for an invalid origin. */
  constructor(upstream: Upstream, imageOrigins: readonly string[]) {
    this.#upstream = upstream;
    this.#origins = new Set([upstream.origin, ...imageOrigins.map(validOrigin)]);
  }

  /** Fetches the bytes at an address. Throws `backend_failed` for an address that is not permitted, and for every status but 200. */
  async fetch(address: string, signal: AbortSignal): Promise<Uint8Array> {
    const { clock, limits, timeouts } = this.#upstream;
    const { origin, pathname, search } = this.#permitted(address);
    const exchange = new Exchange(clock, signal);
    exchange.begin(
      { name: "connection", limitMs: timeouts.connectMs },
      { name: "picture", limitMs: timeouts.pictureMs },
    );
    const headers = { accept: "image/*", "accept-encoding": "identity", "user-agent": "polygate" };
    try {
      const request = { method: "GET", path: pathname + search, headers } as const;
      const response = await this.#upstream.sendTo(origin, exchange, request);
      if (response.status !== 200) throw failed(`The upstream's picture was answered with ${response.status}.`);
      const bytes = await readBytes(response, limits.maxPictureBytes);
      exchange.end();
      return bytes;
    } catch (error) {
      throw brokenOff(error);
    } finally {
      exchange.cut(UNREAD);
    }
  }

  #permitted(address: string): URL {
    const url = address.length <= MAX_URL_CHARS && URL.canParse(address) ? new URL(address) : undefined;
    if (!url) throw failed("The upstream's picture has an address that is none.");
    // Check the protocol as well: a `blob:` address has the origin of the address inside it.
    const isWeb = url.protocol === "http:" || url.protocol === "https:";
    if (!isWeb || !this.#origins.has(url.origin) || url.username !== "" || url.password !== "")
      throw failed(`The upstream's picture is at ${url.origin}, which is none of the relay's imageOrigins.`);
    return url;
  }
}

const failed = (why: string): GatewayError =>
  new GatewayError("backend_failed", "The model backend's picture cannot be fetched.", {
    port: "model-backend",
    cause: new Error(why),
  });

function validOrigin(origin: string): string {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isOrigin = url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`;
  if (!isOrigin)
    throw new TypeError("relay: imageOrigins must be origins alone, such as https://pictures.example.com.");
  return url.origin;
}
