/** The Redis store's verbs as Lua scripts: each reads and writes the ledger of one key, with nothing in between. */

import { type Script, scriptOf } from "./client.ts";

/**
 * What every script of a ledger begins with. KEYS: the ledger and its times. ARGV: how far the clock is ahead, how long resolved holds
 * are retained, the field of the verb's hold, then the script's own.
 *
 * The ledger is a hash: the key itself, its books, and each hold as `hold:ID`. A live hold is `live GRANTED NOTED`, a resolved one
 * `STATE USED OVERDRAFT`. The times are a sorted set of the holds' fields: when the lease of a live one ends, and when a resolved one
 * was resolved, negative. So one range holds the resolved ones that are to be forgotten, and the live ones whose lease has run out.
 *
 * Redis spends its time in the Lua of these scripts: the usual way through one makes no table, formats no number, and has few commands.
 */
const LEDGER = `
local LEDGER, TIMES, HOLD, BATCH, MOST = KEYS[1], KEYS[2], ARGV[3], 100, 9007199254740991
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1]
local stored = redis.call('HMGET', LEDGER, 'unlimited', 'granted', 'charged', 'held', 'overdraft', 'estimated', HOLD)
if not stored[1] then return { 'unknown' } end
local unlimited, hold = stored[1] == '1', stored[7]
local granted, charged, held = tonumber(stored[2]), tonumber(stored[3]), tonumber(stored[4])
local overdraft, estimated = tonumber(stored[5]), tonumber(stored[6])

-- Exact as text, which Lua itself is for less than 15 digits alone.
local function text(number)
  return number < 1e14 and number .. '' or string.format('%.0f', number)
end

local function parts(value)
  local state, first, second = string.match(value, '^(%a+) (%d+) (%d+)$')
  return state, tonumber(first), tonumber(second)
end

-- Charges what was used in place of what stands in the books for its hold, and returns the overdraft. Where the sums cannot be
-- counted, it changes nothing and returns the name of the book.
local function charge(used, isEstimated, heldBefore, chargedBefore, overdraftBefore)
  local heldThen, chargedThen, overdraftThen = held - heldBefore, charged - chargedBefore, overdraft - overdraftBefore
  local over = 0
  if not unlimited then over = math.max(0, used - math.max(0, granted - chargedThen - heldThen)) end
  local charged_ = used - over
  if charged_ > MOST - chargedThen - heldThen then return nil, 'used' end
  if over > MOST - overdraftThen then return nil, 'overdrawn' end
  held, charged, overdraft, estimated = heldThen, chargedThen + charged_, overdraftThen + over, estimated - chargedBefore
  if isEstimated then estimated = estimated + charged_ end
  return over
end

-- Writes the books, and a hold that is resolved.
local function resolve(id, state, used, over)
  redis.call('HSET', LEDGER, 'charged', charged, 'held', held, 'overdraft', overdraft, 'estimated', estimated,
    id, state .. ' ' .. text(used) .. ' ' .. text(over))
  redis.call('ZADD', TIMES, -now, id)
end
`;

/** Tells a book that a hand has spoilt. */
const SPOILT = `
for index, name in ipairs({ 'granted', 'charged', 'held', 'overdraft', 'estimated' }) do
  local units = tonumber(stored[index + 1])
  if not units or units < 0 or units > MOST then return { 'spoilt', name, stored[index + 1] or '' } end
end
`;

/** Whether the books are sound; cheap, because a sum that cannot be told is not sound either. */
const IF_SPOILT = `
if not (granted and charged and held and overdraft and estimated) or math.min(granted, charged, held, overdraft, estimated) < 0
  or math.max(granted, charged, held, overdraft, estimated) > MOST then ${SPOILT} end
`;

/** Charges leases that have run out their last notes, as far as they can be counted, and forgets resolved holds. */
const TAKE = `
local function take(ids)
  for _, id in ipairs(ids) do
    local state, first, second = parts(redis.call('HGET', LEDGER, id) or '')
    if state == 'live' then
      local others = charged + held - first
      local countable = MOST - others
      if not unlimited then countable = math.max(0, granted - others) + (MOST - overdraft) end
      local used = math.min(second, countable)
      resolve(id, 'expired', used, charge(used, true, first, 0, 0))
    else
      redis.call('HDEL', LEDGER, id)
      redis.call('ZREM', TIMES, id)
    end
  end
  return #ids
end
`;

/** Does what is due: all leases that have run out, and some of the holds that were resolved long ago. */
const DUE = `
local due = redis.call('ZRANGEBYSCORE', TIMES, ARGV[2] - now, now, 'LIMIT', 0, BATCH)
local isMore = false
if #due > 0 then
  ${TAKE}
  isMore = take(due) == BATCH and take(redis.call('ZRANGEBYSCORE', TIMES, 0, now, 'LIMIT', 0, BATCH)) == BATCH
  hold = redis.call('HGET', LEDGER, HOLD)
end
`;

/** Begins a verb. There may be more expired holds than one run should charge. */
const VERB = `${LEDGER}${IF_SPOILT}${DUE}
if isMore then return { 'again' } end
`;

/**
 * KEYS: as above, and the owner of the hold's id where the server keeps all keys together. ARGV: the hold, atLeast, atMost, the lease,
 * the most that a hold of an unlimited key is granted, the key's id, how long the owner is known. Returns what is granted as a number.
 */
export const RESERVE: Script = scriptOf(`${VERB}
local function isForeign()
  local owner = KEYS[3] and redis.call('GET', KEYS[3])
  return owner and owner ~= ARGV[8]
end
local available = math.max(0, granted - charged - held)
if hold then
  local state, first = parts(hold)
  if state == 'live' then return first end
  -- What is resolved is no leave to run another call.
  return { 'known', text(available), text(held) }
end
local least, most = tonumber(ARGV[4]), tonumber(ARGV[5])
local units = math.min(most, available)
if unlimited then
  local countable = MOST - charged - held
  if least > countable then return isForeign() and { 'foreign' } or { 'beyond', 'used' } end
  units = math.max(least, math.min(most, tonumber(ARGV[7]), countable))
end
if units < least then return isForeign() and { 'foreign' } or { 'refused', text(available), text(held) } end
if KEYS[3] and not redis.call('SET', KEYS[3], ARGV[8], 'NX', 'PX', ARGV[9]) then
  if isForeign() then return { 'foreign' } end
  redis.call('PEXPIRE', KEYS[3], ARGV[9])
end
redis.call('HSET', LEDGER, 'held', held + units, HOLD, 'live ' .. text(units) .. ' 0')
redis.call('ZADD', TIMES, now + ARGV[6], HOLD)
return units
`);

/** ARGV: the hold, the lease, what was used so far. */
export const RENEW: Script = scriptOf(`${VERB}
if not hold then return { 'none' } end
local state, first = parts(hold)
if state == 'live' then
  redis.call('HSET', LEDGER, HOLD, 'live ' .. text(first) .. ' ' .. ARGV[5])
  redis.call('ZADD', TIMES, now + ARGV[4], HOLD)
end
return { 'done' }
`);

/** ARGV: the hold, what was used, whether that is an estimate. */
export const SETTLE: Script = scriptOf(`${VERB}
if not hold then return { 'none' } end
local state, first, second = parts(hold)
local used, over, beyond = tonumber(ARGV[4])
if state == 'live' then
  over, beyond = charge(used, ARGV[5] == '1', first, 0, 0)
elseif state == 'expired' then
  -- The true count replaces what expiry charged.
  over, beyond = charge(used, ARGV[5] == '1', 0, first - second, second)
else
  return 'done'
end
if beyond then return { 'beyond', beyond } end
if over > 0 or state == 'expired' or ARGV[5] == '1' then
  resolve(HOLD, state == 'live' and 'settled' or 'corrected', used, over)
else
  redis.call('HSET', LEDGER, 'charged', charged, 'held', held, HOLD, 'settled ' .. ARGV[4] .. ' 0')
  redis.call('ZADD', TIMES, -now, HOLD)
end
return 'done'
`);

/** Tells what a key has, as it is stored; also of one that a hand has spoilt. KEYS: as above, and its secrets. ARGV: none. */
export const REPORT: Script = scriptOf(`${LEDGER}
local function isSpoilt() ${IF_SPOILT} end
if not isSpoilt() then ${DUE} if isMore then return { 'again' } end end
local secrets = redis.call('HLEN', KEYS[3])
for _, ends in ipairs(redis.call('HVALS', KEYS[3])) do
  if ends ~= '' and tonumber(ends) <= now then secrets = secrets - 1 end
end
local told = redis.call('HMGET', LEDGER, 'key', 'revoked', 'granted', 'charged', 'held', 'overdraft', 'estimated')
for index, value in ipairs(told) do told[index] = value or '' end
return { 'told', secrets .. '', unpack(told) }
`);

/** Adds to a key's quota. ARGV: no hold, the units. */
export const GRANT: Script = scriptOf(`${VERB}
if redis.call('HGET', LEDGER, 'revoked') == '1' then return { 'revoked' } end
if unlimited then return { 'unlimited' } end
local units = tonumber(ARGV[4])
if units > MOST - granted then return { 'beyond', 'granted' } end
redis.call('HSET', LEDGER, 'granted', granted + units)
return { 'done' }
`);

/** Charges some expired holds, and tells how many. ARGV: no hold. */
export const SWEEP: Script = scriptOf(`${LEDGER}${IF_SPOILT}
${TAKE}
return { 'done', take(redis.call('ZRANGEBYSCORE', TIMES, 0, now, 'LIMIT', 0, BATCH)) .. '' }
`);

/** Forgets some resolved holds, and tells how many. ARGV: no hold, the time before which they were resolved. */
export const PRUNE: Script = scriptOf(`
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. -ARGV[4], '(0', 'LIMIT', 0, 100)
for _, id in ipairs(ids) do
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
return { 'done', #ids .. '' }
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
