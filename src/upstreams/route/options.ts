/** The options of a route, and their defaults. */

import { AMOUNT, CLOCK, FROM_ZERO, mapOf, type NumberRule, type Shapes } from "../../options.ts";
import type { BreakerOptions } from "../../ports/circuit-breaker.ts";
import type { Clock } from "../../ports/clock.ts";
import type { HangUp, ModelBackend } from "../../ports/model-backend.ts";
import type { Observer, UpstreamStatus } from "../../ports/observer.ts";
import { HANG_UP } from "../backend.ts";

/** The backends of each model, and the rules for a backend that fails. */
export interface RouteOptions {
  /**
   * The backends, by the name of a model (`fast`), by a prefix (`claude-*`), or for all other models (`*`). An exact name takes
   * precedence over a prefix, and a longer prefix over a shorter prefix.
   */
  readonly routes: Readonly<Record<string, ModelBackend | Route>>;
  /** Overrides of `DEFAULT_RETRY`. */
  readonly retry?: Partial<RetryOptions>;
  /** Overrides of `DEFAULT_BREAKER`. Each upstream has a circuit breaker of its own. */
  readonly breaker?: Partial<BreakerOptions>;
  /** Receives the state of each circuit breaker. Pass the gateway's own observer to add the states to its metrics. Default: none. */
  readonly observer?: Pick<Observer, "watchBreakers">;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
  /** Returns a random number from 0 to below 1, for the choice by weight and for pauses. Default: `Math.random`. */
  readonly random?: () => number;
}

/** Several backends as one. */
export interface RouteBackend extends ModelBackend {
  upstreamsOf: NonNullable<ModelBackend["upstreamsOf"]>;
  /** Returns the state of each upstream: its circuit breaker, and its last failure. Asks no upstream. */
  status(): readonly UpstreamStatus[];
  /** Closes each backend of the route that has a `close`, such as a relay. Rejects with the first error, after all were closed. */
  close(): Promise<void>;
}

/** The upstreams of one route. */
export interface Route {
  /** A call goes to an upstream drawn by weight. If that fails before its first event, the call goes to the others. */
  readonly upstreams: readonly (ModelBackend | RouteUpstream)[];
  /** Decides what happens to a call whose client hangs up. Default: the setting of the first upstream's backend. */
  readonly hangUp?: HangUp;
}

/** A backend of a route, and its share of the calls. */
export interface RouteUpstream {
  readonly backend: ModelBackend;
  /**
   * The name for records, metrics and failures. Default: the backend's own `name`, with the index in the route's list where several have the
   * same; for a backend without a name, the index alone, from 0.
   */
  readonly name?: string;
  /** The share of calls, relative to the other upstreams. An upstream of weight 0 is asked only after the others failed. Default: 1. */
  readonly weight?: number;
  /** The upstream's own name of the model. Callers see the name that they used. Default: the caller's. */
  readonly model?: string;
}

/** The number of retries of a failed call, and the pauses before them. */
export interface RetryOptions {
  /** The number of further rounds after all upstreams of a route have failed. Default: 2. */
  readonly rounds: number;
  /** The pause before the first further round, in milliseconds. It doubles with each round, and half of it is random. Default: 500. */
  readonly pauseMs: number;
  /** The longest pause, in milliseconds. A call that would have to wait longer fails instead. Default: 10 seconds. */
  readonly maxPauseMs: number;
  /**
   * The average number of retries for each call. The limit keeps retries from making an overload worse. Up to ten unused retries are
   * saved, so that calls in quiet times can be retried, too. Default: 0.2.
   */
  readonly share: number;
}

export const ROUTE_SHAPES: {
  readonly options: Shapes<RouteOptions>;
  readonly route: Shapes<Route>;
  readonly upstream: Shapes<RouteUpstream>;
} = {
  options: {
    routes: mapOf("any"),
    retry: "object?",
    breaker: "object?",
    observer: "object?",
    clock: CLOCK,
    random: "function?",
  },
  route: { upstreams: "list", hangUp: { optional: HANG_UP } },
  upstream: { backend: "any", name: "string?", weight: "amount?", model: "string?" },
};

/** The default values. */
export const DEFAULT_RETRY: RetryOptions = { rounds: 2, pauseMs: 500, maxPauseMs: 10_000, share: 0.2 };

export const RETRY_RULES: Readonly<Record<keyof RetryOptions, NumberRule>> = {
  rounds: FROM_ZERO,
  pauseMs: FROM_ZERO,
  maxPauseMs: FROM_ZERO,
  share: AMOUNT,
};
