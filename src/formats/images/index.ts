/** The images format: generations, edits and variations, and the URLs of finished pictures (spec 2.1 to 2.4, 7.4, 8). */

import parseRange from "range-parser";
import { changedError, GatewayError } from "../../errors.ts";
import { type Answer, jsonAnswer } from "../../http/answer.ts";
import type { BodyIntake } from "../../http/body.ts";
import { type Form, readMultipart } from "../../http/form.ts";
import { image, type ImageLinks } from "../../kinds/image/index.ts";
import type { Limits } from "../../limits.ts";
import type { ImageOperation, ImageRequest } from "../../model/image.ts";
import { modelHint } from "../../options.ts";
import type { Clock } from "../../ports/clock.ts";
import { type ImageStore, isImageId, type StoredImage } from "../../ports/image-store.ts";
import type { Endpoint, EndpointOf, Incoming, LazyRoute } from "../format.ts";
import type { OpenAIErrorBody } from "../shared/errors.ts";
import { answerCollector, answerStream } from "./answer.ts";
import { type ImageModels, maxPictureBytes } from "./request.models.ts";
import type { ImagesOptions } from "./request.profiles.ts";
import { decodeRequest, type FileLimits, inspectFiles, readForm, takesFiles } from "./request.ts";
import { FILES, ROUTES } from "./routes.ts";

interface ImagesContext extends Omit<ImagesOptions, "models"> {
  readonly store: ImageStore;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly models: ImageModels;
}

/** Returns the endpoints, in the order of their routes. */
export function images(context: ImagesContext): readonly Endpoint[] {
  const { clock, limits, models, store, publicUrl } = context;

  const fileLimits = ({ signal }: Pick<Incoming, "signal">): FileLimits => ({
    maxPixels: limits.maxImagePixels,
    maxPngPixels: limits.maxPngPixels,
    signal,
  });

  /** Returns the arguments for `answerCollector` and `answerStream`. */
  const answerTo = (request: ImageRequest): [ImageRequest, number, boolean] => [
    request,
    Math.floor(clock.now() / 1000),
    models.tellsUsage(request.model),
  ];

  const maxFileBytes = (field: string): number | undefined => (takesFiles(field) ? limits.maxImageBytes : undefined);
  const readFiles = (request: Request, intake: BodyIntake): Promise<Form> =>
    readMultipart(request, { limits, maxFileBytes }, intake);

  const links: ImageLinks = {
    store,
    clock,
    maxBytes: (request) => maxPictureBytes(request, models.rulesOf(request)),
    urlOf: (id, call) => `${publicUrl?.replace(/\/+$/, "") ?? call.baseUrl()}${FILES}/${id}`,
  };

  const endpoint = (route: LazyRoute, operation: ImageOperation, body: "json" | "form"): EndpointOf<typeof image> => ({
    ...route,
    kind: image,
    ...(body === "form" && { readForm: readFiles }),
    async decode(read, incoming, visibleModels) {
      const sent = body === "form" ? readForm(read as Form) : { fields: read, images: [], mask: undefined };
      try {
        return await decodeRequest(operation, sent, models, fileLimits(incoming));
      } catch (error) {
        throw await unknownModel(error, sent.fields, visibleModels, models.ids);
      }
    },
    inspect: (request, signal) => inspectFiles(request, models.rulesOf(request), fileLimits({ signal })),
    aliasesOf: (model) => models.aliasesOf(model),
    links,
    complete: ({ request }) => answerCollector(...answerTo(request)),
    stream: ({ request }) => answerStream(...answerTo(request)),
  });

  return [
    endpoint(ROUTES.generate, "generate", "json"),
    endpoint(ROUTES.edit, "edit", "form"),
    endpoint(ROUTES.vary, "vary", "form"),
    {
      ...ROUTES.read,
      kind: "public",
      answersOf: image,
      answer: ({ request, wildcardPath }) => answerFile(request, wildcardPath, store, clock),
    },
  ];
}

/**
 * Returns the error for a model without a profile, by the models that the caller may use: one that the backend lists for images lacks its
 * profile, and any other may be mistyped. Returns any other error as it is.
 *
 * @param ids The models with a profile. A backend that lists no models takes each of them.
 */
async function unknownModel(
  error: unknown,
  fields: unknown,
  models: Parameters<EndpointOf<typeof image>["decode"]>[2],
  ids: readonly string[],
): Promise<unknown> {
  if (!(error instanceof GatewayError && error.code === "model_not_found")) return error;
  const { model } = fields as { readonly model: string };
  const listed = await models(ids);
  if (listed.some(({ id, kinds }) => id === model && kinds?.includes(image.name))) {
    const cause = new TypeError(
      `createGateway: images.models lacks "${model}", which the backend lists with its kinds.`,
    );
    const message = `The image model "${model}" is listed, but images.models has no profile of it.`;
    return new GatewayError("model_not_found", message, { path: ["model"], port: "model-backend", cause });
  }
  const isListed = (id: string): boolean =>
    listed.some((one) => one.id === id && (one.kinds?.includes(image.name) ?? true));
  return changedError(error, error.message + modelHint(model, ids.filter(isListed)), {});
}

/** Answers a GET or HEAD for a picture: 200, 206, 304, 404, 410 or 416. The URL of a picture is valid for 60 minutes (spec 3). */
async function answerFile(request: Request, id: string, store: ImageStore, clock: Clock): Promise<Answer> {
  const image = isImageId(id) ? await store.get(id) : undefined;
  if (!image) return refusal(404, "image_not_found", "There is no image at this address.");
  const remainingMs = image === "gone" ? 0 : image.expiresAt - clock.now();
  if (image === "gone" || remainingMs <= 0)
    return refusal(410, "image_expired", "The image was kept for a time and is gone.");
  const etag = `"${image.id}"`;
  const headers = {
    "content-type": image.mediaType,
    "content-length": String(image.bytes.length),
    "accept-ranges": "bytes",
    etag,
    expires: new Date(image.expiresAt).toUTCString(),
    // Browsers must not guess another type from the bytes.
    "x-content-type-options": "nosniff",
    "cache-control": `private, max-age=${Math.floor(remainingMs / 1000)}`,
  };
  // The header is `*` or a list of entity tags. A weak tag begins with `W/`.
  const tags = request.headers.get("if-none-match")?.split(",") ?? [];
  if (tags.some((tag) => ["*", etag].includes(tag.trim().replace(/^W\//, ""))))
    return { status: 304, headers, body: null };
  return answerRange(request, image, headers);
}

/** Answers a request for one byte range with this part. A request with several ranges or another unit gets the whole picture. */
function answerRange(
  { method, headers: sent }: Request,
  { bytes }: StoredImage,
  headers: Record<string, string>,
): Answer {
  const { length } = bytes;
  const ifRange = sent.get("if-range");
  // Shorten a suffix that is longer than the picture: the parser would treat it as no range.
  const wanted = sent
    .get("range")
    ?.replace(/^bytes=-(\d+)$/, (_, suffix: string) => `bytes=-${Math.min(Number(suffix), length)}`);
  const isOfBytes = wanted?.startsWith("bytes=") === true;
  const applies = method === "GET" && isOfBytes && (ifRange === null || ifRange === headers["etag"]);
  const ranges = applies ? parseRange(length, wanted) : -2;
  if (ranges === -1)
    return refusal(416, "range_not_satisfiable", "The range lies outside of the image.", {
      "content-range": `bytes */${length}`,
    });
  const [range, ...others] = ranges === -2 ? [] : ranges;
  if (!range || others.length > 0) return { status: 200, headers, body: method === "HEAD" ? null : bytes };
  const part = bytes.subarray(range.start, range.end + 1);
  const partHeaders = {
    "content-length": String(part.length),
    "content-range": `bytes ${range.start}-${range.end}/${length}`,
  };
  return { status: 206, headers: { ...headers, ...partHeaders }, body: part };
}

function refusal(status: number, code: string, message: string, headers: Record<string, string> = {}): Answer {
  const body: OpenAIErrorBody = { error: { message, type: "invalid_request_error", param: null, code } };
  return jsonAnswer(status, body, { "cache-control": "no-store", ...headers });
}
