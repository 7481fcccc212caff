/** An upstream's image answer (spec 2.4), complete or streamed, as what it tells: pictures, or where they can be fetched. */

import { fromBase64, isBase64 } from "../../media/base64.ts";
import { probeImage } from "../../media/image.ts";
import type { ImageEvent, ImageMediaType, ImageUsage } from "../../model/image.ts";
import { isJsonObject, type JsonLimits, type JsonObject, type JsonValue } from "../../model/json.ts";
import { parseAnswerObject, upstreamFailed } from "../shared/upstream.ts";
import { decodeErrorBody } from "./errors.ts";

/** A finished picture: its bytes, or the address that the upstream says it has. */
export type ToldPicture = {
  readonly type: "picture";
  readonly revisedPrompt?: string;
} & ({ readonly picture: Picture } | { readonly url: string });

export interface Picture {
  readonly bytes: Uint8Array;
  /** By its own first bytes. */
  readonly mediaType: ImageMediaType;
}

export type ToldEvent = ToldPicture | Exclude<ImageEvent, { type: "image" }>;

/** The most pixels of a picture that is handed on: what common decoders take. */
const MAX_PIXELS = 2 ** 28;

/** What bytes are as a picture. Throws `backend_failed` for what is no whole PNG, JPEG or WEBP, by its headers. */
export function decodePicture(bytes: Uint8Array): Picture {
  try {
    return { bytes, mediaType: probeImage(bytes, { maxPixels: MAX_PIXELS }).mediaType };
  } catch (cause) {
    throw upstreamFailed("The model backend drew something that is no picture.", cause);
  }
}

/** Decodes one answer. */
export class AnswerDecoder {
  readonly #count: number;
  readonly #limits: JsonLimits | undefined;
  #drawn = 0;

  /** @param count How many pictures were asked for. */
  constructor(count: number, limits?: JsonLimits) {
    this.#count = count;
    this.#limits = limits;
  }

  /** What a complete answer tells: its usage first, and then no more pictures than were asked for. Throws the upstream's own error. */
  answer(body: string): ToldEvent[] {
    const answer = parseAnswerObject(body, this.#limits);
    const { data, error } = answer;
    if (isJsonObject(error)) throw decodeErrorBody(answer);
    if (!Array.isArray(data)) throw upstreamFailed("The model backend's answer has no pictures.");
    const pictures = data.slice(0, this.#count).map(decodeImage);
    return [...decodeUsage(answer["usage"]), ...pictures];
  }

  /**
   * What an event of a stream tells; nothing for one of an unknown type, or behind the last picture that was asked for. Throws the
   * upstream's own error, or `backend_failed`.
   */
  frame(name: string | undefined, data: string): ToldEvent[] {
    if (data === "[DONE]" || this.#drawn === this.#count) return [];
    const event = parseAnswerObject(data, this.#limits);
    const type = typeof event["type"] === "string" ? event["type"] : (name ?? "");
    if (type === "error" || isJsonObject(event["error"])) throw decodeErrorBody(event);
    if (/^image_\w+\.partial_image$/.test(type)) return [this.#partial(event)];
    if (!/^image_\w+\.completed$/.test(type)) return [];
    this.#drawn++;
    return [...decodeUsage(event["usage"]), decodeImage(event)];
  }

  /** Throws `backend_failed` for a stream that ended before all pictures had come. */
  end(): void {
    if (this.#drawn < this.#count) throw upstreamFailed("The model backend's answer broke off.");
  }

  #partial(event: JsonObject): ToldEvent {
    const step = event["partial_image_index"];
    if (!Number.isSafeInteger(step)) throw upstreamFailed("The model backend drew an unfinished picture of no number.");
    const picture = decodePicture(decodeData(event["b64_json"]));
    return { type: "partial-image", image: this.#drawn, step: Number(step), ...picture };
  }
}

function decodeImage(image: JsonValue): ToldPicture {
  const told = isJsonObject(image) ? image : {};
  const { b64_json, url, revised_prompt } = told;
  const revised = typeof revised_prompt === "string" ? { revisedPrompt: revised_prompt } : {};
  if (b64_json != null) return { type: "picture", picture: decodePicture(decodeData(b64_json)), ...revised };
  if (typeof url !== "string") throw upstreamFailed("The model backend drew something that is no picture.");
  const inline = /^data:[\w./+-]{0,64};base64,/.exec(url);
  if (!inline) return { type: "picture", url, ...revised };
  return { type: "picture", picture: decodePicture(decodeData(url.slice(inline[0].length))), ...revised };
}

function decodeData(data: unknown): Uint8Array {
  if (typeof data === "string" && isBase64(data)) return fromBase64(data);
  throw upstreamFailed("The model backend drew something that is no picture.");
}

/** The tokens that were used, as far as the upstream tells; whether they can be true is for the meter to say. */
function decodeUsage(usage: unknown): ToldEvent[] {
  if (!isJsonObject(usage)) return [];
  const details = isJsonObject(usage["input_tokens_details"]) ? usage["input_tokens_details"] : {};
  const counts: [keyof ImageUsage, JsonValue | undefined][] = [
    ["inputTextTokens", details["text_tokens"] ?? usage["input_tokens"]],
    ["inputImageTokens", details["image_tokens"] ?? (usage["input_tokens"] === undefined ? undefined : 0)],
    ["outputTokens", usage["output_tokens"]],
  ];
  const told = counts.flatMap(([name, count]) => (count == null ? [] : [[name, Number(count)] as const]));
  return told.length > 0 ? [{ type: "usage", usage: Object.fromEntries(told) }] : [];
}
