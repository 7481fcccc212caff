/** The exports of "polygate/backends/affinity": keeps the conversations of a route where their prompts are cached. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

export { type NotedPrefix, type PrefixMemory, type PrefixUse, RETAINED_LIFETIMES } from "../../ports/prefix-memory.ts";
export type { Affinity, CallOrder, OrderedUpstream, UpstreamOrder } from "../route/order.ts";
export type { CostOf, PromptCacheFacts } from "./forecast.ts";
export { DEFAULT_PROMPT_CACHE, promptCache, type PromptCacheOptions } from "./prompt-cache.ts";
