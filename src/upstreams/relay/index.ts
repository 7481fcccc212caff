/** Relays calls to an upstream, such as a provider or a local model server. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { UPSTREAMS, type VerbsByName } from "../../formats/all.ts";
import type { UpstreamFormat, Verbs } from "../../formats/module.ts";
import { assertOptions, type Check, nearest } from "../../options.ts";
import { CountedFailures } from "../errors-in-row.ts";
import { checkUpstream } from "./check.ts";
import { openConversations } from "./conversations.ts";
import { type RelayBackend, relayShapes, type UpstreamOptions } from "./options.ts";
import { FORMAT, openRelay, type RelayParts, withCodeLoop, withCredentials } from "./relay.ts";

export {
  type ApiKeyAnswer,
  type ApiKeySource,
  DEFAULT_RELAY_LIMITS,
  DEFAULT_RELAY_TIMEOUTS,
  type NamePolicy,
  type RelayBackend,
  type RelayCheck,
  type RelayLimits,
  type RelayModels,
  type RelayTimeouts,
  type SignableRequest,
  type SignedRequest,
  type SignRequest,
} from "./options.ts";
export type { CheckOptions } from "../backend.ts";
export type { EmbeddingBatches, UpstreamFormat } from "../../formats/module.ts";
export type { Fetch } from "./transport.fetch.ts";

const ALL: readonly UpstreamFormat[] = Object.values(UPSTREAMS);
const NAMES = Object.keys(UPSTREAMS);
const PARTS: RelayParts = {
  open: openConversations,
  failures: CountedFailures,
  ...withCredentials,
  ...withCodeLoop,
};

/** The wire formats that an upstream may speak. */
export type RelayFormat = keyof VerbsByName;

/** The upstream of a relay, and the rules for calling it. */
export interface RelayOptions<
  Format extends RelayFormat | UpstreamFormat = RelayFormat | UpstreamFormat,
> extends UpstreamOptions {
  /** The wire format that the upstream speaks: its name, or its value, such as that of a cloud or of a format of your own. */
  readonly format: Format;
}

/** The functions of a relay to an upstream that speaks a format. */
type VerbsOf<Format> = Format extends keyof VerbsByName
  ? VerbsByName[Format]
  : Format extends UpstreamFormat<infer Has extends Verbs>
    ? Has
    : never;

const assertFormat: Check = (path, format) => {
  if (typeof format === "object") return FORMAT(path, format);
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
 * import { relay } from "polygate/backends/relay";
 *
 * export const backend = relay({
 *   format: "messages",
 *   baseUrl: "https://api.example.com/v1",
 *   apiKey: process.env["UPSTREAM_KEY"],
 *   models: { small: "claude-haiku-4-5" },
 * });
 */
export function relay<Format extends RelayFormat | UpstreamFormat>(
  options: RelayOptions<Format>,
): RelayBackend & VerbsOf<Format> {
  assertOptions<RelayOptions>("relay", options, relayShapes(assertFormat));
  const { format }: RelayOptions = options;
  const value: UpstreamFormat = typeof format === "string" ? UPSTREAMS[format] : format;
  const { backend, upstream, asking } = openRelay(value, options, ALL, PARTS);
  const whole: RelayBackend = { ...backend, check: (how) => checkUpstream(upstream, asking, how) };
  return whole as RelayBackend & VerbsOf<Format>;
}
