/** Describes the images format for the OpenAPI document, with the rules of each model as JSON Schema (spec 2.1 to 2.4, 8). */

import * as v from "valibot";
import type { ImageOperation } from "../../model/image.ts";
import * as errors from "../shared/errors.ts";
import {
  type ApiResponse,
  OPENAI_SECURITY,
  type FormatDescription,
  type FormatOperation,
  type JsonSchema,
  MAYBE_STREAM,
  parameter,
  ref,
} from "../shared/openapi.ts";
import { OpenAIError } from "../shared/schema.ts";
import { ImageModels } from "./request.models.ts";
import {
  DEFAULT_MODEL,
  DEFAULT_MULTI_MODEL,
  IMAGE_PROFILES,
  type ImageCatalog,
  type ImagesOptions,
  type OperationProfile,
} from "./request.profiles.ts";
import { ImageFields, ImageObject, ImagesAnswer, ImagesStreamEvent, ImagesUsage } from "./schema.ts";

const PNG = "iVBORw0KGgo=";
const LINK = {
  url: "https://example.com/v1/images/files/img_0123456789abcdef",
  revised_prompt: "A red hat on a table",
};
const TRAITS = {
  created_at: 1_700_000_000,
  size: "1024x1024",
  quality: "auto",
  background: "auto",
  output_format: "png",
};

const FILE: JsonSchema = { type: "string", format: "binary" };
/** The files of a field that may be repeated. */
const FILES: JsonSchema = { type: "array", items: FILE, minItems: 1 };
const PICTURES = { "image/png": { schema: FILE }, "image/jpeg": { schema: FILE }, "image/webp": { schema: FILE } };

/** The operations that make pictures. The names of schemas, paths and stream events are derived from `name`. */
const MAKING = [
  { name: "Generation", operationId: "createImage", summary: "Draws pictures from a prompt." },
  {
    name: "Edit",
    operationId: "editImage",
    summary: "Changes pictures, or the part of a picture that a mask leaves open, by a prompt.",
    files: ["image", "image[]", "mask"],
  },
  { name: "Variation", operationId: "varyImage", summary: "Draws variations of a picture.", files: ["image"] },
];

const [PARTIAL, COMPLETED] = ImagesStreamEvent.options;

/** Narrows the schema of stream events to one operation. */
const eventOf = (event: string): v.GenericSchema =>
  v.union([
    v.object({ ...PARTIAL.entries, type: v.literal(`${event}.partial_image`) }),
    v.object({ ...COMPLETED.entries, type: v.literal(`${event}.completed`) }),
    OpenAIError,
  ]);
const eventExamples = (event: string): Record<string, object> => ({
  "An unfinished picture": { type: `${event}.partial_image`, b64_json: PNG, partial_image_index: 0, ...TRAITS },
  "A picture": { type: `${event}.completed`, b64_json: PNG, ...TRAITS },
});
const eventsBy = <Made>(make: (event: string) => Made): Record<string, Made> =>
  Object.fromEntries(MAKING.map(({ name }) => [`Image${name}Event`, make(`image_${name.toLowerCase()}`)]));

/** Makes an error answer that only the route of finished pictures has. */
const fileError = (code: string, message: string): ApiResponse => ({
  description: `\`${code}\``,
  content: {
    "application/json": {
      schema: ref("OpenAIError"),
      examples: {
        [code]: { summary: message, value: { error: { message, type: "invalid_request_error", param: null, code } } },
      },
    },
  },
});

export const imagesDescription: FormatDescription<ImagesOptions> = {
  name: "images",
  tag: { name: "Images", description: "Pictures made from a prompt, or from other pictures." },
  security: OPENAI_SECURITY,
  errorSchema: "OpenAIError",
  errors,
  schemas: () => ({
    ImageFields,
    ImageObject,
    ImagesUsage,
    ImagesAnswer,
    OpenAIError,
    ...eventsBy(eventOf),
  }),
  jsonSchemas: ({ ImageFields: fields = {} }, catalog) => bodies(fields, catalog),
  examples: {
    ImageGenerationRequest: {
      "A prompt": { prompt: "A red hat" },
      "More detail": {
        model: "image-model-3",
        prompt: "A red hat",
        quality: "hd",
        size: "1792x1024",
        style: "natural",
      },
      "A stream": { model: "image-model-multi", prompt: "A red hat", stream: true, partial_images: 2 },
    },
    ImagesAnswer: {
      "An address": { created: 1_700_000_000, data: [LINK] },
      "The data itself": { created: 1_700_000_000, data: [{ b64_json: PNG }] },
    },
    ...eventsBy(eventExamples),
  },
  operations: [
    ...MAKING.map(({ name, ...operation }): FormatOperation => ({
      ...operation,
      endpoint: `image POST /v1/images/${name.toLowerCase()}s`,
      request: `Image${name}Request`,
      answer: "ImagesAnswer",
      events: `Image${name}Event`,
      answerDescription:
        `${MAYBE_STREAM} The event's name is the \`type\` in the data. A failure on the way is an event named \`error\`. The ` +
        "address of a picture is valid for 60 minutes.",
    })),
    {
      endpoint: "public GET /v1/images/files/{id}",
      operationId: "getImageFile",
      summary: "Serves a picture at its own address, which needs no key.",
      security: [],
      parameters: [
        parameter("header", "range", "One range of bytes."),
        parameter("header", "if-none-match", "The tags of the caller's copies."),
      ],
      causes: ["route", "gateway"],
      responses: {
        200: { description: "The picture.", content: PICTURES },
        206: { description: "A part of the picture.", content: PICTURES },
        304: { description: "The caller's copy is still valid." },
        404: fileError("image_not_found", "There is no image at this address."),
        410: fileError("image_expired", "The image was kept for a time and is gone."),
        416: fileError("range_not_satisfiable", "The range lies outside of the image."),
      },
    },
  ],
};

function bodies(fields: JsonSchema, catalog: ImageCatalog): Record<string, JsonSchema> {
  const edit = bodyOf("edit", fields, catalog, {
    image: FILES,
    "image[]": FILES,
    "image[0]": FILE,
    "image[1]": FILE,
    mask: FILE,
  });
  const vary = bodyOf("vary", fields, catalog, { image: FILE });
  return {
    ImageGenerationRequest: { ...bodyOf("generate", fields, catalog), required: ["prompt"] },
    ImageEditRequest: {
      ...edit,
      required: ["prompt"],
      allOf: [
        ...(edit["allOf"] as readonly JsonSchema[]),
        when({}, { anyOf: ["image", "image[]", "image[0]"].map((name) => ({ required: [name] })) }),
      ],
    },
    ImageVariationRequest: { ...vary, required: ["image"], not: { required: ["mask"] } },
  };
}

/** The schema of a field that a model does not take: the field is absent or null. */
const NONE: JsonSchema = { type: "null" };

/** Makes the body of an operation: its fields and files, the models that support it, and the rules of each model. */
function bodyOf(operation: ImageOperation, fields: JsonSchema, catalog: ImageCatalog, files?: JsonSchema): JsonSchema {
  const models = new ImageModels(catalog);
  const able = Object.entries({ ...IMAGE_PROFILES, ...catalog.models }).flatMap(([id, { operations }]) => {
    const profile = operations[operation];
    return profile ? [{ id, names: [id, ...models.aliasesOf(id)], rules: rulesOf(profile, operation) }] : [];
  });
  const defaults = operation === "edit" ? [DEFAULT_MODEL, DEFAULT_MULTI_MODEL] : [DEFAULT_MODEL];
  const unnamed = able.filter(({ id }) => defaults.includes(id)).map(({ rules }) => rules);
  // A `default` would make the field required in generated clients.
  const model = { enum: [...able.flatMap(({ names }) => names), null], description: `Default: \`${DEFAULT_MODEL}\`.` };
  const all = Object.entries({ ...(fields["properties"] as Record<string, JsonSchema>), model });
  return {
    type: "object",
    properties: {
      ...files,
      // A form has no null, and generated clients refuse to write it. The prompt is required.
      ...Object.fromEntries(all.map(([name, one]) => [name, files || name === "prompt" ? withoutNull(one) : one])),
    },
    allOf: [
      ...able.map(({ names, rules }) => when({ properties: { model: { enum: names } }, required: ["model"] }, rules)),
      ...(unnamed.length > 0 ? [when({ properties: { model: NONE } }, { anyOf: unnamed })] : []),
    ],
  };
}

function withoutNull({ anyOf, enum: values, ...schema }: JsonSchema): JsonSchema {
  if (Array.isArray(values)) return { ...schema, enum: values.filter((value) => value !== null) };
  if (!Array.isArray(anyOf)) return schema;
  const options = (anyOf as JsonSchema[]).filter(({ type }) => type !== "null");
  return options.length === 1 ? { ...schema, ...options[0] } : { ...schema, anyOf: options };
}

/** Makes a rule that holds under a condition. Generated clients skip it, so that the fields keep simple types. */
// oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
const when = (condition: JsonSchema, rules: JsonSchema): JsonSchema => ({ if: condition, then: rules });

const FINISHING = ["background", "moderation", "output_format", "output_compression", "partial_images"];

function rulesOf(profile: OperationProfile, operation: ImageOperation): JsonSchema {
  const oneOf = (values: readonly string[] | undefined): JsonSchema => (values ? { enum: [...values, null] } : NONE);
  const maxItems = profile.originals?.maxFiles;
  return {
    properties: {
      ...(operation !== "vary" && { prompt: { type: "string", minLength: 1, maxLength: profile.maxPromptLength } }),
      n: { anyOf: [{ type: "integer", minimum: 1, maximum: profile.maxCount }, NONE] },
      size: oneOf(profile.sizes),
      quality: oneOf(profile.qualities),
      style: oneOf(profile.styles),
      ...(maxItems !== undefined && { image: { maxItems }, "image[]": { maxItems } }),
      ...(!profile.finishing && Object.fromEntries(FINISHING.map((field) => [field, NONE]))),
      ...(!profile.fidelity && { input_fidelity: NONE }),
    },
  };
}
