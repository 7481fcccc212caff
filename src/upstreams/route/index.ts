/** A backend that sends each call to one of several upstreams, by the call's model, and to another upstream when the first fails. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { VERB_OF } from "../../ports/model-backend.ts";
import { type RouteBackend, routeOver, type RouteOptions } from "./table.ts";

export { type BreakerOptions, DEFAULT_BREAKER } from "../../ports/circuit-breaker.ts";
export { DEFAULT_RETRY, type RetryOptions } from "./attempts.ts";
export type { CheckOptions } from "../backend.ts";
export type { Affinity, CallOrder, OrderedUpstream, UpstreamOrder } from "./order.ts";
export { balance, type Balance, type BalanceOptions } from "./balance.ts";
export { canary, type Canary, type CanaryOptions } from "./canary.ts";
export { hedge, type Hedge, type HedgeOptions } from "./hedge.ts";
export { shadow, type Shadow, type ShadowAnswer, type ShadowOptions } from "./shadow.ts";
export type { Route, RouteBackend, RouteOptions, UpstreamCheck } from "./table.ts";
export type { RouteUpstream } from "./upstream.ts";

/**
 * Makes one backend from several. A call goes to an upstream of its model's route. If the upstream fails before its first event, the
 * call goes to the next upstream. After the last upstream and a pause, the call goes to the first again. An answer that has begun is
 * never repeated. Throws a TypeError for wrong options, and a RangeError for a wrong number.
 *
 * @example
 * import { relay } from "polygate/backends/relay";
 * import { route } from "polygate/backends/route";
 *
 * const here = relay({ format: "chat-completions", baseUrl: "http://127.0.0.1:8080/v1" });
 * const there = relay({ format: "messages", baseUrl: "https://api.example.com/v1" });
 * const upstreams = [here, { backend: there, model: "large", weight: 3 }];
 * export const backend = route({ routes: { "claude-*": there, fast: { upstreams } } });
 */
export function route(options: RouteOptions): RouteBackend {
  return routeOver(options, VERB_OF);
}
