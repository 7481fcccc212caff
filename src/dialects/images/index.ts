/** The images dialect: generations, edits and variations, and the pictures' own addresses (spec 2.1 to 2.4, 7.4, 8). */

import type { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import type { Form } from "../../http/form.ts";
import type { Limits } from "../../limits.ts";
import type { ImageDrawn, ImageOperation, ImageRequest } from "../../model/image.ts";
import type { Clock } from "../../ports/clock.ts";
import { type ImageBooking, type ImageStore, newImageId } from "../../ports/image-store.ts";
import type { Dialect, ImageEndpoint, Incoming } from "../dialect.ts";
import { encodeError, errorStatus } from "../shared/openai-errors.ts";
import { openaiRateHeaders } from "../shared/rate-headers.ts";
import { type FileLimits, inspectFiles } from "./request.files.ts";
import { mostImageBytes } from "./request.room.ts";
import { decodeRequest, DIALECT, readForm, readJsonFields, takesFiles } from "./request.ts";
import { answerFile } from "./response.file.ts";
import { AnswerCollector, type Answering } from "./response.ts";
import type { ImageCatalog } from "./schema.profiles.ts";
import { ImageModels } from "./schema.rules.ts";
import { frameText, KEEP_ALIVE, StreamEncoder } from "./stream.ts";

/** What a host may set for images. */
export interface ImagesOptions extends ImageCatalog {
  /** Where pictures are kept that are delivered as links. Default: in memory, up to 256 MiB, half of it for each key. */
  readonly store?: ImageStore;
  /**
   * Where the gateway is mounted, as callers see it: `https://example.com/ai`. Default: the address that the request came to,
   * which behind a proxy is not the caller's.
   */
  readonly publicUrl?: string;
}

/** What the dialect works with. */
export interface ImagesRoom extends ImagesOptions {
  readonly store: ImageStore;
  readonly clock: Clock;
  readonly limits: Limits;
}

/** How long a picture's address is valid (spec 3), in milliseconds. */
const URL_LIFETIME_MS = 3_600_000;

const FILES = "/v1/images/files";

/** Throws a RangeError for what cannot stand before a picture's path. */
function assertBaseUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "")
    throw new RangeError(
      "images.publicUrl must be an http or https address without a query, such as https://example.com/ai",
    );
}

/** The other names of image models. Throws a RangeError for an alias that leads to no model. */
export function imageAliases(catalog: ImageCatalog = {}): (model: string) => readonly string[] {
  const models = new ImageModels(catalog);
  return (model) => models.aliasesOf(model);
}

export function images(room: ImagesRoom): Dialect {
  const { clock, limits, store } = room;
  if (room.publicUrl !== undefined) assertBaseUrl(room.publicUrl);
  const models = new ImageModels(room);

  /** Room for what is to be linked; none where the caller wants data alone. */
  async function book(request: ImageRequest, keyId: string): Promise<ImageBooking | undefined> {
    if (request.delivery === "data") return undefined;
    return store.book?.({ keyId, bytes: mostImageBytes(request, models.rulesOf(request)) });
  }

  function publish({ bytes, mediaType }: ImageDrawn, incoming: Incoming, booking?: ImageBooking): Promise<string> {
    const id = newImageId();
    const url = `${room.publicUrl?.replace(/\/+$/, "") ?? incoming.baseUrl()}${FILES}/${id}`;
    // Not awaited here: a store that hangs would keep the picture and its call.
    const putting = store.put({ id, bytes, mediaType, expiresAt: clock.now() + URL_LIFETIME_MS }, booking);
    return Promise.resolve(putting).then(() => url);
  }

  const fileLimits = ({ signal }: Incoming): FileLimits => ({
    maxPixels: limits.maxImagePixels,
    maxPngPixels: limits.maxPngPixels,
    signal,
  });

  const answering = (request: Answering["request"]): Answering => ({
    request,
    created: Math.floor(clock.now() / 1000),
    tellsUsage: models.tellsUsage(request.model),
  });

  const route = {
    dialect: DIALECT,
    rateHeaders: openaiRateHeaders,
    credential: (request: Request) => bearerToken(request.headers),
    encodeError: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
  };

  const endpoint = (path: string, operation: ImageOperation, body: "json" | "form"): ImageEndpoint => ({
    ...route,
    kind: "image",
    method: "POST",
    path,
    body,
    maxFileBytes: (field) => (takesFiles(field) ? limits.maxImageBytes : undefined),
    decode: async (read, incoming) => {
      const sent = body === "form" ? readForm(read as Form) : readJsonFields(read);
      return decodeRequest(operation, sent, { models, ...fileLimits(incoming) });
    },
    inspect: (request, incoming) => inspectFiles(request, models.rulesOf(request), fileLimits(incoming)),
    book,
    aliasesOf: (model) => models.aliasesOf(model),
    publish,
    complete: ({ request }) => new AnswerCollector(answering(request)),
    stream: ({ request }) => {
      const encoder = new StreamEncoder(answering(request));
      return {
        contentType: "text/event-stream; charset=utf-8",
        encode: (event) => encoder.encode(event),
        keepAlive: KEEP_ALIVE,
        error: (error) => encoder.rest() + frameText("error", encodeError(error)),
      };
    },
  });

  return {
    name: DIALECT,
    endpoints: [
      endpoint("/v1/images/generations", "generate", "json"),
      endpoint("/v1/images/edits", "edit", "form"),
      endpoint("/v1/images/variations", "vary", "form"),
      {
        ...route,
        kind: "public",
        method: "GET",
        path: `${FILES}/**`,
        answer: ({ request, tail }) => answerFile(request, tail, store, clock),
      },
    ],
  };
}
