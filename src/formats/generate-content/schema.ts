/** The generate-content request on the wire (spec 2.8, 8), in camelCase. Unknown fields are allowed. */

import * as v from "valibot";
import type { FieldPath } from "../../errors.ts";
import {
  array,
  choice,
  crossCheck,
  passesUnknown,
  type RuleBreach,
  shapeOf,
  shown,
  textOr,
} from "../../http/validation.ts";
import { ANY_BASE64_FORMAT, isAnyBase64, textOfBase64 } from "../../media/base64.ts";
import { atMost, jsonObject, text, unsupported, unsupportedFinder, whole } from "../shared/schema.ts";
import {
  configBreaches,
  GenerationConfig,
  INLINE_MEDIA,
  inlineKind,
  isImageType,
  isInlineOnly,
  isOtherText,
  isPlainText,
  MAX_MIME_TYPE_CHARS,
  SUPPORTED_IMAGES,
} from "./schema.config.ts";
import { OpenApiSchema } from "./schema.openapi.ts";
import {
  carried,
  carriedAs,
  LANGUAGE,
  listOrOne,
  object,
  optionalText,
  OUTCOME,
  SETTABLE_CATEGORY,
  THRESHOLD,
  unsupportedField,
} from "./schema.wire.ts";

const InlineData = object({
  mimeType: unsupported(
    v.pipe(
      atMost(v.string(), MAX_MIME_TYPE_CHARS),
      v.check((type) => inlineKind(type) !== undefined, `must be a supported type: ${INLINE_MEDIA.join(", ")}`),
      v.metadata({ examples: INLINE_MEDIA }),
    ),
    isOtherText,
  ),
  data: v.pipe(
    v.string(),
    v.check(isAnyBase64, "must be base64 (RFC 4648, padded, without white space)"),
    v.metadata(ANY_BASE64_FORMAT),
  ),
  displayName: unsupportedField,
});
const FileData = object({ mimeType: atMost(text, MAX_MIME_TYPE_CHARS), fileUri: text, displayName: unsupportedField });

/** The fields that hold a medium, in a part of a message or of a function's response. */
const MEDIUM = { inlineData: v.nullish(InlineData), fileData: v.nullish(FileData) };
const Medium = object(MEDIUM);
export type RequestMedium = v.InferOutput<typeof Medium>;

export const Part = object({
  text: optionalText,
  ...MEDIUM,
  functionCall: v.nullish(
    object({
      id: optionalText,
      name: text,
      args: v.nullish(jsonObject),
      partialArgs: unsupportedField,
      willContinue: unsupportedField,
    }),
  ),
  functionResponse: v.nullish(
    object({
      id: optionalText,
      name: text,
      response: jsonObject,
      /** Media in the response of the function. */
      parts: v.nullish(array(Medium)),
      willContinue: unsupportedField,
    }),
  ),
  executableCode: v.nullish(
    object({ id: optionalText, language: v.picklist(Object.values(LANGUAGE)), code: v.string() }),
  ),
  codeExecutionResult: v.nullish(
    object({ id: optionalText, outcome: v.picklist(Object.values(OUTCOME)), output: optionalText }),
  ),
  toolCall: carriedAs(object({ toolType: optionalText, id: optionalText, args: v.nullish(jsonObject) })),
  toolResponse: carriedAs(object({ toolType: optionalText, id: optionalText, response: v.nullish(jsonObject) })),
  audioTranscription: carriedAs(
    object({ text: optionalText, finished: v.nullish(v.boolean()), languageCode: optionalText }),
  ),
  thought: v.nullish(v.boolean()),
  thoughtSignature: optionalText,
  videoMetadata: unsupported(carriedAs(object({ startOffset: carried, endOffset: carried }))),
  mediaResolution: unsupported(carriedAs(object({ numTokens: carried }))),
});
export type RequestPart = v.InferOutput<typeof Part>;
const PART_FIELDS: ReadonlySet<string> = new Set(Object.keys(shapeOf(Part).entries ?? {}));

const parts = listOrOne(v.pipe(array(Part), v.minLength(1, "must hold at least one part")), Part);

export const Content = object({
  // Some clients send an empty text for a missing role.
  role: v.nullish(v.picklist(["user", "model", "function", "tool", ""], "must be user, model, function or tool")),
  parts,
});
export type RequestContent = v.InferOutput<typeof Content>;

const Contents = textOr(
  listOrOne(v.pipe(array(textOr(Content)), v.minLength(1, "must hold at least one content")), Content),
);
export type RequestContents = v.InferOutput<typeof Contents>;

const FunctionDeclaration = object({
  name: text,
  description: optionalText,
  /** JSON Schema, or the format's own schema object. Neither is validated. */
  parameters: v.nullish(choice([OpenApiSchema, jsonObject], () => jsonObject)),
  parametersJsonSchema: v.nullish(jsonObject),
  response: unsupported(carriedAs(OpenApiSchema)),
  responseJsonSchema: unsupportedField,
});
export type FunctionDeclaration = v.InferOutput<typeof FunctionDeclaration>;

/** An object in which each field is a tool. Unknown tools are allowed. */
export const Tool = whole(
  object({
    functionDeclarations: v.nullish(array(FunctionDeclaration)),
    // The neutral model cannot hold options of code execution.
    codeExecution: unsupported(v.nullish(jsonObject)),
    googleSearch: carried,
    googleSearchRetrieval: carried,
    urlContext: carried,
    googleMaps: carried,
    computerUse: carried,
    fileSearch: carried,
    enterpriseWebSearch: carried,
    parallelAiSearch: carried,
    mcpServers: carried,
  }),
);
export type RequestTool = v.InferOutput<typeof Tool>;

const FunctionCallingConfig = object({
  // In the official service, VALIDATED allows calls and text, and forces calls to match their schemas.
  mode: unsupported(
    v.nullish(v.picklist(["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"])),
    (mode) => mode === "VALIDATED",
  ),
  allowedFunctionNames: v.nullish(array(v.string())),
});
export type FunctionCallingConfig = v.InferOutput<typeof FunctionCallingConfig>;

const Safety = object({
  category: v.picklist(Object.values(SETTABLE_CATEGORY)),
  threshold: v.picklist(Object.values(THRESHOLD)),
});
export type RequestSafety = v.InferOutput<typeof Safety>;

const FIELDS = {
  // Ignored: the address names the model, and some clients repeat the name here.
  model: carried,
  contents: Contents,
  // The AI SDK 4 sends a single tool without a list around it, and the official service accepts it.
  tools: v.nullish(listOrOne(array(Tool), Tool)),
  toolConfig: v.nullish(
    object({
      functionCallingConfig: v.nullish(FunctionCallingConfig),
      retrievalConfig: unsupported(carriedAs(object({ languageCode: carried, latLng: carried }))),
    }),
  ),
  safetySettings: v.nullish(array(Safety)),
  // The role is ignored. Some clients send a role that is not allowed in `contents`.
  systemInstruction: v.nullish(textOr(object({ parts, role: carried }))),
  generationConfig: v.nullish(GenerationConfig),
  cachedContent: v.nullish(v.pipe(v.string(), v.regex(/^cachedContents\/[^/]+$/, 'must be "cachedContents/{name}"'))),
  // The official service adds tiers from time to time.
  serviceTier: optionalText,
};
const Body = object(FIELDS);
export type GenerateContentRequest = v.InferOutput<typeof Body>;

/** The request body, in camelCase. */
export const GenerateContentRequest = v.pipe(Body, crossCheck<GenerateContentRequest>(requestBreaches));

/** Finds the fields of a body that the neutral model cannot hold. */
export const unsupportedIn = unsupportedFinder(Body);

/** The body of a token count. The fields of the request stand in the body itself, or in `generateContentRequest`. */
const TokenCount = object({
  ...FIELDS,
  contents: v.nullish(Contents),
  generateContentRequest: v.nullish(GenerateContentRequest),
});
export type CountTokensRequest = v.InferOutput<typeof TokenCount>;
export const CountTokensRequest = v.pipe(TokenCount, crossCheck<CountTokensRequest>(countBreaches));

/** Checks the rules that compare several fields (spec 2.8). */
function* requestBreaches(request: GenerateContentRequest): Generator<RuleBreach> {
  const { contents, systemInstruction, generationConfig } = request;
  if (typeof contents !== "string")
    for (const [turn, content] of contents.entries())
      if (typeof content !== "string")
        for (const [index, part] of content.parts.entries())
          if (!isSimple(part)) yield* partBreaches(part, ["contents", turn, "parts", index]);
  if (systemInstruction != null && typeof systemInstruction !== "string")
    yield* instructionBreaches(systemInstruction.parts);
  yield* toolBreaches(request);
  yield* safetyBreaches(request.safetySettings ?? []);
  if (generationConfig) yield* configBreaches(generationConfig, ["generationConfig"]);
}

function* countBreaches({ generateContentRequest, contents, ...fields }: CountTokensRequest): Generator<RuleBreach> {
  if (contents != null && generateContentRequest != null)
    yield { path: ["contents"], message: "cannot stand beside generateContentRequest, which has its own" };
  if (contents == null && generateContentRequest == null)
    yield { path: ["contents"], message: "is required, or generateContentRequest" };
  if (contents != null) yield* requestBreaches({ ...fields, contents });
}

/** The kinds of parts that only the official service's own tools and models make. The gateway passes such parts unchanged. */
export const PROVIDER_KINDS = [
  "toolCall",
  "toolResponse",
  "audioTranscription",
] as const satisfies (keyof RequestPart)[];

/** The kinds of parts. A part has only one kind. */
const PART_KINDS = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  ...PROVIDER_KINDS,
] as const satisfies (keyof RequestPart)[];
const KIND_NAMES: ReadonlySet<string> = new Set(PART_KINDS);

/** Tells whether a part has none of the known kinds, and a field that is not known: a kind that only the vendor knows. */
export const isOfUnknownKind = (part: RequestPart): boolean =>
  PART_KINDS.every((kind) => part[kind] == null) &&
  Object.entries(part).some(([key, value]) => value != null && !PART_FIELDS.has(key));

/** Tells whether a part is of one kind and has no medium. Nearly all parts are, and such a part needs no check. */
function isSimple(part: RequestPart): boolean {
  const { inlineData, fileData, functionResponse } = part;
  if (inlineData != null || fileData != null || functionResponse?.parts != null) return false;
  let kinds = 0;
  for (const key in part) if (KIND_NAMES.has(key) && part[key as keyof RequestPart] != null) kinds++;
  return kinds === 1;
}

/** Checks that a part is of one kind, and the rules of its medium. */
export function* partBreaches(part: RequestPart, path: FieldPath): Generator<RuleBreach> {
  const [first, second] = PART_KINDS.filter((kind) => part[kind] != null);
  if (second) yield { path: [...path, second], message: `cannot stand beside ${first}: a part is of one kind` };
  // A part may have only a signature, or only what describes the video before it.
  const isEmpty = !first && part.thoughtSignature == null && part.thought == null && part.videoMetadata == null;
  if (isEmpty && !(isOfUnknownKind(part) && passesUnknown()))
    yield { path, message: `must hold one of ${PART_KINDS.join(", ")}` };
  yield* mediumBreaches(part, path);
  for (const [index, medium] of (part.functionResponse?.parts ?? []).entries()) {
    const at = [...path, "functionResponse", "parts", index];
    if (!medium.inlineData === !medium.fileData) yield { path: at, message: "must hold either inlineData or fileData" };
    yield* mediumBreaches(medium, at);
  }
}

function* mediumBreaches({ inlineData, fileData }: RequestMedium, path: FieldPath): Generator<RuleBreach> {
  // The gateway decodes a text document, so its data must be UTF-8.
  if (inlineData && isPlainText(inlineData.mimeType) && textOfBase64(inlineData.data) === undefined)
    yield {
      path: [...path, "inlineData", "data"],
      message: `must be UTF-8 in base64 for ${shown(inlineData.mimeType)}`,
    };
  if (!fileData) return;
  const { mimeType } = fileData;
  // Audio, video and documents are accepted only as base64 (spec 4, note 5).
  if (isInlineOnly(mimeType))
    yield {
      path: [...path, "fileData", "fileUri"],
      message: `is not supported for audio, video and PDF: send ${mimeType} as base64 in inlineData`,
    };
  else if (!isImageType(mimeType))
    yield { path: [...path, "fileData", "mimeType"], message: `must be an image's: ${SUPPORTED_IMAGES}` };
}

function* instructionBreaches(instruction: readonly RequestPart[]): Generator<RuleBreach> {
  for (const [index, part] of instruction.entries()) {
    const other = PART_KINDS.find((kind) => kind !== "text" && part[kind] != null);
    const path = ["systemInstruction", "parts", index];
    if (other) yield { path: [...path, other], message: "is not supported: an instruction is text alone" };
    else if (part.text == null) yield { path: [...path, "text"], message: "is required" };
  }
}

function* toolBreaches({ tools, toolConfig }: GenerateContentRequest): Generator<RuleBreach> {
  const names = new Set<string>();
  for (const [index, { functionDeclarations }] of (tools ?? []).entries())
    for (const [position, declaration] of (functionDeclarations ?? []).entries()) {
      const path = ["tools", index, "functionDeclarations", position];
      const { name, parameters, parametersJsonSchema } = declaration;
      if (names.has(name)) yield { path: [...path, "name"], message: `is used by an earlier function: ${shown(name)}` };
      names.add(name);
      if (parameters != null && parametersJsonSchema != null)
        yield { path: [...path, "parametersJsonSchema"], message: "cannot stand beside parameters" };
    }
  const { mode, allowedFunctionNames } = toolConfig?.functionCallingConfig ?? {};
  const path = ["toolConfig", "functionCallingConfig"];
  // The official service takes ANY beside its own tools without a function.
  if (mode === "ANY" && (tools ?? []).length === 0)
    yield { path: [...path, "mode"], message: "ANY needs at least one tool in tools" };
  const allowed = allowedFunctionNames ?? [];
  if (allowed.length > 0 && mode !== "ANY" && mode !== "VALIDATED")
    yield { path: [...path, "allowedFunctionNames"], message: "needs ANY or VALIDATED as mode" };
  for (const [index, name] of allowed.entries())
    if (!names.has(name))
      yield {
        path: [...path, "allowedFunctionNames", index],
        message: `must name a function in tools: there is no ${shown(name)}`,
      };
}

function* safetyBreaches(settings: readonly RequestSafety[]): Generator<RuleBreach> {
  const categories = new Set<string>();
  for (const [index, { category }] of settings.entries()) {
    if (categories.has(category))
      yield { path: ["safetySettings", index, "category"], message: `is set by an earlier setting: ${category}` };
    categories.add(category);
  }
}
