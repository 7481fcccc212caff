/** What a host may set for a route. */

import type { Observer } from "../../ports/call-observer.ts";
import type { Clock } from "../../ports/clock.ts";
import type { HangUp, ModelBackend } from "../../ports/model-backend.ts";
import type { BreakerOptions } from "../../ports/breaker.ts";
import type { RetryOptions } from "./retry.ts";

/** Which backend answers which model, and what happens when one fails. */
export interface RouteOptions {
  /**
   * What answers a model: by its name (`fast`), by a beginning of it (`claude-*`), or for all that is left (`*`). An exact name wins
   * over a beginning, a longer beginning over a shorter one.
   */
  readonly routes: Readonly<Record<string, ModelBackend | Route>>;
  /** Overrides of `DEFAULT_RETRY`. */
  readonly retry?: Partial<RetryOptions>;
  /** Overrides of `DEFAULT_BREAKER`, which each upstream has one of. */
  readonly breaker?: Partial<BreakerOptions>;
  /** Is told of each upstream's breaker: the gateway's own observer, where their state is to be among its metrics. Default: none. */
  readonly observer?: Pick<Observer, "watchBreakers">;
  /** Default: the machine's own. */
  readonly clock?: Clock;
  /** A number from 0 up to 1, for the choice by weight and for pauses. Default: `Math.random`. */
  readonly random?: () => number;
}

/** The upstreams of one route. */
export interface Route {
  /** One is chosen by weight; where it fails before its first event, the others follow. */
  readonly upstreams: readonly (ModelBackend | RouteUpstream)[];
  /** What a client that hangs up does to its call. Default: what the first upstream's backend says. */
  readonly hangUp?: HangUp;
}

/** A backend of a route, and its share of the calls. */
export interface RouteUpstream {
  readonly backend: ModelBackend;
  /** What the observer calls this upstream. Default: its place in the route, from 0. */
  readonly name?: string;
  /** How large its share of the calls is, beside the other upstreams'; 0 is asked only where the others fail. Default: 1. */
  readonly weight?: number;
  /** The name by which this upstream knows the model. Callers see their own. Default: the caller's. */
  readonly model?: string;
}
