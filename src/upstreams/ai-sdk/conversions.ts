/** Lists the conversions of a request for an AI SDK model, by the model's provider and by the warnings in the model's answer. */

import { claudeNamed, isClaude } from "../../formats/shared/claude.ts";
import {
  approximated,
  choiceAmong,
  type ConversionTable,
  type ConvertedField,
  type ConvertedFields,
  conversionTable,
  convertedFields,
  dropped,
  emulated,
  EXACT,
  listConversions,
  rejected,
} from "../../formats/shared/conversions.ts";
import { CLAUDE_TOOL_NAMES, GOOGLE_TOOL_NAMES, TOOL_NAMES } from "../../formats/shared/tool-names.ts";
import { budgetWithin } from "../../kinds/chat/reasoning.ts";
import { isTextType } from "../../media/media-type.ts";
import type { ChatRequest, DocumentPart, MediaPart, ReasoningControl, ToolChoice } from "../../model/chat-request.ts";
import type { Conversion } from "../../model/conversion.ts";
import { isJsonObject, isLonger } from "../../model/json.ts";
import type { AiSdkModel, AiSdkOptions } from "./options.ts";
import { type Signer, signerOf } from "./seals.ts";

/** The properties of a model that decide how it is called. */
export interface Traits {
  readonly version: AiSdkModel["specificationVersion"];
  readonly modelId: string;
  /** Such as `anthropic.messages`. */
  readonly provider: string;
  readonly family: "anthropic" | "google" | "openai" | undefined;
  /** The fields that this model supports although `CONVERSIONS` does not, mostly through the provider's own options. */
  readonly supports: ReadonlySet<ConvertedField>;
  /** True for a provider of chat completions: it writes a file in a tool's result into a text, as base64. */
  readonly hasTextResults: boolean;
  /** Matches the names of tools that the provider accepts. */
  readonly toolNames: RegExp;
  /** The addresses that the model itself can fetch: lists of patterns by media type. The gateway never fetches a caller's address. */
  readonly urls: unknown;
  readonly signer: Signer;
  /** True when the provider takes its earlier reasoning back without a signature. */
  readonly takesUnsigned: boolean;
  /** The treatment of earlier reasoning that another provider has made: it is left out, or sent as text. */
  readonly foreignReasoning: "drop" | "text";
  /** The way in which a request controls the model's reasoning; undefined for an unknown model. */
  readonly control: ReasoningControl | undefined;
}

const FAMILIES = [
  ["anthropic", /anthropic/i],
  ["google", /google|vertex/i],
  ["openai", /openai|azure/i],
] as const;

const SUPPORTED_BY: Readonly<Record<NonNullable<Traits["family"]>, readonly ConvertedField[]>> = {
  anthropic: [
    "messages.role.system",
    "messages.prefill",
    "messages.cache",
    "messages.document.citations",
    "messages.document.text",
    "toolChoice.parallel",
    "reasoning.budgetTokens",
    "endUser",
  ],
  google: ["messages.document.text", "reasoning.budgetTokens", "reasoning.visible", "modalities"],
  openai: ["messages.media.detail", "toolChoice.parallel", "endUser"],
};

/** @param urls The model's `supportedUrls`, if the request has an address. */
export function traitsOf(
  model: AiSdkModel,
  urls?: unknown,
  { reasoning, foreignReasoning = "drop" }: Pick<AiSdkOptions, "reasoning" | "foreignReasoning"> = {},
): Traits {
  const { specificationVersion: version, provider, modelId } = model;
  const [family] = FAMILIES.find(([, name]) => name.test(provider)) ?? [];
  const supports = new Set(family && SUPPORTED_BY[family]);
  if (version !== "v2") supports.add("tools.function.strict");
  const signer = signerOf(model);
  // OpenAI's provider leaves reasoning without its id out, and does not say so for chat completions.
  const takesUnsigned = signer.maker !== "messages" && family !== "openai";
  // A model of another name may have any control: its provider decides.
  const isKnown = signer.maker === "messages" && isClaude(model.modelId);
  const known = isKnown ? claudeNamed(model.modelId).control : undefined;
  const control = reasoning?.(model.modelId) ?? known;
  const toolNames = family === "anthropic" ? CLAUDE_TOOL_NAMES : family === "google" ? GOOGLE_TOOL_NAMES : TOOL_NAMES;
  return {
    version,
    modelId,
    provider,
    family,
    supports,
    hasTextResults: /\.chat$/i.test(provider),
    toolNames,
    urls,
    signer,
    takesUnsigned,
    foreignReasoning,
    control,
  };
}

/** The rules for a model of an unknown provider. `Traits.supports` lists the fields that known providers also support. */
const CONVERSIONS: ConversionTable = conversionTable({
  "messages.signature": dropped("The signature belongs to another provider."),
  "messages.thought": approximated("Content made during reasoning is sent as a part of the answer."),
  "messages.media": EXACT,
  "messages.media.audio": EXACT,
  "messages.media.video": EXACT,
  "messages.media.url": rejected("The model accepts the data of pictures and sounds, but not this address."),
  "messages.document": EXACT,
  "messages.document.url": rejected("The model accepts the data of documents, but not this address."),
  "messages.document.title": dropped("A document in a tool result has no title."),
  "messages.tool-result.name": EXACT,
  "messages.tool-result.json": EXACT,
  "tools.function.strict": dropped("The interface or the model cannot hold arguments to this schema."),
  "toolChoice.parallel": dropped("The provider cannot be limited to one call."),
  stopSequences: emulated("Anthropic takes no white space alone; the gateway ends the text there."),
  reasoning: dropped("This version of the interface has no reasoning."),
  "reasoning.budgetTokens": approximated("The budget is sent as an effort, or is kept below the output limit."),
  "reasoning.effort": approximated("The nearest effort is sent, or the model decides."),
  "responseFormat.name": EXACT,
  "responseFormat.strict": dropped("The provider decides how strictly it follows the schema."),
  modalities: dropped("The provider is asked only for text."),
  serviceTier: dropped("Only the host chooses the tier, by providerOptions."),
  endUser: dropped("The provider has no field for the end user, or takes only a shorter identifier."),
});

/** Fields that the checks below add for each part, or that the encoder of the prompt reports. */
const CHECKED_BY_PART = [
  "messages.signature",
  "messages.signature.foreign",
  "messages.thought",
  "messages.reasoning.foreign",
  "messages.redacted-reasoning",
  "messages.document.title",
  "messages.document.context",
  "messages.document.citations",
  "messages.tool-result.isError",
] as const satisfies ConvertedField[];

/**
 * Lists the conversions of a request, `rejected` ones included.
 *
 * @param lost The fields that the encoder has changed or left out.
 */
export function conversionsOf(request: ChatRequest, traits: Traits, lost: ConvertedFields = new Set()): Conversion[] {
  const { messages, modalities, endUser } = request;
  const fields = convertedFields(request);
  for (const field of CHECKED_BY_PART) fields.delete(field);
  for (const field of traits.supports) fields.delete(field);
  for (const field of lost) fields.add(field);
  if (modalities?.includes("audio")) fields.add("modalities");
  functionChoice(request, fields);
  if (endUser !== undefined && !takesUser(endUser, traits)) fields.add("endUser");
  for (const { parts } of messages)
    for (const part of parts) {
      if (part.type === "media" || part.type === "document") checkFile(part, traits, fields);
      else if (part.type !== "text" && "thought" in part && part.thought) fields.add("messages.thought");
      if (part.type === "tool-result")
        for (const inner of part.parts) {
          if ("cache" in inner && inner.cache) fields.add("messages.cache");
          if (inner.type !== "media" && inner.type !== "document") continue;
          checkFile(inner, traits, fields, !traits.hasTextResults);
          if (part.isError && !traits.hasTextResults) fields.add("messages.tool-result.isError");
        }
    }
  checkReasoning(request, traits, fields);
  return listConversions(CONVERSIONS, fields, request);
}

/** Tells whether a provider takes the identifier of an end user. */
export const takesUser = (endUser: string, { family }: Traits): boolean =>
  (family === "anthropic" || family === "openai") && !isLonger(endUser, MAX_END_USER[family]);

/** The longest identifiers of end users that the vendors accept, in characters. */
const MAX_END_USER = { anthropic: 256, openai: 64 } as const;

/** Returns the choice that is left among the functions of a request, and adds the fields that it loses. */
export function functionChoice(
  { tools, toolChoice }: ChatRequest,
  fields: ConvertedFields = new Set(),
): ToolChoice | undefined {
  const functions = new Set(tools.flatMap((tool) => (tool.type === "function" ? tool.name : [])));
  return toolChoice && choiceAmong(toolChoice, functions, functions.size > 0, fields);
}

/** @param isInner The file is in a tool result, where the provider's own options have no effect. */
function checkFile(part: MediaPart | DocumentPart, traits: Traits, fields: ConvertedFields, isInner = false): void {
  const { source } = part;
  const { supports, family, version } = traits;
  if (part.thought && version !== "v4") fields.add("messages.thought");
  // Reject file ids: they name files in the host's account, and a caller could guess the id of another's file.
  if (source.type === "file" || (source.type === "url" && !takesUrl(source.url, part, traits)))
    fields.add(`messages.${part.type}.url`);
  if (part.type === "media") {
    if (part.detail !== undefined && (isInner || !supports.has("messages.media.detail")))
      fields.add("messages.media.detail");
    return;
  }
  const isText =
    source.type === "parts" || (isTextFile(part, traits) && (isInner || !supports.has("messages.document.text")));
  if (isText) fields.add("messages.document.text");
  if (isInner && part.title !== undefined && !isText) fields.add("messages.document.title");
  if (isInner || family !== "anthropic" || source.type === "parts") {
    if (part.context !== undefined) fields.add("messages.document.context");
    if (part.citations) fields.add("messages.document.citations");
  }
  if (source.type !== "parts") return;
  for (const inner of source.parts) {
    if (inner.cache) fields.add("messages.cache");
    if (inner.type === "media") checkFile(inner, traits, fields, isInner);
  }
}

/** Tells whether a document is sent as a text. Google's provider takes each file of text as it is; the others refuse most of them. */
export const isTextFile = ({ source }: DocumentPart, { family }: Traits): boolean =>
  source.type === "text" || (source.type === "base64" && family !== "google" && isTextType(source.mediaType));

function checkReasoning(request: ChatRequest, traits: Traits, fields: ConvertedFields): void {
  const { reasoning } = request;
  if (!reasoning) return;
  const { supports, version, family } = traits;
  const hasBudget = supports.has("reasoning.budgetTokens");
  if (version !== "v4" && !hasBudget && family !== "openai") {
    fields.add("reasoning");
    return;
  }
  if (reasoning.type === "disabled") return;
  if (reasoning.visible === false && !supports.has("reasoning.visible")) fields.add("reasoning.visible");
  if (reasoning.type === "enabled") {
    const isSame = family !== "anthropic" || reasoning.budgetTokens === anthropicBudget(request);
    if (!hasBudget || !isSame) fields.add("reasoning.budgetTokens");
  } else if (reasoning.effort === undefined) {
    if (!hasBudget) fields.add("reasoning.adaptive");
  } else if (version !== "v4" && (family === "google" || (family === "anthropic" && reasoning.effort === "minimal")))
    fields.add("reasoning.effort");
}

/** The least budget that Anthropic accepts, in tokens. */
export const MIN_BUDGET = 1_024;

/** Returns the budget for Anthropic: at least the least that it accepts, and with room for the answer below the output limit. */
export const anthropicBudget = ({ reasoning, maxOutputTokens }: ChatRequest): number =>
  reasoning?.type === "enabled" ? budgetWithin(Math.max(reasoning.budgetTokens, MIN_BUDGET), maxOutputTokens) : 0;

/** True when the model can fetch the address. */
export function takesUrl(url: string, part: MediaPart | DocumentPart, { urls }: Traits): boolean {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) return false;
  if (typeof urls !== "object" || urls === null) return false;
  const mediaType = mediaTypeOf(part);
  return Object.entries(urls).some(
    ([type, patterns]: [string, unknown]) =>
      isOfType(mediaType, type.toLowerCase()) &&
      Array.isArray(patterns) &&
      patterns.some((pattern) => pattern instanceof RegExp && pattern.test(url)),
  );
}

function isOfType(mediaType: string, pattern: string): boolean {
  if (pattern === "*" || pattern === "*/*" || pattern === mediaType) return true;
  const [top] = mediaType.split("/");
  return pattern === `${top}/*` || (mediaType === `${top}/*` && pattern.startsWith(`${top}/`));
}

/** Returns the media type of a file at an address, as exactly as the request says it. */
const mediaTypeOf = (part: MediaPart | DocumentPart): string =>
  part.type === "document" ? "application/pdf" : `${part.kind}/*`;

const TYPE_OF_KIND = { image: "image/jpeg", audio: "audio/wav", video: "video/mp4" } as const;

/** Guesses the exact media type of a file at an address from its name, because Google's provider refuses `image/*`. */
export function promisedType(url: string, part: MediaPart | DocumentPart): string {
  if (part.type === "document") return mediaTypeOf(part);
  const [, extension] = /\.(png|jpe?g|gif|webp|heic|heif)$/i.exec(new URL(url).pathname) ?? [];
  const otherwise = TYPE_OF_KIND[part.kind];
  if (!otherwise.startsWith("image/") || extension === undefined) return otherwise;
  return `image/${extension.toLowerCase().replace("jpg", "jpeg")}`;
}

/** Neutral names of the fields that providers call differently. */
const FIELD: ReadonlyMap<string, string> = new Map([
  ["thinking", "reasoning"],
  ["tool choice", "toolChoice"],
]);

/** Lists the conversions that a model's warnings name. Ignores values that are not warnings. */
export function conversionsOfWarnings(warnings: unknown): Conversion[] {
  if (!Array.isArray(warnings)) return [];
  return warnings.flatMap((warning: unknown): Conversion[] => {
    if (!isJsonObject(warning)) return [];
    const { type, feature, setting, details, message } = warning;
    const name = [feature, setting].find((text) => typeof text === "string") ?? "request";
    const why = [details, message].find((text) => typeof text === "string") ?? "The model does not support it.";
    const conversion = { field: FIELD.get(name) ?? name.slice(0, 100), why: why.slice(0, 500) };
    if (type === "compatibility" || type === "other") return [{ ...conversion, conversion: "approximated" }];
    return typeof type === "string" && type.startsWith("unsupported") ? [{ ...conversion, conversion: "dropped" }] : [];
  });
}
