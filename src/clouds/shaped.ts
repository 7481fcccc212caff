/** The formats of upstreams in clouds: the same bodies and answers at other addresses. */

import type { ChatCodec, EncodedRequest } from "../formats/format.ts";
import type { ChatVerbs, RelayTools, UpstreamFormat, Verbs } from "../formats/module.ts";
import { type LazyCodec, wholeOf } from "../formats/shared/lazy.ts";
import type { ChatRequest } from "../model/chat-request.ts";
import type { UpstreamOptions } from "../upstreams/relay/options.ts";

/** The options of a relay to an upstream in a cloud. Spread them into those of `relay`, and add `models` and others. */
export interface CloudUpstream<Has extends Verbs> extends Pick<UpstreamOptions, "apiKey" | "sign" | "clock"> {
  /** The format, with the changes of the cloud. */
  readonly format: UpstreamFormat<Has>;
  /** The address of the cloud's service. */
  readonly baseUrl: string;
}

/** The changes of a cloud to a format. */
export interface Cloud {
  /** The name of the cloud's service by the conventions of OpenTelemetry. */
  readonly provider: string;
  /** Changes the codec of a chat format. */
  readonly codec?: (codec: ChatCodec) => ChatCodec;
  /** Changes the path of each request for a model. */
  readonly path?: (path: string, model: string) => string;
  readonly credential: UpstreamFormat["credential"];
  readonly reframe?: UpstreamFormat["reframe"];
  /** Tells by the error of a count that the cloud counts no tokens for the model: the gateway then estimates them. */
  readonly cannotCount?: (error: unknown) => boolean;
}

/** A format before a cloud gives it an address and a credential. */
export type FormatInCloud<Has extends Verbs> = Omit<UpstreamFormat<Has>, "address" | "credential">;

/** Returns a format as a cloud's service speaks it. Its base address is complete, and it lists no models that calls could name. */
export function inCloud<Has extends Verbs>(
  { listPath: _none, ...format }: FormatInCloud<Has>,
  { provider, codec, path, credential, reframe, cannotCount }: Cloud,
): UpstreamFormat<Has> {
  return {
    ...format,
    telemetry: { ...format.telemetry, provider },
    address: { version: "", complete: /^/, route: /(?!)/ },
    credential,
    ...(reframe && { reframe }),
    open: (relay, options) =>
      format.open(
        {
          ...relay,
          chat: (given) =>
            estimating(relay.chat(changed(given, (whole) => atPath(codec?.(whole) ?? whole, path))), cannotCount),
          ...(path && { relayed: relayedAt(relay, path) }),
        },
        options,
      ),
  };
}

const estimating = (verbs: ChatVerbs, cannotCount: Cloud["cannotCount"]): ChatVerbs =>
  cannotCount
    ? {
        ...verbs,
        countInputTokens: (request, call) =>
          verbs.countInputTokens(request, call).catch((error: unknown) => {
            if (cannotCount(error)) return undefined;
            throw error;
          }),
      }
    : verbs;

/** A codec is cheap to change, and most are loaded with their first use. */
const changed = (given: ChatCodec | LazyCodec, change: (codec: ChatCodec) => ChatCodec): LazyCodec => ({
  whole() {
    const codec = wholeOf(given);
    return codec instanceof Promise ? codec.then(change) : change(codec);
  },
});

type ChangePath = NonNullable<Cloud["path"]>;

/** Changes the paths of a chat format's requests. */
function atPath(codec: ChatCodec, path: ChangePath | undefined): ChatCodec {
  if (!path) return codec;
  const { count, compact } = codec;
  return {
    ...withRequests(codec, (encoded, { model }) => ({ path: path(encoded.path, model) })),
    ...(count && { count: encodedAt(count, path) }),
    ...(compact && { compact: encodedAt(compact, path) }),
  };
}

const encodedAt = <Codec extends { encode(request: ChatRequest): { readonly path: string } }>(
  codec: Codec,
  path: ChangePath,
): Codec => ({
  ...codec,
  encode(request: ChatRequest) {
    const encoded = codec.encode(request);
    return { ...encoded, path: path(encoded.path, request.model) };
  },
});

/** Changes the paths of other requests than a chat format's. */
const relayedAt = (relay: RelayTools, path: ChangePath): RelayTools["relayed"] => {
  return (context, prepare) =>
    relay.relayed(context, async () => {
      const call = await prepare();
      return { ...call, path: path(call.path, call.model) };
    });
};

export const withRequests = (
  codec: ChatCodec,
  change: (encoded: EncodedRequest, request: ChatRequest) => Partial<EncodedRequest>,
): ChatCodec => ({
  ...codec,
  encodeRequest(request) {
    const encoded = codec.encodeRequest(request);
    return { ...encoded, ...change(encoded, request) };
  },
});

/** Changes the requests of a codec for token counts. */
export const withCounts = (
  codec: ChatCodec,
  change: (encoded: Omit<EncodedRequest, "conversions">) => Partial<EncodedRequest>,
): ChatCodec => {
  const { count } = codec;
  if (!count) return codec;
  const encode: typeof count.encode = (request) => {
    const encoded = count.encode(request);
    return { ...encoded, ...change(encoded) };
  };
  return { ...codec, count: { encode, decode: (answer) => count.decode(answer) } };
};

/** Writes a name as one segment of a path. */
export const segment = (name: string): string => encodeURIComponent(name).replaceAll("%40", "@");

export const bearer: UpstreamFormat["credential"] = (apiKey) => ({ authorization: `Bearer ${apiKey}` });

/** Matches the address of a route, as the consoles of clouds show it: the paths are added by the formats. */
const ROUTE =
  /(\/(?:openai\/deployments\/.+?|chat\/completions|embeddings|responses|messages|model\/[^/]+\/(?:invoke|converse)[\w-]*|models\/[^/]+:\w+))\/*$/;

/** Returns an address without a slash at its end. Throws a TypeError for a text that is no http or https address, and for the address of a route. */
export function endpointOf(where: string, endpoint: string): string {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "")
    throw new TypeError(`${where}: endpoint must be an http or https address without a query.`);
  const [, route] = ROUTE.exec(endpoint) ?? [];
  if (route !== undefined) throw new TypeError(`${where}: endpoint must end before ${route}.`);
  return endpoint.replace(/\/+$/, "");
}

/** Throws a TypeError for a name that cannot stand in an address. */
export function assertName(where: string, option: string, name: string): void {
  if (!/^[a-z0-9][\w.:-]*$/i.test(name)) throw new TypeError(`${where}: ${option} must be a name, such as us-east-1.`);
}
