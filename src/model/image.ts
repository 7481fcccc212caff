/** An image request and its events, independent of wire formats. */

import type { NativeRequest } from "./chat-request.ts";
import type { NativeUsage } from "./usage.ts";

/** The name of this kind. */
export const IMAGE = "image";

/** The operation: draw from a prompt, change images, or make variations of an image. */
export type ImageOperation = "generate" | "edit" | "vary";

/** The file formats of uploaded and finished images. */
export type ImageMediaType = "image/png" | "image/jpeg" | "image/webp";

/** A request for images. The backend chooses the value of an absent field. */
export interface ImageRequest {
  /** The model that the caller asked for. An alias is replaced by the model's own name. */
  readonly model: string;
  /** The operation. */
  readonly operation: ImageOperation;
  /** The image to draw, or the change to make; empty for variations. */
  readonly prompt: string;
  /** The originals, in order; empty for an image that is drawn from a prompt alone. */
  readonly images: readonly ImageFile[];
  /** A mask with the size of the first image. The backend edits the pixels that are fully transparent in the mask. */
  readonly mask?: ImageFile;
  /** The number of images, from 1. */
  readonly count: number;
  /** The size, such as `1024x1024`, in pixels; `auto` leaves it to the backend. */
  readonly size: string;
  /** The quality, in the word of the model, such as `high`. */
  readonly quality?: string;
  /** The style, in the word of the model, such as `vivid`. */
  readonly style?: string;
  /** The background of the image. */
  readonly background?: "transparent" | "opaque" | "auto";
  /** The file format of finished images. */
  readonly outputFormat?: "png" | "jpeg" | "webp";
  /** The compression of jpeg and webp, from 0 to 100 percent. */
  readonly outputCompression?: number;
  /** The strictness of the model's own moderation. */
  readonly moderation?: "low" | "auto";
  /** The likeness to the originals. */
  readonly inputFidelity?: "high" | "low";
  /** The number of unfinished images that the caller wants to see, from 0. */
  readonly partialImages?: number;
  /** The form in which the caller gets the images. The gateway itself makes links of the yielded images. */
  readonly delivery: ImageDelivery;
  /** An opaque identifier of the end user, for abuse monitoring. */
  readonly endUser?: string;
  /** True when the caller wants a stream. */
  readonly stream: boolean;
  /** The request as it arrived, for a backend that speaks the caller's format. Files are in `images` and `mask`. */
  readonly native?: NativeRequest;
}

/** The form in which the caller gets finished images: as links, as data, or both. */
export type ImageDelivery = "url" | "data" | "both";

/** An uploaded image. */
export interface ImageFile {
  readonly bytes: Uint8Array;
  /** The type by the file's first bytes. The type that the caller declared is ignored. */
  readonly mediaType: ImageMediaType;
  readonly width: number;
  readonly height: number;
  /** The file name that the caller sent. */
  readonly name?: string;
}

/** The token counts of an image request. Counts are cumulative: a later report replaces an earlier one. */
export interface ImageUsage {
  readonly inputTextTokens: number;
  readonly inputImageTokens: number;
  readonly outputTokens: number;
}

/** The properties of an image as its upstream tells them. The caller may have left them to the upstream, with `auto`. */
export interface ImageTraits {
  /** The size, such as `1536x1024`, in pixels. */
  readonly size?: string;
  readonly quality?: string;
  readonly background?: string;
}

/** An event of a backend that draws. */
export type ImageEvent =
  | ImageDrawn
  /** An unfinished image. `image` is the number of the image, and `step` the number of the unfinished version, both from 0. */
  | ({
      readonly type: "partial-image";
      readonly image: number;
      readonly step: number;
      readonly bytes: Uint8Array;
      readonly mediaType: ImageMediaType;
    } & ImageTraits)
  | { readonly type: "usage"; readonly usage: Partial<ImageUsage>; readonly native?: NativeUsage };

/** A finished image. */
export interface ImageDrawn extends ImageTraits {
  readonly type: "image";
  readonly bytes: Uint8Array;
  readonly mediaType: ImageMediaType;
  /** The prompt that the model used, if it differs from the caller's prompt. */
  readonly revisedPrompt?: string;
}

/** An event that the meter passes on to the encoders of formats. An answer has one start, then images, then one finish. */
export type ImageAnswerEvent =
  | { readonly type: "start" }
  | Exclude<ImageEvent, { type: "usage" } | ImageDrawn>
  /** `number` counts from 0. `url` is the image's address, if the caller wants a link. */
  | (ImageDrawn & { readonly number: number; readonly url?: string })
  | { readonly type: "finish"; readonly usage: ImageUsage; readonly native?: NativeUsage };

/** Returns the name that the caller used for the model, perhaps an alias; undefined if the caller named no model. */
export function saidModel({ native }: ImageRequest): string | undefined {
  const said = native?.body["model"];
  return typeof said === "string" ? said : undefined;
}
