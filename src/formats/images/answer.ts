/** Encodes image answers (spec 2.4), complete or as a stream of events. */

import type * as v from "valibot";
import { toBase64 } from "../../media/base64.ts";
import type { ImageAnswerEvent, ImageMediaType, ImageOperation, ImageRequest, ImageTraits } from "../../model/image.ts";
import { given, isJsonObject, jsonLine } from "../../model/json.ts";
import { nativeUsage } from "../../model/usage.ts";
import type { AnswerCollector, AnswerStream } from "../format.ts";
import { encodeError } from "../shared/errors.ts";
import { FORMAT } from "./routes.ts";
import type { ImageObject, ImagesAnswer, ImagesUsage } from "./schema.ts";

type WireAnswer = v.InferOutput<typeof ImagesAnswer>;
type WireImage = v.InferOutput<typeof ImageObject>;
type WireUsage = v.InferOutput<typeof ImagesUsage>;
type CountedImages = Pick<Extract<ImageAnswerEvent, { type: "finish" }>, "usage" | "native">;
type FinishedImage = Extract<ImageAnswerEvent, { type: "image" }>;

/**
 * Collects the events of one answer into its body.
 *
 * @param created Unix time in seconds.
 * @param tellsUsage Reports the token counts in the answer.
 */
export function answerCollector(
  request: ImageRequest,
  created: number,
  tellsUsage: boolean,
): AnswerCollector<ImageAnswerEvent> {
  const body: WireAnswer = { created, data: [] };
  return {
    add(event) {
      if (event.type === "image") {
        body.data.push(encodeImage(event, request, request.delivery !== "url"));
        // Only an upstream knows these. The answer has them once, for all images.
        const traits = traitsOf(event);
        if (Object.keys(traits).length > 0) Object.assign(body, traits, { output_format: formatOf(event) });
      }
      if (event.type === "finish" && tellsUsage) body.usage = encodeUsage(event);
    },
    body: () => body,
  };
}

const EVENT_NAME: Readonly<Record<ImageOperation, string>> = {
  generate: "image_generation",
  edit: "image_edit",
  vary: "image_variation",
};

const NO_USAGE: CountedImages = { usage: { inputTextTokens: 0, inputImageTokens: 0, outputTokens: 0 } };

/** Encodes the events of one answer as a stream. The parameters are those of `answerCollector`. */
export function answerStream(
  request: ImageRequest,
  created: number,
  tellsUsage: boolean,
): AnswerStream<ImageAnswerEvent> {
  const asked = { size: request.size, quality: request.quality ?? "auto", background: request.background ?? "auto" };
  /** The newest picture, if the model reports usage. It waits because the last picture is written with the usage of all pictures. */
  let held: FinishedImage | undefined;

  const frame = (kind: "partial_image" | "completed", image: Shown, picture: object, usage?: object): string => {
    const type = `${EVENT_NAME[request.operation]}.${kind}`;
    const traits = { ...asked, ...traitsOf(image), output_format: formatOf(image) };
    return frameText(type, { type, created_at: created, ...picture, ...traits, ...usage });
  };
  // Always include the data, even if a URL was requested: clients of this stream break on an event without data.
  const completed = (image: FinishedImage, usage?: object): string =>
    frame("completed", image, encodeImage(image, request, true), usage);
  // Every event must have a usage, and some clients add them up. Therefore only the last event has the real usage; the others have zeros.
  const release = (usage = NO_USAGE): string => {
    const image = held;
    held = undefined;
    return image ? completed(image, { usage: encodeUsage(usage) }) : "";
  };

  return {
    contentType: "text/event-stream; charset=utf-8",
    keepAlive: ": keep-alive\n\n",
    encode(event) {
      switch (event.type) {
        case "start":
          return "";
        case "partial-image": {
          const picture = { b64_json: toBase64(event.bytes), partial_image_index: event.step };
          return frame("partial_image", event, picture);
        }
        case "image": {
          if (!tellsUsage) return completed(event);
          const before = release();
          held = event;
          return before;
        }
        case "finish":
          return release(event);
      }
    },
    error: (error) => release() + frameText("error", encodeError(error)),
  };
}

type Shown = ImageTraits & { readonly mediaType: ImageMediaType };
type WireFormat = NonNullable<WireAnswer["output_format"]>;

const traitsOf = ({ size, quality, background }: ImageTraits): ImageTraits => given({ size, quality, background });

const formatOf = ({ mediaType }: Shown): WireFormat => mediaType.replace("image/", "") as WireFormat;

const frameText = (event: string, data: object): string => `event: ${event}\ndata: ${jsonLine(data)}\n\n`;

const encodeImage = (
  { bytes, url, revisedPrompt }: FinishedImage,
  { prompt }: ImageRequest,
  withData: boolean,
): WireImage => ({
  ...(url !== undefined && { url }),
  ...(withData && { b64_json: toBase64(bytes) }),
  // Leave out the prompt if the model has not changed it (spec 2.4).
  ...(typeof revisedPrompt === "string" && revisedPrompt !== prompt && { revised_prompt: revisedPrompt }),
});

/** Encodes the counts. Keeps the other fields of an upstream of the same format. */
function encodeUsage(counted: CountedImages): WireUsage {
  const { inputTextTokens, inputImageTokens, outputTokens } = counted.usage;
  const native = nativeUsage(counted, FORMAT);
  const details = native?.["input_tokens_details"];
  return {
    ...native,
    total_tokens: inputTextTokens + inputImageTokens + outputTokens,
    input_tokens: inputTextTokens + inputImageTokens,
    output_tokens: outputTokens,
    input_tokens_details: {
      ...(isJsonObject(details) && details),
      text_tokens: inputTextTokens,
      image_tokens: inputImageTokens,
    },
  };
}
