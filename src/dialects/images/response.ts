/** The image answer (spec 2.4), complete: what was drawn, collected. */

import type { ImageAnswerEvent, ImageDelivery, ImageRequest, ImageUsage } from "../../model/image.ts";
import { toBase64 } from "../../media/base64.ts";

export interface ImagesResponse {
  created: number;
  data: ImageObject[];
  usage?: ImagesUsage;
}

export interface ImageObject {
  url?: string;
  b64_json?: string;
  revised_prompt?: string;
}

export interface ImagesUsage {
  total_tokens: number;
  input_tokens: number;
  output_tokens: number;
  input_tokens_details: { text_tokens: number; image_tokens: number };
}

/** How one request wants to be answered. */
export interface Answering {
  readonly request: ImageRequest;
  /** Unix time in seconds. */
  readonly created: number;
  /** Whether the answer tells the tokens that were used. */
  readonly tellsUsage: boolean;
}

/** A finished picture, in the form that the caller wants it. */
export const encodeImage = (
  { bytes, url, revisedPrompt }: Extract<ImageAnswerEvent, { type: "image" }>,
  { prompt }: Pick<ImageRequest, "prompt">,
  delivery: ImageDelivery,
): ImageObject => ({
  ...(url !== undefined && { url }),
  ...(delivery !== "url" && { b64_json: toBase64(bytes) }),
  // One that was not changed is not told (spec 2.4).
  ...(revisedPrompt !== undefined && revisedPrompt !== prompt && { revised_prompt: revisedPrompt }),
});

export const encodeUsage = ({ inputTextTokens, inputImageTokens, outputTokens }: ImageUsage): ImagesUsage => ({
  total_tokens: inputTextTokens + inputImageTokens + outputTokens,
  input_tokens: inputTextTokens + inputImageTokens,
  output_tokens: outputTokens,
  input_tokens_details: { text_tokens: inputTextTokens, image_tokens: inputImageTokens },
});

/** Collects the events of one answer into its body. */
export class AnswerCollector {
  readonly #answering: Answering;
  readonly #data: ImageObject[] = [];
  #usage: ImageUsage | undefined;

  constructor(answering: Answering) {
    this.#answering = answering;
  }

  add(event: ImageAnswerEvent): void {
    const { request } = this.#answering;
    if (event.type === "image") this.#data.push(encodeImage(event, request, request.delivery));
    if (event.type === "finish") this.#usage = event.usage;
  }

  body(): ImagesResponse {
    const { created, tellsUsage } = this.#answering;
    return { created, data: this.#data, ...(tellsUsage && this.#usage && { usage: encodeUsage(this.#usage) }) };
  }
}
