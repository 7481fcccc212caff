/** The value of a wire format: the side that a gateway serves, and the side that an upstream speaks. */

import type { Limits } from "../limits.ts";
import type { Shapes } from "../options.ts";
import type { Clock } from "../ports/clock.ts";
import type { TelemetryNames } from "../ports/observer.ts";
import type { ChatCodec, CodecOptions, EmbeddingCodec, Format, ImageCodec } from "./format.ts";
import type { FormatDescription } from "./shared/openapi.ts";

/**
 * A wire format, whole. `src/formats/all.ts` lists the formats of the package; a host adds one of its own by the same value.
 *
 * @example const gateway = createGateway({ formats: [messages(), haiku.serve()], backend, quotas });
 */
export interface FormatModule<
  Name extends string = string,
  Options extends object = object,
  Codecs extends UpstreamCodecs = UpstreamCodecs,
> {
  readonly name: Name;
  /** Makes the side that a gateway serves. */
  serve(options?: Options): GatewayFormat<Name>;
  /** The shapes of the options. Missing for a format without options. */
  readonly options?: Shapes<Options>;
  /** The side that an upstream speaks. Missing for a format that no upstream speaks alone. */
  readonly upstream?: UpstreamFormat<Codecs>;
  /** The description for the OpenAPI document. The descriptions of the package's own formats come with `polygate/openapi`. */
  readonly description?: FormatDescription<Options>;
}

/** A format that a gateway serves: the result of a function such as `messages()` of `polygate/formats/messages`. */
export interface GatewayFormat<Name extends string = string> {
  readonly name: Name;
  /** The rules of the kinds of generation that the format's endpoints serve. */
  readonly kinds: object;
  /** The options of the format, as the host gave them. */
  readonly options?: object | undefined;
  /** Formats are asked in this order for a path that they share, the lowest first. Default: 0, before the formats of the package. */
  readonly rank?: number;
  /** Makes the format for one gateway. Throws a TypeError or a RangeError for wrong options. */
  make(context: { readonly clock: Clock; readonly limits: Limits }): Format;
}

/** A format that an upstream speaks, such as `messagesUpstream` of `polygate/formats/messages`. */
export interface UpstreamFormat<Codecs extends UpstreamCodecs = UpstreamCodecs> {
  readonly name: string;
  readonly telemetry: TelemetryNames;
  readonly address: AddressRules;
  /** Returns the headers that carry the key. It is never put into the address, because proxies log addresses. */
  readonly credential: (apiKey: string) => Readonly<Record<string, string>>;
  /** The path of the list of models below the base address, for checks. */
  readonly listPath: string;
  /** Matches other words that hosts may write for the format, such as the name of a provider. */
  readonly otherNames?: RegExp;
  /** Makes the codec of each kind that the upstream answers. A relay has the functions of these kinds. */
  readonly codecs: (options: CodecOptions) => Codecs;
}

/** The codecs of an upstream, by kind. */
export interface UpstreamCodecs {
  readonly chat?: ChatCodec;
  readonly embedding?: EmbeddingCodec;
  readonly image?: ImageCodec;
}

/** The rules for the base address of an upstream. */
export interface AddressRules {
  /** The version that is added to a path which lacks one: `/v1`. */
  readonly version: string;
  /** Matches a path that needs no version. */
  readonly complete: RegExp;
  /** Matches a route at the end of a path. */
  readonly route: RegExp;
  /** Matches a route that no other format has. Default: `route`. */
  readonly ownRoute?: RegExp;
}
