/** The exports of "polygate/stores/redis": a quota store, a replay store and a memory of prefixes in a single Redis or in a cluster. */

import { assertNodeVersion } from "../../node-version.ts";

assertNodeVersion();

import { given } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import type { DurableQuotaStore } from "../durable.ts";
import { LEDGER_SHAPES, ledgerQuotaStore, type LedgerQuotaStoreOptions } from "../ledger-store.ts";
import { assertInteger } from "../ledger.ts";
import { REDIS_SHAPES, RedisAccess, type RedisStoreOptions } from "./client.ts";
import { RedisDriver } from "./driver.ts";

export type {
  BudgetChanges,
  BudgetEvent,
  BudgetOptions,
  BudgetPeriod,
  BudgetPeriodReport,
  BudgetReport,
  OnBudget,
} from "../budgets.ts";
export type {
  BudgetDirectory,
  BudgetPage,
  DurableKeyOptions,
  DurableQuotaStore,
  KeyDirectory,
  KeyPage,
  KeyReport,
  PeriodPage,
  Retention,
} from "../durable.ts";
export type { KeyBounds } from "../memory-replays.ts";
export type { BunRedisClient, IoredisClient, NodeRedisClient, NodeRedisCluster, RedisClient } from "./client.ts";
export { redisPrefixMemory, type RedisPrefixMemoryOptions } from "./prefixes.ts";
export { redisReplayStore, type RedisReplayStoreOptions } from "./replays.ts";

/** Options of the quota store in Redis. */
export interface RedisQuotaStoreOptions<Context = unknown> extends RedisStoreOptions, LedgerQuotaStoreOptions<Context> {
  /** The time for which a resolved hold is remembered, in milliseconds: an integer from 1 up, an hour by default. */
  readonly retentionMs?: number;
}

const HOUR_MS = 3_600_000;

/**
 * Makes a quota store in Redis, for any number of processes. Leases expire by the server's clock. The ledger is only as durable as
 * Redis: without persistence (`appendonly yes`), a server that crashes loses all keys and all usage. With `appendfsync everysec`, it
 * loses the last second.
 *
 * @example
 * const quotas = redisQuotaStore({ client: await createClient({ url }).connect() });
 */
export function redisQuotaStore<Context = unknown>(
  options: RedisQuotaStoreOptions<Context>,
): DurableQuotaStore<Context> {
  assertOptions<RedisQuotaStoreOptions>("redisQuotaStore", options, {
    ...REDIS_SHAPES,
    ...LEDGER_SHAPES,
    retentionMs: "positive?",
  });
  const { retentionMs = HOUR_MS, find, maxVerbsPerTransaction, onBudget, ...access } = options;
  assertInteger("retentionMs", retentionMs, 1);
  return ledgerQuotaStore<Context>(
    new RedisDriver(new RedisAccess(access), retentionMs),
    given({ find, maxVerbsPerTransaction, onBudget }),
  );
}
