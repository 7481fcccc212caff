/**
 * The interfaces of a wire format: the endpoints that serve the format, and the codec that speaks it to an upstream.
 */

import type { GatewayError, VendorLimits } from "../errors.ts";
import type { Answer } from "../http/answer.ts";
import type { BodyIntake } from "../http/body.ts";
import type { Form } from "../http/form.ts";
import type { CountedKind, DecodedRequest, KindModule } from "../kinds/kind.ts";
import type { Limits } from "../limits.ts";
import type { ChatEvent } from "../model/chat-event.ts";
import type { ChatRequest, ReasoningControl } from "../model/chat-request.ts";
import type { Conversion } from "../model/conversion.ts";
import type { EmbeddingRequest, EmbeddingVector } from "../model/embedding.ts";
import type { JsonBudget, JsonLimits, JsonObject } from "../model/json.ts";
import type { ModalityCount, NativeUsage } from "../model/usage.ts";
import type { CallInfo, ModelKind } from "../ports/call-info.ts";
import type { ModelInfo } from "../ports/model-backend.ts";
import type { TelemetryNames } from "../ports/observer.ts";
import type { ApiKey, Balance } from "../ports/quota-store.ts";
import type { RateLimit } from "../ports/rate-limiter.ts";
import type {
  DocumentPage,
  DocumentUpdate,
  KeptDocument,
  NewDocument,
  ResponseStore,
} from "../ports/response-store.ts";
import type { BodyLease } from "../ports/shared-room.ts";

/** A format as one gateway serves it: its routes, and what else the gateway asks of it. */
export interface Format {
  /** The name that `native` parts of the neutral model carry. */
  readonly name: string;
  /** The names of the format for observers; undefined for a format that no model answers. */
  readonly telemetry: TelemetryNames | undefined;
  readonly endpoints: readonly AnyEndpoint[];
  /** Loads the code of the endpoints; missing for a format whose code is there from the beginning. */
  readonly load?: () => unknown;
  /** Returns the other names of a model; missing for a format that knows none. */
  readonly aliasesOf?: (model: string) => readonly string[];
  /** Opens the documents of a call's key, for a format whose answers are kept. */
  readonly openDocuments?: (call: DocumentsCall, key: ApiKey, store: ResponseStore, retainMs: number) => KeptDocuments;
}

/** A format whose code is loaded. */
export interface WholeFormat extends Format {
  readonly endpoints: readonly Endpoint[];
}

/** An endpoint of a format: a route that a model answers, or the gateway itself. */
export type Endpoint = GenerationEndpoint | QueryEndpoint | PublicEndpoint;

/** A route without the code that answers: all that finds its requests, and refuses them. */
export interface LazyRoute extends Omit<Route, "readForm"> {
  /** The name of the kind that answers, `query` for answers by the gateway itself, `public` for routes without a key. */
  readonly kind: ModelKind | "query" | "public";
  /** The kind whose answers a public route hands out. */
  readonly answersOf?: ModelKind;
  /** As `QueryEndpoint.needsResponseStore`. */
  readonly needsResponseStore?: boolean;
  /** True for a route of WebSockets. */
  readonly takesSockets?: boolean;
}

/** An endpoint whose code is loaded with its first request. */
export interface LazyEndpoint extends LazyRoute {
  /** Returns the endpoint; a promise of it until its code is loaded. */
  whole(): Endpoint | Promise<Endpoint>;
}

/** An endpoint, whose code may have to be loaded. */
export type AnyEndpoint = Endpoint | LazyEndpoint;

/** A request on its way to an endpoint. */
export interface Incoming {
  /** The id of the call. */
  readonly id: string;
  readonly request: Request;
  /** The text in place of the route's wildcard, still percent-encoded; empty for a route without a wildcard. */
  readonly wildcardPath: string;
  readonly limits: Limits;
  /** Counts the values of the body, including the JSON texts inside it. */
  readonly json: JsonBudget;
  /** Returns the gateway's address as callers see it, without a slash at the end: `https://example.com/ai`. */
  baseUrl(): string;
  /** Fires when the call is cut short. */
  readonly signal: AbortSignal;
  /** The id of the caller's key, after authentication. */
  readonly keyId?: string | undefined;
  /** The documents of the caller's key in the host's store of responses; undefined without a store. */
  readonly kept?: KeptDocuments | undefined;
  /** The state of the WebSocket that the call is a message of; undefined for any other call. */
  readonly socket?: SocketTurns | undefined;
  /** Accepts a WebSocket for a key; undefined where the host has not wired WebSockets. */
  readonly accept?: ((key: ApiKey) => void) | undefined;
}

/** The rules of a format over a WebSocket. A message that asks for an answer is a call of its own, with an endpoint of its own. */
export interface SocketProtocol {
  /** Opens the state that the calls of one connection share. */
  open(memory: SocketMemory): SocketTurns;
}

/** The memory of one connection, which counts with the bodies of its key. */
export interface SocketMemory {
  /** Replaces the booked memory, in bytes. Returns false, with nothing booked, when there is no room. */
  hold(bytes: number): boolean;
}

/** The turns of one connection: one answer at a time. */
export interface SocketTurns {
  /** Returns the endpoint that answers a message. A wrong message has one, too: it answers with the error. */
  endpointOf(message: string, limits: JsonLimits): Endpoint;
  /** Tells whether a message ends the running answer. */
  cancels(message: string, limits: JsonLimits): boolean;
  /** Returns the reply to a message that is no call; undefined for any other message. */
  replyTo(message: string, limits: JsonLimits): string | undefined;
  /** Returns the messages in a piece of an answer's stream, and notes the end of the answer. */
  messagesOf(frames: string): readonly string[];
  /** Returns the message for an answer that is an error instead of a stream. */
  refusal(status: number, body: unknown): string;
  /** Returns the message for a connection that has reached its longest life. */
  lifeReached(): string;
}

/** A document as it is stored: the content of a large document is only its beginning. */
export interface StoredDocument extends KeptDocument {
  /** The length of the whole content, in characters. */
  readonly chars: number;
  /** The name and the number of the parts of a large content, with its beginning. */
  readonly parts?: { readonly token: string; readonly count: number };
}

/** A document to create. Its time is the host's unless it has one of its own. */
export type NewKept = Omit<NewDocument, "retainMs"> & { readonly retainMs?: number };

/** A page of a list. */
export interface KeptPage extends Omit<DocumentPage, "maxBytes"> {
  /** The most characters of the whole contents. The page has one document at least. */
  readonly maxChars: number;
}

/**
 * The documents of one key in the host's store of responses. Each verb rejects with `store_unavailable` when the store fails. The host's
 * options decide how long a document is kept.
 */
export interface KeptDocuments {
  create(documents: readonly NewKept[]): Promise<boolean>;
  /** Updates a document without a parent, or a small one. */
  update(update: Omit<DocumentUpdate, "retainMs"> & { readonly retainMs?: number }): Promise<boolean>;
  /**
   * Returns documents as they are stored: little memory, however large they are.
   *
   * @param chars The most characters of all these documents as they are stored, where they are known. Default: room for the largest is booked.
   */
  peek(ids: readonly string[], chars?: number): Promise<readonly StoredDocument[]>;
  /**
   * Returns whole documents. Books the memory of large documents, until the end of the call, before it reads them.
   *
   * @param admit Receives the characters of each document before any large document is read. May throw.
   */
  read(ids: readonly string[], admit?: (chars: number) => void): Promise<readonly KeptDocument[]>;
  /** Returns the whole documents of stored ones, like `read`. A document that was deleted meanwhile is left out. */
  whole(stored: readonly StoredDocument[], admit?: (chars: number) => void): Promise<readonly KeptDocument[]>;
  /** Returns the content of a document piece by piece; `undefined` for a piece that was deleted meanwhile. */
  pieces(document: StoredDocument): AsyncIterable<string | undefined>;
  list(parentId: string, page: KeptPage): Promise<readonly StoredDocument[]>;
  /** Deletes a document. A child that is divided needs its parts; those of a document without a parent are deleted with it. */
  delete(id: string, document?: Pick<StoredDocument, "parts">): Promise<boolean>;
  /** Reports a failure that its caller is not told. */
  failed(error: unknown): void;
}

/** The call as its documents see it. */
export interface DocumentsCall {
  readonly limits: Limits;
  readonly isEnded: boolean;
  /** True for a call that costs nothing, or may: a read, a cancellation (the response itself may hold all quota), or a free model's answer. */
  readonly isFree: boolean;
  /** Books memory of the call's key. */
  lease(): BodyLease;
  /** Books room for a read that takes some milliseconds. Throws `busy` when there is none for most of a second. */
  takeSoon(lease: BodyLease, bytes: number): Promise<void>;
  /** Releases something at the end of the call. */
  defer(release: () => void): void;
  /** Throws `quota_exhausted` or `quota_held` when the key has no quota left. */
  assertSolvent(): Promise<void>;
  /** Reports a failure that the caller is not told. */
  report(error: unknown): void;
  /**
   * Asks the store, also after the end of the call, because a response that is made in the background is written then. Rejects with
   * `store_unavailable` when the store fails or takes too long.
   */
  ask<Value>(verb: string, ask: (call: CallInfo) => Promise<Value>): Promise<Value>;
}

interface Route {
  /** The name of the format. */
  readonly format: string;
  readonly method: "GET" | "POST" | "DELETE";
  /** The path relative to the gateway's mount. A path that ends in `/**` matches everything below. */
  readonly path: string;
  /**
   * Tells whether this endpoint owns a request that matches the path. A request that no endpoint owns belongs to the host.
   */
  owns?(wildcardPath: string, request: Request): boolean;
  /** Reads the form of a request; missing for a route whose body is JSON. */
  readForm?(request: Request, intake: BodyIntake): Promise<Form>;
  /** Returns the API key as the caller sent it; undefined without one. */
  credential(request: Request): string | undefined;
  /** A sentence that says where the API key belongs. Absent for a format whose error has a text of its own. */
  readonly keyPlace?: string;
  /** Returns an error in this format. */
  encodeError(error: GatewayError, requestId: string): { readonly status: number; readonly body: unknown };
  /** Returns headers with the state of the key's rate limits. Absent for formats whose clients read none. */
  rateHeaders?(limits: readonly RateLimit[], now: number): Record<string, string>;
}

/** A route whose answers a model generates. The endpoint brings the module of its kind. */
export interface GenerationEndpoint<
  Kind = KindModule,
  Request extends DecodedRequest = DecodedRequest,
  Answered = unknown,
> extends Route {
  readonly kind: Kind;
  /**
   * Decodes a request, without a look at the content of its files.
   *
   * @param models Returns the models that the caller's key may use; of the given ids when the backend lists no models. Default: none of these.
   */
  decode(
    body: unknown,
    incoming: Incoming,
    models: (unlisted?: readonly string[]) => ReturnType<Query["models"]>,
  ): Request | Promise<Request>;
  /** Returns the model that the address names, for the record of a request that is refused before its body is decoded. */
  modelIn?(wildcardPath: string): string;
  /** Returns a collector for the body of a complete answer. */
  complete(answer: AnswerContext<Request>): AnswerCollector<Answered>;
  /** Returns an encoder for the same answer as a stream. Missing for a kind whose answers are never streamed. */
  stream?(answer: AnswerContext<Request>): AnswerStream<Answered>;
  /** Returns the encoder of an answer that goes on without its client; undefined for a request that does not ask for this. */
  background?(answer: AnswerContext<Request>): BackgroundAnswer<Answered> | undefined;
}

/** An endpoint of a kind: its codec, and the fields that the kind needs. */
export type EndpointOf<Kind> =
  Kind extends KindModule<infer Needs, infer Request, infer _Event, infer Answered, infer _Prepared>
    ? GenerationEndpoint<Kind, Request, Answered> &
        Needs &
        (Request extends { readonly stream: boolean }
          ? { stream(answer: AnswerContext<Request>): AnswerStream<Answered> }
          : unknown)
    : never;

/** An answer that is made in the background. It is a stream that nobody may read, and a document that is written meanwhile. */
export interface BackgroundAnswer<Event> extends AnswerStream<Event> {
  /** Makes the document, and returns the body of the answer to the client. */
  begin(): Promise<object>;
  /** Writes what has come so far. Resolves with false when the answer was cancelled. Never rejects. */
  save(): Promise<boolean>;
  /** Writes the failure of an answer that is not complete. Called at the end of each call. Never rejects. */
  end(error: GatewayError): Promise<void>;
}

/** A streamed answer of the gateway itself. It is asked again and again. */
export interface FrameSource {
  readonly contentType: string;
  readonly keepAlive: string;
  next(): Promise<{ readonly frames: string; readonly isLast: boolean }>;
  error(error: GatewayError): string;
}

/** A route that needs no key: only callers who know the address find its content. */
export interface PublicEndpoint extends Route {
  readonly kind: "public";
  /** The kind whose answers the route hands out: a gateway has the route only with a backend of this kind. */
  readonly answersOf: Pick<KindModule, "verb">;
  answer(incoming: Incoming): Promise<Answer>;
}

/** A route that the gateway answers itself, at no charge. */
export interface QueryEndpoint extends Route {
  readonly kind: "query";
  /** True when an expired key may still ask. */
  readonly expiredKeysMayAsk: boolean;
  /** The body that the route takes. */
  readonly body: "json" | "none";
  /** The rules of the route once its connection is a WebSocket. */
  readonly socket?: SocketProtocol;
  /** True for a route that only refuses callers of a gateway without a store of responses. */
  readonly needsResponseStore?: boolean;
  /** Returns the body of the answer, or a promise of it. */
  answer(query: Query, incoming: Incoming): unknown;
  /** Returns the answer as a stream; undefined for a request that does not ask for one. */
  stream?(query: Query, incoming: Incoming): FrameSource | undefined;
}

/** A model on offer. */
export interface ListedModel extends ModelInfo {
  /** Its other names. Absent for a model without any. */
  readonly aliases?: readonly string[];
}

/** A request that the gateway answers itself. */
export interface Query {
  /** The parsed body; undefined for a route without a body. */
  readonly body: unknown;
  readonly key: ApiKey;
  /** Counts the input of a request, by the backend or by estimate. */
  readonly countInput: <Request extends DecodedRequest>(
    kind: CountedKind<Request>,
    request: Request,
  ) => Promise<number>;
  /** Estimates the input of a request that names no model. Asks neither a backend nor a hook. */
  readonly estimateInput: <Request extends DecodedRequest>(kind: CountedKind<Request>, request: Request) => number;
  /** Returns the balance of the key; undefined for a key that was deleted meanwhile. */
  readonly balance: () => Promise<Balance | undefined>;
  /** Throws when the key may not use a model of a kind, or no such model exists. */
  readonly authorize: (kind: Pick<KindModule, "name">, model: string) => Promise<void>;
  /** Returns the models that the key may use; none when the backend lists no models. */
  readonly models: () => Promise<readonly ListedModel[]>;
}

/** The request that an answer belongs to. */
export interface AnswerContext<Asked = ChatRequest> {
  readonly request: Asked;
  readonly requestId: string;
  /** As `Incoming.kept`. */
  readonly kept?: KeptDocuments | undefined;
}

/** Keeps the answer for later, for a format whose callers may ask for it again. */
interface Keeping<Event> {
  /**
   * Receives the finish, before it is added or encoded, when the call is settled. Keeps the answer; resolves when that is done. Must not
   * reject.
   */
  keep?(finish: Event): Promise<void> | undefined;
}

/** Collects the events of one answer into its complete body. */
export interface AnswerCollector<Event> extends Keeping<Event> {
  add(event: Event): void;
  /** Returns the body after the last event: a value to write as JSON, or a `RawJson`. */
  body(): unknown;
}

/** Encodes one answer as a stream. Throws `backend_failed` for events in an impossible order. */
export interface AnswerStream<Event> extends Keeping<Event> {
  readonly contentType: string;
  /** Returns the frames for an event, or an empty text. */
  encode(event: Event): string;
  /** The frame that keeps a quiet connection open. */
  readonly keepAlive: string;
  /** Returns the frame that tells of a failure and ends the stream. */
  error(error: GatewayError): string;
}

/** Properties of an upstream on which the encoding of a request depends. */
export interface CodecOptions {
  /** The name of the output limit in chat completions. Default: `max_completion_tokens`, which old local servers do not know. */
  readonly outputLimitField?: "max_completion_tokens" | "max_tokens";
  /**
   * Returns the control that requests have over a model's reasoning: `none`, `budget`, `effort` or `any`. Takes the upstream's name of the
   * model. Default: by the names that are known.
   */
  readonly reasoning?: (model: string) => ReasoningControl | undefined;
  /**
   * The treatment of earlier reasoning that another provider has made: it is left out (`drop`, the default), or sent as text. `pass` is for
   * an upstream that is a polygate gateway itself: a request of the upstream's own format keeps the wrapped signatures of all makers, which
   * that gateway unwraps. In requests of other formats, `pass` leaves the reasoning out.
   */
  readonly foreignReasoning?: "drop" | "text" | "pass";
  /**
   * Sends earlier reasoning back to an upstream of chat completions. `auto` (default): in the field in which the upstream showed the
   * reasoning, because it then takes the reasoning back; known models that demand or refuse such fields get what they want. `always`: also reasoning whose origin is unknown, as `reasoning_content`, which
   * every turn with tool calls then has. `never`: not at all.
   */
  readonly reasoningHistory?: "auto" | "always" | "never";
}

/** Encodes chat requests for an upstream, and decodes its answers and errors. */
export interface ChatCodec {
  /** The name of the format. */
  readonly format: string;
  /**
   * Encodes a request. A request that came in this format keeps its native body, with the gateway's own decisions laid over it (the
   * model's name, a lowered output limit). Any other request is made from the neutral fields.
   */
  encodeRequest(request: ChatRequest): EncodedRequest;
  /**
   * @param limits Bounds of the JSON in each frame, and in a complete answer.
   * @param model The upstream's name of the model.
   */
  answerDecoder(limits?: JsonLimits, model?: string): AnswerDecoder;
  /**
   * Returns the maker of a model's reasoning and signatures, given the upstream's name of the model. Default: the format, for one whose
   * models accept the signatures of each other.
   */
  readonly makerOf?: (model: string) => string;
  /** Matches the names of tools that upstreams accept. The relay replaces other names in requests of other formats. Default: any name. */
  readonly toolNames?: RegExp;
  /** Counts the tokens of a request; undefined for a format that cannot count. */
  readonly count?: CountCodec;
  /** Asks an upstream to compact a conversation; undefined for a format without compactions. */
  readonly compact?: CompactCodec;
  /**
   * True for a format whose upstreams run code themselves (the tool `code-execution`). Default: the gateway's code runner runs the code of
   * their models.
   */
  readonly runsCode?: boolean;
  /**
   * Matches a field at the top of every answer and of every stream's first frame. JSON without such a field is an answer of another format.
   * Absent for a format whose answers have no such fields.
   */
  readonly answerFields?: RegExp;
  /**
   * Decodes an upstream's error from status, headers and body (parsed JSON, or a text). The upstream's message stays in `cause`.
   */
  decodeError(status: number, headers: Headers, body: unknown): GatewayError;
  /** Returns the headers of a 429 that tell clients of this format how long to wait, and nothing else of the host's account. */
  limitsOf?(headers: Headers): VendorLimits;
}

/** Encodes embedding requests for an upstream, and decodes its answers and errors. */
export interface EmbeddingCodec {
  /** Returns the most inputs that an upstream takes in one request. The relay divides a request with more. */
  maxInputs(request: EmbeddingRequest): number;
  /** Lists the conversions of fields that the format cannot say exactly; none for a request of the same format. */
  conversionsOf(request: EmbeddingRequest): readonly Conversion[];
  /** Encodes the inputs from `start` up to `end`. A request of the same format keeps its unknown fields. */
  encodeRequest(request: EmbeddingRequest, start: number, end: number): Omit<EncodedRequest, "conversions">;
  /** Decodes the text of an answer. Throws `backend_failed` for a text that is no answer with a vector for each of `count` inputs. */
  decodeAnswer(body: string, count: number, limits?: JsonLimits): EmbeddingAnswer;
  /** Returns the counts of an answer, also of one whose vectors are broken. */
  decodeCounts(answer: JsonObject): EmbeddingCounts;
  decodeError: ChatCodec["decodeError"];
}

/** A decoded answer. The meter checks the vectors. */
export interface EmbeddingAnswer extends EmbeddingCounts {
  readonly vectors: readonly EmbeddingVector[];
}

export interface EmbeddingCounts {
  /** The count that the upstream reported, unchecked. */
  readonly inputTokens: number | undefined;
  /** The parts of the count by kind of content, unchecked. */
  readonly details?: readonly ModalityCount[] | undefined;
  /** All that the upstream reported with the count. */
  readonly native: NativeUsage | undefined;
  /** The upstream's name of the model, if the answer has one. */
  readonly model: string | undefined;
}

/** Asks an upstream for the tokens of a request, without an answer. */
interface CountCodec {
  encode(request: ChatRequest): Omit<EncodedRequest, "conversions">;
  /** Returns the count in an answer, unchecked. */
  decode(answer: JsonObject): unknown;
}

/** Has an upstream compact a conversation by itself. */
interface CompactCodec {
  /** The name of the format that `native` requests to compact have. */
  readonly format: string;
  encode(request: ChatRequest): EncodedRequest;
  decoder(limits?: JsonLimits): Pick<AnswerDecoder, "answer" | "lost">;
}

export interface EncodedRequest {
  readonly body: JsonObject;
  /** The path and query below the upstream's base address, which names the version: `/messages`. */
  readonly path: string;
  /** The headers of the format, beside the credential. */
  readonly headers: Readonly<Record<string, string>>;
  /** The conversions of fields that the format cannot say exactly; empty for a request of the same format. */
  readonly conversions: readonly Conversion[];
}

/** Frames of a stream that were decoded together. */
export interface FrameRun<Event> {
  readonly event: Event;
  /** The place behind the last frame. */
  readonly end: number;
  /** The characters of the frames' data. */
  readonly chars: number;
}

/** Decodes one answer into events. Each chat event is `native`: the untouched frame beside the events that it means. */
export interface AnswerDecoder<Event = ChatEvent> {
  /**
   * Decodes one frame of a stream; a keep-alive gives no event. Throws the upstream's own error, or `backend_failed`.
   */
  frame(event: string | undefined, data: string): Event[];
  /**
   * Notes how the last frame stands in the stream, with its blank line. Frames that differ from it by a text alone can then be decoded without
   * a parser. Missing in a decoder that parses every frame.
   */
  note?(frame: string): void;
  /**
   * Decodes the frames at a place of a stream that differ from the noted frame by a text. Returns undefined if no such frame stands there.
   *
   * @param most After more characters of data than this, the frames that follow are left for the next run.
   * @param isJoined True where the texts of the frames become one text, and false where each frame keeps its own events.
   */
  run?(source: string, from: number, most: number, isJoined: boolean): FrameRun<Event> | undefined;
  /** Throws `backend_failed` when the stream ended before the answer was complete. */
  end(): void;
  /** Decodes the text of a complete answer. Throws `backend_failed` for a text that is not an answer. */
  answer(body: string): Event[];
  /** True once the answer has said something in its format, beside its beginning and its counts. Missing in a decoder that cannot tell. */
  readonly hasSaid?: boolean;
  /** Returns the events to charge of a frame or an answer that is lost: another method has thrown for it, or its text breaks off. */
  lost?(text: string): Event[];
}
