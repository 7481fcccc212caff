/** The public face of "polygate/stores/redis": quota, and answers for repeated calls, in Redis, alone or as a cluster. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

export type { DurableKeyOptions, DurableQuotaStore, KeyDirectory, KeyPage, KeyReport, Retention } from "../durable.ts";
export type { BunRedisClient, IoredisClient, NodeRedisClient, NodeRedisCluster, RedisClient } from "./client.ts";
export type { KeyBounds } from "../replay-input.ts";
export { redisReplayStore, type RedisReplayStoreOptions } from "./replays.ts";
export { redisQuotaStore, type RedisQuotaStoreOptions } from "./store.ts";
