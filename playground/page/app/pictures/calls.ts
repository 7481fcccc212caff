/** Builds the calls of the image endpoints, and code that makes them with the official SDK. */

import { type ApiCall, type FormField, postJson } from "../http/call.ts";
import { toSource } from "../source.ts";
import { type Action, DRAWING_MODELS, type ImageDraft } from "./draft.ts";

/** The files that a call sends. */
export interface ImageFiles {
  readonly image?: File | undefined;
  readonly mask?: File | undefined;
}

const PATHS = {
  draw: "/v1/images/generations",
  edit: "/v1/images/edits",
  vary: "/v1/images/variations",
} as const satisfies Record<Action, string>;

const METHODS = { draw: "generate", edit: "edit", vary: "createVariation" } as const satisfies Record<Action, string>;

/** Returns the fields of a call, without its files. */
function fieldsOf(action: Action, draft: ImageDraft): Readonly<Record<string, string | number>> {
  const response_format = draft.responseFormat;
  switch (action) {
    case "draw": {
      const { prompt, model, size, quality, count: n } = draft;
      return { model, prompt, size, ...(quality !== "" && { quality }), n, ...accepted(model, response_format) };
    }
    case "edit": {
      const { editModel: model, editPrompt: prompt } = draft;
      return { model, prompt, ...sizeOfEdit(model, draft.size), ...accepted(model, response_format) };
    }
    default:
      return { model: "image-model-2", n: draft.variations, response_format };
  }
}

/** Returns the size of the drawn picture, so that the edit keeps the size. The multi model keeps the size without this field. */
const sizeOfEdit = (model: string, size: string): { size?: string } =>
  model === "image-model-2" && DRAWING_MODELS[model]?.sizes.includes(size) ? { size } : {};

/** Omits the response format for the multi model, which answers with both formats, as its official clients do. */
const accepted = (model: string, response_format: string): { response_format?: string } =>
  model === "image-model-multi" ? {} : { response_format };

export function imageCall(action: Action, draft: ImageDraft, { image, mask }: ImageFiles, apiKey: string): ApiCall {
  const headers = { authorization: `Bearer ${apiKey}` };
  const fields = fieldsOf(action, draft);
  if (action === "draw") return postJson(PATHS.draw, headers, fields);
  const form: FormField[] = Object.entries(fields).map(([name, value]) => ({ name, text: String(value) }));
  if (image) form.push({ name: "image", file: image });
  if (mask && action === "edit") form.push({ name: "mask", file: mask });
  return { method: "POST", path: PATHS[action], headers, form };
}

const sourceOf = ({ name, type }: File): string =>
  `await toFile(createReadStream(${JSON.stringify(name)}), null, { type: ${JSON.stringify(type)} })`;

/** Returns a program that makes the call. The program reads the files from its own folder. */
export function imageCode(
  action: Action,
  draft: ImageDraft,
  { image, mask }: ImageFiles,
  { apiKey, baseUrl }: { readonly apiKey: string; readonly baseUrl: string },
): string {
  const files = [
    ...(image && action !== "draw" ? [`  image: ${sourceOf(image)},\n`] : []),
    ...(mask && action === "edit" ? [`  mask: ${sourceOf(mask)},\n`] : []),
  ];
  const fields = Object.entries(fieldsOf(action, draft)).map(([name, value]) => `  ${name}: ${toSource(value)},\n`);
  const imports =
    files.length > 0
      ? `import { createReadStream } from "node:fs";\nimport OpenAI, { toFile } from "openai";`
      : `import OpenAI from "openai";`;
  return `${imports}

const client = new OpenAI({ apiKey: ${apiKey}, baseURL: ${JSON.stringify(`${baseUrl}/v1`)} });
const answer = await client.images.${METHODS[action]}({
${[...fields, ...files].join("")}});
console.log(answer.data);
`;
}
