/** What a dialect is: the routes of one wire format, each able to read its credential, decode, and encode answers and errors. */

import type { GatewayError } from "../errors.ts";
import type { Answer } from "../http/answer.ts";
import type { Limits } from "../limits.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { AnswerEvent } from "../model/event.ts";
import type { FieldFate } from "../model/fate.ts";
import type { JsonBudget } from "../model/json.ts";
import type { ImageAnswerEvent, ImageDrawn, ImageRequest } from "../model/image.ts";
import type { ImageBooking } from "../ports/image-store.ts";
import type { ModelInfo } from "../ports/model-backend.ts";
import type { ApiKey, Balance } from "../ports/quota-store.ts";
import type { RateLimit } from "../ports/rate-limiter.ts";

export interface Dialect {
  /** The name that `native` parts of the neutral model carry. */
  readonly name: string;
  readonly endpoints: readonly Endpoint[];
}

export type Endpoint = ChatEndpoint | ImageEndpoint | QueryEndpoint | PublicEndpoint;

/** A request on its way to an endpoint. */
export interface Incoming {
  readonly request: Request;
  /** What a route's wildcard stands for, still percent-encoded; empty where the route has none. */
  readonly tail: string;
  readonly limits: Limits;
  /** Counts the values of the body; the JSON texts within it count with it. */
  readonly json: JsonBudget;
  /** Where the gateway is mounted, as its callers see it, without a slash at the end: `https://example.com/ai`. */
  baseUrl(): string;
  /** Fires when the call is cut short. */
  readonly signal: AbortSignal;
  /** Lets the event loop serve others between two walks over a large body. Undefined for any other body: nothing is waited for. */
  turn(): Promise<void> | undefined;
}

interface Route {
  /** The name of its dialect. */
  readonly dialect: string;
  readonly method: "GET" | "POST";
  /** Relative to where the gateway is mounted; one that ends in `/**` takes all that is below. */
  readonly path: string;
  /** Whether a request that matches the path is meant for this endpoint; one that no endpoint of a path owns is the host's. */
  owns?(tail: string, request: Request): boolean;
  /** The api key as the caller sent it; undefined when none was. */
  credential(request: Request): string | undefined;
  /** An error as this format says it. */
  encodeError(error: GatewayError, requestId: string): { readonly status: number; readonly body: unknown };
  /** The headers that tell how the key's rates stand; absent where the format's clients read none. `now` as by the clock. */
  rateHeaders?(limits: readonly RateLimit[], now: number): Record<string, string>;
}

/** A route that a chat model answers; its body is JSON. */
export interface ChatEndpoint extends Route {
  readonly kind: "chat";
  /** How callers spell the limit on the output, for an error that names it. */
  readonly maxOutputTokensPath: readonly string[];
  decode(body: unknown, incoming: Incoming): ChatRequest | Promise<ChatRequest>;
  /** What of an event of the answer the format cannot say as it is. */
  lossesOf(event: AnswerEvent): readonly FieldFate[];
  /** Makes the body of a complete answer. */
  complete(answer: AnswerContext): AnswerCollector<AnswerEvent>;
  /** Makes the same answer as a stream. */
  stream(answer: AnswerContext): AnswerStream<AnswerEvent>;
}

/** A route that an image model answers. */
export interface ImageEndpoint extends Route {
  readonly kind: "image";
  readonly body: "json" | "form";
  /** The largest file that a form's field may hold, in bytes, or undefined for a field that takes no file. */
  maxFileBytes(field: string): number | undefined;
  /** Decodes a request. The pixels of its files are not looked at yet. */
  decode(body: unknown, incoming: Incoming): Promise<ImageRequest>;
  /** Looks at the pixels of its files, once quota is held for it; throws `invalid_request` that names the file. */
  inspect(request: ImageRequest, incoming: Incoming): Promise<void>;
  /** Sets room aside for pictures that are to be linked; undefined where none is needed. Throws `busy` where there is none. */
  book(request: ImageRequest, keyId: string): Promise<ImageBooking | undefined>;
  /** Other names of a model. */
  aliasesOf(model: string): readonly string[];
  /** Puts a finished picture where its caller can fetch it; tells the address. */
  publish(image: ImageDrawn, incoming: Incoming, booking?: ImageBooking): Promise<string>;
  complete(answer: AnswerContext<ImageRequest>): AnswerCollector<ImageAnswerEvent>;
  stream(answer: AnswerContext<ImageRequest>): AnswerStream<ImageAnswerEvent>;
}

/** A route that needs no key: what it serves is found by those alone who were told its address. */
export interface PublicEndpoint extends Route {
  readonly kind: "public";
  answer(incoming: Incoming): Promise<Answer>;
}

/** A route that the gateway answers by itself, at no charge. */
export interface QueryEndpoint extends Route {
  readonly kind: "query";
  /** Whether a key that has expired may still ask. */
  readonly expiredKeysMayAsk: boolean;
  /** Whether it takes a JSON body. */
  readonly body: "json" | "none";
  /** The body of the answer, or a promise of it. */
  answer(query: Query, incoming: Incoming): unknown;
}

/** A model on offer, with the other names that it goes by. */
export interface ListedModel extends ModelInfo {
  readonly aliases: readonly string[];
}

export interface Query {
  /** The parsed body, where the route takes one. */
  readonly body: unknown;
  readonly key: ApiKey;
  /** Counts the input of a request as its backend does, or by estimate. */
  readonly countInput: (request: ChatRequest) => Promise<number>;
  /** What the key has used and has left; undefined where it was deleted meanwhile. */
  readonly balance: () => Promise<Balance | undefined>;
  /** Throws when the key may not use a chat model, or there is none of that name. */
  readonly authorize: (model: string) => Promise<void>;
  /** The models on offer that the key may use; none where the backend lists none. */
  readonly models: () => Promise<readonly ListedModel[]>;
}

export interface AnswerContext<Asked = ChatRequest> {
  readonly request: Asked;
  readonly requestId: string;
}

/** Collects the events of one answer into its complete body. */
export interface AnswerCollector<Event> {
  add(event: Event): void;
  /** The body, once the last event was added: what is to be written as JSON, or a `RawJson` that is so already. */
  body(): unknown;
}

/** One answer as a stream in its wire format. Throws `backend_failed` for events that the format cannot say in order. */
export interface AnswerStream<Event> {
  readonly contentType: string;
  /** What an event adds to the body: whole frames, or an empty text. */
  encode(event: Event): string;
  /** The frame that says nothing and keeps the connection open. */
  readonly keepAlive: string;
  /** The frame that tells of a failure after the stream has begun, and ends the body. */
  error(error: GatewayError): string;
}
