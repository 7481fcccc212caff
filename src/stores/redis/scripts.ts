/** The Redis store's verbs as Lua scripts: each reads and writes the ledger of one key, with nothing in between. */

import { type Script, scriptOf } from "./client.ts";

/**
 * What every script of a ledger begins with. KEYS: the ledger and its times. ARGV: how far the clock is ahead, how long resolved holds
 * are retained, then the script's own.
 *
 * The ledger is a hash: the key itself, its books, and each hold as `hold:ID`. A live hold is `live GRANTED NOTED`, a resolved one
 * `STATE USED OVERDRAFT`. The times are a sorted set of the holds' ids: when the lease of a live one ends, and when a resolved one
 * was resolved, negative. One script reads and writes both with few commands, which are most of its cost.
 */
const LEDGER = `
local LEDGER, TIMES = KEYS[1], KEYS[2]
local BATCH, MOST = 100, 9007199254740991
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + tonumber(ARGV[1])
local function int(number) return string.format('%.0f', number) end

-- The stored books and a hold; false where there is no such key, and the name of a book that a hand has spoilt.
local BOOKS = { 'granted', 'charged', 'held', 'overdraft', 'estimated' }
local key, hold, spoilt
local function read(id)
  local stored = redis.call('HMGET', LEDGER, 'unlimited', 'granted', 'charged', 'held', 'overdraft', 'estimated', 'hold:' .. id)
  hold = stored[7]
  if not stored[1] then return false end
  key = { unlimited = stored[1] == '1' }
  for index, name in ipairs(BOOKS) do
    local units = tonumber(stored[index + 1])
    if not units or units < 0 or units > MOST then spoilt = { 'spoilt', name, stored[index + 1] or '' } end
    key[name] = units
  end
  return not spoilt
end

local function available()
  return math.max(0, key.granted - key.charged - key.held)
end

local function partsOf(stored)
  local state, first, second = string.match(stored or '', '^(%a+) (%d+) (%d+)$')
  return state, tonumber(first), tonumber(second)
end

-- Charges what was used, in place of what stands in the books for its hold; nothing where the sums cannot be counted.
local function charge(used, estimated, held, charged, overdraft)
  local heldThen, chargedThen, overdraftThen = key.held - held, key.charged - charged, key.overdraft - overdraft
  local over = 0
  if not key.unlimited then over = math.max(0, used - math.max(0, key.granted - chargedThen - heldThen)) end
  local charge = used - over
  if charge > MOST - chargedThen - heldThen then return nil, 'used' end
  if over > MOST - overdraftThen then return nil, 'overdrawn' end
  key.held, key.charged, key.overdraft = heldThen, chargedThen + charge, overdraftThen + over
  key.estimated = key.estimated - charged
  if estimated then key.estimated = key.estimated + charge end
  return over
end

-- Writes the books, and a hold that is resolved.
local function resolve(id, state, used, over)
  redis.call('HSET', LEDGER, 'charged', int(key.charged), 'held', int(key.held), 'overdraft', int(key.overdraft),
    'estimated', int(key.estimated), 'hold:' .. id, state .. ' ' .. int(used) .. ' ' .. int(over))
  redis.call('ZADD', TIMES, int(-now), id)
end

-- Charges holds whose leases have run out their last notes, as far as they can be counted; returns how many.
local function expire()
  local ids = redis.call('ZRANGEBYSCORE', TIMES, 0, int(now), 'LIMIT', 0, BATCH)
  for _, id in ipairs(ids) do
    local _, granted, noted = partsOf(redis.call('HGET', LEDGER, 'hold:' .. id))
    if granted then
      local others = key.charged + key.held - granted
      local countable = MOST - others
      if not key.unlimited then countable = math.max(0, key.granted - others) + (MOST - key.overdraft) end
      local used = math.min(noted, countable)
      resolve(id, 'expired', used, charge(used, true, granted, 0, 0))
    else
      redis.call('ZREM', TIMES, id)
    end
  end
  return #ids
end

-- Forgets some holds that were resolved before a time; returns how many.
local function forget(before)
  local ids = redis.call('ZRANGEBYSCORE', TIMES, '(' .. int(-before), '(0', 'LIMIT', 0, BATCH)
  for _, id in ipairs(ids) do
    redis.call('HDEL', LEDGER, 'hold:' .. id)
    redis.call('ZREM', TIMES, id)
  end
  return #ids
end
`;

/** Begins a verb on the hold of ARGV[3]: there may be more expired holds than one run should charge. */
const VERB = `${LEDGER}
if not read(ARGV[3] or '') then return spoilt or { 'unknown' } end
local expired = expire()
if expired == BATCH then return { 'again' } end
if expired > 0 and hold then hold = redis.call('HGET', LEDGER, 'hold:' .. ARGV[3]) end
local state, first, second = partsOf(hold)
`;

/**
 * KEYS: as above, and the owner of the hold's id where the server keeps all keys together. ARGV: the hold's id, atLeast, atMost, the
 * lease, the most that a hold of an unlimited key is granted, the key's id.
 */
export const RESERVE: Script = scriptOf(`${VERB}
if KEYS[3] then
  local owner = redis.call('GET', KEYS[3])
  if owner and owner ~= ARGV[8] then return { 'foreign' } end
end
if forget(now - tonumber(ARGV[2])) > 0 and redis.call('HEXISTS', LEDGER, 'hold:' .. ARGV[3]) == 0 then state = nil end
if state == 'live' then return { 'granted', int(first) } end
-- What is resolved is no leave to run another call.
if state then return { 'known', int(available()), int(key.held) } end
local least, most, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local granted = math.min(most, available())
if key.unlimited then
  local countable = MOST - key.charged - key.held
  if least > countable then return { 'beyond', 'used' } end
  granted = math.max(least, math.min(most, tonumber(ARGV[7]), countable))
end
if granted < least then return { 'refused', int(available()), int(key.held) } end
redis.call('HSET', LEDGER, 'held', int(key.held + granted), 'hold:' .. ARGV[3], 'live ' .. int(granted) .. ' 0')
redis.call('ZADD', TIMES, int(now + lease), ARGV[3])
if KEYS[3] then redis.call('SET', KEYS[3], ARGV[8], 'PX', int(lease + tonumber(ARGV[2]))) end
return { 'granted', int(granted) }
`);

/** ARGV: the hold's id, the lease, what was used so far. */
export const RENEW: Script = scriptOf(`${VERB}
if not state then return { 'none' } end
if state == 'live' then
  redis.call('HSET', LEDGER, 'hold:' .. ARGV[3], 'live ' .. int(first) .. ' ' .. int(tonumber(ARGV[5])))
  redis.call('ZADD', TIMES, int(now + tonumber(ARGV[4])), ARGV[3])
end
return { 'done' }
`);

/** ARGV: the hold's id, what was used, whether that is an estimate. */
export const SETTLE: Script = scriptOf(`${VERB}
if not state then return { 'none' } end
local used, estimated = tonumber(ARGV[4]), ARGV[5] == '1'
local over, beyond
if state == 'live' then
  over, beyond = charge(used, estimated, first, 0, 0)
elseif state == 'expired' then
  -- The true count replaces what expiry charged.
  over, beyond = charge(used, estimated, 0, first - second, second)
else
  return { 'done' }
end
if beyond then return { 'beyond', beyond } end
resolve(ARGV[3], state == 'live' and 'settled' or 'corrected', used, over)
return { 'done' }
`);

/** Tells what a key has, as it is stored; also of one that a hand has spoilt. KEYS: as above, and its secrets. ARGV: none. */
export const REPORT: Script = scriptOf(`${LEDGER}
if read('') and expire() == BATCH then return { 'again' } end
if not key then return { 'unknown' } end
local secrets = redis.call('HLEN', KEYS[3])
for _, ends in ipairs(redis.call('HVALS', KEYS[3])) do
  if ends ~= '' and tonumber(ends) <= now then secrets = secrets - 1 end
end
local told = redis.call('HMGET', LEDGER, 'key', 'revoked', unpack(BOOKS))
for index, value in ipairs(told) do told[index] = value or '' end
return { 'told', int(secrets), unpack(told) }
`);

/** Adds to a key's quota. ARGV: none of a hold, the units. */
export const GRANT: Script = scriptOf(`${VERB}
if redis.call('HGET', LEDGER, 'revoked') == '1' then return { 'revoked' } end
if key.unlimited then return { 'unlimited' } end
local units = tonumber(ARGV[4])
if units > MOST - key.granted then return { 'beyond', 'granted' } end
redis.call('HSET', LEDGER, 'granted', int(key.granted + units))
return { 'done' }
`);

/** Charges some expired holds, and tells how many. */
export const SWEEP: Script = scriptOf(`${LEDGER}
if not read('') then return spoilt or { 'done', '0' } end
return { 'done', int(expire()) }
`);

/** Forgets some resolved holds, and tells how many. ARGV: the time before which they were resolved. */
export const PRUNE: Script = scriptOf(`${LEDGER}
return { 'done', int(forget(tonumber(ARGV[3]))) }
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
-- By chance its slot may be that of the ledger, where it was taken in one script.
if redis.call('TYPE', KEYS[1]).ok == 'string' then return redis.call('GET', KEYS[1]) end
local owner = redis.call('HGET', KEYS[1], 'key')
if owner and owner ~= ARGV[1] then return owner end
redis.call('HSET', KEYS[1], 'key', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'claims', 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return ARGV[1]
`);

/** Takes a claim back, of a hold that was refused. KEYS: the owner of the id. */
export const UNCLAIM: Script = scriptOf(`
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HINCRBY', KEYS[1], 'claims', -1) < 1 then
  redis.call('DEL', KEYS[1])
end
return 1
`);

/**
 * Tells whose a hold is, and keeps that known. KEYS: the owner of the id, which is a hash where it was claimed apart. ARGV: for how
 * long.
 */
export const OWNER: Script = scriptOf(`
local isClaimed = redis.call('TYPE', KEYS[1]).ok == 'hash'
local owner = isClaimed and redis.call('HGET', KEYS[1], 'key') or redis.call('GET', KEYS[1])
if owner and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return owner
`);
