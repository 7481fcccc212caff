/** Estimates the tokens of pictures, documents, sounds and films as the vendors publish them: the largest, for the backend's is unknown. */

import { Base64File } from "../media/base64.ts";
import { pdfPages, pictureSize, recordingSeconds } from "../media/extent.ts";
import type { ImageSize } from "../media/size.ts";
import type { ChatRequest, MediaPart, MediaSource } from "../model/chat.ts";

/**
 * The most tokens of one picture, and what one is taken to cost whose size is unknown: one at an address, in a provider's store, or in a
 * format without a size in its header. OpenAI cuts a picture of `detail: "original"` into 10,000 patches at most
 * (developers.openai.com, guide "Images and vision", model sizing behavior).
 */
const MOST_PICTURE_TOKENS = 10_000;

/**
 * Anthropic: a token for each patch of 28 × 28 pixels, width × height / 784 (older documents: / 750), of a picture that is made smaller to
 * 4,784 of them (models of up to 2,576 pixels a side) or 1,568 (platform.claude.com, "Images and vision", image costs).
 */
const ANTHROPIC = { side: 28, most: 4_784 };

/**
 * OpenAI, models of patches: 32 × 32 pixels each, up to the most above, or up to 1,536 that count 2.46 times in the smallest models
 * (developers.openai.com, "Images and vision", calculating costs). gpt-4o-mini alone counts 33 times what the others do: it is left out.
 */
const OPENAI_PATCH = { side: 32, most: MOST_PICTURE_TOKENS, multiplied: 1_536, times: 2.46 };

/**
 * OpenAI, models of tiles: within 2,048 × 2,048 and then 768 pixels for the shorter side, 85 tokens and 170 for each tile of
 * 512 × 512 (same page).
 */
const OPENAI_TILE = { fit: 2_048, shorter: 768, side: 512, base: 85, each: 170 };

/**
 * Google: 258 tokens for each tile of Gemini 2, whose side is two thirds of the shorter side of the picture, from 256 to 768 pixels
 * (ai.google.dev, "Image understanding", token calculation); 1,120 a picture for Gemini 3 (ai.google.dev, "Media resolution", token counts).
 */
const GOOGLE = { tile: 258, smallest: 256, largest: 768, share: 1 / 1.5, picture: 1_120 };

/**
 * A page of a PDF. Anthropic: up to 3,000 tokens of text, and the page as a picture, 1,568 (platform.claude.com, "PDF support", estimate
 * your costs). Google counts 258 to 1,120 (ai.google.dev, "Document understanding", "Media resolution").
 */
const PAGE_TOKENS = 3_000 + 1_568;
/** The most pages that Google takes of one document ("Document understanding", limitations). */
const MOST_PAGES = 1_000;
/** Bytes of a page where a PDF's objects are compressed and tell no number of pages: a guess. */
const PAGE_BYTES = 32 * 1024;
/** Pages of a document that nobody has fetched: the most that Anthropic takes for a window of 200,000 tokens ("PDF support", requirements). */
const LINKED_PAGES = 100;
/** Documents that are text, and how many bytes of them are taken for a token. */
const TEXT_TYPE = /^(?:text\/|application\/json)/i;
const TEXT_BYTES = 3;

/**
 * Tokens a second. Google: 32 of sound; 263 of film, in its newer documents about 300 with its sound (ai.google.dev, "Understand and count
 * tokens", "Video understanding"). OpenAI counts 10 of sound (developers.openai.com, "Managing costs" of realtime).
 */
const A_SECOND = { audio: 32, video: 300 };
/** Bytes a second: the most that is believed of a header, and the fewest, taken where a header tells nothing. */
const RATES = {
  audio: { most: 1_600_000, fewest: 4_000 },
  video: { most: 12_500_000, fewest: 32_000 },
};
/** Raw samples, which have no header: 16 bits each. */
const RAW_AUDIO = /^audio\/(?:pcm|l16)(?:;.*?\brate=(\d{4,6}))?/i;
const RAW_RATE_HZ = 16_000;

/** The most tokens of a sound or a film, also of one that nobody has fetched: the largest window, which is Google's. */
const MOST_RECORDING_TOKENS = 1_048_576;

/** The most files of a request whose headers are read; further ones count as if nobody had fetched them. Vendors take 600 at most. */
const MOST_FILES = 600;

/** Tokens of a picture by the resolution that a caller of generate-content names (spec 8, MediaResolution). */
const RESOLUTION_TOKENS = { low: 64, medium: 256, high: 256 };

/** Estimates the media of one request. */
export class MediaEstimate {
  readonly #pictureTokens: number | undefined;
  #files = 0;

  /** @param resolution Counts each picture as the caller's format says for this resolution, whatever its pixels. */
  constructor(resolution?: ChatRequest["mediaResolution"]) {
    this.#pictureTokens = resolution && RESOLUTION_TOKENS[resolution];
  }

  /** Returns the tokens of a picture, a sound or a film. */
  mediaTokens({ kind, source }: MediaPart): number {
    if (kind === "image" && this.#pictureTokens !== undefined) return this.#pictureTokens;
    const file = this.#fileOf(source);
    if (kind !== "image")
      return file
        ? Math.min(MOST_RECORDING_TOKENS, secondsOf(file, kind, source) * A_SECOND[kind])
        : MOST_RECORDING_TOKENS;
    const size = file && pictureSize(file);
    return size ? pictureTokens(size) : MOST_PICTURE_TOKENS;
  }

  /** Returns the tokens of a document that is a file. */
  documentTokens(source: MediaSource): number {
    const file = this.#fileOf(source);
    if (!file) return LINKED_PAGES * PAGE_TOKENS;
    if (source.type === "base64" && TEXT_TYPE.test(source.mediaType)) return file.length / TEXT_BYTES;
    const pages = pdfPages(file) ?? Math.ceil(file.length / PAGE_BYTES);
    return Math.min(MOST_PAGES, Math.max(1, pages)) * PAGE_TOKENS;
  }

  #fileOf(source: MediaSource): Base64File | undefined {
    return source.type === "base64" && this.#files++ < MOST_FILES ? new Base64File(source.data) : undefined;
  }
}

function pictureTokens({ width, height }: ImageSize): number {
  const squares = (side: number): number => Math.ceil(width / side) * Math.ceil(height / side);
  const patches = squares(OPENAI_PATCH.side);
  const shorter = Math.min(width, height);
  const { smallest, largest, share } = GOOGLE;
  const all = [
    Math.min(squares(ANTHROPIC.side), ANTHROPIC.most),
    Math.min(patches, OPENAI_PATCH.most),
    Math.min(patches, OPENAI_PATCH.multiplied) * OPENAI_PATCH.times,
    openaiTiles({ width, height }),
    squares(Math.min(largest, Math.max(smallest, Math.floor(shorter * share)))) * GOOGLE.tile,
    GOOGLE.picture,
  ];
  return Math.min(MOST_PICTURE_TOKENS, Math.max(...all));
}

function openaiTiles({ width, height }: ImageSize): number {
  const { fit, shorter, side, base, each } = OPENAI_TILE;
  const within = Math.min(1, fit / Math.max(width, height));
  const scale = within * Math.min(1, shorter / (Math.min(width, height) * within));
  return base + each * Math.ceil((width * scale) / side) * Math.ceil((height * scale) / side);
}

function secondsOf(file: Base64File, kind: "audio" | "video", source: MediaSource): number {
  const { most, fewest } = RATES[kind];
  const raw = source.type === "base64" ? RAW_AUDIO.exec(source.mediaType) : null;
  const told = raw ? file.length / (2 * (Number(raw[1]) || RAW_RATE_HZ)) : recordingSeconds(file);
  return Math.max(told ?? file.length / fewest, file.length / most);
}
