/** Calls an image model of an AI SDK provider. The pictures come in complete answers. Their media type is read from their bytes. */

import { GatewayError, backendFailed } from "../../errors.ts";
import { fromBase64, isBase64 } from "../../media/base64.ts";
import { probeImage } from "../../media/picture.ts";
import type { Conversion } from "../../model/conversion.ts";
import {
  IMAGE,
  type ImageDrawn,
  type ImageEvent,
  type ImageFile,
  type ImageRequest,
  type ImageUsage,
} from "../../model/image.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { reportConversions } from "../relay/chat.ts";
import { conversionsOfWarnings } from "./conversions.ts";
import { decodeError, ModelCall } from "./model-call.ts";
import { type AiSdkImageModel, type ProviderOptions, rulesOf, type Settings } from "./options.ts";
import { mergedMetadata } from "./seals.ts";

/** The members of an image model that are used. Their values and answers are not trusted. */
interface CallableImageModel {
  readonly supportsFileInputs?: unknown;
  readonly supportsMaskInputs?: unknown;
  doGenerate(options: object): PromiseLike<unknown>;
}

export async function* askImage(
  model: AiSdkImageModel,
  request: ImageRequest,
  context: CallContext,
  settings: Settings,
): AsyncGenerator<ImageEvent> {
  const { strict, timeouts, providerOptions } = settings;
  const callable: CallableImageModel = model;
  const call = new ModelCall(settings, context);
  try {
    call.signal.throwIfAborted();
    if (request.operation === "vary") throw refused("This model makes no variations.");
    if (request.operation === "edit") {
      const { supportsFileInputs, supportsMaskInputs } = callable;
      const [files, masks] = await call.wait(Promise.all([supportsFileInputs, supportsMaskInputs]));
      if (model.specificationVersion === "v2" || files === false) throw refused("This model does not edit images.");
      if (request.mask && masks === false) throw refused("This model takes no mask.");
    }
    const conversions = conversionsOf(model, request);
    reportConversions(conversions, context, strict);
    const { maxImagesPerCall: limit, modelId } = model;
    const told: unknown = typeof limit === "function" ? await call.wait(Promise.resolve(limit({ modelId }))) : limit;
    const most = Number.isSafeInteger(told) && Number(told) > 0 ? Number(told) : 1;
    const options = optionsOf(model, request, providerOptions);
    let usage: ImageUsage | undefined;
    call.asks(model, { kind: IMAGE, stream: false, modelListed: settings.listed });
    for (let remaining = request.count; remaining > 0; remaining -= most) {
      const n = Math.min(remaining, most);
      call.exchange.enter({ name: "complete answer", limitMs: timeouts.completeMs });
      const answer = await call.wait(callable.doGenerate({ ...options, n, abortSignal: call.signal }));
      if (!isJsonObject(answer)) throw backendFailed("The model backend's answer is none.");
      // Only the report of the first call precedes all pictures; later calls repeat the same warnings.
      reportConversions([...conversions, ...conversionsOfWarnings(answer["warnings"])], context, strict);
      usage = sumOf(usage, answer["usage"]);
      const pictures = picturesOf(answer, n);
      context.reportUnread?.(() => pictures);
      if (usage) yield { type: "usage", usage };
      // Not by `yield*`, which would end the pictures with the backend, before they are counted.
      for (let step = pictures.next(); !step.done; step = pictures.next()) yield step.value;
    }
  } catch (error) {
    throw call.failed(decodeError(error, rulesOf(settings, model.modelId, request.model)));
  } finally {
    call.end();
  }
}

const refused = (why: string): GatewayError => new GatewayError("failed_precondition", why, { path: ["model"] });

function optionsOf(model: AiSdkImageModel, request: ImageRequest, own: ProviderOptions): object {
  const { prompt, size, images, mask } = request;
  return {
    prompt,
    size: /^\d+x\d+$/.test(size) ? size : undefined,
    aspectRatio: undefined,
    seed: undefined,
    ...(model.specificationVersion !== "v2" && {
      files: images.length > 0 ? images.map(fileOf) : undefined,
      mask: mask && fileOf(mask),
    }),
    providerOptions: mergedMetadata(isOpenai(model) ? { openai: openaiOptions(request) } : {}, own),
  };
}

const fileOf = ({ bytes, mediaType }: ImageFile): object => ({ type: "file", mediaType, data: bytes });

const isOpenai = ({ provider }: AiSdkImageModel): boolean => /openai|azure/i.test(provider);

/** Fields that the interface lacks. Only the OpenAI provider has options for them. */
const OPENAI_FIELDS = [
  "style",
  "background",
  "moderation",
  "outputFormat",
  "outputCompression",
  "inputFidelity",
  "endUser",
] as const satisfies (keyof ImageRequest)[];

function openaiOptions(request: ImageRequest): JsonObject {
  const options: JsonObject = {};
  for (const field of ["quality", ...OPENAI_FIELDS] as const) {
    const value = request[field];
    if (value !== undefined) options[field === "endUser" ? "user" : field] = value;
  }
  return options;
}

/** Values of `quality` that need no conversion, because every model has them. */
const ORDINARY: ReadonlySet<string | undefined> = new Set([undefined, "auto", "standard"]);

function conversionsOf(model: AiSdkImageModel, request: ImageRequest): Conversion[] {
  const conversions: Conversion[] = [];
  const drop = (field: string, why: string): void => void conversions.push({ field, conversion: "dropped", why });
  if ((request.partialImages ?? 0) > 0) drop("partialImages", "The interface shows no unfinished pictures.");
  if (isOpenai(model)) return conversions;
  for (const field of OPENAI_FIELDS)
    if (request[field] !== undefined) drop(field, "The provider takes no such field here.");
  if (!ORDINARY.has(request.quality)) drop("quality", "The provider takes no such field here.");
  return conversions;
}

/** Yields the pictures of one answer, at most as many as were requested. Throws `backend_failed` for a value that is not a picture. */
function* picturesOf({ images, providerMetadata }: JsonObject, most: number): Generator<ImageDrawn> {
  if (!Array.isArray(images)) throw backendFailed("The model backend's answer has no pictures.");
  for (const [index, image] of images.slice(0, most).entries()) {
    yield { type: "image", ...pictureOf(image), ...toldOf(providerMetadata, index) };
  }
}

/** The most pixels of a picture, which is what common decoders accept. */
const MAX_PIXELS = 2 ** 28;

function pictureOf(image: unknown): Pick<ImageDrawn, "bytes" | "mediaType"> {
  const bytes = typeof image === "string" && isBase64(image) ? fromBase64(image) : image;
  if (!(bytes instanceof Uint8Array)) throw backendFailed("The model backend drew something that is no picture.");
  try {
    return { bytes, mediaType: probeImage(bytes, { maxPixels: MAX_PIXELS }).mediaType };
  } catch (cause) {
    throw backendFailed("The model backend drew something that is no picture.", cause);
  }
}

const TOLD = ["revisedPrompt", "size", "quality", "background"] as const;

/** Returns what the provider tells of an image, as far as it is texts. */
function toldOf(metadata: unknown, index: number): Pick<ImageDrawn, (typeof TOLD)[number]> {
  const told: { [Name in (typeof TOLD)[number]]?: string } = {};
  for (const own of isJsonObject(metadata) ? Object.values(metadata) : []) {
    const image = isJsonObject(own) && Array.isArray(own["images"]) ? own["images"][index] : undefined;
    for (const name of TOLD) {
      const value = isJsonObject(image) ? image[name] : undefined;
      if (typeof value === "string") told[name] ??= value;
    }
  }
  return told;
}

/** Adds the tokens of one call to the tokens of the earlier calls, because each usage event reports the total so far. */
function sumOf(before: ImageUsage | undefined, usage: unknown): ImageUsage | undefined {
  if (!isJsonObject(usage) || (usage["inputTokens"] == null && usage["outputTokens"] == null)) return before;
  return {
    inputTextTokens: (before?.inputTextTokens ?? 0) + Number(usage["inputTokens"] ?? 0),
    inputImageTokens: 0,
    outputTokens: (before?.outputTokens ?? 0) + Number(usage["outputTokens"] ?? 0),
  };
}
