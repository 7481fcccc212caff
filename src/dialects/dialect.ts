/** What a dialect is: the routes of one wire format, each able to read its credential, decode, encode and dress an error. */

import type { GatewayError } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { CountTokens } from "../metering/estimate.ts";
import type { ChatRequest } from "../model/chat.ts";
import type { AnswerEvent } from "../model/event.ts";
import type { ImageAnswerEvent, ImageDrawn, ImageRequest } from "../model/image.ts";
import type { ApiKeyRecord } from "../ports/quota-store.ts";

export interface Dialect {
  /** The name that `native` parts of the neutral model carry. */
  readonly name: string;
  readonly endpoints: readonly Endpoint[];
}

export type Endpoint = ChatEndpoint | ImageEndpoint | QueryEndpoint | OpenEndpoint;

/** A request on its way to an endpoint. */
export interface Incoming {
  readonly request: Request;
  /** What a route's wildcard stands for, still percent-encoded; empty where the route has none. */
  readonly tail: string;
  readonly limits: Limits;
  /** Where the gateway is mounted, as its callers see it, without a slash at the end: `https://example.com/ai`. */
  baseUrl(): string;
  /** Fires when the call is cut short. */
  readonly signal: AbortSignal;
  /** Has something let go of when the call is over, however it ends. */
  readonly atEnd: (release: () => void) => void;
}

interface Route {
  readonly method: "GET" | "POST";
  /** A route pattern of h3, relative to where the gateway is mounted. */
  readonly path: string;
  /** Whether a request that matches the path is meant for this endpoint; one that no endpoint of a path owns is the host's. */
  owns?(tail: string): boolean;
  /** The api key as the caller sent it; undefined when none was. */
  credential(request: Request): string | undefined;
  /** An error as this format says it. */
  dress(error: GatewayError, requestId: string): { readonly status: number; readonly body: unknown };
}

/** A route that a chat model answers. */
export interface ChatEndpoint extends Route {
  readonly kind: "chat";
  /** How callers spell the limit on the output, for an error that names it. */
  readonly maxOutputTokensPath: readonly string[];
  parse(incoming: Incoming): Promise<ChatRequest>;
  /** Makes the body of a complete answer. */
  complete(answer: AnswerContext): AnswerCollector<AnswerEvent>;
  /** Makes the same answer as a stream. */
  stream(answer: AnswerContext): AnswerStream<AnswerEvent>;
}

/** A route that an image model answers. */
export interface ImageEndpoint extends Route {
  readonly kind: "image";
  parse(incoming: Incoming): Promise<ImageRequest>;
  /** Other names of a model. */
  aliasesOf(model: string): readonly string[];
  /** Puts a finished picture where its caller can fetch it; tells the address. */
  publish(image: ImageDrawn, incoming: Incoming): Promise<string>;
  complete(answer: AnswerContext<ImageRequest>): AnswerCollector<ImageAnswerEvent>;
  stream(answer: AnswerContext<ImageRequest>): AnswerStream<ImageAnswerEvent>;
}

/** A route that needs no key: what it serves is found by those alone who were told its address. */
export interface OpenEndpoint extends Route {
  readonly kind: "open";
  answer(incoming: Incoming): Promise<Response>;
}

/** A route that the gateway answers by itself, at no charge. */
export interface QueryEndpoint extends Route {
  readonly kind: "query";
  /** Whether a key that has expired may still ask. */
  readonly expiredKeysMayAsk: boolean;
  answer(query: Query): unknown;
}

export interface Query extends Incoming {
  readonly key: ApiKeyRecord;
  readonly countTokens: CountTokens;
  /** Throws when the key may not make such a request, or no model is there for it. */
  readonly authorize: (request: { readonly model: string }) => Promise<void>;
}

export interface AnswerContext<Asked = ChatRequest> {
  readonly request: Asked;
  readonly requestId: string;
}

/** Collects the events of one answer into its complete body. */
export interface AnswerCollector<Event> {
  add(event: Event): void;
  /** The body, once the last event was added. */
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
