/** The memory of prefixes in Redis: each prefix is a hash of the upstreams that have used it, and expires by itself. */

import { assertOptions } from "../../options.ts";
import { type NotedPrefix, type PrefixMemory, type PrefixUse, RETAINED_LIFETIMES } from "../../ports/prefix-memory.ts";
import { listOf, NOW, REDIS_SHAPES, RedisAccess, type RedisStoreOptions, type Script, scriptOf } from "./client.ts";

/** Returns a list for each prefix: the name, the age and the lifetime of each use. KEYS: the prefixes. ARGV: the time to add to the clock. */
const FIND: Script = scriptOf(`${NOW}
local all = {}
for at, prefix in ipairs(KEYS) do
  local uses, found = redis.call('HGETALL', prefix), {}
  for field = 1, #uses, 2 do
    local used, lifetime = string.match(uses[field + 1], '^(%d+) (%d+)$')
    local age = math.max(0, now - tonumber(used))
    if age < tonumber(lifetime) * ${RETAINED_LIFETIMES} then
      found[#found + 1] = uses[field]
      found[#found + 1] = string.format('%.0f', age)
      found[#found + 1] = lifetime
    end
  end
  all[at] = found
end
return all
`);

/** Notes a use. KEYS: the prefixes. ARGV: the time to add to the clock, the upstream, then the lifetime of each prefix. */
const NOTE: Script = scriptOf(`${NOW}
for at, prefix in ipairs(KEYS) do
  local lifetime = ARGV[at + 2]
  redis.call('HSET', prefix, ARGV[2], string.format('%.0f', now) .. ' ' .. lifetime)
  local lives = math.max(tonumber(lifetime) * ${RETAINED_LIFETIMES}, redis.call('PTTL', prefix))
  redis.call('PEXPIRE', prefix, string.format('%.0f', lives))
end
return 1
`);

/** Options of the memory of prefixes in Redis. */
export interface RedisPrefixMemoryOptions extends RedisStoreOptions {}

/**
 * Makes a memory of prefixes in Redis, for any number of processes: `promptCache({ memory: redisPrefixMemory({ client }) })`. It holds
 * fingerprints and the names of upstreams, and each prefix expires by itself. Routes that share a memory must have the same names for the
 * same upstreams. A call reads it once and writes it once.
 *
 * @throws TypeError or RangeError for a wrong option.
 */
export function redisPrefixMemory(options: RedisPrefixMemoryOptions): PrefixMemory {
  assertOptions<RedisPrefixMemoryOptions>("redisPrefixMemory", options, REDIS_SHAPES);
  return new RedisPrefixes(options);
}

class RedisPrefixes implements PrefixMemory {
  readonly #redis: RedisAccess;

  constructor(options: RedisStoreOptions) {
    this.#redis = new RedisAccess(options);
  }

  async find(tenant: string, ids: readonly number[]): Promise<readonly (readonly PrefixUse[])[]> {
    const [first, ...rest] = this.#names(tenant, ids);
    if (first === undefined) return [];
    const found = await this.#redis.run(FIND, [first, ...rest], [this.#redis.aheadMs()]);
    return Array.isArray(found) ? found.map(usesOf) : [];
  }

  async note(tenant: string, upstream: string, prefixes: readonly NotedPrefix[]): Promise<void> {
    const ids = prefixes.map(({ id }) => id);
    const [first, ...rest] = this.#names(tenant, ids);
    if (first === undefined) return;
    const lifetimes = prefixes.map(({ lifetimeMs }) => Math.ceil(lifetimeMs));
    await this.#redis.run(NOTE, [first, ...rest], [this.#redis.aheadMs(), upstream, ...lifetimes]);
  }

  #names(tenant: string, ids: readonly number[]): readonly string[] {
    return ids.map((id) => this.#redis.nameOfKey(tenant, `prefix:${id.toString(36)}`));
  }
}

/** Reads the uses of one prefix, three texts each. */
function usesOf(found: unknown): readonly PrefixUse[] {
  const texts = listOf(found);
  const uses: PrefixUse[] = [];
  for (let at = 0; at + 2 < texts.length; at += 3)
    uses.push({ upstream: texts[at] ?? "", ageMs: Number(texts[at + 1]), lifetimeMs: Number(texts[at + 2]) });
  return uses;
}
