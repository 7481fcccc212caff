/** Relays calls to an upstream, such as a provider or a local model server. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { assertOptions, nearest } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { checkUpstream } from "./check.ts";
import { chatCompletionsUpstream } from "./formats/chat-completions.ts";
import { generateContentUpstream } from "./formats/generate-content.ts";
import { imagesUpstream } from "./formats/images.ts";
import { messagesUpstream } from "./formats/messages.ts";
import { responsesUpstream } from "./formats/responses.ts";
import { RELAY_SHAPES, type RelayBackend, type RelayFormat, type RelayOptions } from "./options.ts";
import { openRelay, type UpstreamFormat } from "./relay.ts";

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

const FORMATS: Readonly<Record<RelayFormat, UpstreamFormat>> = {
  messages: messagesUpstream,
  "generate-content": generateContentUpstream,
  "chat-completions": chatCompletionsUpstream,
  responses: responsesUpstream,
  images: imagesUpstream,
};

/** The formats of providers, for hosts that write the provider's name. */
const FORMAT_OF: readonly (readonly [RegExp, RelayFormat])[] = [
  [/anthropic|claude/i, "messages"],
  [/openai|gpt/i, "chat-completions"],
  [/gemini|google/i, "generate-content"],
];

/** Returns the question which format was meant, with a space before it; empty when none is near. */
function formatHint(format: unknown): string {
  if (typeof format !== "string") return "";
  const meant = FORMAT_OF.find(([provider]) => provider.test(format))?.[1] ?? nearest(format, Object.keys(FORMATS));
  return meant === undefined ? "" : ` Did you mean "${meant}"?`;
}

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
  const { format } = options;
  if (!Object.hasOwn(FORMATS, format))
    throw new TypeError(
      `relay: format must be one of ${Object.keys(FORMATS).join(", ")}, not ${JSON.stringify(format)}.${formatHint(format)}`,
    );
  const { backend, upstream, asking } = openRelay(FORMATS[format], options);
  return { ...backend, check: (how) => checkUpstream(upstream, asking, how) };
}
