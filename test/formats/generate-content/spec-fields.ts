/** Values of the generate-content format, typed from the rows of spec 2.8, 2.9 and 7.3. */

/** A list from words that are apart by spaces. */
const words = (...lines: readonly string[]): string[] => lines.flatMap((line) => line.split(" "));

export const HARM_CATEGORIES: readonly string[] = [
  "HARM_CATEGORY_HARASSMENT",
  "HARM_CATEGORY_HATE_SPEECH",
  "HARM_CATEGORY_SEXUALLY_EXPLICIT",
  "HARM_CATEGORY_DANGEROUS_CONTENT",
  "HARM_CATEGORY_CIVIC_INTEGRITY",
];

export const OLDER_HARM_CATEGORIES: readonly string[] = [
  "HARM_CATEGORY_UNSPECIFIED",
  "HARM_CATEGORY_DEROGATORY",
  "HARM_CATEGORY_TOXICITY",
  "HARM_CATEGORY_VIOLENCE",
  "HARM_CATEGORY_SEXUAL",
  "HARM_CATEGORY_MEDICAL",
  "HARM_CATEGORY_DANGEROUS",
];

export const HARM_THRESHOLDS: readonly string[] = words(
  "HARM_BLOCK_THRESHOLD_UNSPECIFIED BLOCK_LOW_AND_ABOVE BLOCK_MEDIUM_AND_ABOVE",
  "BLOCK_ONLY_HIGH BLOCK_NONE OFF",
);

export const SPEECH_LANGUAGES: readonly string[] = words(
  "zh-CN en-US ja-JP ko-KR fr-FR de-DE es-ES pt-BR hi-IN",
  "ar-XA it-IT tr-TR vi-VN th-TH ru-RU pl-PL nl-NL",
);

/** JPEG, PNG, WebP, HEIC, HEIF; WAV, MP3, AIFF, AAC, OGG, FLAC; MP4 and the other films; PDF. */
export const MEDIA_TYPES: readonly string[] = [
  ...["jpeg", "png", "webp", "heic", "heif"].map((format) => `image/${format}`),
  ...["wav", "mp3", "aiff", "aac", "ogg", "flac"].map((format) => `audio/${format}`),
  ...["mp4", "mpeg", "mov", "avi", "x-flv", "mpg", "webm", "wmv", "3gpp"].map((format) => `video/${format}`),
  "application/pdf",
];

/** Spec 7.3. */
export const ERROR_ROWS: readonly (readonly [status: number, name: string])[] = [
  [400, "INVALID_ARGUMENT"],
  [400, "FAILED_PRECONDITION"],
  [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"],
  [404, "NOT_FOUND"],
  [413, "PAYLOAD_TOO_LARGE"],
  [429, "RESOURCE_EXHAUSTED"],
  [500, "INTERNAL"],
  [503, "UNAVAILABLE"],
  [504, "DEADLINE_EXCEEDED"],
];
