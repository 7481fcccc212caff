/** The images format's part of the document (spec 2.1 to 2.4, 3, 4, 7.4, 8). */

import { OpenAIError } from "../dialects/shared/schema.openai-errors.ts";
import { encodeError, errorStatus } from "../dialects/shared/openai-errors.ts";
import { ImageObject, ImagesAnswer, ImagesStreamEvent, ImagesUsage } from "../dialects/images/schema.answer.ts";
import { ImageFields } from "../dialects/images/schema.ts";
import { type ErrorFormat, errorResponses, MODEL_CALL } from "./errors.ts";
import { bodySchemas } from "./images.rules.ts";
import { answered, anyOfSchemes, examplesOf, ID_HEADERS, jsonContent, parameter, schemaRef } from "./shapes.ts";
import type { ApiResponse, Format, FormatOperation, MediaType, Operation } from "./types.ts";

const NAME = "Images";

export const imagesFormat: Format = {
  name: "images",
  part: ({ images = {} }) => ({
    tag: { name: NAME, description: "Pictures made from a prompt, or from other pictures." },
    schemas: { ImageFields, ImageObject, ImagesUsage, ImagesAnswer, ImagesStreamEvent, OpenAIError },
    derived: ({ ImageFields: fields = {} }) => bodySchemas(fields, images),
    operations: [GENERATE, EDIT, VARY, FILE],
  }),
};

const ERRORS: ErrorFormat = {
  schema: schemaRef("OpenAIError"),
  encode: (error) => ({ status: errorStatus(error), body: encodeError(error) }),
};

const LINKED = {
  created: 1_700_000_000,
  data: [{ url: "https://example.com/v1/images/files/img_0123456789abcdef", revised_prompt: "A red hat on a table" }],
};
const DATA = { created: 1_700_000_000, data: [{ b64_json: "iVBORw0KGgo=" }] };
const TRAITS = {
  created_at: 1_700_000_000,
  size: "1024x1024",
  quality: "auto",
  background: "auto",
  output_format: "png",
};
const streamOf = (name: string): MediaType => ({
  schema: schemaRef("ImagesStreamEvent"),
  examples: examplesOf(
    [
      "An unfinished picture",
      { type: `${name}.partial_image`, b64_json: "iVBORw0KGgo=", partial_image_index: 0, ...TRAITS },
    ],
    ["A picture", { type: `${name}.completed`, b64_json: "iVBORw0KGgo=", ...TRAITS }],
  ),
});

interface Making {
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  readonly event: string;
  readonly content: Readonly<Record<string, MediaType>>;
}

const making = ({ path, operationId, summary, event, content }: Making): FormatOperation => ({
  kind: "image",
  method: "POST",
  endpoint: path,
  path,
  operation: {
    operationId,
    summary,
    tags: [NAME],
    security: anyOfSchemes("bearer"),
    parameters: [],
    requestBody: { required: true, content },
    responses: {
      200: answered(
        "The pictures: one JSON object, or, where `stream` is true, a stream of server-sent events. The schema of the stream is that " +
          "of the data of one event; the event's name is the `type` in its data. A failure on the way is an event named `error`. " +
          "A picture's address is valid for 60 minutes.",
        {
          ...jsonContent(schemaRef("ImagesAnswer"), examplesOf(["An address", LINKED], ["The data itself", DATA])),
          "text/event-stream": streamOf(event),
        },
      ),
      ...errorResponses(ERRORS, MODEL_CALL),
    },
  } satisfies Operation,
});

const GENERATE: FormatOperation = making({
  path: "/v1/images/generations",
  operationId: "createImage",
  summary: "Draws pictures from a prompt.",
  event: "image_generation",
  content: jsonContent(
    schemaRef("ImageGenerationRequest"),
    examplesOf(
      ["A prompt", { prompt: "A red hat" }],
      [
        "More detail",
        { model: "image-model-3", prompt: "A red hat", quality: "hd", size: "1792x1024", style: "natural" },
      ],
      ["A stream", { model: "image-model-multi", prompt: "A red hat", stream: true, partial_images: 2 }],
    ),
  ),
});

const form = (schema: string, files: readonly string[]): Record<string, MediaType> => ({
  "multipart/form-data": {
    schema: schemaRef(schema),
    encoding: Object.fromEntries(files.map((field) => [field, { contentType: "image/png, image/webp, image/jpeg" }])),
  },
});

const EDIT: FormatOperation = making({
  path: "/v1/images/edits",
  operationId: "editImage",
  summary: "Changes pictures, or what a mask lets through of one, by a prompt.",
  event: "image_edit",
  content: form("ImageEditRequest", ["image", "image[]", "mask"]),
});

const VARY: FormatOperation = making({
  path: "/v1/images/variations",
  operationId: "varyImage",
  summary: "Draws variations of a picture.",
  event: "image_variation",
  content: form("ImageVariationRequest", ["image"]),
});

const PICTURE: MediaType = { schema: { type: "string", format: "binary" } };
const PICTURES = { "image/png": PICTURE, "image/jpeg": PICTURE, "image/webp": PICTURE };

const noFile = (description: string, code: string, message: string): ApiResponse => ({
  description,
  headers: ID_HEADERS,
  content: jsonContent(
    schemaRef("OpenAIError"),
    examplesOf([message, { error: { message, type: "invalid_request_error", param: null, code } }]),
  ),
});

const FILE: FormatOperation = {
  kind: "public",
  method: "GET",
  endpoint: "/v1/images/files/**",
  path: "/v1/images/files/{id}",
  operation: {
    operationId: "getImageFile",
    summary: "Serves a picture at its own address, which needs no key.",
    tags: [NAME],
    security: [],
    parameters: [
      parameter("path", "id", "As it stands in the `url` of an image answer."),
      parameter("header", "range", "One range of bytes."),
      parameter("header", "if-none-match", "The tags of what the caller has."),
    ],
    responses: {
      200: answered("The picture.", PICTURES),
      206: answered("A part of the picture.", PICTURES),
      304: { description: "The caller has it already.", headers: ID_HEADERS },
      ...errorResponses(ERRORS, ["route", "gateway"]),
      404: noFile("`image_not_found`", "image_not_found", "There is no image at this address."),
      410: noFile("`image_expired`", "image_expired", "The image was kept for a time and is gone."),
      416: noFile("`range_not_satisfiable`", "range_not_satisfiable", "The range lies outside of the image."),
    },
  },
};
