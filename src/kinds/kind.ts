/**
 * A kind of generation: chat, images, embeddings. A kind is a folder beside this file, with one value: its `KindModule`. An endpoint brings
 * the module of its kind, and the pipeline asks the module at each step:
 *
 *   names → fit → count → cost → prepare → afford → ask → generation
 */

import type { Port } from "../errors.ts";
import type { Limits } from "../limits.ts";
import type { FinishReason } from "../model/chat-event.ts";
import type { NativeRequest } from "../model/chat-request.ts";
import type { Conversion } from "../model/conversion.ts";
import type { JsonBudget, JsonLimits } from "../model/json.ts";
import type { ModelKind } from "../ports/call-info.ts";
import type { HookAnswer, HookEvent } from "../ports/hook.ts";
import type { CallContext, ModelBackend, ModelInfo, UpstreamModel } from "../ports/model-backend.ts";
import type { ApiKey } from "../ports/quota-store.ts";
import type { Price } from "./chat/price.ts";
import type { CountTokens } from "./count-tokens.ts";
import type { ImagePrice } from "./image/price.ts";
import type { Amounts, Meter } from "./meter.ts";

/** A decoded request. Only a kind whose answers can be streamed has `stream`. */
export interface DecodedRequest {
  readonly model: string;
  readonly stream?: boolean;
  /** The body of the caller, in the caller's format. */
  readonly native?: NativeRequest;
}

/** The other names of a requested model. */
export interface ModelNames {
  /** The name that the caller used, for errors: perhaps an alias. Default: the model's own. */
  readonly said?: string | undefined;
  /** Aliases of the model. Keys and backends may use them. */
  readonly aliases: readonly string[];
}

/** The prices that the host has set: an option of the gateway each. A missing price is the default of its kinds. */
export interface HostPrices {
  readonly price?: Price | undefined;
  readonly imagePrice?: ImagePrice | undefined;
}

/** The call as its kind sees it: the gateway's settings, and the gateway's help. */
export interface KindCall {
  readonly key: ApiKey;
  readonly limits: Limits;
  /** The bounds of the JSON in one event. */
  readonly jsonLimits: JsonLimits;
  readonly prices: HostPrices;
  readonly countTokens: CountTokens;
  /** True when somebody reads the record of the call. */
  readonly isRecorded: boolean;
  readonly signal: AbortSignal;
  /** True after the end of the call. The results of late steps are dropped. */
  readonly isEnded: boolean;
  /** Returns the gateway's address as callers see it, without a slash at the end. */
  baseUrl(): string;
  /** Returns the upstreams that may answer for a model, for the price before the call; none where they do not change the price. */
  upstreamsOf(model: string): readonly UpstreamModel[];
  /** Tells whether the backend compacts the conversations of a model itself. */
  compactsItself(model: string): boolean;
  /** Returns the upstream that was asked last, which decides the price; undefined when none is known. */
  answeringUpstream(): UpstreamModel | undefined;
  /** Tells whether the backend has left a field of the request out, because the model behind it does not have the field. */
  leavesOut(field: string): boolean;
  /** Notes a field of the request that the answer does not meet, unless the backend has reported it. */
  noteConversion(conversion: Conversion): void;
  /** Reports an impossible count of the backend. The answer goes on. */
  doubt(why: string): void;
  /** Reports a failure that the caller is not told. */
  report(error: unknown, port: Port): void;
  /** Notes the output limit to which the quota has lowered that of the request, for the record. */
  noteAffordedOutput(tokens: number): void;
  /** Notes the fields of the answer that the caller's format cannot say, for the record. */
  noteAnswerConversions(conversions: readonly Conversion[]): void;
  /**
   * Queries a store of the host. Rejects with `store_unavailable` when the store fails or takes too long.
   *
   * @param late Receives an answer that comes after the query has ended, so that the answer can be undone.
   */
  askStore<Answer>(
    port: Port,
    verb: string,
    ask: () => Promise<Answer>,
    late?: (answer: Answer) => unknown,
  ): Promise<Answer>;
  /** Releases something at the end of the call, the last first; at once after the end. */
  defer(release: () => void): void;
  /** Throws the reason of a call that was cut. */
  assertLive(): void;
}

/** The units that a request may cost, and the tokens that its rate limits count. */
export interface Cost extends Amounts {
  /** The tokens of the input, counted or estimated; 0 for a kind whose input is not counted. */
  readonly inputTokens: number;
  /** The most tokens that the answer may have; 0 for a kind that is not limited in tokens. */
  readonly maxOutputTokens: number;
  /** The parts of the cost of a request that is answered in two steps: of a first request, and of the request itself. */
  readonly steps?: { readonly first: DecodedRequest; readonly firstCost: Cost; readonly lastCost: Cost };
}

/** Facts about a request that are known before its cost. */
interface KnownFacts {
  /** The backend's entry for the model; undefined for an unlisted model. */
  readonly model?: ModelInfo | undefined;
  /** The backend's own count of the input, in tokens, where the host asks for one. */
  readonly countedInput?: number | undefined;
}

/** Counts the input of requests, for a kind whose callers may ask for the count alone. */
export interface InputCounter<Request> {
  /** Asks the backend; undefined for a backend that does not count. The caller checks the count. */
  byBackend(backend: ModelBackend, request: Request, context: CallContext): Promise<number | undefined> | undefined;
  estimate(request: Request, countTokens: CountTokens): number;
}

/** A kind whose callers may ask for the count of the input alone. */
export interface CountedKind<Request> extends Pick<KindModule, "name" | "counts"> {
  readonly input: InputCounter<Request>;
}

/** The functions of a generation that asks the backend in several steps. */
export interface BackendSteps<Event> {
  /** Asks the backend. The events end with the call. Throws the reason of a call that was cut. */
  ask(request: DecodedRequest): AsyncIterable<Event>;
  /** Follows the count of an event that is no part of the answer. Rejects with the reason of a call that was cut. */
  counted(): Promise<void>;
}

/** The generation of one answer: its meter, and the steps around it. */
export interface Generation<Event, Answered> {
  readonly meter: Meter<Event, Answered>;
  /** Asks the backend in several steps, and returns the events of the answer. Default: the backend is asked once. */
  ask?(steps: BackendSteps<Event>): AsyncIterable<Event>;
  /** Changes the backend's events before they are counted. Default: no change. */
  shape?(events: AsyncIterable<Event>): AsyncIterable<Event>;
  /** Receives each event of the answer. Missing when neither the host nor an observer wants the record of the call. */
  onEvent?(event: Answered): void;
}

export type HookContent = Omit<HookAnswer, "record">;

/** Collects the content of one answer for the hooks. */
export interface ContentCollector<Answered> {
  onEvent(event: Answered): void;
  /** The memory that the content takes, in bytes. */
  readonly bytes: number;
  /** @param budget Books the memory of values that are parsed. Its errors are thrown. */
  content(budget: JsonBudget): HookContent;
}

/**
 * A kind of generation, in the order in which the pipeline asks its functions. Missing functions change nothing.
 *
 * `Needs` has the fields that an endpoint of the kind must have beside the codec of its requests and answers. `Prepared` is the result of
 * `prepare`.
 */
export interface KindModule<
  Needs = object,
  Request extends DecodedRequest = DecodedRequest,
  Event = unknown,
  Answered = unknown,
  Prepared = unknown,
> {
  /** The name in lists of models, prices, hooks and records. */
  readonly name: ModelKind;
  /** The name of the backend's function. A gateway has only the routes whose function its backend has. */
  readonly verb: string;
  /** The fields of a request that decide how much is held: a hook can set each only to an integer from 1 up. */
  readonly counts?: readonly string[];
  /** Counts the input; missing for a kind that is not counted in tokens. */
  readonly input?: InputCounter<Request>;
  /** Tells whether a price depends on the upstream that answers. Otherwise the backend is not asked for its upstreams. */
  isPricedByUpstream(prices: HostPrices): boolean;
  /** Returns true if some requests may cost nothing; undefined if the prices do not tell. A kind without this function does not know it. */
  hasFreeModels?(prices: HostPrices): boolean | undefined;
  /** Returns other names of the requested model. Default: none. */
  names?(endpoint: Needs, request: Request): ModelNames;
  /** Holds the request to the limits of its model, if they are listed. Throws `invalid_request` for a request that asks for more. */
  fit?(endpoint: Needs, request: Request, model: ModelInfo | undefined): Request;
  /** Returns the least and the most that the request may cost. */
  cost(call: KindCall, request: Request, known: KnownFacts): Cost;
  /** Prepares the request of a caller who can pay, before the backend is asked. A failure ends the call at no charge. */
  prepare?(call: KindCall, endpoint: Needs, request: Request): Promise<Prepared | undefined>;
  /** Lowers the request to the units that its hold has granted. */
  afford?(call: KindCall, request: Request, cost: Cost, granted: number): Request;
  /** Tells whether the backend may run code for this request. Default: no. */
  mayRunCode?(request: Request): boolean;
  /** Asks the backend. Returns undefined for a backend that lacks the verb. */
  ask(backend: ModelBackend, request: Request, context: CallContext): AsyncIterable<Event> | undefined;
  /** Prepares the metering of one answer. Nothing runs yet. */
  generation(
    call: KindCall,
    endpoint: Needs,
    request: Request,
    made: { readonly cost: Cost; readonly prepared: Prepared | undefined },
  ): Generation<Event, Answered>;
  /** Collects the content of an answer for the hooks. Default: hooks see the record alone. */
  collector?(): ContentCollector<Answered>;
}

/** A kind whose answers the `during` of hooks may change: hooks see neutral pieces alone, and each change is checked. */
export interface OutputKind<Answered = unknown> {
  readonly kind: ModelKind;
  /**
   * Begins one answer.
   *
   * @param format The caller's wire format.
   */
  begin(format: string, limits: JsonLimits): Output<Answered>;
}

export type HookFinish = Extract<HookEvent, { type: "finish" }>;

/** An answer, between its meter and its encoder. */
export interface Output<Answered> {
  /** Returns the neutral events of an event: the start, the finish, and what hooks see between them. */
  plain(event: Answered): readonly (Answered & (HookEvent | { readonly type: "start" }))[];
  /** Returns an event for the listeners of the record that tells which fields `plain` has lost; undefined if there are none. */
  lost?(event: Answered): Answered | undefined;
  finishFor(finish: HookFinish): HookFinish;
  /** Says what is wrong with an event that a hook has returned. Returns undefined for a valid event. `finished` checks a finish. */
  wrong(event: HookEvent): string | undefined;
  /** Returns the finish with the end that a hook has returned. Returns a text that says what is wrong with an invalid end. */
  finished(finish: HookFinish, returned: HookFinish): HookFinish | string;
  /** Returns the finish with another reason. Missing for a kind whose answers have no reason. */
  ended?(finish: HookFinish, reason: FinishReason): HookFinish | string;
  /** Returns the event to hand on to the encoder; undefined to leave it out. */
  shown(event: HookEvent): HookEvent | undefined;
}
