/** The image answer as a stream: unfinished pictures on the way, and an event for each that is complete. */

import { toBase64 } from "../../media/base64.ts";
import type { ImageAnswerEvent, ImageOperation, ImageUsage } from "../../model/image.ts";
import { type Answering, encodeImage, encodeUsage } from "./response.ts";

/** How the events of an operation are called. */
const EVENT_NAME: Readonly<Record<ImageOperation, string>> = {
  generate: "image_generation",
  edit: "image_edit",
  vary: "image_variation",
};

export const frameText = (event: string, data: object): string => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

/** A comment, which every reader of this format skips. */
export const KEEP_ALIVE = ": keep-alive\n\n";

const NOTHING_YET: ImageUsage = { inputTextTokens: 0, inputImageTokens: 0, outputTokens: 0 };

/** Writes the frames of one answer. */
export class StreamEncoder {
  readonly #answering: Answering;
  readonly #name: string;
  /** The newest picture, of a model that tells its usage: the last is written with all of that, which is known at the end. */
  #last: Extract<ImageAnswerEvent, { type: "image" }> | undefined;

  constructor(answering: Answering) {
    this.#answering = answering;
    this.#name = EVENT_NAME[answering.request.operation];
  }

  encode(event: ImageAnswerEvent): string {
    switch (event.type) {
      case "start":
        return "";
      case "partial-image": {
        const picture = { b64_json: toBase64(event.bytes), partial_image_index: event.step };
        return this.#frame("partial_image", { ...picture, ...this.#traits(event.mediaType) });
      }
      case "image": {
        if (!this.#answering.tellsUsage) return this.#completed(event);
        const before = this.rest();
        this.#last = event;
        return before;
      }
      case "finish":
        return this.rest(event.usage);
    }
  }

  /** The picture that is still to be written, with the usage so far: every reader of it looks there, and some add it up. */
  rest(usage: ImageUsage = NOTHING_YET): string {
    const last = this.#last;
    this.#last = undefined;
    return last ? this.#completed(last, { usage: encodeUsage(usage) }) : "";
  }

  #completed(image: Extract<ImageAnswerEvent, { type: "image" }>, traits: object = {}): string {
    // The data is always there: an event without it breaks the clients that read this stream.
    const { request } = this.#answering;
    const picture = encodeImage(image, request, request.delivery === "url" ? "both" : request.delivery);
    return this.#frame("completed", { ...picture, ...this.#traits(image.mediaType), ...traits });
  }

  #frame(kind: "partial_image" | "completed", data: object): string {
    const type = `${this.#name}.${kind}`;
    return frameText(type, { type, created_at: this.#answering.created, ...data });
  }

  #traits(mediaType: string): object {
    const { size, quality = "auto", background = "auto" } = this.#answering.request;
    return { size, quality, background, output_format: mediaType.replace("image/", "") };
  }
}
