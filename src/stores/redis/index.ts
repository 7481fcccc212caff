/** The exports of "polygate/stores/redis": a quota store and a replay store in a single Redis or in a cluster. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

export type { BudgetEvent, BudgetOptions, BudgetPeriod, BudgetReport, OnBudget } from "../budgets.ts";
export type {
  BudgetDirectory,
  BudgetPage,
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  Retention,
} from "../durable.ts";
export type { KeyBounds } from "../memory-replays.ts";
export type { BunRedisClient, IoredisClient, NodeRedisClient, NodeRedisCluster, RedisClient } from "./client.ts";
export { redisReplayStore, type RedisReplayStoreOptions } from "./replays.ts";
export { redisQuotaStore, type RedisQuotaStoreOptions } from "./store.ts";
