/** A relay to an upstream whose format is given as a value. It contains the code of no other format. */

import type { ChatCodec, EmbeddingCodec, ImageCodec } from "../../formats/format.ts";
import type { UpstreamCodecs, UpstreamFormat } from "../../formats/module.ts";
import { assertOptions, portOf } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import { type ChatRelay, chatRelay } from "./chat.ts";
import { type EmbeddingRelay, embeddingRelay } from "./embeddings.ts";
import { type ImageRelay, imageRelay } from "./images.ts";
import { codecOptions, type RelayBackend, relayShapes, type UpstreamOptions } from "./options.ts";
import { Upstream } from "./upstream.ts";

/** The parts of a relay that a check uses to ask for one token. */
export interface Asking {
  readonly codec: Pick<ChatCodec, "encodeRequest">;
  readonly ask: NonNullable<ModelBackend["chat"]>;
}

/** Makes the functions of a relay for the codec of one kind. */
type OpenKind<Codec> = (upstream: Upstream, options: UpstreamOptions, codec: Codec) => Partial<ModelBackend>;

/** The kinds that a relay passes on. */
const KINDS: { readonly [Kind in keyof UpstreamCodecs]-?: OpenKind<NonNullable<UpstreamCodecs[Kind]>> } = {
  chat: chatRelay,
  embedding: embeddingRelay,
  image: imageRelay,
};

/** The functions of a relay whose upstream has these codecs. */
export type Verbs<Codecs> = (Codecs extends { readonly chat: ChatCodec } ? ChatRelay : unknown) &
  (Codecs extends { readonly embedding: EmbeddingCodec } ? EmbeddingRelay : unknown) &
  (Codecs extends { readonly image: ImageCodec } ? ImageRelay : unknown);

/** The upstream of a relay whose format is given as a value, and the rules for calling it. */
export interface CoreRelayOptions<Codecs extends UpstreamCodecs = UpstreamCodecs> extends UpstreamOptions {
  /** The wire format that the upstream speaks, such as `messagesUpstream` of `polygate/formats/messages`. */
  readonly format: UpstreamFormat<Codecs>;
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
export function relay<Codecs extends UpstreamCodecs>(
  options: CoreRelayOptions<Codecs>,
): CoreRelayBackend & Verbs<Codecs> {
  assertCoreOptions("relay", options);
  return openRelay(options.format, options).backend;
}

const FORMAT = portOf(
  ["credential", "codecs"],
  "the format of an upstream, such as messagesUpstream of polygate/formats/messages",
);

/** Throws a TypeError for an option that does not exist or has a wrong shape, and for a format that is none. */
export const assertCoreOptions = (where: string, options: CoreRelayOptions): void =>
  assertOptions<CoreRelayOptions>(where, options, relayShapes(FORMAT));

/**
 * Opens a relay whose options have the right names and format.
 *
 * @param others Further formats, whose routes are refused as a base address.
 */
export function openRelay<Codecs extends UpstreamCodecs>(
  format: UpstreamFormat<Codecs>,
  options: UpstreamOptions,
  others: readonly UpstreamFormat[] = [],
): {
  readonly backend: CoreRelayBackend & Verbs<Codecs>;
  readonly upstream: Upstream;
  readonly asking: Asking | undefined;
} {
  const codecs: UpstreamCodecs = format.codecs(codecOptions(options));
  const kinds = (Object.keys(KINDS) as (keyof UpstreamCodecs)[]).filter((kind) => codecs[kind]);
  const upstream = new Upstream(format, kinds, options, others);
  const open = <Kind extends keyof UpstreamCodecs>(kind: Kind): Partial<ModelBackend> =>
    (KINDS[kind] as OpenKind<UpstreamCodecs[Kind]>)(upstream, options, codecs[kind]);
  const verbs: Partial<ModelBackend> = Object.assign({}, ...kinds.map(open));
  const asking = codecs.chat && verbs.chat && { codec: codecs.chat, ask: verbs.chat };
  const backend = { ...upstream.backend, ...verbs } as CoreRelayBackend & Verbs<Codecs>;
  return { backend, upstream, asking };
}
