/** Relays calls to an upstream, such as a provider or a local model server. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { UPSTREAMS, type VerbsByName } from "../../formats/all.ts";
import type { UpstreamFormat } from "../../formats/module.ts";
import { assertOptions, type Check, nearest } from "../../options.ts";
import { checkUpstream } from "./check.ts";
import { openConversations } from "./conversations.ts";
import { type RelayBackend, relayShapes, type UpstreamOptions } from "./options.ts";
import { openRelay } from "./relay.ts";

export {
  type CheckOptions,
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  type NamePolicy,
  type RelayBackend,
  type RelayCheck,
  type RelayLimits,
  type RelayModels,
  type RelayTimeouts,
} from "./options.ts";
export type { EmbeddingBatches } from "../../formats/module.ts";
export type { Fetch } from "./transport.fetch.ts";

const ALL: readonly UpstreamFormat[] = Object.values(UPSTREAMS);
const NAMES = Object.keys(UPSTREAMS);

/** The wire formats that an upstream may speak. */
export type RelayFormat = keyof VerbsByName;

/** The upstream of a relay, and the rules for calling it. */
export interface RelayOptions<Format extends RelayFormat = RelayFormat> extends UpstreamOptions {
  /** The wire format that the upstream speaks. */
  readonly format: Format;
}

const assertFormat: Check = (path, format) => {
  if (!NAMES.includes(format as string))
    throw new TypeError(
      `${path} must be one of ${NAMES.join(", ")}, not ${JSON.stringify(format)}.${formatHint(format)}`,
    );
};

/** Returns the question which format was meant, with a space before it; empty when none is near. */
function formatHint(format: unknown): string {
  if (typeof format !== "string") return "";
  const meant = ALL.find(({ otherNames }) => otherNames?.test(format))?.name ?? nearest(format, NAMES);
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
export function relay<Format extends RelayFormat>(options: RelayOptions<Format>): RelayBackend & VerbsByName[Format] {
  assertOptions<RelayOptions>("relay", options, relayShapes(assertFormat));
  const format: UpstreamFormat = UPSTREAMS[options.format];
  const { backend, upstream, asking } = openRelay(format, options, ALL, openConversations);
  const whole: RelayBackend = { ...backend, check: (how) => checkUpstream(upstream, asking, how) };
  return whole as RelayBackend & VerbsByName[Format];
}
