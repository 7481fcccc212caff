/** The format's name, its enums (spec 2.8, 2.9), and small schemas that its other schemas are built from. */

import * as v from "valibot";
import { choice, object as anyObject } from "../../http/validation.ts";
import type { FinishReason, HarmProbability, PromptFeedback, RetrievedUrl } from "../../model/chat-event.ts";
import type {
  ChatRequest,
  CodeLanguage,
  CodeOutcome,
  HarmCategory,
  OutputModality,
  ReasoningEffort,
  SafetySetting,
} from "../../model/chat-request.ts";
import type { ModalityCount } from "../../model/usage.ts";
import { unsupported } from "../shared/schema.ts";

export const optionalText = v.nullish(v.string());

/** An object with these fields and any others. The type has only these fields, so that code cannot write another by mistake. */
export function object<const Entries extends v.ObjectEntries>(entries: Entries) {
  type Fields = v.ObjectSchema<Entries, undefined>;
  return anyObject(entries) as v.GenericSchema<v.InferInput<Fields>, v.InferOutput<Fields>>;
}

export const anything = v.unknown();

/** A field that the official service has and the spec does not. Its value is not checked; the name is listed to convert its spelling. */
export const carried = v.optional(anything);

/** A `carried` field whose value is an object of the official service. The fields of the object have two spellings too. */
export const carriedAs = (shape: v.GenericSchema) => v.optional(choice([shape, anything], () => anything));

/** A `carried` field that the neutral model cannot hold. */
export const unsupportedField = unsupported(carried);

/** Makes the schema of a list. Clients may send a single element without the list: the spelling walk puts it into one first. */
export const listOrOne = <const Items extends v.GenericSchema>(items: Items, one: v.GenericSchema) =>
  choice([items, one], () => items) as v.GenericSchema<unknown, v.InferOutput<Items>>;

/** Accepts one of several words in upper case. Clients also write them in lower case or capitalized. */
export function word(words: readonly string[]) {
  const message = `must be one of ${words.join(", ")}`;
  return v.pipe(
    v.string(message),
    v.check((input) => words.includes(input.toUpperCase()), message),
    v.metadata({ enum: words.flatMap((each) => [each, each.toLowerCase(), each[0] + each.slice(1).toLowerCase()]) }),
  );
}

/**
 * Returns the neutral word for a word on the wire; undefined for an unknown word. If several neutral words have the same word on the
 * wire, returns the first.
 *
 * @param table The word on the wire for each neutral word.
 */
export function readWord<Word extends string>(
  table: Readonly<Record<Word, string>>,
  wire: string | null | undefined,
): Word | undefined {
  for (const neutral in table) if (table[neutral] === wire) return neutral;
  return undefined;
}

/** The categories that a request can set. Ratings of answers may have other categories too. */
export const SETTABLE_CATEGORY = {
  harassment: "HARM_CATEGORY_HARASSMENT",
  "hate-speech": "HARM_CATEGORY_HATE_SPEECH",
  "sexually-explicit": "HARM_CATEGORY_SEXUALLY_EXPLICIT",
  "dangerous-content": "HARM_CATEGORY_DANGEROUS_CONTENT",
  "civic-integrity": "HARM_CATEGORY_CIVIC_INTEGRITY",
} as const satisfies Partial<Record<HarmCategory, string>>;

export const HARM_CATEGORY = {
  ...SETTABLE_CATEGORY,
  unspecified: "HARM_CATEGORY_UNSPECIFIED",
  derogatory: "HARM_CATEGORY_DEROGATORY",
  toxicity: "HARM_CATEGORY_TOXICITY",
  violence: "HARM_CATEGORY_VIOLENCE",
  sexual: "HARM_CATEGORY_SEXUAL",
  medical: "HARM_CATEGORY_MEDICAL",
  dangerous: "HARM_CATEGORY_DANGEROUS",
} as const satisfies Record<HarmCategory, string>;

export const THRESHOLD = {
  unspecified: "HARM_BLOCK_THRESHOLD_UNSPECIFIED",
  low: "BLOCK_LOW_AND_ABOVE",
  medium: "BLOCK_MEDIUM_AND_ABOVE",
  high: "BLOCK_ONLY_HIGH",
  none: "BLOCK_NONE",
  off: "OFF",
} as const satisfies Record<SafetySetting["threshold"], string>;

export const PROBABILITY = {
  unspecified: "HARM_PROBABILITY_UNSPECIFIED",
  negligible: "NEGLIGIBLE",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
} as const satisfies Record<HarmProbability, string>;

type BlockReason = NonNullable<PromptFeedback["blockReason"]>;

export const BLOCK_REASON = {
  unspecified: "BLOCK_REASON_UNSPECIFIED",
  safety: "SAFETY",
  other: "OTHER",
  blocklist: "BLOCKLIST",
  "prohibited-content": "PROHIBITED_CONTENT",
  "unsafe-image": "IMAGE_SAFETY",
} as const satisfies Record<BlockReason, string>;

/** Block reasons that the official service has and the spec does not. They are read, but never written. */
const MORE_BLOCK_REASONS: ReadonlyMap<string, BlockReason> = new Map([
  ["BLOCKED_REASON_UNSPECIFIED", "unspecified"],
  ["JAILBREAK", "prohibited-content"],
  ["MODEL_ARMOR", "safety"],
]);

/** Reads a block reason. An unknown reason is `other`: the prompt was blocked all the same. */
export const readBlockReason = (wire: string): BlockReason =>
  readWord(BLOCK_REASON, wire) ?? MORE_BLOCK_REASONS.get(wire) ?? "other";

/** The reason why the answer to a blocked prompt ended. */
export const BLOCKED_FINISH = {
  unspecified: "content-filter",
  safety: "content-filter",
  other: "content-filter",
  blocklist: "blocklist",
  "prohibited-content": "prohibited-content",
  "unsafe-image": "unsafe-image",
} as const satisfies Record<BlockReason, FinishReason>;

export const URL_STATUS = {
  unspecified: "URL_RETRIEVAL_STATUS_UNSPECIFIED",
  success: "URL_RETRIEVAL_STATUS_SUCCESS",
  error: "URL_RETRIEVAL_STATUS_ERROR",
} as const satisfies Record<RetrievedUrl["status"], string>;

export const LANGUAGE = {
  unspecified: "LANGUAGE_UNSPECIFIED",
  python: "PYTHON",
} as const satisfies Record<CodeLanguage, string>;

export const OUTCOME = {
  unspecified: "OUTCOME_UNSPECIFIED",
  ok: "OUTCOME_OK",
  failed: "OUTCOME_FAILED",
  "deadline-exceeded": "OUTCOME_DEADLINE_EXCEEDED",
} as const satisfies Record<CodeOutcome, string>;

export const OUTPUT_MODALITY = {
  text: "TEXT",
  image: "IMAGE",
  audio: "AUDIO",
} as const satisfies Record<OutputModality, string>;

export const MODALITY = {
  ...OUTPUT_MODALITY,
  unspecified: "MODALITY_UNSPECIFIED",
  video: "VIDEO",
  document: "DOCUMENT",
} as const satisfies Record<ModalityCount["modality"], string>;

export const MEDIA_RESOLUTION = {
  low: "MEDIA_RESOLUTION_LOW",
  medium: "MEDIA_RESOLUTION_MEDIUM",
  high: "MEDIA_RESOLUTION_HIGH",
} as const satisfies Record<NonNullable<ChatRequest["mediaResolution"]>, string>;

/** The levels of thinking. The official service has them in addition to the spec's budgets. */
export const THINKING_LEVEL = {
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "XHIGH",
  max: "XHIGH",
} as const satisfies Record<ReasoningEffort, string>;

/** The wire reason for each finish reason. `STOP` also stands for a stop sequence and for tool calls. */
export const FINISH_REASON = {
  stop: "STOP",
  "stop-sequence": "STOP",
  "tool-calls": "STOP",
  length: "MAX_TOKENS",
  "content-filter": "SAFETY",
  recitation: "RECITATION",
  language: "LANGUAGE",
  other: "OTHER",
  blocklist: "BLOCKLIST",
  "prohibited-content": "PROHIBITED_CONTENT",
  "personal-data": "SPII",
  "malformed-tool-call": "MALFORMED_FUNCTION_CALL",
  "unsafe-image": "IMAGE_SAFETY",
  pause: "OTHER",
  refusal: "SAFETY",
  "context-window": "MAX_TOKENS",
} as const satisfies Record<FinishReason, string>;

/** Finish reasons that the official service has and the spec does not. They are read, but never written. */
const MORE_FINISH_REASONS: ReadonlyMap<string, FinishReason> = new Map([
  ["UNEXPECTED_TOOL_CALL", "malformed-tool-call"],
  ["TOO_MANY_TOOL_CALLS", "malformed-tool-call"],
  ["IMAGE_PROHIBITED_CONTENT", "unsafe-image"],
  ["IMAGE_RECITATION", "recitation"],
  ["MODEL_ARMOR", "content-filter"],
  ["CONTINUATION", "length"],
]);

export const readFinishReason = (wire: string): FinishReason =>
  readWord(FINISH_REASON, wire) ?? MORE_FINISH_REASONS.get(wire) ?? "other";
