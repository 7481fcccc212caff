/** Relays image calls: sends the request in the images format, decodes the answer (spec 2.4, 7.4), and returns the pictures as bytes. */

import { type GatewayError, backendFailed } from "../../errors.ts";
import { encodeForm } from "../../http/form.ts";
import { fromBase64, isBase64 } from "../../media/base64.ts";
import { probeImage } from "../../media/picture.ts";
import {
  IMAGE,
  type ImageDrawn,
  type ImageEvent,
  type ImageMediaType,
  type ImageRequest,
  type ImageTraits,
  type ImageUsage,
} from "../../model/image.ts";
import { given, isJsonObject, type JsonLimits, type JsonObject, type JsonValue } from "../../model/json.ts";
import type { AnswerDecoder } from "../format.ts";
import type { AnswerNotes, RelayedCall, RelayTools, RequestBelow } from "../module.ts";
import { decodeUpstreamError, isError, retryAfterOf, upstreamError } from "../shared/errors.decode.ts";
import { pictureFailed, parseAnswerObject } from "../shared/upstream.ts";
import { type EncodedRequest, encodeRequest, modelNames } from "./request.ts";
import { FORMAT } from "./routes.ts";
import { ImageFields } from "./schema.ts";

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

/** Replaces a picture that was not fetched, so that the picture is counted. */
const UNFETCHED: Picture = { bytes: new Uint8Array(), mediaType: "image/png" };

const drawn = ({ told }: ToldPicture, picture: Picture): ImageEvent => ({ type: "image", ...picture, ...told });

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

/** A finished picture from an upstream: its bytes, or its address. */
type ToldPicture = {
  readonly type: "picture";
  readonly told: Pick<ImageDrawn, "revisedPrompt" | keyof ImageTraits>;
} & ({ readonly picture: Picture } | { readonly url: string });

interface Picture {
  readonly bytes: Uint8Array;
  /** The type according to the bytes of the picture. */
  readonly mediaType: ImageMediaType;
}

type ToldEvent = ToldPicture | Exclude<ImageEvent, { type: "image" }>;

/** Decodes one answer, complete or streamed. Never returns more pictures than were requested. */
export function answerDecoder({ count }: Pick<ImageRequest, "count">, limits?: JsonLimits): AnswerDecoder<ToldEvent> {
  let finished = 0;
  let told: ToldEvent[] = [];
  return {
    answer(body) {
      const answer = parseAnswerObject(body, limits);
      const { data, usage } = answer;
      if (isError(answer)) throw withKnownPath(decodeUpstreamError(undefined, answer));
      if (!Array.isArray(data)) throw backendFailed("The model backend's answer has no pictures.");
      told = decodeUsage(usage);
      let failed: { readonly error: unknown } | undefined;
      for (const image of data.slice(0, count))
        try {
          told.push(decodeImage(image, decodeTraits(answer)));
        } catch (error) {
          failed ??= { error };
        }
      if (failed) throw failed.error;
      return told;
    },

    // Where one picture is broken or filtered, the upstream still bills the others.
    lost: () => told,

    frame(name, data) {
      told = [];
      if (data === "[DONE]" || finished === count) return [];
      const event = parseAnswerObject(data, limits);
      const type = typeof event["type"] === "string" ? event["type"] : (name ?? "");
      if (isError(event, name)) throw withKnownPath(decodeUpstreamError(undefined, event));
      if (/^image_\w+\.partial_image$/.test(type)) {
        const step = event["partial_image_index"];
        if (!Number.isSafeInteger(step))
          throw backendFailed("The model backend drew an unfinished picture of no number.");
        const picture = decodePicture(decodeData(event["b64_json"]));
        return [{ type: "partial-image", image: finished, step: Number(step), ...picture, ...decodeTraits(event) }];
      }
      if (!/^image_\w+\.completed$/.test(type)) return [];
      finished++;
      told = decodeUsage(event["usage"]);
      return [...told, decodeImage(event, decodeTraits(event))];
    },

    end() {
      if (finished < count) throw backendFailed("The model backend's answer broke off.");
    },
  };
}

/** The largest number of pixels of a picture that is passed on. Common decoders take no more. */
const MAX_PIXELS = 2 ** 28;

/** Returns bytes as a picture. Throws `backend_failed` if their headers are not those of a whole PNG, JPEG or WEBP. */
function decodePicture(bytes: Uint8Array): Picture {
  try {
    return { bytes, mediaType: probeImage(bytes, { maxPixels: MAX_PIXELS }).mediaType };
  } catch (cause) {
    throw noPicture(cause);
  }
}

function decodeImage(image: JsonValue, traits: ImageTraits): ToldPicture {
  const { b64_json, url, revised_prompt } = isJsonObject(image) ? image : {};
  const told = { ...traits, ...(typeof revised_prompt === "string" && { revisedPrompt: revised_prompt }) };
  if (b64_json != null) return { type: "picture", picture: decodePicture(decodeData(b64_json)), told };
  if (typeof url !== "string") throw noPicture();
  const inline = /^data:[\w./+-]{0,64};base64,/.exec(url);
  if (!inline) return { type: "picture", url, told };
  return { type: "picture", picture: decodePicture(decodeData(url.slice(inline[0].length))), told };
}

/** Decodes the properties that an upstream tells of its pictures. */
const decodeTraits = ({ size, quality, background }: JsonObject): ImageTraits =>
  given({ size: wordOf(size), quality: wordOf(quality), background: wordOf(background) });

/** Returns a word that may be shown to callers; undefined for any other value. */
const wordOf = (value: unknown): string | undefined =>
  typeof value === "string" && /^\w{1,32}$/.test(value) ? value : undefined;

function decodeData(data: unknown): Uint8Array {
  if (typeof data === "string" && isBase64(data)) return fromBase64(data);
  throw noPicture();
}

const noPicture = (cause?: unknown): GatewayError =>
  backendFailed("The model backend drew something that is no picture.", cause);

/** Returns the token counts that the upstream reported. The meter checks later whether they are plausible. */
function decodeUsage(usage: unknown): ToldEvent[] {
  if (!isJsonObject(usage)) return [];
  const { input_tokens, output_tokens, input_tokens_details } = usage;
  const details = isJsonObject(input_tokens_details) ? input_tokens_details : {};
  const counts: [keyof ImageUsage, JsonValue | undefined][] = [
    ["inputTextTokens", details["text_tokens"] ?? input_tokens],
    ["inputImageTokens", details["image_tokens"] ?? (input_tokens === undefined ? undefined : 0)],
    ["outputTokens", output_tokens],
  ];
  const known = counts.flatMap(([name, count]) => (count == null ? [] : [[name, Number(count)] as const]));
  return [{ type: "usage", usage: Object.fromEntries(known), native: { format: FORMAT, fields: usage } }];
}

/** Decodes an error response from status, headers and body (parsed JSON, or a text). The upstream's own message stays in `cause`. */
export function decodeError(status: number, headers: Headers, body: unknown): GatewayError {
  // A 404 in another form comes from another kind of server, so it does not mean an unknown model.
  const isOtherServer = status === 404 && !(isJsonObject(body) && isJsonObject(body["error"]));
  return withKnownPath(decodeUpstreamError(isOtherServer ? 500 : status, body, retryAfterOf(headers)));
}

const FIELDS: ReadonlySet<unknown> = new Set([...Object.keys(ImageFields.entries), "image", "mask", "model"]);

/** Removes the path of a field that callers do not have. */
function withKnownPath(error: GatewayError): GatewayError {
  if (!error.path || FIELDS.has(error.path[0])) return error;
  return upstreamError(400, error.cause, undefined);
}
