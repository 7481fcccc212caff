/** The Redis store's verbs as Lua scripts: each reads and writes the ledger of one key, with nothing in between. */

import { type Script, scriptOf } from "./client.ts";

/**
 * What every script of a ledger begins with. KEYS: the key, its live holds, their leases, its resolved holds, their ends. ARGV: how far
 * the clock is ahead, how long resolved holds are retained, then the script's own.
 */
const LEDGER = `
local KEY, HOLDS, LEASES, RESOLVED, ENDS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local BATCH, MOST = 100, 9007199254740991
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
local function int(number) return string.format('%.0f', number) end

local key
local stored = redis.call('HMGET', KEY, 'unlimited', 'granted', 'charged', 'held', 'overdraft', 'estimated')
if stored[1] then
  key = { unlimited = stored[1] == '1', granted = tonumber(stored[2]), charged = tonumber(stored[3]),
    held = tonumber(stored[4]), overdraft = tonumber(stored[5]), estimated = tonumber(stored[6]) }
end

local function available()
  return math.max(0, key.granted - key.charged - key.held)
end

local function save()
  redis.call('HSET', KEY, 'granted', int(key.granted), 'charged', int(key.charged), 'held', int(key.held),
    'overdraft', int(key.overdraft), 'estimated', int(key.estimated))
end

local function tooMuch()
  return key.charged > MOST or key.overdraft > MOST or key.held > MOST or key.granted > MOST
end

-- Charges what was used as far as there is room; returns what there is none for.
local function charge(used, estimated)
  local over = 0
  if not key.unlimited then over = math.max(0, used - available()) end
  key.charged = key.charged + used - over
  key.overdraft = key.overdraft + over
  if estimated then key.estimated = key.estimated + used - over end
  return over
end

local function resolve(id, state, used, over)
  redis.call('HDEL', HOLDS, id)
  redis.call('ZREM', LEASES, id)
  redis.call('HSET', RESOLVED, id, state .. ' ' .. int(used) .. ' ' .. int(over))
  redis.call('ZADD', ENDS, int(now), id)
end

local function liveHold(id)
  local hold = redis.call('HGET', HOLDS, id)
  if not hold then return nil end
  local granted, noted = string.match(hold, '^(%d+) (%d+)$')
  return { granted = tonumber(granted), noted = tonumber(noted) }
end

-- Charges holds whose leases have run out their last notes; returns how many.
local function expire()
  local ids = redis.call('ZRANGEBYSCORE', LEASES, '-inf', int(now), 'LIMIT', 0, BATCH)
  for _, id in ipairs(ids) do
    local hold = liveHold(id)
    key.held = key.held - hold.granted
    resolve(id, 'expired', hold.noted, charge(hold.noted, true))
  end
  if #ids > 0 then save() end
  return #ids
end

-- Forgets holds that were resolved long ago; returns how many.
local function forget(olderThan)
  local ids = redis.call('ZRANGEBYSCORE', ENDS, '-inf', '(' .. int(now - olderThan), 'LIMIT', 0, BATCH)
  for _, id in ipairs(ids) do
    redis.call('HDEL', RESOLVED, id)
    redis.call('ZREM', ENDS, id)
  end
  return #ids
end
`;

/** Begins a verb: there may be more expired holds than one run should charge. */
const VERB = `${LEDGER}
if not key then return { 'unknown' } end
forget(tonumber(ARGV[2]))
if expire() == BATCH then return { 'again' } end
`;

/** ARGV: the hold's id, atLeast, atMost, the lease, the most that a hold of an unlimited key is granted. */
export const RESERVE: Script = scriptOf(`${VERB}
local id, least, most, lease = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local hold = liveHold(id)
if hold then return { 'granted', int(hold.granted) } end
local known = redis.call('HEXISTS', RESOLVED, id) == 1
local granted = math.min(most, available())
if key.unlimited then granted = math.max(least, math.min(most, tonumber(ARGV[7]))) end
-- What is resolved is no leave to run another call.
if known then return { 'known', int(available()), int(key.held) } end
if granted < least then return { 'refused', int(available()), int(key.held) } end
key.held = key.held + granted
if tooMuch() then return { 'beyond' } end
redis.call('HSET', HOLDS, id, int(granted) .. ' 0')
redis.call('ZADD', LEASES, int(now + lease), id)
save()
return { 'granted', int(granted) }
`);

/** ARGV: the hold's id, the lease, what was used so far. */
export const RENEW: Script = scriptOf(`${VERB}
local hold = liveHold(ARGV[3])
if hold then
  redis.call('HSET', HOLDS, ARGV[3], int(hold.granted) .. ' ' .. int(tonumber(ARGV[5])))
  redis.call('ZADD', LEASES, int(now + tonumber(ARGV[4])), ARGV[3])
end
return { 'done' }
`);

/** ARGV: the hold's id, what was used, whether that is an estimate. */
export const SETTLE: Script = scriptOf(`${VERB}
local id, used, estimated = ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local hold = liveHold(id)
local state = 'settled'
if hold then
  key.held = key.held - hold.granted
else
  local before, charged, over = string.match(redis.call('HGET', RESOLVED, id) or '', '^(%a+) (%d+) (%d+)$')
  if before ~= 'expired' then return { 'done' } end
  -- The true count replaces what expiry charged.
  state = 'corrected'
  key.charged = key.charged - (tonumber(charged) - tonumber(over))
  key.estimated = key.estimated - (tonumber(charged) - tonumber(over))
  key.overdraft = key.overdraft - tonumber(over)
end
local over = charge(used, estimated)
if tooMuch() then return { 'beyond' } end
resolve(id, state, used, over)
save()
return { 'done' }
`);

/** Tells what a key has. ARGV: none. */
export const REPORT: Script = scriptOf(`${VERB}
local secrets = redis.call('HLEN', KEYS[6])
local key_, revoked = unpack(redis.call('HMGET', KEY, 'key', 'revoked'))
for _, ends in ipairs(redis.call('HVALS', KEYS[6])) do
  if ends ~= '' and tonumber(ends) <= now then secrets = secrets - 1 end
end
return { 'told', key_, int(key.charged + key.held), int(available()), int(key.held), int(key.overdraft),
  int(key.estimated), int(secrets), revoked or '0' }
`);

/** Adds to a key's quota. ARGV: the units. */
export const GRANT: Script = scriptOf(`${VERB}
if redis.call('HGET', KEY, 'revoked') == '1' then return { 'revoked' } end
if key.unlimited then return { 'unlimited' } end
key.granted = key.granted + tonumber(ARGV[3])
if tooMuch() then return { 'beyond' } end
save()
return { 'done' }
`);

/** Charges some expired holds, and tells how many. */
export const SWEEP: Script = scriptOf(`${LEDGER}
if not key then return 0 end
return expire()
`);

/** Forgets some resolved holds, and tells how many. ARGV: how long ago they were resolved at least. */
export const PRUNE: Script = scriptOf(`${LEDGER}
return forget(tonumber(ARGV[3]))
`);

/** Makes a key. KEYS: the key. ARGV: the key as JSON, whether it is unlimited, its grant, what was used. */
export const CREATE: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'key', ARGV[1], 'unlimited', ARGV[2], 'granted', ARGV[3], 'charged', ARGV[4],
  'held', '0', 'overdraft', '0', 'estimated', '0', 'revoked', '0')
return 1
`);

/** Lists a new secret with its key. KEYS: the key, its secrets. ARGV: the hash. Returns the key as JSON. */
export const LINK: Script = scriptOf(`
local key, revoked = unpack(redis.call('HMGET', KEYS[1], 'key', 'revoked'))
if not key then return { 'unknown' } end
if revoked == '1' then return { 'revoked' } end
redis.call('HSET', KEYS[2], ARGV[1], '')
return { 'done', key }
`);

/**
 * Sets when all secrets of a key but one end, none later than it would have. KEYS: the key, its secrets. ARGV: how far the clock is
 * ahead, the overlap, the hash that stays. Returns each hash and its end.
 */
export const RETIRE: Script = scriptOf(`
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
local ends, retired = now + tonumber(ARGV[2]), {}
local secrets = redis.call('HGETALL', KEYS[2])
for index = 1, #secrets, 2 do
  local hash, before = secrets[index], tonumber(secrets[index + 1])
  if before and before <= now then
    redis.call('HDEL', KEYS[2], hash)
  elseif hash ~= ARGV[3] then
    local last = string.format('%.0f', math.min(before or ends, ends))
    redis.call('HSET', KEYS[2], hash, last)
    retired[#retired + 1] = hash
    retired[#retired + 1] = last
  end
end
return retired
`);

/** Takes all secrets from a key for good. KEYS: the key, its secrets. Returns their hashes, or nothing for no key. */
export const REVOKE: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'unknown' } end
redis.call('HSET', KEYS[1], 'revoked', '1')
local hashes = redis.call('HKEYS', KEYS[2])
table.insert(hashes, 1, 'done')
redis.call('DEL', KEYS[2])
return hashes
`);

/** Finds a secret's key. KEYS: the secret. ARGV: how far the clock is ahead. Returns the key as JSON. */
export const FIND: Script = scriptOf(`
local key, ends = unpack(redis.call('HMGET', KEYS[1], 'key', 'ends'))
if not key then return false end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
if ends and tonumber(ends) <= now then return false end
return key
`);

/** Takes a new secret. KEYS: the secret. ARGV: the key as JSON. Returns whether it was free. */
export const TAKE_SECRET: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'key', ARGV[1])
return 1
`);

/** Ends a secret. KEYS: the secret. ARGV: when. */
export const END_SECRET: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'ends', ARGV[1]) end
return 1
`);

/**
 * Claims a hold's id for a key, one count for each claim. KEYS: the owner of the id. ARGV: the key's id, for how long.
 * Returns whose it is.
 */
export const CLAIM: Script = scriptOf(`
local owner = redis.call('HGET', KEYS[1], 'key')
if owner and owner ~= ARGV[1] then return owner end
redis.call('HSET', KEYS[1], 'key', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'claims', 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return ARGV[1]
`);

/** Takes a claim back, of a hold that was refused. KEYS: the owner of the id. */
export const UNCLAIM: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HINCRBY', KEYS[1], 'claims', -1) < 1 then
  redis.call('DEL', KEYS[1])
end
return 1
`);

/** Tells whose a hold is, and keeps that known. KEYS: the owner of the id. ARGV: for how long. */
export const OWNER: Script = scriptOf(`
local owner = redis.call('HGET', KEYS[1], 'key')
if owner and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return owner
`);
