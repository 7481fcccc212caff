/** The code of options that a small gateway may do without. `createGateway` of `polygate` has all of it. */

import type { CorsOptions } from "./http/answer.ts";
import { type Cors, corsOf } from "./http/cors.ts";
import type { Limits } from "./limits.ts";
import { Hooks } from "./pipeline/hooks.ts";
import { idempotencyKeyOf } from "./pipeline/idempotency.ts";
import type { AcceptSocket } from "./pipeline/pipeline.ts";
import { type Repetitions, replay } from "./pipeline/replay.ts";
import { acceptSocket } from "./pipeline/socket.ts";
import type { Clock } from "./ports/clock.ts";
import type { Hook } from "./ports/hook.ts";

/** Code that a gateway may do without: `withCors`, `withHooks`, `withReplays` or `withSockets`. Its fields are for the gateway alone. */
export interface GatewayFeature {
  readonly cors?: (options: CorsOptions) => Cors;
  readonly hooks?: (hooks: readonly Hook[], clock: Clock, limits: Limits) => Hooks;
  readonly replayStore?: Repetitions;
  readonly sockets?: AcceptSocket;
}

/** The code of the option `cors`. */
export const withCors: GatewayFeature = { cors: corsOf };

/** The code of the option `hooks`. */
export const withHooks: GatewayFeature = { hooks: (hooks, clock, limits) => new Hooks(hooks, clock, limits) };

/** The code of the option `replayStore`. */
export const withReplays: GatewayFeature = { replayStore: { keyOf: idempotencyKeyOf, replay } };

/** The code of WebSockets, for formats that speak over them. It has no option. */
export const withSockets: GatewayFeature = { sockets: acceptSocket };

/** The name of the feature that an option needs. */
export const FEATURE_OF: Readonly<Record<Exclude<keyof GatewayFeature, "sockets">, string>> = {
  cors: "withCors",
  hooks: "withHooks",
  replayStore: "withReplays",
};
