/** Relays calls to an upstream, such as a provider or a local model server. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { chatCompletionsCodec } from "../../formats/chat-completions/index.ts";
import { embeddingsCodec } from "../../formats/embeddings/index.ts";
import type { ChatCodec, CodecOptions, EmbeddingCodec } from "../../formats/format.ts";
import { generateContentCodec, generateContentEmbeddings } from "../../formats/generate-content/index.ts";
import { messagesCodec } from "../../formats/messages/index.ts";
import { responsesCodec } from "../../formats/responses/index.ts";
import { assertOptions } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { assertHangUp } from "../backend.ts";
import { chatRelay } from "./chat.ts";
import { checkUpstream } from "./check.ts";
import { embeddingRelay } from "./embeddings.ts";
import { imageRelay } from "./images.ts";
import { codecOptions, RELAY_SHAPES, type RelayBackend, type RelayFormat, type RelayOptions } from "./options.ts";
import { Upstream } from "./upstream.ts";

export {
  type CheckOptions,
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  type EmbeddingBatches,
  type NamePolicy,
  type RelayBackend,
  type RelayCheck,
  type RelayFormat,
  type RelayLimits,
  type RelayModels,
  type RelayOptions,
  type RelayTimeouts,
} from "./options.ts";
export type { Fetch } from "./transport.fetch.ts";

const CODECS = {
  messages: messagesCodec,
  "generate-content": generateContentCodec,
  "chat-completions": chatCompletionsCodec,
  responses: responsesCodec,
} as const satisfies Record<Exclude<RelayFormat, "images">, (options: CodecOptions) => ChatCodec>;

/** The codec for embeddings of each format whose upstreams have embeddings too. */
const EMBEDDING_CODECS: Partial<Record<RelayFormat, EmbeddingCodec>> = {
  "generate-content": generateContentEmbeddings,
  "chat-completions": embeddingsCodec,
};

/**
 * Makes a backend from an upstream that speaks one of the chat formats or the images format. A caller of the same format gets the
 * upstream's answer unchanged, with unknown fields. A caller of another format gets the answer in its own format; the headers
 * `polygate-dropped` and `polygate-approximated` name the request fields that the upstream's format cannot express. When an images
 * upstream answers with addresses, the relay fetches the pictures, but only from the upstream's own origin and from `imageOrigins`.
 * Upstreams of chat-completions and generate-content also embed (`/embeddings`, `:batchEmbedContents`).
 * Throws a TypeError for wrong options, and a RangeError for a wrong timeout or limit.
 *
 * @example
 * const backend = relay({ format: "messages", baseUrl: "https://api.example.com/v1", apiKey: process.env.UPSTREAM_KEY });
 */
export function relay(
  options: RelayOptions & { readonly format: "images" },
): Omit<RelayBackend, "image"> & { readonly image: NonNullable<ModelBackend["image"]> };
export function relay(
  options: RelayOptions & { readonly format: "chat-completions" | "generate-content" },
): RelayBackend & Required<Pick<ModelBackend, "chat" | "countInputTokens" | "embed">>;
export function relay(
  options: RelayOptions & { readonly format: "messages" },
): RelayBackend & Required<Pick<ModelBackend, "chat" | "countInputTokens">>;
export function relay(options: RelayOptions): RelayBackend;
export function relay(options: RelayOptions): RelayBackend {
  assertOptions<RelayOptions>("relay", options, RELAY_SHAPES);
  const { format, hangUp } = options;
  assertHangUp("relay: hangUp", hangUp);
  const known = [...Object.keys(CODECS), "images"];
  if (!known.includes(format))
    throw new TypeError(`relay: format must be one of ${known.join(", ")}, not ${JSON.stringify(format)}.`);
  const codec = codecOptions(options);
  const upstream = new Upstream(options);
  if (format === "images")
    return {
      ...upstream.backend,
      ...imageRelay(upstream, options),
      check: (how) => checkUpstream(upstream, undefined, how),
    };
  const embeddings = EMBEDDING_CODECS[format];
  const chatCodec = CODECS[format](codec);
  const answering = chatRelay(upstream, options, chatCodec);
  return {
    ...upstream.backend,
    ...answering,
    ...(embeddings && embeddingRelay(upstream, options, embeddings)),
    check: (how) =>
      checkUpstream(upstream, { codec: chatCodec, ask: (request, call) => answering.chat(request, call) }, how),
  };
}
