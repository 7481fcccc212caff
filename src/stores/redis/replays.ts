/** The replay store in Redis: each entry is a key that expires by itself. */

import { parseJson } from "../../model/json.ts";
import { assertOptions } from "../../options.ts";
import type {
  RecordedAnswer,
  ReplayClaim,
  ReplayHolder,
  ReplayRecord,
  ReplayState,
  ReplayStore,
} from "../../ports/replay-store.ts";
import {
  assertReplayClaim,
  assertReplayHolder,
  assertReplayRecord,
  bytesOf,
  fitting,
  type KeyBounds,
  keyBoundsOf,
} from "../memory-replays.ts";
import { listOf, NOW, REDIS_SHAPES, RedisAccess, type RedisStoreOptions, type Script, scriptOf } from "./client.ts";

// Each verb is a Lua script, which reads and writes one entry atomically.

/**
 * The beginning of each script. KEYS: the entry. ARGV: the time to add to the clock, the call's id, then the arguments of the script
 * itself.
 */
const ENTRY = `
local ENTRY, CALL = KEYS[1], ARGV[2]
${NOW}
local function int(number) return string.format('%.0f', number) end
local holder, fingerprint, ends, head = unpack(redis.call('HMGET', ENTRY, 'call', 'fingerprint', 'ends', 'head'))
if holder and tonumber(ends) <= now then
  redis.call('DEL', ENTRY)
  holder, head = false, false
end
`;

/** Claims an entry. ARGV: the fingerprint, the lease. */
const CLAIM: Script = scriptOf(`${ENTRY}
if head then return { 'answered', fingerprint, head, redis.call('HGET', ENTRY, 'body') } end
if holder and holder ~= CALL then return { 'running', fingerprint } end
redis.call('HSET', ENTRY, 'call', CALL, 'fingerprint', ARGV[3], 'ends', int(now + tonumber(ARGV[4])))
redis.call('PEXPIRE', ENTRY, ARGV[4])
return { 'claimed' }
`);

/**
 * Records an answer. Returns the ids of the key's oldest entries, which the caller then deletes to make room. KEYS: the entry, the
 * key's entries sorted by expiry, their total size in bytes. ARGV: the fingerprint, the time to retain it, the head, the body, the
 * entry's id and size, the most entries, the most bytes.
 */
const RECORD: Script = scriptOf(`${ENTRY}
if head or (holder and holder ~= CALL) then return {} end
local ENDS, BYTES, retain, member = KEYS[2], KEYS[3], tonumber(ARGV[4]), ARGV[7] .. ' ' .. ARGV[8]
redis.call('DEL', ENTRY)
redis.call('HSET', ENTRY, 'call', CALL, 'fingerprint', ARGV[3], 'ends', int(now + retain), 'head', ARGV[5], 'body', ARGV[6])
redis.call('PEXPIRE', ENTRY, ARGV[4])
local bytes = tonumber(redis.call('GET', BYTES) or '0')
local function forget(found)
  redis.call('ZREM', ENDS, found)
  bytes = bytes - tonumber(string.match(found, ' (%d+)$'))
end
for _, found in ipairs(redis.call('ZRANGEBYSCORE', ENDS, '-inf', int(now))) do forget(found) end
local removed = {}
local function isFull()
  return redis.call('ZCARD', ENDS) >= tonumber(ARGV[9]) or bytes + tonumber(ARGV[8]) > tonumber(ARGV[10])
end
while isFull() do
  local oldest = redis.call('ZRANGE', ENDS, 0, 0)[1]
  if not oldest then break end
  forget(oldest)
  removed[#removed + 1] = string.match(oldest, '^%x+')
end
redis.call('ZADD', ENDS, int(now + retain), member)
local lives = math.max(retain, redis.call('PTTL', ENDS))
redis.call('PEXPIRE', ENDS, int(lives))
redis.call('SET', BYTES, int(bytes + tonumber(ARGV[8])), 'PX', int(lives))
return removed
`);

/** Releases a claim. */
const RELEASE: Script = scriptOf(`${ENTRY}
if holder == CALL and not head then redis.call('DEL', ENTRY) end
return 1
`);

/** Options of the replay store in Redis. */
export interface RedisReplayStoreOptions extends RedisStoreOptions, Partial<KeyBounds> {}

/**
 * Makes a store that keeps answers in Redis, for any number of processes. Entries expire by the server's clock. A server that crashes
 * without persistence, or that evicts keys under memory pressure, loses answers. Repeated requests are then charged again.
 *
 * @throws RangeError for a bound that is not a positive integer.
 * @example
 * const replayStore = redisReplayStore({ client: await createClient({ url }).connect() });
 */
export function redisReplayStore(options: RedisReplayStoreOptions): ReplayStore {
  assertOptions<RedisReplayStoreOptions>("redisReplayStore", options, {
    ...REDIS_SHAPES,
    maxEntriesPerKey: "positive?",
    maxBytesPerKey: "positive?",
  });
  return new RedisReplays(options);
}

class RedisReplays implements ReplayStore {
  readonly #redis: RedisAccess;
  readonly #bounds: KeyBounds;

  constructor(options: RedisReplayStoreOptions) {
    this.#redis = new RedisAccess(options);
    this.#bounds = keyBoundsOf(options);
  }

  async claim(claim: ReplayClaim): Promise<ReplayState> {
    assertReplayClaim(claim);
    const args = [claim.fingerprint, claim.leaseMs];
    const [state, fingerprint = "", head = "", body = ""] = await this.#run(CLAIM, claim, [], args);
    if (state === "claimed") return { state };
    if (state === "running") return { state, fingerprint };
    const { hasBody, ...answer } = parseJson(head) as Head;
    return { state: "answered", fingerprint, answer: { ...answer, body: hasBody ? body : undefined } };
  }

  async record(record: ReplayRecord): Promise<void> {
    assertReplayRecord(record);
    const { id, keyId, fingerprint, retainMs } = record;
    const { maxEntriesPerKey, maxBytesPerKey } = this.#bounds;
    const kept = fitting(record.answer, maxBytesPerKey);
    const { body, ...answer } = kept;
    const head: Head = { ...answer, hasBody: body !== undefined };
    const removed = await this.#run(
      RECORD,
      record,
      [this.#redis.nameOfKey(keyId, "replay-ends"), this.#redis.nameOfKey(keyId, "replay-bytes")],
      [fingerprint, retainMs, JSON.stringify(head), body ?? "", id, bytesOf(kept), maxEntriesPerKey, maxBytesPerKey],
    );
    const names = removed.map((each) => this.#redis.nameOfKey(keyId, `replay:${each}`));
    if (names[0] !== undefined) await this.#redis.send(names[0], "UNLINK", names);
  }

  async release(holder: ReplayHolder): Promise<void> {
    assertReplayHolder(holder);
    await this.#run(RELEASE, holder, [], []);
  }

  async #run(
    script: Script,
    { id, keyId, callId }: ReplayHolder,
    names: readonly string[],
    args: readonly (string | number)[],
  ): Promise<readonly string[]> {
    const entry = this.#redis.nameOfKey(keyId, `replay:${id}`);
    return listOf(await this.#redis.run(script, [entry, ...names], [this.#redis.aheadMs(), callId, ...args]));
  }
}

/** The fields of an answer that are stored beside its body. */
type Head = Omit<RecordedAnswer, "body"> & { readonly hasBody: boolean };
