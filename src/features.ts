/** The code of options that a small gateway may do without. `createGateway` of `polygate` has all of it. */

import type { CorsOptions } from "./http/answer.ts";
import { type Cors, corsOf } from "./http/cors.ts";
import type { Limits } from "./limits.ts";
import { Hooks } from "./pipeline/hooks.ts";
import { idempotencyKeyOf } from "./pipeline/idempotency.ts";
import { type Repetitions, replay } from "./pipeline/replay.ts";
import type { Clock } from "./ports/clock.ts";
import type { Hook } from "./ports/hook.ts";

/** The code of an option of `createGateway`: `withCors`, `withHooks` or `withReplays`. Its fields are for the gateway alone. */
export interface GatewayFeature {
  readonly cors?: (options: CorsOptions) => Cors;
  readonly hooks?: (hooks: readonly Hook[], clock: Clock, limits: Limits) => Hooks;
  readonly replayStore?: Repetitions;
}

/** The code of the option `cors`. */
export const withCors: GatewayFeature = { cors: corsOf };

/** The code of the option `hooks`. */
export const withHooks: GatewayFeature = { hooks: (hooks, clock, limits) => new Hooks(hooks, clock, limits) };

/** The code of the option `replayStore`. */
export const withReplays: GatewayFeature = { replayStore: { keyOf: idempotencyKeyOf, replay } };

/** The name of the feature that an option needs. */
export const FEATURE_OF: Readonly<Record<keyof GatewayFeature, string>> = {
  cors: "withCors",
  hooks: "withHooks",
  replayStore: "withReplays",
};
