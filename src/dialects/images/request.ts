/** An image request (spec 2.1 to 2.3) to the neutral request: its fields, from JSON or a form, and its files, looked into. */

import { GatewayError } from "../../errors.ts";
import type { Form, UploadedFile } from "../../http/form.ts";
import { assertValid } from "../../http/validation.ts";
import { probeImage } from "../../media/image.ts";
import { inspectPng } from "../../media/png.ts";
import { Turns } from "../../media/turns.ts";
import type { ImageFile, ImageOperation, ImageRequest } from "../../model/image.ts";
import type { FileProfile } from "./schema.profiles.ts";
import type { ChosenModel, ImageModels } from "./schema.rules.ts";
import { ImageFields, readFormText } from "./schema.ts";

export const DIALECT = "images";

/** What a request was read from. */
export interface Sent {
  readonly fields: unknown;
  readonly images: readonly UploadedFile[];
  readonly mask: UploadedFile | undefined;
}

export interface Decoding {
  readonly models: ImageModels;
  /** The most pixels that a picture may have. */
  readonly maxPixels: number;
  /** The most pixels that all PNGs together may have. */
  readonly maxPngPixels: number;
  /** Fires when nobody waits for the request any more. */
  readonly signal: AbortSignal;
}

/** A file that was looked into. */
interface Seen {
  readonly file: ImageFile;
  /** Whether it is known to have transparent pixels; they are only looked for where they matter. */
  readonly hasTransparency: boolean;
}

/** The neutral request; throws `invalid_request` or `body_too_large` that names the field, or `model_not_found`. */
export async function decodeRequest(operation: ImageOperation, sent: Sent, decoding: Decoding): Promise<ImageRequest> {
  const { fields, images, mask } = sent;
  assertValid(ImageFields, fields);
  const model = decoding.models.choose({ operation, fields, originals: images.length, masked: mask !== undefined });
  const files = await readFiles(sent, model, decoding);
  return {
    model: model.id,
    operation,
    prompt: operation === "vary" ? "" : (fields.prompt ?? ""),
    images: files.images,
    count: fields.n ?? 1,
    size: fields.size ?? model.rules.sizes[0],
    delivery: fields.response_format == null ? model.profile.delivery : DELIVERY[fields.response_format],
    stream: fields.stream ?? false,
    native: { dialect: DIALECT, body: fields, betas: [] },
    ...optionsOf(fields, model),
    ...(files.mask && { mask: files.mask }),
  };
}

const DELIVERY = { url: "url", b64_json: "data" } as const;

function optionsOf(fields: ImageFields, { rules }: ChosenModel): Partial<ImageRequest> {
  const quality = fields.quality ?? rules.qualities?.[0];
  const style = fields.style ?? rules.styles?.[0];
  return {
    ...(quality !== undefined && { quality }),
    ...(style !== undefined && { style }),
    ...(fields.background != null && { background: fields.background }),
    ...(fields.moderation != null && { moderation: fields.moderation }),
    ...(fields.output_format != null && { outputFormat: fields.output_format }),
    ...(fields.output_compression != null && { outputCompression: fields.output_compression }),
    ...(fields.input_fidelity != null && { inputFidelity: fields.input_fidelity }),
    ...(fields.partial_images != null && { partialImages: fields.partial_images }),
    ...(fields.user != null && { endUser: fields.user }),
  };
}

const ORIGINAL = /^image(?:\[\d*\])?$/;

/** Whether a form's field takes files. */
export const takesFiles = (field: string): boolean => field === "mask" || ORIGINAL.test(field);

/** A form's fields as JSON would have them; a file where none belongs, or a field twice, is a 400 that names it. */
export function readForm({ fields, files }: Form): Sent {
  const read: [string, unknown][] = [];
  for (const [field, [value = "", ...more]] of fields) {
    // A form that has no file to send may say so in words.
    if (takesFiles(field) && ["", "null"].includes(value) && more.length === 0) continue;
    if (takesFiles(field)) throw invalid(field, "must be a file");
    if (more.length > 0) throw invalid(field, "is given more than once");
    read.push([field, readFormText(field, value)]);
  }
  // A browser sends a field in which no file was chosen as an empty one without a name.
  const sent = files.filter(({ name, bytes }) => bytes.length > 0 || (name !== undefined && name !== ""));
  const [mask, ...masks] = sent.filter(({ field }) => field === "mask");
  if (masks.length > 0) throw invalid("mask", "is given more than once");
  return { fields: Object.fromEntries(read), images: sent.filter(({ field }) => field !== "mask"), mask };
}

/** The fields of a JSON body. */
export const readJsonFields = (body: unknown): Sent => ({ fields: body, images: [], mask: undefined });

async function readFiles(
  { images, mask }: Sent,
  { rules }: ChosenModel,
  decoding: Decoding,
): Promise<{ images: ImageFile[]; mask?: ImageFile }> {
  const { originals } = rules;
  if (!originals) return { images: [] };
  if (images.length === 0) throw invalid("image", "is required");
  const pngBudget = new PngBudget(decoding.maxPngPixels);
  const looking = { ...decoding, pngBudget, seekTransparency: originals.transparentUnlessMasked && !mask };
  const turns = new Turns(decoding);
  const seen: Seen[] = [];
  // One after another: each may unfold into as many bytes as it has pixels.
  for (const [index, image] of images.entries()) {
    seen.push(await see(image, originals, images.length > 1 ? ["image", index] : ["image"], looking));
    if (turns.due(image.bytes.length)) await turns.next();
  }
  const [first] = seen;
  const seenMask = mask && rules.mask ? await see(mask, rules.mask, ["mask"], looking) : undefined;
  if (seenMask && first) assertMask(seenMask, first);
  if (looking.seekTransparency && first && !first.hasTransparency)
    throw invalid("image", "must have transparent areas, which are to be edited, where no mask is sent");
  const files = seen.map(({ file }) => file);
  return seenMask ? { images: files, mask: seenMask.file } : { images: files };
}

/** What the PNGs of one form may still unfold into, because each of them is work that its few bytes do not show. */
class PngBudget {
  readonly #maxPixels: number;
  #pixels = 0;

  constructor(maxPixels: number) {
    this.#maxPixels = maxPixels;
  }

  take({ width, height }: { readonly width: number; readonly height: number }, path: Path): void {
    this.#pixels += width * height;
    if (this.#pixels <= this.#maxPixels) return;
    throw invalid(
      path,
      `The PNGs of a form may have ${this.#maxPixels} pixels together, and have more up to this one.`,
    );
  }
}

interface Looking extends Decoding {
  readonly pngBudget: PngBudget;
  readonly seekTransparency: boolean;
}

/** Looks into a file by its own bytes, and holds it against the model's rules. */
async function see({ bytes, name }: UploadedFile, rules: FileProfile, path: Path, looking: Looking): Promise<Seen> {
  const bounds = { path, maxPixels: looking.maxPixels };
  if (bytes.length >= rules.belowBytes)
    throw new GatewayError("body_too_large", `${path.join(".")}: must be smaller than ${rules.belowBytes} bytes`, {
      path,
    });
  const facts = probeImage(bytes, bounds);
  const { mediaType, width, height } = facts;
  if (!rules.formats.includes(mediaType)) {
    const formats = rules.formats.map((format) => format.replace("image/", "").toUpperCase());
    throw invalid(path, `must be a ${formats.join(", ")} file`);
  }
  if (rules.square && width !== height) throw invalid(path, `must be square, not ${width} × ${height} pixels`);
  const file = { bytes, mediaType, width, height, ...(name !== undefined && { name }) };
  if (mediaType !== "image/png") return { file, hasTransparency: false };
  looking.pngBudget.take(facts, path);
  const { hasTransparency } = await inspectPng(bytes, bounds, looking);
  return { file, hasTransparency };
}

type Path = readonly (string | number)[];

function assertMask({ file: mask }: Seen, { file: image }: Seen): void {
  if (mask.width !== image.width || mask.height !== image.height)
    throw invalid(
      "mask",
      `must be as large as the image, ${image.width} × ${image.height} pixels, not ${mask.width} × ${mask.height}`,
    );
}

function invalid(field: string | readonly (string | number)[], message: string): GatewayError {
  const path = typeof field === "string" ? [field] : field;
  return new GatewayError("invalid_request", `${path.join(".")}: ${message}`, { path });
}
