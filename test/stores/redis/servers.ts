/** The Redis servers that the store is tested on, each reached by a client that hosts use. */

import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { createClient } from "redis";
import {
  type DurableQuotaStore,
  type RedisClient,
  redisQuotaStore,
  type RedisQuotaStoreOptions,
  redisReplayStore,
  type RedisReplayStoreOptions,
} from "../../../src/stores/redis/index.ts";
import type { OpenedReplayStore } from "../../../src/testing/laws/index.ts";

export const REDIS: string = process.env["POLYGATE_TEST_REDIS"] ?? "redis://127.0.0.1:6379";

/** A connected client, and a prefix of the run's own. */
export interface RedisPlace {
  readonly client: RedisClient;
  readonly prefix: string;
  /** Removes all keys of the run, and disconnects. */
  remove(): Promise<void>;
}

export interface RedisDriver {
  readonly name: string;
  place(): Promise<RedisPlace>;
}

const freshPrefix = (): string => `polygate-test-${randomUUID().slice(0, 8)}`;

async function nodeRedis(): Promise<RedisPlace> {
  const prefix = freshPrefix();
  // By default, the client gives up a command that has waited for 5 seconds, as thousands at once do on a busy machine.
  const options = { socket: { reconnectStrategy: false }, commandOptions: { timeout: 60_000 } } as const;
  const client = await createClient({ url: REDIS, ...options }).connect();
  return {
    client: { sendCommand: (args: string[]) => client.sendCommand(args) },
    prefix,
    async remove() {
      for await (const names of client.scanIterator({ MATCH: `${prefix}:*`, COUNT: 500 }))
        if (names.length > 0) await client.del(names);
      client.destroy();
    },
  };
}

async function withIoredis(client: Redis): Promise<RedisPlace> {
  const prefix = freshPrefix();
  return {
    client,
    prefix,
    async remove() {
      const names = await client.keys(`${prefix}:*`);
      for (let index = 0; index < names.length; index += 500) await client.del(names.slice(index, index + 500));
      client.disconnect();
    },
  };
}

export const drivers: readonly RedisDriver[] = [
  { name: "node-redis", place: nodeRedis },
  { name: "ioredis", place: () => withIoredis(new Redis(REDIS)) },
];

export const redisAnswers: boolean = await (async () => {
  const client = createClient({ url: REDIS, socket: { reconnectStrategy: false, connectTimeout: 5_000 } });
  client.on("error", () => {});
  try {
    await client.connect();
    client.destroy();
    return true;
  } catch {
    return false;
  }
})();

/** Opens a store whose clock can be advanced beyond the server's. */
export function redisStoreAt(
  { client, prefix }: Pick<RedisPlace, "client" | "prefix">,
  options: Pick<RedisQuotaStoreOptions, "onBudget"> = {},
): {
  store: DurableQuotaStore;
  advance: (ms: number) => void;
} {
  let ahead = 0;
  return {
    store: redisQuotaStore({ client, prefix, aheadMs: () => ahead, ...options }),
    advance: (ms) => void (ahead += ms),
  };
}

/** Opens a replay store whose clock can be advanced beyond the server's. */
export function redisReplaysAt(
  { client, prefix }: Pick<RedisPlace, "client" | "prefix">,
  options: Partial<RedisReplayStoreOptions> = {},
): OpenedReplayStore {
  let ahead = 0;
  const open = () => redisReplayStore({ client, prefix, aheadMs: () => ahead, ...options });
  return { store: open(), other: open(), advance: (ms) => void (ahead += ms) };
}
