/** Pictures in words that belong to no wire format: what is asked for, what is drawn, and what that took. */

import type { NativeRequest } from "./chat.ts";

/** What is to be done: draw from words, change pictures, or make variations of one. */
export type ImageOperation = "generate" | "edit" | "vary";

/** The formats of pictures that are taken and given. */
export type ImageMediaType = "image/png" | "image/jpeg" | "image/webp";

/** One request for pictures. Absent means that the caller left it to the backend. */
export interface ImageRequest {
  readonly model: string;
  readonly operation: ImageOperation;
  /** What to draw, or what to change; empty for variations, which take no words. */
  readonly prompt: string;
  /** The originals, in order; none where a picture is generated from words alone. */
  readonly images: readonly ImageFile[];
  /** Of the first image's size; where it is fully transparent, the first image is to be edited. */
  readonly mask?: ImageFile;
  /** How many pictures are wanted, from 1. */
  readonly count: number;
  /** `1024x1024`, in pixels; `auto` leaves it to the backend. */
  readonly size: string;
  readonly quality?: string;
  readonly style?: string;
  readonly background?: "transparent" | "opaque" | "auto";
  readonly outputFormat?: "png" | "jpeg" | "webp";
  /** From 0 to 100 percent, of jpeg and webp. */
  readonly outputCompression?: number;
  readonly moderation?: "low" | "auto";
  readonly inputFidelity?: "high" | "low";
  /** How many unfinished pictures the caller wants to see on the way, from 0. */
  readonly partialImages?: number;
  /** How the caller wants finished pictures: as links, as data, or both. */
  readonly delivery: ImageDelivery;
  /** An opaque identifier of the end user, for abuse monitoring. */
  readonly endUser?: string;
  /** Whether the caller wants the pictures as they are made. */
  readonly stream: boolean;
  /** The request's own fields, for a backend that speaks the caller's format; files are in `images` and `mask`. */
  readonly native?: NativeRequest;
}

/** How finished pictures are handed over: as links, as data, or both. */
export type ImageDelivery = "url" | "data" | "both";

/** A picture that was sent. */
export interface ImageFile {
  readonly bytes: Uint8Array;
  /** By its own first bytes, whatever its sender said. */
  readonly mediaType: ImageMediaType;
  readonly width: number;
  readonly height: number;
  /** The file's name, as its sender gave it. */
  readonly name?: string;
}

/** What pictures took, in tokens, cumulative: a later report replaces an earlier one. */
export interface ImageUsage {
  readonly inputTextTokens: number;
  readonly inputImageTokens: number;
  readonly outputTokens: number;
}

/** What a backend yields while it draws. */
export type ImageEvent =
  | ImageDrawn
  /** A picture that is not finished yet; `image` is the number of the picture, from 0, `step` its own, from 0. */
  | {
      readonly type: "partial-image";
      readonly image: number;
      readonly step: number;
      readonly bytes: Uint8Array;
      readonly mediaType: ImageMediaType;
    }
  | { readonly type: "usage"; readonly usage: Partial<ImageUsage> };

/** A finished picture. */
export interface ImageDrawn {
  readonly type: "image";
  readonly bytes: Uint8Array;
  readonly mediaType: ImageMediaType;
  /** The prompt that was really used, where it was changed. */
  readonly revisedPrompt?: string;
}

/** An answer as the metering hands it to a dialect: one start, pictures, one finish. */
export type ImageAnswerEvent =
  | { readonly type: "start" }
  | Exclude<ImageEvent, { type: "usage" } | ImageDrawn>
  /** `number` counts from 0; `url` is where it can be fetched, if the caller wants a link. */
  | (ImageDrawn & { readonly number: number; readonly url?: string })
  | { readonly type: "finish"; readonly usage: ImageUsage };

/** The name by which the caller asked for the model, perhaps one of its aliases; undefined where it named none. */
export function saidModel({ native }: ImageRequest): string | undefined {
  const said = native?.body["model"];
  return typeof said === "string" ? said : undefined;
}
