/** The value of a wire format: the side that a gateway serves, and the side that an upstream speaks. */

import type { Limits } from "../limits.ts";
import type { ChatEvent } from "../model/chat-event.ts";
import type { ChatRequest } from "../model/chat-request.ts";
import type { Conversion } from "../model/conversion.ts";
import type { JsonLimits, JsonObject } from "../model/json.ts";
import type { Shapes } from "../options.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { Clock } from "../ports/clock.ts";
import type { CallContext, ModelBackend } from "../ports/model-backend.ts";
import type { TelemetryNames } from "../ports/observer.ts";
import type { AnswerDecoder, ChatCodec, CodecOptions, Format } from "./format.ts";
import type { LazyCodec } from "./shared/lazy.ts";
import type { FormatDescription } from "./shared/openapi.ts";

/**
 * A wire format, whole. `src/formats/all.ts` lists the formats of the package; a host adds one of its own by the same value.
 *
 * @example const gateway = createGateway({ formats: [messages(), haiku.serve()], backend, quotas });
 */
export interface FormatModule<
  Name extends string = string,
  Options extends object = object,
  Has extends Verbs = Verbs,
> {
  readonly name: Name;
  /** Makes the side that a gateway serves. */
  serve(options?: Options): GatewayFormat<Name>;
  /** The shapes of the options. Missing for a format without options. */
  readonly options?: Shapes<Options>;
  /** The side that an upstream speaks. Missing for a format that no upstream speaks alone. */
  readonly upstream?: UpstreamFormat<Has>;
  /** The description for the OpenAPI document. The descriptions of the package's own formats come with `polygate/openapi`. */
  readonly description?: FormatDescription<Options>;
}

/** A format that a gateway serves: the result of a function such as `messages()` of `polygate/formats/messages`. */
export interface GatewayFormat<Name extends string = string> {
  readonly name: Name;
  /** The options of the format, as the host gave them. */
  readonly options?: object | undefined;
  /** Formats are asked in this order for a path that they share, the lowest first. Default: 0, before the formats of the package. */
  readonly rank?: number;
  /** Makes the format for one gateway. Throws a TypeError or a RangeError for wrong options. */
  make(context: { readonly clock: Clock; readonly limits: Limits }): Format;
}

/** A format that an upstream speaks, such as `messagesUpstream` of `polygate/formats/messages`. */
export interface UpstreamFormat<Has extends Verbs = Verbs> {
  readonly name: string;
  readonly telemetry: TelemetryNames;
  readonly address: AddressRules;
  /** Returns the headers that carry the key. It is never put into the address, because proxies log addresses. */
  readonly credential: (apiKey: string) => Readonly<Record<string, string>>;
  /** The path of the list of models below the base address, for checks. Missing for upstreams that list none. */
  readonly listPath?: string;
  /** Reads the answers of upstreams that frame their streams in another way than the format. Default: answers stay as they are. */
  readonly reframe?: (response: UpstreamResponse) => UpstreamResponse;
  /** The kinds of the upstream's models, unless the host declares others. Default: chat, and embeddings where the name says so. */
  readonly modelKinds?: readonly ModelKind[];
  /** Matches other words that hosts may write for the format, such as the name of a provider. */
  readonly otherNames?: RegExp;
  /** True for a format whose upstreams may take turns over a WebSocket, at the address of their first route. */
  readonly takesSockets?: boolean;
  /** True for a format whose upstreams may compact conversations. */
  readonly makesCompactions?: boolean;
  /** Loads the code of the functions; missing for a format whose code is there from the beginning. */
  readonly load?: () => unknown;
  /** Makes the functions of a relay to the upstream. */
  open(relay: RelayTools, options: FormatUpstreamOptions): Has;
}

/** The functions of a backend that an upstream's format may have. */
export type Verbs = Pick<ModelBackend, "chat" | "countInputTokens" | "embed" | "image">;
/** The functions of a relay to an upstream of a chat format. */
export interface ChatVerbs {
  chat(request: ChatRequest, call: CallContext): AsyncGenerator<ChatEvent>;
  countInputTokens(request: ChatRequest, call: CallContext): Promise<number | undefined>;
}
/** The function of a relay to an upstream that embeds. */
export type EmbeddingVerbs = Required<Pick<ModelBackend, "embed">>;
/** The function of a relay to an upstream that draws images. */
export type ImageVerbs = Required<Pick<ModelBackend, "image">>;

/** The options of a relay that its format reads. */
export interface FormatUpstreamOptions extends CodecOptions {
  /**
   * Refuses a request that the upstream's format cannot express in full (`failed_precondition`), instead of leaving fields out. Default:
   * false.
   */
  readonly strict?: boolean;
  /**
   * Origins beside the upstream's own from which its pictures may be fetched, such as `https://pictures.example.com`. Only for an
   * images upstream that answers with addresses although the relay asks for data. Default: none.
   */
  readonly imageOrigins?: readonly string[];
  /** The batches of embedding requests that are too large for the upstream. */
  readonly embeddings?: Partial<EmbeddingBatches>;
}

/** The batches of an embedding request. */
export interface EmbeddingBatches {
  /**
   * The most inputs of one request to the upstream. Default: 100 for generate-content; 2,048 for chat-completions, and 512 for answers
   * that are not in base64, because they are large.
   */
  readonly maxInputs: number;
  /** The most requests of one call that are sent to the upstream at once. Default: 4. */
  readonly concurrency: number;
}

/** The relay, as the format of its upstream uses it. */
export interface RelayTools {
  /** The upstream's own origin, such as `https://example.com`. */
  readonly origin: string;
  readonly clock: Clock;
  /** The bounds of the JSON in an answer. */
  readonly json: JsonLimits;
  /** Returns the upstream's name of a model, given the caller's names, best first. Throws `model_not_found` for unknown names. */
  modelName(...names: readonly [string, ...string[]]): string;
  /** Makes the functions of a relay to an upstream of a chat format. */
  chat(codec: ChatCodec | LazyCodec): ChatVerbs;
  /**
   * Sends a request, and yields the caller's events as the answer comes. Throws a GatewayError that may be shown to the caller.
   *
   * @param prepare Encodes the request when the first event is requested.
   */
  relayed<Decoded, Event>(
    context: RelayedContext<Event>,
    prepare: () => RelayedCall<Decoded, Event> | Promise<RelayedCall<Decoded, Event>>,
  ): AsyncGenerator<Event>;
  /** Reports the conversions of a request's fields. Throws `failed_precondition` for a field that the upstream must not miss. */
  reportConversions(conversions: readonly Conversion[], call: Pick<CallContext, "reportConversions">): void;
  /** Fetches a picture from an address, without the credential. Throws `backend_failed` for every status but 200. */
  fetchPicture(url: URL, signal: AbortSignal): Promise<Uint8Array>;
}

/** The part of a call's context that a relay uses. */
export interface RelayedContext<Event> extends Pick<CallContext, "signal" | "observeUpstream"> {
  readonly key?: Pick<CallContext["key"], "id"> | undefined;
  readonly reportUnread?: ((unread: () => Iterable<Event>) => void) | undefined;
}

/** A request below the base address, without the headers that all requests of the upstream share. */
export interface RequestBelow {
  /** Path and query below the base address. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly stream: boolean;
  /** The same request as a turn of a conversation, for an upstream that may take it over a WebSocket. */
  readonly turn?: ConversationTurn | undefined;
}

/** A request as a turn of a conversation. */
export interface ConversationTurn {
  /** The id of the API key that the conversation belongs to. */
  readonly keyId: string;
  /** The upstream's own name of the model. */
  readonly model: string;
  readonly body: JsonObject;
  readonly stream: boolean;
}

/** The request of one call, and the functions that read its answer. */
export type RelayedCall<Decoded, Event> = CompleteCall<Decoded, Event> | StreamableCall<Decoded, Event>;

interface AnyCall<Decoded, Event> extends RequestBelow {
  /** Empty once the request is sent: a stream lasts, and its request may be megabytes long. */
  body: RequestBelow["body"];
  /** Called when the upstream has no such route, before the error is thrown. */
  readonly onNoRoute?: () => void;
  /** Undefined once the request is sent. */
  turn?: RequestBelow["turn"];
  readonly kind: ModelKind;
  /** The upstream's own name of the model. */
  readonly model: string;
  readonly callerModel: string;
  readonly codec: Pick<ChatCodec, "answerFields" | "decodeError" | "limitsOf">;
  /** Converts the decoded events of one piece to the caller's events, and informs the observer. */
  handOn(
    events: readonly Decoded[],
    exchange: { touch(): void },
    observation: AnswerNotes | undefined,
  ): Iterable<Event | Promise<Event>>;
  /**
   * Returns the events that `handOn` has not yielded yet, and those of further decoded events. Nobody reads them, but the upstream charges
   * them. Missing for an answer whose events are counted elsewhere.
   */
  unread?(more: readonly Decoded[]): Iterable<Event>;
}

/** Notes facts of an answer for the observer of the call. */
export interface AnswerNotes {
  onEvent(): void;
  onChatEvents(events: readonly ChatEvent[]): void;
  onUsage(model: string | undefined, inputTokens: number | undefined): void;
}

interface CompleteCall<Decoded, Event> extends AnyCall<Decoded, Event> {
  readonly stream: false;
  readonly decoder: Pick<AnswerDecoder<Decoded>, "answer" | "hasSaid" | "lost">;
}

export interface StreamableCall<Decoded, Event> extends AnyCall<Decoded, Event> {
  readonly decoder: AnswerDecoder<Decoded>;
  /** True for a caller of the upstream's format, who gets the frames as they are: texts that come together are one event. Default: false. */
  readonly joinsTexts?: boolean;
  /** True when this event ends the answer, although the stream may stay open. Not called again after it has returned true. */
  readonly isFinish: (event: Decoded) => boolean;
}

/** The answer of an upstream. Its body is read piece by piece. */
export interface UpstreamResponse {
  readonly status: number;
  /** Returns a header by its name in lower case. */
  header(name: string): string | undefined;
  headers(): Headers;
  /** Resolves with the next piece of the body, decompressed, or with undefined at its end. Only one read at a time. */
  read(): Promise<Uint8Array | undefined>;
  /** Returns the bytes that have come and were not read, once, also after a cut. Missing where the runtime keeps them. */
  arrived?(): Uint8Array;
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
