/** A relay to an upstream whose format is given as a value. It contains the code of no other format. */

import type { ChatCodec } from "../../formats/format.ts";
import type { RelayTools, UpstreamFormat, Verbs } from "../../formats/module.ts";
import type { LazyCodec } from "../../formats/shared/lazy.ts";
import { pictureFailed } from "../../formats/shared/upstream.ts";
import { assertOptions, type Check, listOf, portOf } from "../../options.ts";
import type { ModelBackend } from "../../ports/model-backend.ts";
import type { FailureNotes } from "../backend.ts";
import { chatRelay, reportConversions } from "./chat.ts";
import { withCode } from "./code-loop.ts";
import type { OpenConversations } from "./conversations.ts";
import { type OpenAuthorization, openAuthorization } from "./credentials.ts";
import { brokenOff } from "./failures.ts";
import { codecOptions, type RelayBackend, relayShapes, type UpstreamOptions } from "./options.ts";
import { readBytes, relayed } from "./relayed.ts";
import { Exchange, UNREAD } from "./transport.ts";
import { Upstream } from "./upstream.ts";

/** The parts of a relay that a check uses to ask for one token. */
export interface Asking {
  readonly codec: ChatCodec | LazyCodec;
  readonly ask: NonNullable<ModelBackend["chat"]>;
}

/** The upstream of a relay whose format is given as a value, and the rules for calling it. */
export type CoreRelayOptions<Has extends Verbs = Verbs> = UpstreamOptions & CoreRelayParts<Has>;

/** The parts of a relay of `polygate/core` that are given as values. */
export interface CoreRelayParts<Has extends Verbs = Verbs> {
  /** The wire format that the upstream speaks, such as `messagesUpstream` of `polygate/formats/messages`. */
  readonly format: UpstreamFormat<Has>;
  /** The code of what most relays do not use: `withCredentials`, `withCodeLoop`. */
  readonly features?: readonly RelayFeature[];
}

/** Code that a relay may do without: `withCredentials` or `withCodeLoop`. Its fields are for the relay alone. */
export interface RelayFeature {
  readonly authorize?: OpenAuthorization;
  readonly codeLoop?: typeof withCode;
}

/** Code that a relay may do without, and the code of WebSockets to the upstream. */
export interface RelayParts extends RelayFeature {
  readonly open?: OpenConversations;
  /** Remembers the errors of the upstream. Default: only its last failure. */
  readonly failures?: new () => FailureNotes;
}

/** The code of keys that renew and of signatures: an `apiKey` that is a function, and `sign`. */
export const withCredentials: RelayFeature = { authorize: openAuthorization };

/** The code that runs code for upstreams that cannot, with the gateway's code runner. Without it, such an upstream gets no code tool. */
export const withCodeLoop: RelayFeature = { codeLoop: withCode };

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
  return openRelay(options.format, options, [], partsIn(options)).backend;
}

/** Returns the code of a relay's features. */
export const partsIn = ({ features = [] }: CoreRelayParts): RelayParts => Object.assign({}, ...features) as RelayParts;

/** Checks the format of an upstream that is given as a value. */
export const FORMAT: Check = portOf(
  ["open"],
  "the format of an upstream, such as messagesUpstream of polygate/formats/messages",
);

const FEATURES = listOf((path, feature) => {
  if (!["authorize", "codeLoop"].some((part) => Object.hasOwn(Object(feature) as object, part)))
    throw new TypeError(`${path} must be withCredentials or withCodeLoop.`);
});

/** Throws a TypeError for an option that does not exist or has a wrong shape, and for a format that is none. */
export const assertCoreOptions = (where: string, options: CoreRelayOptions): void =>
  assertOptions<CoreRelayOptions>(where, options, { ...relayShapes(FORMAT), features: { optional: FEATURES } });

/**
 * Opens a relay whose options have the right names and format.
 *
 * @param others Further formats, whose routes are refused as a base address.
 * @param parts Without `open`, `transport: "websocket"` is refused; without `authorize`, credentials that renew and signatures are.
 */
export function openRelay<Has extends Verbs>(
  format: UpstreamFormat<Has>,
  options: UpstreamOptions,
  others: readonly UpstreamFormat[] = [],
  parts: RelayParts = {},
): {
  readonly backend: CoreRelayBackend & Has;
  readonly upstream: Upstream;
  readonly asking: Asking | undefined;
} {
  const upstream = new Upstream(format, options, others, parts);
  const { strict = false } = options;
  let codec: Asking["codec"] | undefined;
  const tools: RelayTools = {
    origin: upstream.origin,
    clock: upstream.clock,
    json: upstream.json,
    modelName: (...names) => upstream.modelName(...names),
    chat: (given) => chatRelay(upstream, options, (codec = given), parts.codeLoop),
    relayed: (context, prepare) => relayed(upstream, context, prepare),
    reportConversions: (conversions, call) => reportConversions(conversions, call, strict),
    fetchPicture: (url, signal) => fetchPicture(upstream, url, signal),
  };
  const verbs = format.open(tools, codecOptions(options));
  const asking = codec && verbs.chat && { codec, ask: verbs.chat };
  return { backend: { ...upstream.backend, ...verbs }, upstream, asking };
}

async function fetchPicture(
  upstream: Upstream,
  { origin, pathname, search }: URL,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const { clock, limits, timeouts } = upstream;
  const exchange = new Exchange(clock, signal);
  exchange.begin({ name: "connection", limitMs: timeouts.connectMs }, { name: "picture", limitMs: timeouts.pictureMs });
  const headers = { accept: "image/*", "accept-encoding": "identity", "user-agent": "polygate" };
  try {
    const request = { method: "GET", path: pathname + search, headers } as const;
    const response = await upstream.sendTo(origin, exchange, request);
    if (response.status !== 200) throw pictureFailed(`The upstream's picture was answered with ${response.status}.`);
    const bytes = await readBytes(response, limits.maxPictureBytes);
    exchange.end();
    return bytes;
  } catch (error) {
    throw brokenOff(error);
  } finally {
    exchange.cut(UNREAD);
  }
}
