/** Asks an image model of an AI SDK provider. It answers complete; what it drew comes as it is, whatever it says of it. */

import { GatewayError } from "../../errors.ts";
import { fromBase64, isBase64 } from "../../media/base64.ts";
import { probeImage } from "../../media/image.ts";
import type { FieldFate } from "../../model/fate.ts";
import type { ImageDrawn, ImageEvent, ImageFile, ImageRequest, ImageUsage } from "../../model/image.ts";
import { isJsonObject, type JsonObject } from "../../model/json.ts";
import type { CallContext } from "../../ports/model-backend.ts";
import { reportFates } from "../relay/fates.ts";
import { Asking } from "./asking.ts";
import { decodeError } from "./errors.ts";
import { failed, type WirePart } from "./parts.ts";
import { fatesOfWarnings } from "./fates.ts";
import { mergedMetadata } from "./metadata.ts";
import type { AiSdkImageModel, ProviderOptions } from "./options.ts";
import type { Settings } from "./settings.ts";

/** The interface of an image model as it is called: what it answers is not taken for granted. */
interface Callable {
  readonly supportsFileInputs?: unknown;
  readonly supportsMaskInputs?: unknown;
  doGenerate(options: object): PromiseLike<unknown>;
}

interface Drawing {
  readonly model: AiSdkImageModel;
  readonly request: ImageRequest;
  readonly settings: Settings;
  readonly asking: Asking;
}

export async function* askImage(
  model: AiSdkImageModel,
  request: ImageRequest,
  call: CallContext,
  settings: Settings,
): AsyncGenerator<ImageEvent> {
  const asking = new Asking(settings.clock, call.signal);
  const drawing: Drawing = { model, request, settings, asking };
  try {
    asking.signal.throwIfAborted();
    await assertAble(drawing);
    const own = fatesOf(drawing);
    reportFates(own, call, settings.strict);
    const most = await mostAtOnce(drawing);
    let usage: ImageUsage | undefined;
    for (let left = request.count; left > 0; left -= most) {
      const n = Math.min(left, most);
      asking.enter({ name: "complete answer", limitMs: settings.timeouts.completeMs });
      const answer = await asking.of((model as unknown as Callable).doGenerate(optionsOf(drawing, n)));
      if (!isJsonObject(answer)) throw failed("The model backend's answer is none.");
      // Heard before the first picture; later calls are warned of the same.
      reportFates([...own, ...fatesOfWarnings(answer["warnings"])], call, settings.strict);
      usage = sumOf(usage, answer["usage"]);
      if (usage) yield { type: "usage", usage };
      yield* picturesOf(answer, n);
    }
  } catch (error) {
    throw decodeError(error, settings.showMessages);
  } finally {
    asking.leave();
  }
}

/** Throws `failed_precondition` for what the model cannot be asked at all. */
async function assertAble({ model, request, asking }: Drawing): Promise<void> {
  const { operation, mask } = request;
  const { supportsFileInputs, supportsMaskInputs } = model as unknown as Callable;
  if (operation === "vary") throw refuse("This model makes no variations.");
  if (operation !== "edit") return;
  const [files, masks] = await asking.of(Promise.all([supportsFileInputs, supportsMaskInputs]));
  if (model.specificationVersion === "v2" || files === false) throw refuse("This model does not edit images.");
  if (mask && masks === false) throw refuse("This model takes no mask.");
}

const refuse = (why: string): GatewayError => new GatewayError("failed_precondition", why, { path: ["model"] });

async function mostAtOnce({ model, asking }: Drawing): Promise<number> {
  const { maxImagesPerCall: most, modelId } = model;
  const told: unknown = typeof most === "function" ? await asking.of(Promise.resolve(most({ modelId }))) : most;
  return Number.isSafeInteger(told) && Number(told) > 0 ? Number(told) : 1;
}

function optionsOf({ model, request, settings, asking }: Drawing, n: number): object {
  const { prompt, size, images, mask } = request;
  return {
    prompt,
    n,
    size: /^\d+x\d+$/.test(size) ? size : undefined,
    aspectRatio: undefined,
    seed: undefined,
    ...(model.specificationVersion !== "v2" && {
      files: images.length > 0 ? images.map(fileOf) : undefined,
      mask: mask && fileOf(mask),
    }),
    providerOptions: mergedMetadata(ownOptions(model, request), settings.providerOptions),
    abortSignal: asking.signal,
  };
}

const fileOf = ({ bytes, mediaType }: ImageFile): object => ({ type: "file", mediaType, data: bytes });

const isOpenai = ({ provider }: AiSdkImageModel): boolean => /openai|azure/i.test(provider);

/** What the interface has no field for, in the words of the one provider that knows it. */
function ownOptions(model: AiSdkImageModel, request: ImageRequest): ProviderOptions {
  if (!isOpenai(model)) return {};
  const { quality, style, background, moderation, outputFormat, outputCompression, inputFidelity, endUser } = request;
  const said = {
    quality,
    style,
    background,
    moderation,
    outputFormat,
    outputCompression,
    inputFidelity,
    user: endUser,
  };
  const openai = Object.entries(said).filter(([, value]) => value !== undefined);
  return { openai: Object.fromEntries(openai) as JsonObject };
}

const KNOWN_TO_ONE = [
  "style",
  "background",
  "moderation",
  "outputFormat",
  "outputCompression",
  "inputFidelity",
  "endUser",
] as const satisfies (keyof ImageRequest)[];

/** Qualities that ask for nothing but what a model does by itself. */
const ORDINARY: ReadonlySet<string | undefined> = new Set([undefined, "auto", "standard"]);

const dropped = (field: string, why: string): FieldFate => ({ field, fate: "dropped", why });

function fatesOf({ model, request }: Drawing): FieldFate[] {
  const fates: FieldFate[] = [];
  if ((request.partialImages ?? 0) > 0)
    fates.push(dropped("partialImages", "The interface shows no unfinished pictures."));
  if (isOpenai(model)) return fates;
  const lost = KNOWN_TO_ONE.filter((field) => request[field] !== undefined).map(String);
  if (!ORDINARY.has(request.quality)) lost.push("quality");
  return [...fates, ...lost.map((field) => dropped(field, "The provider takes no such field here."))];
}

/** The pictures of one answer, no more than were asked for. Throws `backend_failed` for what is no picture. */
function* picturesOf({ images, providerMetadata }: WirePart, most: number): Generator<ImageDrawn> {
  if (!Array.isArray(images)) throw failed("The model backend's answer has no pictures.");
  for (const [index, image] of images.slice(0, most).entries()) {
    const revisedPrompt = revisedPromptOf(providerMetadata, index);
    yield { type: "image", ...pictureOf(image), ...(revisedPrompt !== undefined && { revisedPrompt }) };
  }
}

/** The most pixels of a picture that is handed on: what common decoders take. */
const MAX_PIXELS = 2 ** 28;

function pictureOf(image: unknown): Pick<ImageDrawn, "bytes" | "mediaType"> {
  const bytes = typeof image === "string" && isBase64(image) ? fromBase64(image) : image;
  if (!(bytes instanceof Uint8Array)) throw failed("The model backend drew something that is no picture.");
  try {
    return { bytes, mediaType: probeImage(bytes, { maxPixels: MAX_PIXELS }).mediaType };
  } catch (cause) {
    throw failed("The model backend drew something that is no picture.", cause);
  }
}

function revisedPromptOf(metadata: unknown, index: number): string | undefined {
  if (!isJsonObject(metadata)) return undefined;
  for (const of of Object.values(metadata)) {
    const images = isJsonObject(of) && Array.isArray(of["images"]) ? of["images"] : [];
    const told = images[index];
    if (isJsonObject(told) && typeof told["revisedPrompt"] === "string") return told["revisedPrompt"];
  }
  return undefined;
}

/** Each call tells its own tokens; the counts are cumulative here. */
function sumOf(before: ImageUsage | undefined, told: unknown): ImageUsage | undefined {
  if (!isJsonObject(told) || (told["inputTokens"] == null && told["outputTokens"] == null)) return before;
  return {
    inputTextTokens: (before?.inputTextTokens ?? 0) + Number(told["inputTokens"] ?? 0),
    inputImageTokens: 0,
    outputTokens: (before?.outputTokens ?? 0) + Number(told["outputTokens"] ?? 0),
  };
}
