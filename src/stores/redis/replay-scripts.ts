/** The replay store's verbs as Lua scripts: each reads and writes one entry, with nothing in between. */

import { type Script, scriptOf } from "./client.ts";

/** KEYS: the entry. ARGV: how far the clock is ahead, the call's id, then the script's own. */
const ENTRY = `
local ENTRY, CALL = KEYS[1], ARGV[2]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
local function int(number) return string.format('%.0f', number) end
local holder, fingerprint, ends, head = unpack(redis.call('HMGET', ENTRY, 'call', 'fingerprint', 'ends', 'head'))
if holder and tonumber(ends) <= now then
  redis.call('DEL', ENTRY)
  holder, head = false, false
end
`;

/** ARGV: the fingerprint, the lease. */
export const CLAIM: Script = scriptOf(`${ENTRY}
if head then return { 'answered', fingerprint, head, redis.call('HGET', ENTRY, 'body') } end
if holder and holder ~= CALL then return { 'running', fingerprint } end
redis.call('HSET', ENTRY, 'call', CALL, 'fingerprint', ARGV[3], 'ends', int(now + tonumber(ARGV[4])))
redis.call('PEXPIRE', ENTRY, ARGV[4])
return { 'claimed' }
`);

/**
 * Records an answer, and tells which entries of the key have to make room for it. KEYS: the entry, the key's entries by their ends,
 * how many bytes they take. ARGV: the fingerprint, for how long, the head, the body, the entry's id and how many bytes it takes, the
 * most entries, the most bytes.
 */
export const RECORD: Script = scriptOf(`${ENTRY}
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

/** Gives a claim up. */
export const RELEASE: Script = scriptOf(`${ENTRY}
if holder == CALL and not head then redis.call('DEL', ENTRY) end
return 1
`);
