/** The generate-content format on the wire (spec 2.8, 8), one schema an object, in camelCase; what clients add passes through. */

import * as v from "valibot";
import { array, choice, crossCheck, type FieldPath, type RuleBreach, shown, textOr } from "../../http/validation.ts";
import { ANY_BASE64_FORMAT, isAnyBase64, textOfBase64 } from "../../media/base64.ts";
import { atMost, text } from "../shared/schema.parts.ts";
import { unsaid, unsaidFinder, whole } from "../shared/schema.unsaid.ts";
import { carried, carriedAs, jsonObject, listOrOne, object, optionalText, unsaidField } from "./schema.base.ts";
import { configBreaches, GenerationConfig } from "./schema.config.ts";
import { LANGUAGE, OUTCOME, SETTABLE_CATEGORY, THRESHOLD, wireWords } from "./schema.enums.ts";
import {
  INLINE_MEDIA,
  isImageType,
  isInlineMedia,
  isInlineOnly,
  isOtherText,
  isPlainText,
  MAX_MIME_TYPE_CHARS,
  SUPPORTED_IMAGES,
} from "./schema.media.ts";
import { OpenApiSchema } from "./schema.openapi.ts";

const InlineData = object({
  mimeType: unsaid(
    v.pipe(
      atMost(v.string(), MAX_MIME_TYPE_CHARS),
      v.check(isInlineMedia, `must be a supported type: ${INLINE_MEDIA.join(", ")}`),
      v.metadata({ examples: INLINE_MEDIA }),
    ),
    isOtherText,
  ),
  data: v.pipe(
    v.string(),
    v.check(isAnyBase64, "must be base64 (RFC 4648, padded, without white space)"),
    v.metadata(ANY_BASE64_FORMAT),
  ),
  displayName: unsaidField,
});
const FileData = object({ mimeType: atMost(text, MAX_MIME_TYPE_CHARS), fileUri: text, displayName: unsaidField });
const FunctionCall = object({
  id: optionalText,
  name: text,
  args: v.nullish(jsonObject),
  partialArgs: unsaidField,
  willContinue: unsaidField,
});
const FunctionResponse = object({
  id: optionalText,
  name: text,
  response: jsonObject,
  /** Media that the function answered with. */
  parts: v.nullish(array(object({ inlineData: v.nullish(InlineData), fileData: v.nullish(FileData) }))),
  willContinue: unsaidField,
});
const ExecutableCode = object({
  id: optionalText,
  language: v.picklist(wireWords(LANGUAGE)),
  code: v.string(),
});
const CodeExecutionResult = object({
  id: optionalText,
  outcome: v.picklist(wireWords(OUTCOME)),
  output: optionalText,
});

export const Part = object({
  text: optionalText,
  inlineData: v.nullish(InlineData),
  fileData: v.nullish(FileData),
  functionCall: v.nullish(FunctionCall),
  functionResponse: v.nullish(FunctionResponse),
  executableCode: v.nullish(ExecutableCode),
  codeExecutionResult: v.nullish(CodeExecutionResult),
  toolCall: carriedAs(object({ toolType: optionalText, id: optionalText, args: v.nullish(jsonObject) })),
  toolResponse: carriedAs(object({ toolType: optionalText, id: optionalText, response: v.nullish(jsonObject) })),
  audioTranscription: carriedAs(
    object({ text: optionalText, finished: v.nullish(v.boolean()), languageCode: optionalText }),
  ),
  thought: v.nullish(v.boolean()),
  thoughtSignature: optionalText,
  videoMetadata: unsaid(carriedAs(object({ startOffset: carried, endOffset: carried }))),
  mediaResolution: unsaid(carriedAs(object({ numTokens: carried }))),
});
export type Part = v.InferOutput<typeof Part>;

const parts = listOrOne(v.pipe(array(Part), v.minLength(1, "must hold at least one part")), Part);

export const Content = object({
  // An empty role is how some encoders write none.
  role: v.nullish(v.picklist(["user", "model", "function", "tool", ""], "must be user, model, function or tool")),
  parts,
});
export type Content = v.InferOutput<typeof Content>;

export const Contents = textOr(
  listOrOne(v.pipe(array(textOr(Content)), v.minLength(1, "must hold at least one content")), Content),
);
export type Contents = v.InferOutput<typeof Contents>;

const FunctionDeclaration = object({
  name: text,
  description: optionalText,
  /** JSON Schema, or the format's own schema object. It is carried, not judged. */
  parameters: v.nullish(choice([OpenApiSchema, jsonObject], () => jsonObject)),
  parametersJsonSchema: v.nullish(jsonObject),
  response: unsaid(carriedAs(OpenApiSchema)),
  responseJsonSchema: unsaidField,
});
export type FunctionDeclaration = v.InferOutput<typeof FunctionDeclaration>;

/** Each of its fields is a tool, also one that is not known here. */
export const Tool = whole(
  object({
    functionDeclarations: v.nullish(array(FunctionDeclaration)),
    // It has no options that the neutral model knows.
    codeExecution: unsaid(v.nullish(jsonObject)),
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
export type Tool = v.InferOutput<typeof Tool>;

const FunctionCallingConfig = object({
  // VALIDATED is the official service's: calls or text, and the calls keep to their schemas.
  mode: unsaid(
    v.nullish(v.picklist(["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"])),
    (mode) => mode === "VALIDATED",
  ),
  allowedFunctionNames: v.nullish(array(v.string())),
});
export type FunctionCallingConfig = v.InferOutput<typeof FunctionCallingConfig>;

const SafetySetting = object({
  category: v.picklist(wireWords(SETTABLE_CATEGORY)),
  threshold: v.picklist(wireWords(THRESHOLD)),
});
export type SafetySetting = v.InferOutput<typeof SafetySetting>;

const FIELDS = {
  // It stands in the address; some clients name it here too.
  model: carried,
  contents: Contents,
  // The AI SDK 4 sends its only tool without a list around it, which the official service takes.
  tools: v.nullish(listOrOne(array(Tool), Tool)),
  toolConfig: v.nullish(
    object({
      functionCallingConfig: v.nullish(FunctionCallingConfig),
      retrievalConfig: unsaid(carriedAs(object({ languageCode: carried, latLng: carried }))),
    }),
  ),
  safetySettings: v.nullish(array(SafetySetting)),
  // The role of an instruction means nothing, and some clients send one that no content may have.
  systemInstruction: v.nullish(textOr(object({ parts, role: carried }))),
  generationConfig: v.nullish(GenerationConfig),
  cachedContent: v.nullish(v.pipe(v.string(), v.regex(/^cachedContents\/[^/]+$/, 'must be "cachedContents/{name}"'))),
};
const Body = object(FIELDS);
export type GenerateContentRequest = v.InferOutput<typeof Body>;

/** The request body, in camelCase. */
export const GenerateContentRequest = v.pipe(Body, crossCheck<GenerateContentRequest>(breaches));

/** The paths of what the neutral model has no words for. */
export const unsaidIn = unsaidFinder(Body);

/** The body of a token count: the fields that would be sent, or the whole request in one of its own. */
const TokenCount = object({
  ...FIELDS,
  contents: v.nullish(Contents),
  generateContentRequest: v.nullish(GenerateContentRequest),
});
export type CountTokensRequest = v.InferOutput<typeof TokenCount>;
export const CountTokensRequest = v.pipe(TokenCount, crossCheck<CountTokensRequest>(countBreaches));

/** The rules that look at several fields (spec 2.8). */
function* breaches(request: GenerateContentRequest): Generator<RuleBreach> {
  yield* contentsBreaches(request.contents, ["contents"]);
  const { systemInstruction, generationConfig } = request;
  if (systemInstruction != null && typeof systemInstruction !== "string")
    yield* instructionBreaches(systemInstruction.parts);
  yield* toolBreaches(request.tools ?? []);
  yield* callingBreaches(request);
  yield* safetyBreaches(request.safetySettings ?? []);
  if (generationConfig) yield* configBreaches(generationConfig, ["generationConfig"]);
}

function* countBreaches({ generateContentRequest, contents, ...fields }: CountTokensRequest): Generator<RuleBreach> {
  if (contents != null && generateContentRequest != null)
    yield { path: ["contents"], message: "cannot stand beside generateContentRequest, which has its own" };
  if (contents == null && generateContentRequest == null)
    yield { path: ["contents"], message: "is required, or generateContentRequest" };
  if (contents != null) yield* breaches({ ...fields, contents });
}

function* contentsBreaches(contents: Contents, path: FieldPath): Generator<RuleBreach> {
  if (typeof contents === "string") return;
  for (const [turn, content] of contents.entries())
    if (typeof content !== "string")
      for (const [index, part] of content.parts.entries())
        if (!isTextAlone(part)) yield* partBreaches(part, [...path, turn, "parts", index]);
}

/** Parts that only the official service's own tools and models make: carried whole. */
export const PROVIDER_KINDS = ["toolCall", "toolResponse", "audioTranscription"] as const satisfies (keyof Part)[];

/** What a part can be; it is one of these. */
const PART_KINDS = [
  "text",
  "inlineData",
  "fileData",
  "functionCall",
  "functionResponse",
  "executableCode",
  "codeExecutionResult",
  ...PROVIDER_KINDS,
] as const satisfies (keyof Part)[];

/** What most parts are, and nothing is wrong with. */
const isTextAlone = (part: Part): boolean =>
  part.text != null && PART_KINDS.every((kind) => kind === "text" || part[kind] == null);

function* partBreaches(part: Part, path: FieldPath): Generator<RuleBreach> {
  const [first, second] = PART_KINDS.filter((kind) => part[kind] != null);
  if (second) yield { path: [...path, second], message: `cannot stand beside ${first}: a part is of one kind` };
  // A signature may come in a part of its own.
  if (!first && part.thoughtSignature == null && part.thought == null)
    yield { path, message: `must hold one of ${PART_KINDS.join(", ")}` };
  if (part.inlineData) yield* inlineBreaches(part.inlineData, [...path, "inlineData"]);
  if (part.fileData) yield* fileBreaches(part.fileData, [...path, "fileData"]);
  for (const [index, { inlineData, fileData }] of (part.functionResponse?.parts ?? []).entries()) {
    const at = [...path, "functionResponse", "parts", index];
    if (!inlineData === !fileData) yield { path: at, message: "must hold either inlineData or fileData" };
    if (inlineData) yield* inlineBreaches(inlineData, [...at, "inlineData"]);
    if (fileData) yield* fileBreaches(fileData, [...at, "fileData"]);
  }
}

/** A document of text is read, so it must be text. */
function* inlineBreaches({ mimeType, data }: v.InferOutput<typeof InlineData>, path: FieldPath): Generator<RuleBreach> {
  if (isPlainText(mimeType) && textOfBase64(data) === undefined)
    yield { path: [...path, "data"], message: `must be UTF-8 in base64 for ${shown(mimeType)}` };
}

/** Sound, film and documents come in base64 alone (spec 4, note 5). */
function* fileBreaches({ mimeType }: { mimeType: string }, path: FieldPath): Generator<RuleBreach> {
  if (isInlineOnly(mimeType))
    yield {
      path: [...path, "fileUri"],
      message: `is not supported for audio, video and PDF: send ${mimeType} as base64 in inlineData`,
    };
  else if (!isImageType(mimeType))
    yield { path: [...path, "mimeType"], message: `must be an image's: ${SUPPORTED_IMAGES}` };
}

function* instructionBreaches(instruction: readonly Part[]): Generator<RuleBreach> {
  for (const [index, part] of instruction.entries()) {
    const other = PART_KINDS.find((kind) => kind !== "text" && part[kind] != null);
    const path = ["systemInstruction", "parts", index];
    if (other) yield { path: [...path, other], message: "is not supported: an instruction is text alone" };
    else if (part.text == null) yield { path: [...path, "text"], message: "is required" };
  }
}

function* toolBreaches(tools: readonly Tool[]): Generator<RuleBreach> {
  const names = new Set<string>();
  for (const [index, { functionDeclarations }] of tools.entries())
    for (const [position, declaration] of (functionDeclarations ?? []).entries()) {
      const path = ["tools", index, "functionDeclarations", position];
      const { name, parameters, parametersJsonSchema } = declaration;
      if (names.has(name)) yield { path: [...path, "name"], message: `is used by an earlier function: ${shown(name)}` };
      names.add(name);
      if (parameters != null && parametersJsonSchema != null)
        yield { path: [...path, "parametersJsonSchema"], message: "cannot stand beside parameters" };
    }
}

function* callingBreaches({ tools, toolConfig }: GenerateContentRequest): Generator<RuleBreach> {
  const { mode, allowedFunctionNames } = toolConfig?.functionCallingConfig ?? {};
  const path = ["toolConfig", "functionCallingConfig"];
  const names = new Set((tools ?? []).flatMap((tool) => tool.functionDeclarations ?? []).map(({ name }) => name));
  if (mode === "ANY" && names.size === 0)
    yield { path: [...path, "mode"], message: "ANY needs at least one function in tools" };
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

function* safetyBreaches(settings: readonly SafetySetting[]): Generator<RuleBreach> {
  const categories = new Set<string>();
  for (const [index, { category }] of settings.entries()) {
    if (categories.has(category))
      yield { path: ["safetySettings", index, "category"], message: `is set by an earlier setting: ${category}` };
    categories.add(category);
  }
}
