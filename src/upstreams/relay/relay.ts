/** A relay to an upstream whose format is given as a value. It contains the code of no other format. */

import type { ChatCodec, CodecOptions } from "../../formats/format.ts";
import { assertMethods, assertOptions } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { codecOptions, RELAY_SHAPES, type RelayBackend, type RelayFormat, type UpstreamOptions } from "./options.ts";
import { Upstream } from "./upstream.ts";

/** The parts of a relay that a check uses to ask for one token. */
export interface Asking {
  readonly codec: Pick<ChatCodec, "encodeRequest">;
  readonly ask: NonNullable<ModelBackend["chat"]>;
}

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

/** A relay of `polygate/core`. `checkRelay` checks its upstream. */
export type CoreRelayBackend = Omit<RelayBackend, "check">;

/**
 * Makes a backend from an upstream that speaks the given format, as `relay` of `polygate/backends/relay` does from a format's name. Sends its
 * requests with the runtime's `fetch`.
 * Throws a TypeError for wrong options, and a RangeError for a wrong timeout or limit.
 *
 * @example
 * const backend = relay({ format: messagesUpstream, baseUrl: "https://api.example.com/v1", apiKey: env.UPSTREAM_KEY });
 */
export function relay<Has extends Verbs>(options: CoreRelayOptions<Has>): CoreRelayBackend & Has {
  assertCoreOptions("relay", options);
  return openRelay(options.format, options).backend;
}

/** Throws a TypeError for an option that does not exist or has a wrong shape, and for a format that is none. */
export function assertCoreOptions(where: string, options: CoreRelayOptions): void {
  assertOptions<CoreRelayOptions>(where, options, RELAY_SHAPES);
  const what = "the format of an upstream, such as messagesUpstream of polygate/formats/messages";
  assertMethods(where, "format", options.format, ["open"], what);
}

/** Opens a relay whose options have the right names and format. */
export function openRelay<Has extends Verbs>(
  format: UpstreamFormat<Has>,
  options: UpstreamOptions,
): { readonly backend: CoreRelayBackend & Has; readonly upstream: Upstream; readonly asking: Asking | undefined } {
  const words = codecOptions(options);
  const upstream = new Upstream(format.name, options);
  const { verbs, codec } = format.open(upstream, options, words);
  const asking = codec && verbs.chat && { codec, ask: verbs.chat };
  return { backend: { ...upstream.backend, ...verbs }, upstream, asking };
}
