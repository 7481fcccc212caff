/** The order in which a call asks the upstreams of its route: by default, drawn by weight. */

import type { Clock } from "../../ports/clock.ts";
import type { CallContext } from "../../ports/model-backend.ts";

/** An upstream of a route, as far as its place in the order depends on it. */
export interface OrderedUpstream {
  /** The name in records and metrics. Each upstream of a route has a name of its own. */
  readonly name: string;
  /** The share of calls, relative to the other upstreams. */
  readonly weight: number;
  /** The upstream's own name of the model; undefined for the caller's name. */
  readonly model: string | undefined;
  /** `waitMs` is the time until the circuit breaker lets a call pass, in milliseconds; 0 if a call may pass now. */
  readonly breaker: { readonly waitMs: number };
}

/** Orders the upstreams of one route for each call. A route has an order of its own. */
export interface UpstreamOrder {
  /**
   * Returns the given upstreams in the order in which the call asks them. Those of weight 0 come last. Must not throw, and must not wait for
   * something that may never settle.
   *
   * @param request The request of any kind. A chat request has `messages`.
   */
  order<Upstream extends OrderedUpstream>(
    call: CallContext,
    request: { readonly model: string },
    upstreams: readonly Upstream[],
  ): CallOrder<Upstream> | Promise<CallOrder<Upstream>>;
}

/** The upstreams of one call, and a reader of its answer. */
export interface CallOrder<Upstream> {
  readonly upstreams: readonly Upstream[];
  /**
   * Called when an upstream begins to answer. The returned function gets each event of the answer, before the caller does. Neither may throw.
   *
   * @param waitedMs The time from the request to the upstream until its first event, in milliseconds.
   */
  readonly began?: (upstream: Upstream, waitedMs: number) => (event: unknown) => void;
}

/** Orders the upstreams of a route so that conversations stay where they are cached. */
export interface Affinity {
  /**
   * Makes the order of one route.
   *
   * @param upstreams The names of the upstreams.
   * @param otherwise The order of requests that have no conversation.
   */
  orderOf(upstreams: readonly string[], clock: Clock, otherwise: UpstreamOrder): UpstreamOrder;
}

/** Draws the upstreams at random by weight. */
export class OrderByWeight implements UpstreamOrder {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  order<Upstream extends OrderedUpstream>(
    _call: CallContext,
    _request: object,
    upstreams: readonly Upstream[],
  ): CallOrder<Upstream> {
    const remaining = upstreams.filter(({ weight }) => weight > 0);
    const order: Upstream[] = [];
    while (remaining.length > 0) {
      let point = this.#random() * remaining.reduce((sum, { weight }) => sum + weight, 0);
      const index = remaining.findIndex(({ weight }) => (point -= weight) < 0);
      // Rounding errors may leave `point` just above 0: then take the last upstream.
      order.push(...remaining.splice(index < 0 ? remaining.length - 1 : index, 1));
    }
    return { upstreams: [...order, ...upstreams.filter(({ weight }) => weight === 0)] };
  }
}
