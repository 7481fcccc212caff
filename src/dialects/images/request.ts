/** An image request (spec 2.1 to 2.3) to the neutral request, from JSON or a form. */

import type { Form, UploadedFile } from "../../http/form.ts";
import { assertValid } from "../../http/validation.ts";
import type { ImageOperation, ImageRequest } from "../../model/image.ts";
import { type FileLimits, type FormFiles, invalid, readFiles } from "./request.files.ts";
import type { ChosenModel, ImageModels } from "./schema.rules.ts";
import { ImageFields, readFormText } from "./schema.ts";

export const DIALECT = "images";

/** What a request was read from. */
export interface RequestBody extends FormFiles {
  readonly fields: unknown;
}

/** What requests are decoded with. */
export interface Decoding extends FileLimits {
  readonly models: ImageModels;
}

/**
 * The neutral request; throws `invalid_request` or `body_too_large` that names the field, or `model_not_found`. The pixels of
 * its files are not looked at yet: that is for `inspectFiles`, once the caller may make the request and can pay for it.
 */
export async function decodeRequest(
  operation: ImageOperation,
  body: RequestBody,
  decoding: Decoding,
): Promise<ImageRequest> {
  const { fields, images, mask } = body;
  assertValid(ImageFields, fields);
  // Variations have no prompt (spec 2.3), so whatever is sent for one is passed over.
  if (operation !== "vary" && fields.prompt === "") throw invalid("prompt", "must not be empty");
  const model = decoding.models.choose({ operation, fields, originals: images.length, masked: mask !== undefined });
  const files = await readFiles(body, model.rules, decoding);
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

/** Where an original stands among the others: where its name says, such as `image[1]`, or else as it came. */
const placeOf = ({ field }: UploadedFile): number => Number(/\d+/.exec(field)?.[0] ?? 0);

/** A form's fields as JSON would have them; a file where none belongs, or a field twice, is a 400 that names it. */
export function readForm({ fields, files }: Form): RequestBody {
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
  const images = sent.filter(({ field }) => field !== "mask").toSorted((one, other) => placeOf(one) - placeOf(other));
  return { fields: Object.fromEntries(read), images, mask };
}

/** The fields of a JSON body. */
export const readJsonFields = (body: unknown): RequestBody => ({ fields: body, images: [], mask: undefined });
