/** An upstream of a route: its circuit breaker, and a call as the upstream sees it. */

import {
  backendError,
  type GatewayError,
  type GatewayErrorCode,
  LACKS_MODEL,
  mistakeOf,
  SettingMistake,
} from "../../errors.ts";
import { Breaker, type BreakerOptions } from "../../ports/circuit-breaker.ts";
import type { Clock } from "../../ports/clock.ts";
import type { CallContext, ModelBackend, UnreadEvents } from "../../ports/model-backend.ts";
import type {
  AskedUpstream,
  MovedOn,
  UpstreamErrors,
  UpstreamFailure,
  UpstreamObserver,
  UpstreamOutcome,
} from "../../ports/observer.ts";
import { type FailedCall, failureAt, isUpstreamFailure } from "../backend.ts";
import { ErrorsInRow } from "../errors-in-row.ts";
import { withCallerModel } from "../messages.ts";

/** A backend of a route, and its share of the calls. */
export interface RouteUpstream {
  /** The backend that answers. */
  readonly backend: ModelBackend;
  /**
   * The name for records, metrics and failures. No two upstreams of a route may have the same. Default: the backend's own `name`, or else the
   * pattern of the route, with the index in the route's list, from 0, where several have the same.
   */
  readonly name?: string;
  /** The share of calls, relative to the other upstreams. An upstream of weight 0 is asked only after the others failed. Default: 1. */
  readonly weight?: number;
  /** The upstream's own name of the model. Callers see the name that they used. Default: the caller's. */
  readonly model?: string;
  /**
   * For a route with `onBreak: "continue"`: true when the upstream goes on with an assistant turn at the end of the request, and false when it
   * refuses one. Default: as the format of the request does it, until the upstream refuses one.
   */
  readonly prefill?: boolean;
}

export class RoutedBackend {
  readonly backend: ModelBackend;
  /** The name in records, metrics and failures. Each upstream of a route has a name of its own. */
  readonly name: string;
  readonly weight: number;
  readonly model: string | undefined;
  readonly breaker: Breaker;
  lastFailure: UpstreamFailure | undefined = undefined;
  #errors: ErrorsInRow | undefined = undefined;
  /** True for an upstream that goes on with an assistant turn, false for one that refuses it; undefined as long as it is unknown. */
  prefill: boolean | undefined;
  readonly #clock: Clock;

  constructor(upstream: RouteUpstream, name: string, breaker: BreakerOptions, clock: Clock) {
    const { backend, weight = 1, model, prefill } = upstream;
    this.prefill = prefill;
    this.backend = backend;
    this.name = name;
    this.weight = weight;
    this.model = model;
    this.breaker = new Breaker(breaker, clock);
    this.#clock = clock;
  }

  /** Returns the call as this upstream sees it. */
  routed(call: CallContext, request: RoutedRequest): RoutedCall {
    return new RoutedCall(call, this, request, this.#clock);
  }

  /** Counts a complete answer. */
  succeed(): void {
    this.breaker.succeed();
    this.lastFailure = undefined;
    this.#errors = undefined;
  }

  /** Counts an error of an attempt for the status. Neither the circuit breaker nor the choice of upstreams knows of it. */
  count(error: GatewayError, call: FailedCall, modelListed: boolean): void {
    (this.#errors ??= new ErrorsInRow()).add(error, this.#clock.now(), call, modelListed);
  }

  /** The errors since the last complete answer, where no call may be answered. */
  get failing(): UpstreamErrors | undefined {
    return this.#errors?.failing;
  }

  /** True when callers of the model must not read the upstream's name of it. */
  renames(model: string): boolean {
    return this.model !== undefined && this.model !== model;
  }

  /**
   * Returns an error of this upstream as the caller of a model may read it. An upstream that lacks the model which only the host has named
   * refuses this service: the caller's name is right.
   *
   * @param raw The error without the mistake that was added to it. Default: the error.
   */
  told(error: GatewayError, model: string, raw: GatewayError = error): GatewayError {
    if (this.model === undefined || !this.renames(model)) return error;
    if (!LACKS_MODEL.has(error.code)) return withCallerModel(error, { from: this.model, to: model });
    const mistake = mistakeOf(error);
    if (mistake === undefined) return backendError("refused", error);
    return backendError("refused", raw === error ? error.cause : new SettingMistake(mistake, { cause: raw }));
  }

  /** Notes a failure for the status. */
  note(error: GatewayError): void {
    this.lastFailure = failureAt(error, this.#clock.now());
  }

  /** Counts an answer that failed after its first event. */
  brokeOff(error: GatewayError, call: FailedCall): void {
    if (!isUpstreamFailure(error)) return;
    this.breaker.fail();
    this.count(error, call, false);
    this.note(error);
  }
}

/** The facts of a request that its attempts report. */
export interface RoutedRequest {
  readonly model: string;
  /** True when the host has written this model's name, not only its beginning. */
  readonly isNamed: boolean;
  readonly stream: boolean;
}

const REASONS: Partial<Record<GatewayErrorCode, MovedOn>> = {
  backend_refused: "refused",
  context_length_exceeded: "refused",
  model_not_found: "refused",
  rate_limited: "rate-limited",
};

/** Returns the reason why a route tries the next upstream after an error. */
export const movedOnAfter = (code: GatewayErrorCode): MovedOn => REASONS[code] ?? "failed";

/**
 * A call as one upstream of a route sees it: its attempts carry the route's name of the upstream, and the reason for which the call moved on.
 */
export class RoutedCall implements CallContext {
  readonly requestId: string;
  readonly context: unknown;
  readonly headers: Headers;
  readonly clientAddress: string | undefined;
  readonly key: CallContext["key"];
  readonly runCode?: NonNullable<CallContext["runCode"]>;
  readonly #call: CallContext;
  readonly #upstream: RoutedBackend;
  readonly #request: RoutedRequest;
  readonly #clock: Clock;
  readonly #beganAt: number;
  /** The attempts that the backend has reported, and that have failed before the route has decided. */
  #failed: RoutedAttempt[] | undefined = undefined;
  /** True once the backend has reported an attempt by itself. */
  #isReported = false;
  /** True once the answer has begun, or the route has given the upstream up. */
  #isDecided = false;
  #movedOn: MovedOn | undefined = undefined;
  /** The counts before the answer that the route has not passed on. */
  #counts: ReturnType<UnreadEvents> = [];
  #unread: UnreadEvents | undefined = undefined;
  /** The attempt of a backend that reports none, while its answer goes on. */
  #own: UpstreamObserver | undefined = undefined;
  /** The last attempt, reported or not. */
  #last: UpstreamObserver | undefined = undefined;
  /** True if the route itself needs the counts of the answer. */
  isMetered = false;
  /** Gets the headers of each answer. */
  onHead: ((header: (name: string) => string | undefined) => void) | undefined = undefined;

  constructor(call: CallContext, upstream: RoutedBackend, request: RoutedRequest, clock: Clock) {
    this.requestId = call.requestId;
    this.context = call.context;
    this.headers = call.headers;
    this.clientAddress = call.clientAddress;
    this.key = call.key;
    if (call.runCode) this.runCode = call.runCode;
    this.#call = call;
    this.#upstream = upstream;
    this.#request = request;
    this.#clock = clock;
    this.#beganAt = clock.now();
  }

  // Keep this a getter: the signal is created when it is first read.
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  /** The time since the upstream was asked, in milliseconds. */
  get elapsedMs(): number {
    return Math.max(0, this.#clock.now() - this.#beganAt);
  }

  get continueWith(): CallContext["continueWith"] {
    return this.#call.continueWith;
  }

  reportConversions(conversions: Parameters<CallContext["reportConversions"]>[0]): void {
    this.#call.reportConversions(conversions);
  }

  get reportUnread(): (unread: UnreadEvents) => void {
    return (unread) => {
      this.#unread = unread;
      this.#reportUnread();
    };
  }

  /** Notes counts that the route has read and does not pass on before the answer begins. */
  counted(counts: Iterable<unknown>): void {
    this.#counts = counts as ReturnType<UnreadEvents>;
    this.#reportUnread();
  }

  #reportUnread(): void {
    this.#call.reportUnread?.(() => [...this.#counts, ...(this.#unread?.() ?? [])]);
  }

  get observeUpstream(): ((asked: AskedUpstream) => UpstreamObserver) | undefined {
    const observe = this.#call.observeUpstream;
    return observe && ((asked) => this.#observed(observe, asked));
  }

  /** Names the upstream as the route does, and holds a failure back until the route says what follows. */
  #observed(observe: (asked: AskedUpstream) => UpstreamObserver, asked: AskedUpstream): UpstreamObserver {
    this.#isReported = true;
    const modelListed = asked.modelListed || this.isListed;
    const attempt = new RoutedAttempt(this, observe({ ...asked, name: this.#upstream.name, modelListed }));
    this.#last = attempt;
    return attempt;
  }

  /** Begins the attempt of a backend that reports none. */
  #observeOwn(): void {
    this.#own = this.#last = this.#call.observeUpstream?.(this.#asked());
  }

  /** Charges the call as answered by this upstream, although a later upstream was asked. */
  choose(): void {
    this.#last?.chosen?.();
  }

  /** True once another upstream has answered the call. */
  get isOutrun(): boolean {
    return this.#movedOn === "outrun";
  }

  /** Passes the end of an attempt on once the route has decided what follows. */
  hold(attempt: RoutedAttempt): void {
    if (this.#isDecided) attempt.pass(this.#movedOn);
    else (this.#failed ??= []).push(attempt);
  }

  /** True when the host has named the model. */
  get isListed(): boolean {
    return this.#upstream.model !== undefined || this.#request.isNamed;
  }

  /**
   * The answer has begun. Reports the attempt of a backend that has not done so.
   *
   * @param mayGoOn True when another upstream may go on after a break: `brokeOff` then tells.
   */
  began(mayGoOn = false): void {
    this.#counts = [];
    // The backend may report nothing unread, and would not replace the report of an upstream before it.
    this.#reportUnread();
    this.#decide(undefined);
    // The route changes the words of an error that names the upstream's model.
    this.#isDecided = !mayGoOn && !this.#upstream.renames(this.#request.model);
    if (!this.#isReported) this.#observeOwn();
  }

  /** The answer has begun before that of another upstream, which was asked later. */
  won(mayGoOn: boolean): void {
    this.began(mayGoOn);
    this.choose();
  }

  /** Another upstream has answered first. */
  outrun(): void {
    this.#decide("outrun");
    if (this.#isReported) return;
    this.#observeOwn();
    this.#end({ movedOn: "outrun" });
  }

  /**
   * The upstream has failed before its first event.
   *
   * @param told The error as the caller may read it.
   */
  failed(error: GatewayError, movedOn: MovedOn | undefined, told: GatewayError = error): void {
    // Only its counts are charged, unless another upstream answers.
    this.#unread = undefined;
    this.#decide(movedOn, told === error ? undefined : told);
    if (this.#isReported) return;
    this.#observeOwn();
    this.#end({ errorCode: error.code, error: told, movedOn });
  }

  /**
   * The answer has ended, or its reader has stopped it.
   *
   * @param told The error as the caller may read it.
   */
  ended(error?: GatewayError, told: GatewayError | undefined = error): void {
    this.#decide(undefined, told === error ? undefined : told);
    this.#end(error ? { errorCode: error.code, error: told } : {});
  }

  /**
   * The answer has broken off.
   *
   * @param movedOn Set when another upstream goes on.
   */
  brokeOff(error: GatewayError, movedOn: MovedOn | undefined): void {
    this.#decide(movedOn, error);
    this.#end({ errorCode: error.code, error, movedOn });
  }

  /** The upstream was not asked. */
  rested(): void {
    const resting = this.#call.observeUpstream?.({ ...this.#asked(), resting: true });
    const mistake = this.#upstream.lastFailure?.mistake;
    resting?.end({ errorCode: "backend_unavailable", movedOn: "resting", mistake, endMs: 0 });
  }

  #decide(movedOn: MovedOn | undefined, error?: GatewayError): void {
    this.#isDecided = true;
    this.#movedOn = movedOn;
    for (const attempt of this.#failed ?? []) attempt.pass(movedOn, error);
    this.#failed = undefined;
  }

  #end(outcome: Omit<UpstreamOutcome, "endMs">): void {
    // The error of a call that was cut is not the upstream's.
    const { error, ...cut } = outcome;
    const told = this.#call.signal.aborted || !error ? cut : outcome;
    this.#own?.end({ ...told, endMs: this.elapsedMs });
    this.#own = undefined;
  }

  #asked(): AskedUpstream {
    const { name, model } = this.#upstream;
    const { model: callerModel, stream } = this.#request;
    return {
      name,
      model: model ?? callerModel,
      modelListed: this.isListed,
      stream,
      format: "custom",
      beganAt: this.#beganAt,
    };
  }
}

/** An attempt that the upstream's backend reports. */
class RoutedAttempt implements UpstreamObserver {
  readonly #routed: RoutedCall;
  readonly #observer: UpstreamObserver;
  #outcome: UpstreamOutcome | undefined = undefined;

  constructor(routed: RoutedCall, observer: UpstreamObserver) {
    this.#routed = routed;
    this.#observer = observer;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#observer.headers;
  }

  get isBrief(): boolean {
    return !this.#routed.isMetered && (this.#observer.isBrief ?? false);
  }

  head(header: (name: string) => string | undefined): void {
    this.#routed.onHead?.(header);
    this.#observer.head?.(header);
  }

  chosen(): void {
    this.#observer.chosen?.();
  }

  run<Result>(work: () => Result): Result {
    return this.#observer.run(work);
  }

  end(outcome: UpstreamOutcome): void {
    if (outcome.errorCode === undefined && !this.#routed.isOutrun) return this.#observer.end(outcome);
    this.#outcome = outcome;
    this.#routed.hold(this);
  }

  /** @param error Takes the place of the attempt's own error: it is the one that the caller is told. */
  pass(movedOn: MovedOn | undefined, error?: GatewayError): void {
    if (!this.#outcome) return;
    // The error of an upstream that was cut is not its own.
    const cut = movedOn === "outrun" && { errorCode: undefined, error: undefined };
    const told = error && this.#outcome.error ? { ...this.#outcome, error } : this.#outcome;
    this.#observer.end(movedOn ? { ...told, ...cut, movedOn } : told);
  }
}
