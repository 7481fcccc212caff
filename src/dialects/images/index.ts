/** The images dialect: generations, edits and variations, and the pictures' own addresses (spec 2.1 to 2.4, 7.4, 8). */

import type { GatewayError } from "../../errors.ts";
import { bearerToken } from "../../http/credential.ts";
import { readJson } from "../../http/json-body.ts";
import { readMultipart } from "../../http/multipart.ts";
import { UploadBudget } from "../../http/upload-budget.ts";
import type { Limits } from "../../limits.ts";
import type { ImageDrawn, ImageOperation } from "../../model/image.ts";
import type { Clock } from "../../ports/clock.ts";
import { type ImageStore, newImageId } from "../../ports/image-store.ts";
import type { Dialect, ImageEndpoint, Incoming } from "../dialect.ts";
import { encodeError, errorStatus } from "./errors.ts";
import { decodeRequest, DIALECT, readForm, readJsonFields, type Sent, takesFiles } from "./request.ts";
import { answerFile } from "./response.file.ts";
import { AnswerCollector, type Answering } from "./response.ts";
import type { ImageCatalog } from "./schema.profiles.ts";
import { ImageModels } from "./schema.rules.ts";
import { frameText, KEEP_ALIVE, StreamEncoder } from "./stream.ts";

/** What a host may set for images. */
export interface ImagesOptions extends ImageCatalog {
  /** Where pictures are kept that are delivered as links. Default: in memory, up to 256 MiB. */
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

export function images(room: ImagesRoom): Dialect {
  const { clock, limits, store } = room;
  if (room.publicUrl !== undefined) assertBaseUrl(room.publicUrl);
  const models = new ImageModels(room);
  const patience = { clock, stallMs: limits.uploadStallMs };
  const budget = new UploadBudget(limits.maxUploadBytesInFlight);

  /** The form's bytes are booked until the call is over: that is how long its files are kept. */
  async function readUpload({ request, signal, atEnd }: Incoming): Promise<Sent> {
    const lease = budget.lease();
    atEnd(() => lease[Symbol.dispose]());
    const maxFileBytes = (field: string): number | undefined => (takesFiles(field) ? limits.maxImageBytes : undefined);
    return readForm(await readMultipart(request, { limits, lease, signal, patience, maxFileBytes }));
  }

  async function publish({ bytes, mediaType }: ImageDrawn, incoming: Incoming): Promise<string> {
    const id = newImageId();
    await store.put({ id, bytes, mediaType, expiresAt: clock.now() + URL_LIFETIME_MS });
    return `${room.publicUrl?.replace(/\/+$/, "") ?? incoming.baseUrl()}${FILES}/${id}`;
  }

  const answering = (request: Answering["request"]): Answering => ({
    request,
    created: Math.floor(clock.now() / 1000),
    tellsUsage: models.tellsUsage(request.model),
  });

  const route = {
    credential: (request: Request) => bearerToken(request.headers),
    dress: (error: GatewayError) => ({ status: errorStatus(error), body: encodeError(error) }),
  };

  const endpoint = (
    path: string,
    operation: ImageOperation,
    read: (incoming: Incoming) => Promise<Sent>,
  ): ImageEndpoint => ({
    ...route,
    kind: "image",
    method: "POST",
    path,
    parse: async (incoming) => {
      const { maxImagePixels: maxPixels, maxPngPixels } = limits;
      const decoding = { models, maxPixels, maxPngPixels, signal: incoming.signal };
      return decodeRequest(operation, await read(incoming), decoding);
    },
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
      endpoint("/v1/images/generations", "generate", async ({ request }) =>
        readJsonFields(await readJson(request, limits)),
      ),
      endpoint("/v1/images/edits", "edit", readUpload),
      endpoint("/v1/images/variations", "vary", readUpload),
      {
        ...route,
        kind: "open",
        method: "GET",
        path: `${FILES}/**`,
        answer: ({ request, tail }) => answerFile(request, tail, store, clock),
      },
    ],
  };
}
