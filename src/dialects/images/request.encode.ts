/** An image request in the direction of an upstream (spec 2.1 to 2.3): JSON, or a form where it has files. */

import type { FormPart } from "../../http/form-body.ts";
import type { ImageFile, ImageMediaType, ImageOperation, ImageRequest } from "../../model/image.ts";
import { DIALECT } from "./request.ts";
import { IMAGE_ALIASES, IMAGE_PROFILES } from "./schema.profiles.ts";

export interface EncodedRequest {
  /** Below the upstream's base address, which names the version: `/images/edits`. */
  readonly path: string;
  readonly body:
    | { readonly type: "json"; readonly fields: WireFields }
    | { readonly type: "form"; readonly parts: readonly FormPart[] };
  /** Whether the upstream is asked for a stream. */
  readonly stream: boolean;
}

type WireFields = Readonly<Record<string, unknown>>;

const PATHS = {
  generate: "/images/generations",
  edit: "/images/edits",
  vary: "/images/variations",
} as const satisfies Record<ImageOperation, string>;

/** The names by which an upstream may know the model of a request: the one that its caller used comes first. */
export function modelNames({ model, native }: ImageRequest): readonly [string, ...string[]] {
  const aliases = Object.keys(IMAGE_ALIASES).filter((alias) => IMAGE_ALIASES[alias] === model);
  const said = native?.dialect === DIALECT ? native.body["model"] : undefined;
  const own = aliases.filter((alias) => alias === said);
  const [first = model, ...others] = new Set([...own, model, ...aliases]);
  return [first, ...others];
}

/**
 * The caller's own fields, unknown ones included, with what the gateway decided laid over them.
 *
 * @param model The upstream's name of the model.
 */
export function encodeRequest(request: ImageRequest, model: string): EncodedRequest {
  const { native, operation, size, count } = request;
  const said = native?.dialect === DIALECT ? native.body : fieldsOf(request);
  const stream = request.stream && streams(request);
  const { response_format: _format, stream: _stream, partial_images, ...own } = said;
  const fields = {
    ...own,
    model,
    // Pictures are priced by their size, so the upstream's own default must not come in.
    size,
    ...((own["n"] != null || count > 1) && { n: count }),
    ...(takesFormat(model) && { response_format: "b64_json" }),
    ...(stream && { stream, ...(partial_images != null && { partial_images }) }),
  };
  const path = PATHS[operation];
  if (operation === "generate") return { path, stream, body: { type: "json", fields } };
  return { path, stream, body: { type: "form", parts: [...textsOf(fields), ...filesOf(request)] } };
}

/** Older models know no streams: what they draw comes complete. Of a host's own model it is taken for granted. */
const streams = ({ model, operation }: ImageRequest): boolean => {
  const profile = IMAGE_PROFILES[model];
  return profile === undefined || profile.operations[operation]?.finishing === true;
};

/** Data needs no second request. These models have nothing else, and refuse to be asked for it. */
const takesFormat = (model: string): boolean => !/^(?:chat)?gpt-image-/.test(model);

/** The fields of a request that came in no wire format. */
function fieldsOf(request: ImageRequest): WireFields {
  const fields = {
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
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** A form knows texts alone, and says null by leaving a field out. */
function textsOf(fields: WireFields): FormPart[] {
  return Object.entries(fields).flatMap(([name, value]) => {
    if (value === null || value === undefined) return [];
    return [{ name, value: typeof value === "string" ? value : JSON.stringify(value) }];
  });
}

function filesOf({ images, mask }: ImageRequest): FormPart[] {
  const field = images.length > 1 ? "image[]" : "image";
  const parts = images.map((image, index) => filePart(field, image, `image-${index + 1}`));
  return mask ? [...parts, filePart("mask", mask, "mask")] : parts;
}

const EXTENSION = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
} as const satisfies Record<ImageMediaType, string>;

// Some upstreams judge a file by its name, and what a caller calls it may say otherwise.
const filePart = (name: string, { bytes, mediaType }: ImageFile, title: string): FormPart => ({
  name,
  value: { fileName: `${title}.${EXTENSION[mediaType]}`, mediaType, bytes },
});
