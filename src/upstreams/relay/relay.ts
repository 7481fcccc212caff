/** A relay to an upstream whose format is given as a value. It contains the code of no other format. */

import type { ChatCodec, CodecOptions } from "../../formats/format.ts";
import { assertMethods, assertOptions } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { assertHangUp } from "../backend.ts";
import { checkUpstream } from "./check.ts";
import { codecOptions, RELAY_SHAPES, type RelayBackend, type RelayFormat, type UpstreamOptions } from "./options.ts";
import { Upstream } from "./upstream.ts";

/** The functions of a backend that an upstream's format may have. */
export type Verbs = Pick<ModelBackend, "chat" | "countInputTokens" | "embed" | "image">;

/**
 * A wire format that an upstream may speak, such as `messagesUpstream` of `polygate/formats/messages`. Its other fields are for the relay
 * alone.
 */
export interface UpstreamFormat<Has extends Verbs = Verbs> {
  readonly name: RelayFormat;
  /** Makes the functions of a relay, and the codec with which a check asks for a token. */
  open(
    upstream: Upstream,
    options: UpstreamOptions,
    codecOptions: CodecOptions,
  ): { readonly verbs: Has; readonly codec?: ChatCodec };
}

/** The upstream of a relay whose format is given as a value, and the rules for calling it. */
export interface CoreRelayOptions<Has extends Verbs = Verbs> extends UpstreamOptions {
  /** The wire format that the upstream speaks, such as `messagesUpstream` of `polygate/formats/messages`. */
  readonly format: UpstreamFormat<Has>;
}

/**
 * Makes a backend from an upstream that speaks the given format, as `relay` of `polygate/backends/relay` does from a format's name. Sends its
 * requests with the runtime's `fetch`.
 * Throws a TypeError for wrong options, and a RangeError for a wrong timeout or limit.
 *
 * @example
 * const backend = relay({ format: messagesUpstream, baseUrl: "https://api.example.com/v1", apiKey: env.UPSTREAM_KEY });
 */
export function relay<Has extends Verbs>(options: CoreRelayOptions<Has>): RelayBackend & Has {
  assertOptions<CoreRelayOptions>("relay", options, RELAY_SHAPES);
  const what = "the format of an upstream, such as messagesUpstream of polygate/formats/messages";
  assertMethods("relay", "format", options.format, ["open"], what);
  return relayTo(options.format, options);
}

/** Makes the backend of both relays, which have checked the names of the options and the format. */
export function relayTo<Has extends Verbs>(format: UpstreamFormat<Has>, options: UpstreamOptions): RelayBackend & Has {
  assertHangUp("relay: hangUp", options.hangUp);
  const words = codecOptions(options);
  const upstream = new Upstream(format.name, options);
  const { verbs, codec } = format.open(upstream, options, words);
  const asking = codec && verbs.chat && { codec, ask: verbs.chat };
  return { ...upstream.backend, ...verbs, check: (how) => checkUpstream(upstream, asking, how) };
}
