/** Decodes image requests from JSON or a form (spec 2.1 to 2.3), checks their files (spec 8), and encodes requests for an upstream. */

import { type FieldPath, GatewayError, invalidField } from "../../errors.ts";
import type { Form, FormPart, UploadedFile } from "../../http/form.ts";
import { assertValid } from "../../http/validation.ts";
import { probeImage } from "../../media/picture.ts";
import { inspectPng } from "../../media/png.ts";
import type { ImageFile, ImageMediaType, ImageOperation, ImageRequest } from "../../model/image.ts";
import { bytesInWords } from "../../options.ts";
import { EventLoopYielder } from "../../ports/clock.ts";
import { type ImageModels } from "./request.models.ts";
import { type FileProfile, IMAGE_ALIASES, IMAGE_PROFILES, type OperationProfile } from "./request.profiles.ts";
import { FORMAT } from "./routes.ts";
import { ImageFields, readFormText } from "./schema.ts";

/** The gateway's own limits for files. The rules of the model apply too. */
export interface FileLimits {
  /** The largest number of pixels of one picture. */
  readonly maxPixels: number;
  /** The largest number of pixels of all PNGs of a request together. */
  readonly maxPngPixels: number;
  /** Aborted when the call ends early. */
  readonly signal: AbortSignal;
}

/** A request body: its fields as JSON values, its originals and its mask. */
interface RequestBody {
  readonly fields: unknown;
  readonly images: readonly UploadedFile[];
  readonly mask: UploadedFile | undefined;
}

/** Tells whether a form's field takes files: `mask`, `image`, `image[]` or `image[0]`. */
export const takesFiles = (field: string): boolean => field === "mask" || /^image(?:\[\d*\])?$/.test(field);

/** Reads a form. Throws `invalid_request` for a text instead of a file, and for a field that is repeated. */
export function readForm({ fields, files }: Form): RequestBody {
  const read: [string, unknown][] = [];
  for (const [field, [value = "", ...more]] of fields) {
    // A client that has no file may send an empty text or `null`.
    if (takesFiles(field) && ["", "null"].includes(value) && more.length === 0) continue;
    if (takesFiles(field)) throw invalidField([field], "must be a file: the part of a file has a filename");
    if (more.length > 0) throw invalidField([field], "is given more than once");
    read.push([field, readFormText(field, value)]);
  }
  // A browser sends an empty file without a name if the user chose no file.
  const sent = files.filter(({ name, bytes }) => bytes.length > 0 || (name !== undefined && name !== ""));
  const [mask, ...masks] = sent.filter(({ field }) => field === "mask");
  if (masks.length > 0) throw invalidField(["mask"], "is given more than once");
  const images = sent.filter(({ field }) => field !== "mask").toSorted((one, other) => indexOf(one) - indexOf(other));
  return { fields: Object.fromEntries(read), images, mask };
}

/** Returns the index in a field's name, such as `image[1]`. Files without an index keep their order. */
const indexOf = ({ field }: UploadedFile): number => Number(/\d+/.exec(field)?.[0] ?? 0);

/**
 * Decodes a request. The pixels of its files are not checked yet: `inspectFiles` checks them when the caller has permission and quota.
 *
 * @throws GatewayError `invalid_request` or `body_too_large`, with the field as its `path`; `model_not_found`.
 */
export async function decodeRequest(
  operation: ImageOperation,
  body: RequestBody,
  models: ImageModels,
  limits: FileLimits,
): Promise<ImageRequest> {
  const { fields } = body;
  assertValid(ImageFields, fields);
  // A variation has no prompt (spec 2.3), so its value is ignored.
  if (operation !== "vary" && fields.prompt === "") throw invalidField(["prompt"], "must not be empty");
  const facts = { operation, fields, originals: body.images.length, masked: body.mask !== undefined };
  const { id, profile, rules } = models.choose(facts);
  const { images, mask } = await readFiles(body, rules, limits);
  const quality = fields.quality ?? rules.qualities?.[0];
  const style = fields.style ?? rules.styles?.[0];
  return {
    model: id,
    operation,
    prompt: operation === "vary" ? "" : (fields.prompt ?? ""),
    images,
    count: fields.n ?? 1,
    size: fields.size ?? rules.sizes[0],
    delivery: fields.response_format == null ? profile.delivery : DELIVERY[fields.response_format],
    stream: fields.stream ?? false,
    native: { format: FORMAT, body: fields, betas: [] },
    ...(quality !== undefined && { quality }),
    ...(style !== undefined && { style }),
    ...(fields.background != null && { background: fields.background }),
    ...(fields.moderation != null && { moderation: fields.moderation }),
    ...(fields.output_format != null && { outputFormat: fields.output_format }),
    ...(fields.output_compression != null && { outputCompression: fields.output_compression }),
    ...(fields.input_fidelity != null && { inputFidelity: fields.input_fidelity }),
    ...(fields.partial_images != null && { partialImages: fields.partial_images }),
    ...(fields.user != null && { endUser: fields.user }),
    ...(mask && { mask }),
  };
}

const DELIVERY = { url: "url", b64_json: "data" } as const;

/** Checks the format, size and shape of files by the headers of the files. This is cheap, because no pixel is decoded. */
async function readFiles(
  { images, mask }: RequestBody,
  rules: OperationProfile,
  limits: FileLimits,
): Promise<Pick<ImageRequest, "images" | "mask">> {
  const { originals } = rules;
  if (!originals) return { images: [] };
  if (images.length === 0) throw invalidField(["image"], "is required");
  const yielder = new EventLoopYielder(limits);
  let pngPixels = 0;
  const read = (file: UploadedFile, profile: FileProfile, path: FieldPath): ImageFile => {
    const image = readFile(file, profile, limits.maxPixels, path);
    // A PNG of few bytes may decode to very many pixels, so all PNGs share one limit.
    if (image.mediaType === "image/png") pngPixels += image.width * image.height;
    if (pngPixels <= limits.maxPngPixels) return image;
    throw invalidField(
      path,
      `The PNGs of a form may have ${limits.maxPngPixels} pixels together, and have more up to this one.`,
    );
  };
  const files: ImageFile[] = [];
  for (const [index, image] of images.entries()) {
    files.push(read(image, originals, imagePath(index, images.length)));
    if (yielder.isDue(image.bytes.length)) await yielder.pause();
  }
  const [first] = files;
  if (!mask || !rules.mask || !first) return { images: files };
  const { width, height } = first;
  const readMask = read(mask, rules.mask, ["mask"]);
  if (readMask.width === width && readMask.height === height) return { images: files, mask: readMask };
  const sizes = `${width} × ${height} pixels, not ${readMask.width} × ${readMask.height}`;
  throw invalidField(["mask"], `must be as large as the image, ${sizes}`);
}

function readFile({ bytes, name }: UploadedFile, rules: FileProfile, maxPixels: number, path: FieldPath): ImageFile {
  if (bytes.length >= rules.belowBytes)
    throw new GatewayError(
      "body_too_large",
      `${path.join(".")}: must be smaller than ${bytesInWords(rules.belowBytes)}`,
      {
        path,
      },
    );
  const { mediaType, width, height } = probeImage(bytes, { path, maxPixels });
  if (!rules.formats.includes(mediaType)) {
    const formats = rules.formats.map((format) => format.replace("image/", "").toUpperCase());
    throw invalidField(path, `must be a ${formats.join(", ")} file`);
  }
  if (rules.square && width !== height) throw invalidField(path, `must be square, not ${width} × ${height} pixels`);
  return { bytes, mediaType, width, height, ...(name !== undefined && { name }) };
}

/**
 * Decodes the PNGs of a request. Each PNG must be whole. If the model requires it and no mask is sent, the first original must have a
 * transparent pixel. This takes by far the most work of a request, so all other checks come first. Throws `invalid_request`, with the
 * field as its `path`.
 */
export async function inspectFiles(
  { images, mask }: ImageRequest,
  { originals }: OperationProfile,
  { maxPixels, signal }: FileLimits,
): Promise<void> {
  if (!originals) return;
  // Inspect the PNGs in sequence, because the decoded pixels of each may take much memory.
  for (const [index, { bytes, mediaType }] of images.entries()) {
    const path = imagePath(index, images.length);
    const seekTransparency = index === 0 && originals.transparentUnlessMasked && !mask;
    const isPng = mediaType === "image/png";
    const facts = isPng && (await inspectPng(bytes, { path, maxPixels }, { signal, seekTransparency }));
    if (seekTransparency && !(facts && facts.hasTransparency))
      throw invalidField(["image"], "must have transparent areas, which are to be edited, where no mask is sent");
  }
  if (mask) await inspectPng(mask.bytes, { path: ["mask"], maxPixels }, { signal });
}

/** Returns the field of an image, with its index if there are several. */
const imagePath = (index: number, count: number): FieldPath => (count > 1 ? ["image", index] : ["image"]);

export interface EncodedRequest {
  /** The path below the upstream's base address, which names the version: `/images/edits`. */
  readonly path: string;
  readonly body:
    | { readonly type: "json"; readonly fields: WireFields }
    | { readonly type: "form"; readonly parts: readonly FormPart[] };
  /** True when the request asks the upstream for a stream. */
  readonly stream: boolean;
}

type WireFields = Readonly<Record<string, unknown>>;

/** Returns the names that an upstream may have for the model, best first. The name that the caller used is the first. */
export function modelNames({ model, native }: ImageRequest): readonly [string, ...string[]] {
  const aliases = Object.keys(IMAGE_ALIASES).filter((alias) => IMAGE_ALIASES[alias] === model);
  const callersName = native?.format === FORMAT ? native.body["model"] : undefined;
  const [first = model, ...others] = new Set([...aliases.filter((alias) => alias === callersName), model, ...aliases]);
  return [first, ...others];
}

const PATHS: Readonly<Record<ImageOperation, string>> = {
  generate: "/images/generations",
  edit: "/images/edits",
  vary: "/images/variations",
};

/**
 * Encodes a request. Sends the caller's own fields, also unknown ones, with the gateway's decisions in place of some values. A generation
 * is sent as JSON; an edit or a variation is sent as a form with files.
 *
 * @param model The upstream's name of the model.
 */
export function encodeRequest(request: ImageRequest, model: string): EncodedRequest {
  const { native, operation, size, count } = request;
  const profile = IMAGE_PROFILES[request.model];
  // The older models cannot stream. Assume that a model of the host can.
  const stream = request.stream && (!profile || profile.operations[operation]?.finishing === true);
  const callersFields = native?.format === FORMAT ? native.body : neutralFields(request);
  const { response_format: _format, stream: _stream, partial_images, ...own } = callersFields;
  const fields = {
    ...own,
    model,
    // Pictures are priced by size, so the upstream must not apply its own default.
    size,
    ...((own["n"] != null || count > 1) && { n: count }),
    // Ask for base64, because a URL would need a second request. The gpt-image models always send base64, and refuse this field.
    ...(!/^(?:chat)?gpt-image-/.test(model) && { response_format: "b64_json" }),
    ...(stream && { stream, ...(partial_images != null && { partial_images }) }),
  };
  const path = PATHS[operation];
  if (operation === "generate") return { path, stream, body: { type: "json", fields } };
  return { path, stream, body: { type: "form", parts: [...textParts(fields), ...fileParts(request)] } };
}

/** Returns the wire fields of a request that came in another format or in none. Undefined fields are not sent. */
const neutralFields = (request: ImageRequest): WireFields => ({
  prompt: request.operation === "vary" ? undefined : request.prompt,
  quality: request.quality,
  style: request.style,
  background: request.background,
  moderation: request.moderation,
  output_format: request.outputFormat,
  output_compression: request.outputCompression,
  input_fidelity: request.inputFidelity,
  partial_images: request.partialImages,
  user: request.endUser,
});

/** Returns the fields as texts for a form. A field with null is left out, because a form has no null. */
function textParts(fields: WireFields): FormPart[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    if (value == null) return [];
    return [{ name, value: typeof value === "string" ? value : JSON.stringify(value) }];
  });
}

const EXTENSION: Readonly<Record<ImageMediaType, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
};

function fileParts({ images, mask }: ImageRequest): FormPart[] {
  const field = images.length > 1 ? "image[]" : "image";
  const parts = images.map((image, index) => filePart(field, `image-${index + 1}`, image));
  return mask ? [...parts, filePart("mask", "mask", mask)] : parts;
}

/** Makes a form part whose file name has the extension of its type. Some upstreams rely on the name, and the caller's may be wrong. */
const filePart = (name: string, title: string, { bytes, mediaType }: ImageFile): FormPart => ({
  name,
  value: { fileName: `${title}.${EXTENSION[mediaType]}`, mediaType, bytes },
});
