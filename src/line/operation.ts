/** What differs between the kinds of generation: what a request may cost, how it is run, how its answer is counted. */

import type { Meter } from "../metering/meter.ts";
import type { Amounts } from "../metering/price.ts";
import type { ModelInfo } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { AnswerCollector, AnswerContext, AnswerStream } from "../dialects/dialect.ts";
import type { NamedModel } from "./authorize-model.ts";
import type { Call } from "./call.ts";

/** A decoded request. */
export interface Asked {
  readonly model: string;
  readonly stream: boolean;
}

/** A route whose answers are generated. */
export interface GenerationEndpoint<Request extends Asked, Answered> {
  decode(body: unknown, call: Call): Request | Promise<Request>;
  complete(answer: AnswerContext<Request>): AnswerCollector<Answered>;
  stream(answer: AnswerContext<Request>): AnswerStream<Answered>;
}

/** A request that quota is held for: what counts its answer, and what it is asked of. */
export interface Run<Request, Event, Answered> {
  /** The request as its hold affords it. */
  readonly request: Request;
  readonly meter: Meter<Event, Answered>;
  /** Sees each event that is handed on; undefined where nobody wants to know. */
  readonly saw?: ((event: Answered) => void) | undefined;
  /** Asks the backend. */
  readonly events: () => AsyncIterable<Event>;
}

export interface Operation<Endpoint, Request extends Asked, Event, Answered> {
  /** The model that is asked for. */
  model(endpoint: Endpoint, request: Request): NamedModel;
  /** The request, held to what the model can. Throws where it asks for more. */
  fit(endpoint: Endpoint, request: Request, model: ModelInfo): Request;
  /** Asks the backend for the tokens of the input; missing where nothing is counted by tokens. Rejects only where the call has ended. */
  countInput?(call: Call, key: ApiKey, request: Request): Promise<void>;
  /** Returns the least and the most that the request may cost. */
  amounts(call: Call, request: Request, model: ModelInfo | undefined): Amounts;
  /** What is done only for a caller who can pay, before the backend is asked. What it throws ends the call at no charge. */
  prepare?(call: Call, key: ApiKey, endpoint: Endpoint, request: Request): Promise<void>;
  /** Makes ready to run it within the units granted. Nothing runs yet. */
  run(call: Call, key: ApiKey, endpoint: Endpoint, request: Request): Run<Request, Event, Answered>;
}
