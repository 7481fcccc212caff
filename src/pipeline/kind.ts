/** A kind of generation, as the pipeline runs it: chat, images, embeddings. A kind is a folder in `src/kinds`, and comes with the formats that serve it. */

import type { AnswerCollector, AnswerContext, AnswerStream, BackgroundAnswer } from "../formats/format.ts";
import type { Answer } from "../http/answer.ts";
import type { ChatRequest, NativeRequest } from "../kinds/chat/request.ts";
import type { Amounts, Meter } from "../kinds/meter.ts";
import type { ModelKind } from "../ports/call.ts";
import type { CallContext, ModelBackend, ModelInfo } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { Call } from "./call.ts";

/** A decoded request. Only a kind whose answers can be streamed has `stream`. */
export interface DecodedRequest {
  readonly model: string;
  readonly stream?: boolean;
  readonly native?: NativeRequest;
}

/** A route whose answers are generated. */
export interface GenerationEndpoint<Request extends DecodedRequest = DecodedRequest, Answered = unknown> {
  /** @param lists Tells whether the caller's key may use a model that the backend lists for the kind of the route. */
  decode(body: unknown, call: Call, lists: (model: string) => Promise<boolean>): Request | Promise<Request>;
  complete(answer: AnswerContext<Request>): AnswerCollector<Answered>;
  /** Missing for a kind whose answers are never streamed. */
  stream?(answer: AnswerContext<Request>): AnswerStream<Answered>;
  background?(answer: AnswerContext<Request>): BackgroundAnswer<Answered> | undefined;
}

/** A model as a request names it. */
export interface NamedModel {
  readonly name: string;
  /** The name that the caller used, for errors: perhaps an alias. Default: `name`. */
  readonly said?: string | undefined;
  /** Aliases of the model. Keys and backends may use them. */
  readonly aliases: readonly string[];
  readonly kind: ModelKind;
}

/** The rules of one kind, in the order in which the pipeline applies them. */
export interface Kind<Endpoint, Request extends DecodedRequest, Event, Answered> {
  /** Names the requested model. */
  model(endpoint: Endpoint, request: Request): NamedModel;
  /** Holds the request to the limits of its model, if they are listed. Throws `invalid_request` for a request that asks for more. */
  fit(endpoint: Endpoint, request: Request, model: ModelInfo | undefined): Request;
  /** Has the backend count the input, in tokens; undefined when the backend cannot. Missing for a kind that is not counted in tokens. */
  countInput?(call: Call, key: ApiKey, request: Request): Promise<number | undefined>;
  /** Returns the least and the most units that the request may cost. */
  amounts(call: Call, request: Request, model: ModelInfo | undefined): Amounts;
  /** Prepares the request of a caller who can pay, before the backend is asked. A failure ends the call at no charge. */
  prepare?(call: Call, key: ApiKey, endpoint: Endpoint, request: Request): Promise<void>;
  /** Lowers the request to the units that its hold has granted. */
  afford(call: Call, request: Request): Request;
  /** Tells whether the backend may run code for this request. */
  mayRunCode(request: Request): boolean;
  /** Asks the backend. Returns undefined for a backend that lacks the verb. */
  ask(backend: ModelBackend, request: Request, context: CallContext): AsyncIterable<Event> | undefined;
  /** Prepares the metering of one answer. Nothing runs yet. */
  generation(call: Call, endpoint: Endpoint, request: Request): Generation<Event, Answered>;
}

/** The generation of one answer: its meter, and the steps around it. */
export interface Generation<Event, Answered> {
  readonly meter: Meter<Event, Answered>;
  /** Changes the backend's events before they are counted. */
  shape(events: AsyncIterable<Event>): AsyncIterable<Event>;
  /** Receives each event of the answer. Missing when neither the host nor an observer wants the record of the call. */
  onEvent?(event: Answered): void;
}

/** The kinds of generation, as the pipeline reads them. */
export type Kinds = Readonly<Record<ModelKind, Kind<GenerationEndpoint, DecodedRequest, unknown, unknown>>> & {
  readonly chat: { countInput(call: Call, key: ApiKey, request: ChatRequest): Promise<number | undefined> };
};

/** Recognises a repeated request by its key, and answers it with the answer of the first. */
export interface Repetitions {
  /** Returns the request's idempotency key; undefined without one. Throws `invalid_request` for a header that is not a key. */
  keyOf(request: Request): string | undefined;
  /** Returns the answer of the first call with the key; undefined when this call is the first. */
  replay(call: Call, key: ApiKey, idempotencyKey: string): Promise<Answer | undefined>;
}

/** The parts of the pipeline that come with the formats and features of a gateway. */
export interface Parts {
  readonly kinds: Kinds;
  /** Undefined when the host has no replay store: then idempotency keys mean nothing. */
  readonly repetitions: Repetitions | undefined;
}
