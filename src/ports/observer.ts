/** The ports that tell a host about its gateway's calls: failures, records of finished calls, and calls while they run. */

import type { FieldPath, GatewayError, GatewayErrorCode, Port, RefusedBy } from "../errors.ts";
import type { FinishReason } from "../model/chat-event.ts";
import type { Conversion } from "../model/conversion.ts";
import type { ImageUsage } from "../model/image.ts";
import type { Certainty, Usage } from "../model/usage.ts";
import type { ModelKind } from "./call-info.ts";
import type { ApiKey, Outcome } from "./quota-store.ts";
import type { RateKind } from "./rate-limiter.ts";

/** The most characters of a message in a record. */
export const MOST_MESSAGE_CHARS = 500;

/** A failure whose details the caller does not receive. */
export interface Failure {
  /** The error. Its `cause` is the original error, or only its text if any part of it may have the caller's api key. */
  readonly error: GatewayError;
  /** The id that the caller received as `request-id`; `health check` for a check of `gateway.health`. */
  readonly requestId: string;
  /**
   * The part of the host that failed: `model-backend`, `quota-store`, `image-store`, `rate-limiter`, `replay-store`, `response-store`,
   * `code-runner` or `hook`; undefined for a failure of the gateway itself.
   */
  readonly port: Port | undefined;
  /**
   * The upstream whose attempt failed. Reported at once, also when another upstream then answers. Undefined for every failure that is not
   * of one request to an upstream.
   */
  readonly upstream?: FailedUpstream;
  /**
   * The lost charge, if the gateway gave up a settlement that the quota store did not confirm. Book the charge by hand, or settle the call
   * by its id. Undefined for every other failure.
   */
  readonly unsettled?: UnsettledCharge;
  /**
   * True for a charge that the quota store has not taken at the end of its call. The call itself may be complete. The gateway tries again:
   * when it gives up, a further failure has `unsettled`. Absent for every other failure.
   */
  readonly waiting?: true;
  /**
   * The messages of the error and of its causes, and then their stacks, for a log. An error that an upstream has answered with has no stacks,
   * unless the variable `DEBUG` names polygate. The caller's api key is removed everywhere. Where a console prints the failure itself, it
   * prints this text.
   */
  readonly text: string;
}

/** The upstream of a failed attempt. Contains no secret. */
export interface FailedUpstream {
  /** The upstream's name, as in `UpstreamAttempt`. */
  readonly name: string;
  /** Such as `api.example.com:443`; undefined for an upstream without an address. */
  readonly address: string | undefined;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The number of the attempt in its call, from 1 up. */
  readonly attempt: number;
  /** The HTTP status of the answer; undefined without an answer. */
  readonly status: number | undefined;
}

/** A charge that is not in the ledger. */
export interface UnsettledCharge extends Outcome {
  /** The `ApiKey.id` of the key that owes the charge. */
  readonly keyId: string;
}

/** Receives a failure. Its own errors and rejections are ignored. */
export type OnFailure = (failure: Failure) => unknown;

/**
 * The end of a call.
 * - `completed`: the answer was complete.
 * - `refused`: the request was invalid or not allowed, the quota or a rate limit was exhausted, or the gateway was full. The backend was not
 *   asked, or it found the mistake in the request.
 * - `failed`: the backend, a store or the gateway failed, or an upstream lacks a model that the host lists, routes or prices by its exact name. A
 *   part of a stream may have been sent.
 * - `client-closed`: the client disconnected before the end, or cancelled its response. The count is exact if the backend was allowed to finish.
 * - `deadline`: the call took longer than `limits.deadlineMs`.
 * - `shutdown`: `gateway.close` cut it.
 * - `stopped`: `gateway.stopCall` cut it.
 */
export type CallOutcome = "completed" | "refused" | "failed" | "client-closed" | "deadline" | "shutdown" | "stopped";

/** The key of a recorded call, without its rights. */
export interface RecordedKey extends Pick<ApiKey, "id" | "name"> {
  /** The id of the key's own budget; undefined without a budget. */
  readonly budget: string | undefined;
  /** The host's own notes on the key; undefined without any. */
  readonly metadata: ApiKey["metadata"] | undefined;
}

/** The record of a finished call, for bills, metrics and logs. Contains no prompt, no answer and no secret. */
export interface CallRecord<Context = unknown> {
  /** The id that the caller received as `request-id`. */
  readonly requestId: string;
  /** The host's own value for this request, from the mount's `context` option. */
  readonly context: Context | undefined;
  /** The caller's key; undefined when the call ended before the key was known, and for routes without a key. */
  readonly key: RecordedKey | undefined;
  /** The wire format: `messages`, `generate-content`, `chat-completions`, `responses`, `embeddings`, `images` or `token-usage`. */
  readonly format: string;
  /** The HTTP method. */
  readonly method: string;
  /** The route's pattern below the gateway's mount, such as `/v1beta/models/**`. Never the request's address, which may contain a key. */
  readonly route: string;
  /**
   * The requested model; for an alias of an image model, the model's own name. Undefined when the request names no model, or the call
   * ended before the body was read.
   */
  readonly modelAsked: string | undefined;
  /**
   * True when the backend lists the requested model, or the host has named it in a route or in a price. Otherwise its name is the caller's
   * own text, and unsafe as a label of a metric.
   */
  readonly modelListed: boolean;
  /** The answering model, if the backend names it. */
  readonly modelAnswered: string | undefined;
  /** True when a stream was requested. */
  readonly stream: boolean;
  /** The tokens of a chat, completed by estimates; undefined when no chat backend has done anything. */
  readonly usage: Usage | undefined;
  /** The number of finished images, and their tokens; undefined when no image backend was asked. */
  readonly images: { readonly count: number; readonly usage: ImageUsage } | undefined;
  /**
   * The cost of the call, in quota units. If the cost exceeds the hold and the key's available units, the rest is added to `overdraft`, not
   * to `used`. A settlement that the store does not accept in time is retried. When a settlement is given up, `onFailure` receives the
   * charge.
   */
  readonly units: number;
  /**
   * The number of the holds whose charges are `units`, for a call with several: each turn of a model that runs code, and each part of an answer
   * that a route continues, has a hold of its own. Their ids are `requestId`, `requestId-2`, `requestId-3` and so on. Absent for other calls.
   */
  readonly holds?: number;
  /** The currency of the gateway's prices, such as `USD`: a unit is a millionth of it. Undefined for other units. */
  readonly currency: string | undefined;
  /** `exact` when `units` rest on the counts of the backend, otherwise `estimated`. */
  readonly certainty: Certainty;
  /**
   * The `requestId` of the earlier call with the same `Idempotency-Key` whose recorded answer this call received; undefined for a call with
   * its own answer. A repeated answer costs nothing. Its record has no model and no usage: the first record has them.
   */
  readonly replayOf: string | undefined;
  /**
   * The output limit of a chat, in tokens, after it was lowered to what the rest of the quota or of a budget pays for; undefined when the
   * limit of the request was covered.
   */
  readonly affordedOutputTokens: number | undefined;
  /** The way in which the call ended. */
  readonly outcome: CallOutcome;
  /** The HTTP status. A stream that broke off has 200. A call has 499 when its client disconnected before the status was sent. */
  readonly status: number;
  /** The code of the error that ended the call; undefined without an error. */
  readonly errorCode: GatewayErrorCode | undefined;
  /**
   * The path of the request's field that the error names, such as `["messages", 2, "content"]`; undefined for an error without a field.
   * Names that could be content, such as those with spaces, are `"?"`.
   */
  readonly errorPath: FieldPath | undefined;
  /**
   * The message of that error as the caller read it, in at most 500 characters. Quoted texts that could be content are an ellipsis. For
   * `misconfigured`, the mistake in the host's settings, which the caller is not told. Undefined without an error, and for the words of an
   * upstream or a backend, which may quote the prompt.
   */
  readonly errorMessage: string | undefined;
  /** The rate limit, quota or budget that refused the call; undefined for every other call. */
  readonly refusedBy: RefusedBy | undefined;
  /** The start of the call, in milliseconds since the Unix epoch, by the gateway's clock. */
  readonly beganAt: number;
  /** The time from `beganAt` to the backend's first event, in milliseconds; undefined without an event. */
  readonly firstEventMs: number | undefined;
  /** The time from `beganAt` to the end of the call, in milliseconds. */
  readonly endMs: number;
  /**
   * The requests of the call to upstreams, in their order: the first 64. Empty when no upstream was asked, and for a backend that reports
   * none with `CallContext.observeUpstream`.
   */
  readonly attempts: readonly UpstreamAttempt[];
  /** The fields of the request that the backend could not receive unchanged. */
  readonly dropped: readonly Conversion[];
  /** The fields of the backend's answer that the caller's format cannot express unchanged, each with the prefix `answer.`. */
  readonly droppedFromAnswer: readonly Conversion[];
}

/** A call that runs. Contains no prompt, no answer and no secret. */
export interface LiveCall extends Pick<
  CallRecord,
  "requestId" | "key" | "format" | "method" | "route" | "modelAsked" | "stream" | "usage" | "images" | "beganAt"
> {
  /** True for a message of a WebSocket. */
  readonly webSocket: boolean;
  /** The upstream that was asked last; undefined before one is asked. */
  readonly upstream: string | undefined;
}

/** A request of a call to an upstream. */
export interface UpstreamAttempt {
  /** The upstream's name: the name in its `route`, or else the backend's own, such as the `name` of a relay. */
  readonly upstream: string;
  /** The upstream's name of the model. */
  readonly model: string;
  /** The HTTP status of the answer; undefined without an answer, and for an upstream that is not asked over HTTP. */
  readonly status: number | undefined;
  /** The start of the attempt, in milliseconds since the Unix epoch. */
  readonly beganAt: number;
  /** The time from `beganAt` to the end of the attempt, in milliseconds. */
  readonly endMs: number;
  /** The code of the error that ended the attempt; undefined without an error. */
  readonly errorCode: GatewayErrorCode | undefined;
  /**
   * True when the gateway cut the attempt, and the upstream did not fail: the client disconnected, the call met its deadline, an operator
   * stopped it, or the gateway was closed. `errorCode` says which.
   */
  readonly cut?: boolean;
  /**
   * The reason why the call went on to the next attempt. Undefined for the last attempt, and for an attempt that has
   * answered.
   */
  readonly movedOn: MovedOn | undefined;
  /**
   * The mistake in the settings of the upstream that made the attempt fail, and its remedy, such as an address that does not serve the route.
   * Of a resting upstream, the mistake of its last failure. Absent for every other attempt.
   */
  readonly mistake?: string;
  /** The counts that an upstream had reported when it was outrun: it may charge them. Undefined for all other attempts. */
  readonly usage: Partial<Usage> | undefined;
}

/**
 * The reason why a route asks the next upstream.
 * - `failed`: the upstream failed, took too long or could not be reached. Its circuit breaker counts the failure.
 * - `refused`: the upstream refuses this service, does not have the model, or takes no prompt of this length. This call does not ask it
 *   again.
 * - `rate-limited`: the upstream takes no more requests for now.
 * - `resting`: the upstream was not asked, because its circuit breaker is open or it has asked for a pause.
 * - `outrun`: two upstreams were asked, and the other one has spoken first. This one was cut.
 * - `broke-off`: the upstream failed after its first words, and the next upstream continues the answer. Its circuit breaker counts the
 *   failure.
 */
export type MovedOn = "failed" | "refused" | "rate-limited" | "resting" | "outrun" | "broke-off";

/** Receives the record of a call that has ended and is settled. Its own errors and rejections are ignored, and no answer waits for it. */
export type OnCall<Context = unknown> = (record: CallRecord<Context>) => unknown;

/**
 * Observes gateways, routes and running calls, for traces and metrics. Errors and rejections of its functions are ignored. No function
 * receives a prompt, an answer or an api key, except in the request's headers.
 */
export interface Observer<Context = unknown> {
  /** Called when a gateway is created. Returns a function to call when the gateway closes. */
  watchGateway?(gauges: GatewayGauges): (() => void) | undefined;
  /** Called when a `route` with this observer is created. */
  watchBreakers?(breakers: readonly BreakerGauge[]): void;
  /** Called when the headers of a call have been read. Returns undefined to observe the call no further. */
  begin(call: BegunCall<Context>): CallObserver<Context> | undefined;
}

/** The current state of a gateway. Each field but `isReady` is a getter that returns the current value. */
export interface GatewayGauges {
  /**
   * Resolves with the `ready` of `gateway.health()`: of its last check with a context, where there was one. Otherwise shares its query of the
   * quota store without a context, at most one a second. Waits for at most a second. Never rejects.
   */
  readonly isReady: () => Promise<boolean>;
  /** The number of calls that have begun and are not yet settled. */
  readonly calls: number;
  /** The number of those calls whose answer is streamed. */
  readonly streams: number;
  /** The number of settlements of ended calls that the quota store has not accepted yet. They are retried. */
  readonly waitingSettlements: number;
  /** The number of requests whose body, or a part of it, is in memory. */
  readonly bodies: number;
  /** The bytes of those bodies. */
  readonly bodyBytes: number;
  /** The upstreams of the gateway's backend, with the state of their circuit breakers; empty for a backend without `status`. */
  readonly upstreams: readonly UpstreamStatus[];
  /** The models that the host has named: the rows of `priceTable` and the routes of the backend, without patterns. */
  readonly models: readonly string[];
}

/** The state of a circuit breaker: `closed` lets all calls pass, `open` lets no call pass, and `half-open` lets one call try. */
export type BreakerState = "closed" | "open" | "half-open";

/** The circuit breaker of one upstream of a route. */
export interface BreakerGauge {
  /** The pattern of the upstream's models, as the host wrote it. */
  readonly route: string;
  /** The upstream's name. */
  readonly upstream: string;
  /** The current state. */
  readonly state: BreakerState;
}

/**
 * The state of one upstream: of a route, or of `relay` or `aiSdk` alone. The upstream of a backend alone has the route `*` and no circuit
 * breaker: it is always `closed`.
 */
export interface UpstreamStatus extends BreakerGauge {
  /** The time until the upstream may be asked again, in milliseconds; 0 when it may be asked now. */
  readonly waitMs: number;
  /** The last failed attempt since the last complete answer; undefined without one. */
  readonly lastFailure: UpstreamFailure | undefined;
  /**
   * Set while the upstream answers no call, although its circuit breaker may be closed: once several calls have failed. The next complete answer
   * ends it. `relay` of `polygate/core` counts no errors outside of a route.
   */
  readonly failing?: UpstreamErrors | undefined;
}

/**
 * The errors of an upstream since its last complete answer: at least three calls with failures, with rate limits of the upstream or with refusals
 * that are this service's fault, such as a wrong key, or ten calls with any errors. Ten calls, because an upstream also refuses callers' own wrong requests.
 */
export interface UpstreamErrors extends UpstreamFailure {
  /** The number of calls that have failed or were refused, with one attempt or several. `code` and `at` are those of the last attempt. */
  readonly times: number;
  /** The time of the first one, in milliseconds since the Unix epoch. */
  readonly since: number;
  /**
   * True if a single key has made all these calls, which may be the cause: the requests may be wrong, too many or too long. Never for errors that
   * no caller can cause, such as for a wrong key of this service.
   */
  readonly ofOneKey?: true;
}

/** The last failure of an upstream. */
export interface UpstreamFailure {
  /** The code of the error. */
  readonly code: GatewayErrorCode;
  /** The time of the failure, in milliseconds since the Unix epoch. */
  readonly at: number;
  /** The mistake in the host's settings, such as a wrong `baseUrl`, in a sentence with the address of the upstream, without secrets. */
  readonly mistake?: string;
}

/** A call whose headers have been read. */
export interface BegunCall<Context = unknown> {
  /** The id that the caller receives as `request-id`. */
  readonly requestId: string;
  /** The host's own value for this request, from the mount's `context` option. */
  readonly context: Context | undefined;
  /** The request's headers, as they arrived. They contain the caller's secret. */
  readonly headers: Headers;
  /** The wire format, as in `CallRecord`. */
  readonly format: string;
  /** `chat`, `image` and `embedding`: a model answers. `query` and `public`: the gateway answers, and `public` requests need no key. */
  readonly kind: ModelKind | "query" | "public";
  /** The names of the format in OpenTelemetry; undefined for a format that no model answers. */
  readonly telemetry?: TelemetryNames | undefined;
  /** The HTTP method. */
  readonly method: string;
  /** The route's pattern, never the request's address. */
  readonly route: string;
}

/** The names of a wire format in OpenTelemetry's conventions for generative AI. */
export interface TelemetryNames {
  /** `gen_ai.provider.name`: the owner of the format, even if another provider answers. The conventions define it this way. */
  readonly provider: string;
  /** `gen_ai.operation.name` of a kind of generation. Default: the kind's usual name. */
  readonly operations?: Readonly<Partial<Record<ModelKind, string>>>;
}

/** Observes one call. */
export interface CallObserver<Context = unknown> {
  /** Runs a step of the backend's work, for example inside an active span. Must run it once, immediately, and return its result. */
  run?<Result>(work: () => Result): Result;
  /** Called after the rate limiter has decided about a request or its tokens. */
  rateLimit?(decision: RateDecision): void;
  /** Called when the call's hold has changed. A retried settlement may come after `end`. */
  hold?(change: HoldChange): void;
  /** Called before a backend asks an upstream. A call may ask several upstreams, in sequence or at once. */
  upstream?(asked: AskedUpstream): UpstreamObserver | undefined;
  /** Called when the call has ended. Its settlement is done, or is retried later. */
  end(record: CallRecord<Context>): void;
}

/** The decision of the rate limiter; `down` when it failed or took too long. */
export type RateDecision =
  | { readonly decision: "admitted" | "down"; readonly by?: never }
  | { readonly decision: "refused"; readonly by: RateKind };

/** A change of a hold. Amounts are in quota units. */
export type HoldChange =
  | { readonly type: "reserved"; readonly granted: number }
  | {
      readonly type: "settled";
      readonly granted: number;
      /** The charge, which may be more than `granted`. */
      readonly used: number;
      readonly certainty: Certainty;
      /** True when the lease had expired before the settlement, by the gateway's clock. The store then charged an estimate first. */
      readonly expired: boolean;
    }
  /** The settlement is given up. `onFailure` receives the charge, and the hold ends with its lease. */
  | { readonly type: "abandoned"; readonly granted: number };

/** A request to an upstream. */
export interface AskedUpstream {
  /** The upstream's name for records, metrics and failures. Default: its address, or else its format. */
  readonly name?: string;
  /** The upstream's wire format. */
  readonly format: string;
  /** The names of the format in OpenTelemetry. Default: the format as the provider. */
  readonly telemetry?: TelemetryNames | undefined;
  /** The kind of generation. Default: `image` for the format `images`, else `chat`. */
  readonly kind?: ModelKind;
  /** The upstream's name of the model. */
  readonly model: string;
  /** True when the host has named the model. Otherwise its name is the caller's own text. */
  readonly modelListed: boolean;
  /** True when a stream is requested. */
  readonly stream: boolean;
  /** The upstream's host name. Undefined for an upstream that is not asked over HTTP, or whose address is unknown. */
  readonly address?: string;
  /** The port at this host. */
  readonly port?: number;
  /** The start of the request, in milliseconds since the Unix epoch. Default: now. */
  readonly beganAt?: number;
  /** True for an upstream that is not asked, because it must rest. It appears in the record alone. */
  readonly resting?: boolean;
}

/** Observes one exchange with an upstream. */
export interface UpstreamObserver {
  /** Additional headers of the request, such as `traceparent`. */
  readonly headers: Readonly<Record<string, string>>;
  /** True when nobody reads the answer's model, counts, finish reason and first event in the outcome, so that the backend need not note them. */
  readonly isBrief?: boolean;
  /** Runs the function that sends the request. Must run it once, immediately, and return its result. */
  run<Result>(work: () => Result): Result;
  /** Called with the headers of an answer of any status. `header` returns one by its name in lower case. */
  head?(header: (name: string) => string | undefined): void;
  /** Called when this upstream answers the call although another one was asked after it: the call is charged as this one's. */
  chosen?(): void;
  /** Called once, when the exchange has ended. */
  end(outcome: UpstreamOutcome): void;
}

/** The end of an exchange with an upstream. Unknown fields are undefined. */
export interface UpstreamOutcome {
  /** The HTTP status of the answer. */
  readonly status?: number | undefined;
  /** The code of the error that ended the exchange; undefined without an error. */
  readonly errorCode?: GatewayErrorCode | undefined;
  /** True when the gateway cut the exchange. The gateway sets it for its observer. */
  readonly cut?: boolean;
  /** The error itself. The gateway passes it to `onFailure` at once, and never to the observer. */
  readonly error?: GatewayError | undefined;
  /** The mistake in the upstream's settings, where `error` does not tell it: see `UpstreamAttempt`. */
  readonly mistake?: string | undefined;
  /** The reason why the call may go on to another upstream. */
  readonly movedOn?: MovedOn | undefined;
  /** The answering model, if the upstream names it. */
  readonly model?: string | undefined;
  /** The counts that the upstream reported. */
  readonly usage?: Partial<Usage> | undefined;
  /** The reason why the answer ended. */
  readonly finishReason?: FinishReason | undefined;
  /** The time from the request to the first event, in milliseconds. */
  readonly firstEventMs?: number | undefined;
  /** The time of the whole exchange, in milliseconds. */
  readonly endMs: number;
}
