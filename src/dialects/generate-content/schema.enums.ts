/** The format's enums (spec 2.8, 2.9), each a table from the neutral word to the one on the wire. */

import type { HarmProbability, PromptFeedback, RetrievedUrl } from "../../model/annotation.ts";
import type {
  ChatRequest,
  CodeLanguage,
  CodeOutcome,
  HarmCategory,
  OutputModality,
  SafetySetting,
} from "../../model/chat.ts";
import type { FinishReason } from "../../model/event.ts";
import type { ModalityCount } from "../../model/usage.ts";

/** The categories that a request can set; answers are rated for the others too. */
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

export const BLOCK_REASON = {
  unspecified: "BLOCK_REASON_UNSPECIFIED",
  safety: "SAFETY",
  other: "OTHER",
  blocklist: "BLOCKLIST",
  "prohibited-content": "PROHIBITED_CONTENT",
  "unsafe-image": "IMAGE_SAFETY",
} as const satisfies Record<NonNullable<PromptFeedback["blockReason"]>, string>;

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

/** The format tells an end by a stop sequence, or for tool calls, from no other. */
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

/** The languages that an answer can be spoken in. */
export const SPEECH_LANGUAGES = [
  "zh-CN",
  "en-US",
  "ja-JP",
  "ko-KR",
  "fr-FR",
  "de-DE",
  "es-ES",
  "pt-BR",
  "hi-IN",
  "ar-XA",
  "it-IT",
  "tr-TR",
  "vi-VN",
  "th-TH",
  "ru-RU",
  "pl-PL",
  "nl-NL",
] as const;

/** The words on the wire of a table, for a schema. */
export const wireWords = <Wire extends string>(table: Readonly<Record<string, Wire>>): Wire[] => Object.values(table);

/** A table read from the wire; the first neutral word counts where several are written alike. */
export const fromWire = <Word extends string>(table: Readonly<Record<Word, string>>): ReadonlyMap<string, Word> =>
  new Map(
    Object.entries<string>(table)
      .map(([word, wire]): [string, Word] => [wire, word as Word])
      .toReversed(),
  );
