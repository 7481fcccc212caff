/**
 * Estimates the tokens of a chat request's input. Files are counted by the rules that vendors publish. The gateway does not know the
 * backend's vendor, so it uses the largest count of all vendors.
 */

import { Base64File } from "../../media/base64.ts";
import { pdfPages, pictureSize, recordingSeconds } from "../../media/extent.ts";
import { isTextType } from "../../media/media-type.ts";
import type { ImageSize } from "../../media/picture.ts";
import type {
  ChatMessage,
  ChatRequest,
  DocumentPart,
  JsonPart,
  MediaPart,
  MediaSource,
  Part,
  Tool,
} from "../../model/chat-request.ts";
import { derived, listedIn, type ListedValue } from "../../model/derived.ts";
import {
  assertTokens,
  type CountTokens,
  countTokensByScript,
  encryptedTokens,
  sampledTokens,
} from "../count-tokens.ts";

/** The tokens of a picture for each resolution that a caller of generate-content can choose (spec 8, MediaResolution). */
const RESOLUTION_TOKENS = { low: 64, medium: 256, high: 256 };

/** The state of the estimate of one request. */
interface Estimate {
  readonly countTokens: CountTokens;
  /** The tokens of each picture, if fixed; undefined if each picture is counted by its pixels. */
  readonly pictureTokens: number | undefined;
  /** The number of files whose headers were read. */
  files: number;
  /** Takes the counts of a turn's or a tool's texts, if they are known. */
  readonly takesKnown?: (value: ChatMessage | Tool, listed: ListedValue | undefined) => boolean;
}

/**
 * Counts the tokens of a request's whole input for a caller who asks for the count, at least 1. Each picture has the tokens that the caller's
 * format counts at the resolution that the request names.
 */
export function countInputTokens(request: ChatRequest, countTokens: CountTokens): number {
  const { mediaResolution: resolution } = request;
  return whole(
    inputTokens(request, { countTokens, pictureTokens: resolution && RESOLUTION_TOKENS[resolution], files: 0 }),
  );
}

/**
 * Estimates the tokens of a request's whole input for a hold, at least 1. Each picture has the largest count of all vendors. Only a sample of a
 * long input is counted, unless the host has a count of its own. What earlier calls have sent was counted then.
 */
export function estimateInputTokens(request: ChatRequest, countTokens: CountTokens): number {
  if (countTokens !== countTokensByScript)
    return whole(inputTokens(request, { countTokens, pictureTokens: undefined, files: 0 }));
  const texts: (string | number)[] = [];
  const collect = (text: string): number => {
    texts.push(text);
    return 0;
  };
  const takesKnown: Estimate["takesKnown"] = (value, listed) => {
    const counts = listed?.results && countsOf(value, listed);
    if (!counts) return false;
    for (const count of counts) texts.push(count);
    return true;
  };
  const others = inputTokens(request, { countTokens: collect, pictureTokens: undefined, files: 0, takesKnown });
  return whole(others + sampledTokens(texts));
}

/** Returns the tokens of each text of a turn or a tool; false if the turn has other content, such as files. */
const countsOf = derived((value: ChatMessage | Tool): readonly number[] | false => {
  const counts: number[] = [];
  const countTokens = (text: string): number => {
    counts.push(countTokensByScript(text));
    return 0;
  };
  const estimate: Estimate = { countTokens, pictureTokens: undefined, files: 0 };
  const others = "role" in value ? sumOf(value.parts, estimate) : toolTokens(value, estimate);
  return others === 0 && estimate.files === 0 && counts;
});

const whole = (tokens: number): number => Math.max(1, Math.ceil(assertTokens(tokens)));

function inputTokens(request: ChatRequest, estimate: Estimate): number {
  const { countTokens, takesKnown } = estimate;
  let tokens = 0;
  for (const part of request.system) tokens += countTokens(part.text);
  const { messages, tools } = request;
  const [turns, ofTools] = [listedIn(messages), listedIn(tools)];
  for (const [index, message] of messages.entries())
    if (!(turns && takesKnown?.(message, turns[index]))) tokens += sumOf(message.parts, estimate);
  for (const [index, tool] of tools.entries())
    if (!(ofTools && takesKnown?.(tool, ofTools[index]))) tokens += toolTokens(tool, estimate);
  if (request.responseFormat) tokens += countTokens(JSON.stringify(request.responseFormat));
  return tokens;
}

function toolTokens(tool: Tool, { countTokens }: Estimate): number {
  if (tool.type === "provider") return countTokens(JSON.stringify(tool.definition));
  if (tool.type !== "function") return 0;
  return countTokens(tool.name) + countTokens(tool.description ?? "") + countTokens(JSON.stringify(tool.inputSchema));
}

/** Estimates the tokens of parts without their request. */
export const partsTokens = (parts: readonly Part[], countTokens: CountTokens): number =>
  sumOf(parts, { countTokens, pictureTokens: undefined, files: 0 });

function partTokens(part: Part | JsonPart, estimate: Estimate): number {
  const { countTokens } = estimate;
  switch (part.type) {
    case "text":
    case "reasoning":
    case "refusal":
      return countTokens(part.text);
    case "media":
      return mediaTokens(part, estimate);
    case "document":
      return documentTokens(part, estimate);
    case "tool-call":
      return countTokens(part.name) + countTokens(JSON.stringify(part.input));
    case "tool-result":
      return sumOf(part.parts, estimate);
    case "redacted-reasoning":
      return encryptedTokens(part.data);
    case "code":
      return countTokens(part.code);
    case "code-result":
      return countTokens(part.output ?? "");
    case "json":
    case "provider":
      return countTokens(JSON.stringify(part.value));
  }
}

function sumOf(parts: readonly (Part | JsonPart)[], estimate: Estimate): number {
  let tokens = 0;
  for (const part of parts) tokens += partTokens(part, estimate);
  return tokens;
}

/**
 * The most files of a request whose headers are read. Further files get the estimate for an unread file. Vendors accept at most 600 files.
 */
const MAX_FILES = 600;

/**
 * Returns the file if its headers can be read. Returns undefined for a file that is not in the request, and for files beyond `MAX_FILES`.
 */
function fileOf(source: MediaSource, estimate: Estimate): Base64File | undefined {
  return source.type === "base64" && estimate.files++ < MAX_FILES ? new Base64File(source.data) : undefined;
}

/**
 * The tokens of a page of a PDF. Anthropic: up to 3,000 tokens of text, and 1,568 for the page as a picture (platform.claude.com, "PDF
 * support", estimate your costs). Google counts 258 to 1,120 (ai.google.dev, "Document understanding", "Media resolution").
 */
const PAGE_TOKENS = 3_000 + 1_568;
/** The most pages that Google accepts in one document ("Document understanding", limitations). */
const MAX_PAGES = 1_000;
/** The assumed bytes of a page, for a PDF whose number of pages is hidden in compressed objects. */
const PAGE_BYTES = 32 * 1024;
/**
 * The assumed pages of a document that was not read: the most that Anthropic accepts for a window of 200,000 tokens ("PDF support",
 * requirements).
 */
const UNREAD_PAGES = 100;
/** The bytes of a document of plain text for one token. */
const TEXT_BYTES = 3;

function documentTokens({ source, title, context }: DocumentPart, estimate: Estimate): number {
  const { countTokens } = estimate;
  const around = countTokens(title ?? "") + countTokens(context ?? "");
  if (source.type === "text") return around + countTokens(source.text);
  if (source.type === "parts") return around + sumOf(source.parts, estimate);
  const file = fileOf(source, estimate);
  if (!file) return around + UNREAD_PAGES * PAGE_TOKENS;
  if (source.type === "base64" && isTextType(source.mediaType)) return around + file.length / TEXT_BYTES;
  const pages = pdfPages(file) ?? Math.ceil(file.length / PAGE_BYTES);
  return around + Math.min(MAX_PAGES, Math.max(1, pages)) * PAGE_TOKENS;
}

/**
 * The most tokens of one picture. Also the tokens of a picture of unknown size: the picture is at a URL or in a provider's store, or its
 * header has no size. OpenAI cuts a picture of `detail: "original"` into at most 10,000 patches (developers.openai.com, guide "Images and
 * vision", model sizing behavior).
 */
const MAX_PICTURE_TOKENS = 10_000;

/**
 * Anthropic: a token for each patch of 28 × 28 pixels, width × height / 784 (older documents: / 750). Anthropic scales a picture down to
 * 4,784 patches (models of up to 2,576 pixels a side) or 1,568 (platform.claude.com, "Images and vision", image costs).
 */
const ANTHROPIC = { side: 28, most: 4_784 };

/**
 * OpenAI, models that count patches of 32 × 32 pixels, up to `MAX_PICTURE_TOKENS`. The smallest models count up to 1,536 patches, with 2.46
 * tokens for each patch (developers.openai.com, "Images and vision", calculating costs). gpt-4o-mini counts 33 times as many tokens as the
 * others, and is left out.
 */
const OPENAI_PATCH = { side: 32, most: MAX_PICTURE_TOKENS, multiplied: 1_536, times: 2.46 };

/**
 * OpenAI, models that count tiles: the picture is scaled down to fit 2,048 × 2,048 pixels, then to 768 pixels on the shorter side. It costs
 * 85 tokens, and 170 for each tile of 512 × 512 (same page).
 */
const OPENAI_TILE = { fit: 2_048, shorter: 768, side: 512, base: 85, each: 170 };

/**
 * Google, Gemini 2: 258 tokens for each tile. The side of a tile is two thirds of the picture's shorter side, from 256 to 768 pixels
 * (ai.google.dev, "Image understanding", token calculation). Gemini 3: 1,120 tokens for each picture (ai.google.dev, "Media resolution",
 * token counts).
 */
const GOOGLE = { tile: 258, smallest: 256, largest: 768, share: 1 / 1.5, picture: 1_120 };

function pictureTokens({ width, height }: ImageSize): number {
  const squares = (side: number): number => Math.ceil(width / side) * Math.ceil(height / side);
  const patches = squares(OPENAI_PATCH.side);
  const shorter = Math.min(width, height);
  const { smallest, largest, share } = GOOGLE;
  const largestCount = Math.max(
    Math.min(squares(ANTHROPIC.side), ANTHROPIC.most),
    Math.min(patches, OPENAI_PATCH.most),
    Math.min(patches, OPENAI_PATCH.multiplied) * OPENAI_PATCH.times,
    openaiTileTokens({ width, height }),
    squares(Math.min(largest, Math.max(smallest, Math.floor(shorter * share)))) * GOOGLE.tile,
    GOOGLE.picture,
  );
  return Math.min(MAX_PICTURE_TOKENS, largestCount);
}

function openaiTileTokens({ width, height }: ImageSize): number {
  const { fit, shorter, side, base, each } = OPENAI_TILE;
  const within = Math.min(1, fit / Math.max(width, height));
  const scale = within * Math.min(1, shorter / (Math.min(width, height) * within));
  return base + each * Math.ceil((width * scale) / side) * Math.ceil((height * scale) / side);
}

/**
 * The tokens of one second of a recording. Google: 32 for sound; 263 for film, and about 300 with its sound in newer documents
 * (ai.google.dev, "Understand and count tokens", "Video understanding"). OpenAI counts 10 for sound (developers.openai.com, "Managing
 * costs" of realtime).
 */
const SECOND_TOKENS = { audio: 32, video: 300 };
/**
 * The bytes of one second of a recording. `most`: a header that tells fewer seconds than this rate gives is not believed. `fewest`: the
 * assumed rate of a file whose header tells no length.
 */
const SECOND_BYTES = {
  audio: { most: 1_600_000, fewest: 4_000 },
  video: { most: 12_500_000, fewest: 32_000 },
};
/**
 * The most tokens of a recording: the largest context window of all models, which is Google's. Also the tokens of a recording that was not
 * read.
 */
const MAX_RECORDING_TOKENS = 1_048_576;
/** Matches media types of raw samples. Such files have no header: each sample has 16 bits, and the media type tells the rate. */
const RAW_AUDIO = /^audio\/(?:pcm|l16)(?:;.*?\brate=(\d{4,6}))?/i;
const RAW_RATE_HZ = 16_000;

/** Returns the bytes of one second of raw samples; undefined for any other type of media. */
function rawBytes(mediaType: string): number | undefined {
  const raw = RAW_AUDIO.exec(mediaType);
  return raw ? 2 * (Number(raw[1]) || RAW_RATE_HZ) : undefined;
}

/** Estimates the tokens of a sound in an answer, or of a piece of one, which has no header. */
export const soundTokens = ({ mediaType, data }: { readonly mediaType: string; readonly data: string }): number =>
  ((data.length * 3) / 4 / (rawBytes(mediaType) ?? SECOND_BYTES.audio.fewest)) * SECOND_TOKENS.audio;

function mediaTokens({ kind, source }: MediaPart, estimate: Estimate): number {
  if (kind === "image" && estimate.pictureTokens !== undefined) return estimate.pictureTokens;
  const file = fileOf(source, estimate);
  if (kind === "image") {
    const size = file && pictureSize(file);
    return size ? pictureTokens(size) : MAX_PICTURE_TOKENS;
  }
  if (!file) return MAX_RECORDING_TOKENS;
  const { most, fewest } = SECOND_BYTES[kind];
  const raw = source.type === "base64" ? rawBytes(source.mediaType) : undefined;
  const told = raw === undefined ? recordingSeconds(file) : file.length / raw;
  const seconds = Math.max(told ?? file.length / fewest, file.length / most);
  return Math.min(MAX_RECORDING_TOKENS, seconds * SECOND_TOKENS[kind]);
}
