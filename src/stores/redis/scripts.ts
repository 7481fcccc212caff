/** The verbs of the Redis store as Lua scripts: each reads and writes the ledger of one key atomically. */

import { NOW, type Script, scriptOf } from "./client.ts";

/**
 * The beginning of every script on a ledger. KEYS: the ledger and its times. ARGV: the time to add to the clock, the time for which
 * resolved holds are retained, the field of the verb's hold, then the arguments of the script itself.
 *
 * The ledger is a hash: the key itself, its books, and each hold as `hold:ID`. A live hold is `live GRANTED NOTED`, a resolved hold
 * `STATE USED OVERDRAFT`. A key that has, or had, a budget has a field `budgets`, and each of its holds a field `shares:hold:ID`: see
 * `BUDGETS`. The times are a sorted set of the holds' fields: the end of a live hold's lease, and the negative of the
 * time at which a hold was resolved. So one range query finds both the resolved holds to delete and the live holds whose lease has
 * expired.
 *
 * The Lua code of these scripts takes most of Redis's time. Therefore the usual path through a script creates no table, formats no
 * number, and runs few commands.
 */
const LEDGER = `
local LEDGER, TIMES, HOLD, BATCH, MOST = KEYS[1], KEYS[2], ARGV[3], 100, 9007199254740991
${NOW}
local stored = redis.call('HMGET', LEDGER, 'unlimited', 'granted', 'charged', 'held', 'overdraft', 'estimated', HOLD, 'budgets')
if not stored[1] then return { 'unknown' } end
local unlimited, hold = stored[1] == '1', stored[7]
local granted, charged, held = tonumber(stored[2]), tonumber(stored[3]), tonumber(stored[4])
local overdraft, estimated = tonumber(stored[5]), tonumber(stored[6])

-- Converts a number to exact text. Lua's own conversion is exact only below 15 digits.
local function text(number)
  return number < 1e14 and number .. '' or string.format('%.0f', number)
end

local function parts(value)
  local state, first, second = string.match(value, '^(%a+) (%d+) (%d+)$')
  return state, tonumber(first), tonumber(second)
end

-- Replaces the units that the books count for the hold by the used units, some of them guessed, and returns the overdraft. When a sum would pass MOST,
-- changes nothing, and returns nil and the name of the book.
local function charge(used, guessed, heldBefore, chargedBefore, overdraftBefore)
  local heldThen, chargedThen, overdraftThen = held - heldBefore, charged - chargedBefore, overdraft - overdraftBefore
  local over = 0
  if not unlimited then over = math.max(0, used - math.max(0, granted - chargedThen - heldThen)) end
  local charged_ = used - over
  if charged_ > MOST - chargedThen - heldThen then return nil, 'used' end
  if over > MOST - overdraftThen then return nil, 'overdrawn' end
  held, charged, overdraft, estimated = heldThen, chargedThen + charged_, overdraftThen + over, estimated - chargedBefore
  if guessed > 0 then estimated = estimated + math.min(guessed, charged_) end
  return over
end

-- Writes the books and a resolved hold.
local function resolve(id, state, used, over)
  redis.call('HSET', LEDGER, 'charged', charged, 'held', held, 'overdraft', overdraft, 'estimated', estimated,
    id, state .. ' ' .. text(used) .. ' ' .. text(over))
  redis.call('ZADD', TIMES, -now, id)
end
`;

/**
 * Adds the functions for budgets to a script on a ledger, only for a key that has, or had, a budget. The ledger's field `budgets` is
 * JSON: the names of the budgets' hashes, and the name of the leases of all holds with shares. A share of a hold is the name of a
 * budget, the beginning of its period, and its overdraft. The hash of a budget has the books of the current period, and those of closed
 * periods as `closed:BEGINNING`. In a cluster, budgets need a prefix with one slot for all
 * keys, so that a script may use keys that it has not declared.
 */
const BUDGETS = `
local budgets, windowOf, sharesOf, planned, applied, written
if stored[8] then
  budgets = cjson.decode(stored[8])
  local windows = {}

  -- Reads a period: the current one when its beginning is not given. Returns nil when there is no such period.
  function windowOf(name, starts)
    if starts and windows[name .. starts] then return windows[name .. starts] end
    local found = redis.call('HMGET', name, 'starts', 'ends', 'granted', 'charged', 'held', 'overdraft', 'estimated')
    if not found[1] then return nil end
    local window = { name = name, starts = starts or found[1], ends = tonumber(found[2]) }
    if starts and starts ~= found[1] then
      local closed = redis.call('HGET', name, 'closed:' .. starts)
      if not closed then return nil end
      found = { '', '', string.match(closed, '^(%d+) (%d+) (%d+) (%d+) (%d+)$') }
      window.isClosed = true
    end
    window.granted, window.charged, window.held = tonumber(found[3]), tonumber(found[4]), tonumber(found[5])
    window.overdraft, window.estimated = tonumber(found[6]), tonumber(found[7])
    windows[name .. window.starts] = window
    return window
  end

  function sharesOf(id)
    local shares = redis.call('HGET', LEDGER, 'shares:' .. id)
    if not shares then return nil end
    local found = {}
    for _, share in ipairs(cjson.decode(shares)) do
      local window = windowOf(share[1], share[2])
      if window then found[#found + 1] = { window = window, over = tonumber(share[3]) } end
    end
    return found
  end

  -- Computes the charge of a hold to its shares. Returns false when a sum would pass MOST.
  function planned(shares, used, heldBefore, usedBefore)
    for _, share in ipairs(shares) do
      local window = share.window
      share.held = window.held - heldBefore
      share.before = usedBefore - share.over
      share.charged = window.charged - share.before
      share.next = math.max(0, used - math.max(0, window.granted - share.charged - share.held))
      share.used = used
      if share.next > MOST - window.overdraft + share.over then return false end
    end
    return true
  end

  -- Writes the books of a period.
  function written(window)
    if window.isClosed then
      redis.call('HSET', window.name, 'closed:' .. window.starts, text(window.granted) .. ' ' .. text(window.charged) .. ' '
        .. text(window.held) .. ' ' .. text(window.overdraft) .. ' ' .. text(window.estimated))
    else
      redis.call('HSET', window.name, 'charged', window.charged, 'held', window.held, 'overdraft', window.overdraft,
        'estimated', window.estimated)
    end
  end

  -- Writes what was planned.
  function applied(id, shares, guessed)
    local list = {}
    for _, share in ipairs(shares) do
      local window, charge = share.window, share.used - share.next
      window.held, window.charged = share.held, share.charged + charge
      window.overdraft = window.overdraft - share.over + share.next
      window.estimated = window.estimated - share.before + math.min(guessed, charge)
      written(window)
      list[#list + 1] = { window.name, window.starts, text(share.next) }
    end
    redis.call('HSET', LEDGER, 'shares:' .. id, #list > 0 and cjson.encode(list) or '[]')
    redis.call('ZREM', budgets.leases, LEDGER .. ' ' .. id)
  end
end
`;

/** Returns the first book with a corrupt number, if there is one. A cheap condition skips the loop for valid books, the usual case. */
const IF_SPOILT = `
if not (granted and charged and held and overdraft and estimated) or math.min(granted, charged, held, overdraft, estimated) < 0
  or math.max(granted, charged, held, overdraft, estimated) > MOST then
  for index, name in ipairs({ 'granted', 'charged', 'held', 'overdraft', 'estimated' }) do
    local units = tonumber(stored[index + 1])
    if not units or units < 0 or units > MOST then return { 'spoilt', name, stored[index + 1] or '' } end
  end
end
`;

/**
 * Defines `take(ids)`. It charges live holds with the units that their last renewal reported, as far as the books can count them. It
 * deletes resolved holds. It returns the number of ids.
 */
const TAKE = `
local function take(ids)
  for _, id in ipairs(ids) do
    local state, first, second = parts(redis.call('HGET', LEDGER, id) or '')
    if state == 'live' then
      local others = charged + held - first
      local countable = MOST - others
      if not unlimited then countable = math.max(0, granted - others) + (MOST - overdraft) end
      local used, shares = math.min(second, countable), budgets and sharesOf(id)
      if shares then
        for _, share in ipairs(shares) do
          local window = share.window
          local own = math.max(0, window.granted - window.charged - window.held + first) + (MOST - window.overdraft)
          used = math.min(used, own)
        end
        planned(shares, used, first, 0)
        applied(id, shares, used)
      end
      resolve(id, 'expired', used, charge(used, used, first, 0, 0))
    else
      if budgets then redis.call('HDEL', LEDGER, 'shares:' .. id) end
      redis.call('HDEL', LEDGER, id)
      redis.call('ZREM', TIMES, id)
    end
  end
  return #ids
end
`;

/**
 * Charges expired holds, and deletes some holds that were resolved long ago. Sets `isMore` when there are more holds than one run
 * should charge.
 */
const DUE = `
local due = redis.call('ZRANGEBYSCORE', TIMES, ARGV[2] - now, now, 'LIMIT', 0, BATCH)
local isMore = false
if #due > 0 then
  ${TAKE}
  isMore = take(due) == BATCH and take(redis.call('ZRANGEBYSCORE', TIMES, 0, now, 'LIMIT', 0, BATCH)) == BATCH
  hold = redis.call('HGET', LEDGER, HOLD)
end
`;

/** The beginning of a verb. It returns 'again' when there are more expired holds than one run should charge. */
const VERB = `${LEDGER}${BUDGETS}${IF_SPOILT}${DUE}
if isMore then return { 'again' } end
`;

/**
 * Opens a hold. KEYS: as above, and, unless the server is a cluster, the owner of the hold's id. ARGV: the hold, atLeast, atMost, the
 * lease, the limit of a hold of an unlimited key, the key's id, the time for which the owner is remembered. Returns the granted units
 * as a number.
 */
export const RESERVE: Script = scriptOf(`${VERB}
local function isForeign()
  local owner = KEYS[3] and redis.call('GET', KEYS[3])
  return owner and owner ~= ARGV[8]
end
local available = math.max(0, granted - charged - held)
local least, most = tonumber(ARGV[4]), tonumber(ARGV[5])
-- The available and the held units of the tightest: the key, or one of its budgets.
local leastAvailable, heldThere = available, held
local covering
if budgets and #budgets.names > 0 then
  covering = {}
  if unlimited then leastAvailable = MOST end
  for index, name in ipairs(budgets.names) do
    local window = windowOf(name)
    if not window then return { 'budget', name } end
    if now >= window.ends then return { 'turn', name, text(now) } end
    local own = math.max(0, window.granted - window.charged - window.held)
    if own < leastAvailable or (unlimited and index == 1) then leastAvailable, heldThere = own, window.held end
    covering[index] = window
  end
end
if hold then
  local state, first = parts(hold)
  if state == 'live' then return first end
  -- A resolved hold does not admit another call.
  return { 'known', text(leastAvailable), text(heldThere) }
end
local units = math.min(most, available)
if unlimited then
  local countable = MOST - charged - held
  if least > countable then return isForeign() and { 'foreign' } or { 'beyond', 'used' } end
  units = math.max(least, math.min(most, tonumber(ARGV[7]), countable))
end
if covering then units = math.min(units, leastAvailable) end
if units < least then
  if isForeign() then return { 'foreign' } end
  return { 'refused', text(leastAvailable), text(heldThere), covering and stored[8] or '' }
end
if KEYS[3] and not redis.call('SET', KEYS[3], ARGV[8], 'NX', 'PX', ARGV[9]) then
  if isForeign() then return { 'foreign' } end
  redis.call('PEXPIRE', KEYS[3], ARGV[9])
end
redis.call('HSET', LEDGER, 'held', held + units, HOLD, 'live ' .. text(units) .. ' 0')
redis.call('ZADD', TIMES, now + ARGV[6], HOLD)
if covering then
  local shares = {}
  for index, window in ipairs(covering) do
    redis.call('HSET', window.name, 'held', window.held + units)
    shares[index] = { window.name, window.starts, '0' }
  end
  redis.call('HSET', LEDGER, 'shares:' .. HOLD, cjson.encode(shares))
  redis.call('ZADD', budgets.leases, now + ARGV[6], LEDGER .. ' ' .. HOLD)
end
return units
`);

/** Renews a hold. ARGV: the hold, the lease, the units used so far, the units to keep or an empty text. */
export const RENEW: Script = scriptOf(`${VERB}
if not hold then return { 'none' } end
local state, first = parts(hold)
if state == 'live' then
  local freed = ARGV[6] == '' and 0 or math.max(0, first - math.max(tonumber(ARGV[5]), tonumber(ARGV[6])))
  if freed > 0 then
    redis.call('HSET', LEDGER, 'held', held - freed)
    for _, share in ipairs(budgets and sharesOf(HOLD) or {}) do
      share.window.held = share.window.held - freed
      written(share.window)
    end
  end
  redis.call('HSET', LEDGER, HOLD, 'live ' .. text(first - freed) .. ' ' .. ARGV[5])
  redis.call('ZADD', TIMES, now + ARGV[4], HOLD)
  if budgets then redis.call('ZADD', budgets.leases, 'XX', now + ARGV[4], LEDGER .. ' ' .. HOLD) end
end
return { 'done' }
`);

/**
 * Settles a hold. ARGV: the hold, the units used, how many of them rest on estimates. Returns 'done', or the names of the hold's budgets as JSON when
 * their books have changed.
 */
export const SETTLE: Script = scriptOf(`${VERB}
if not hold then return { 'none' } end
local state, first, second = parts(hold)
local used, guessed, over, beyond = tonumber(ARGV[4]), tonumber(ARGV[5])
local shares = budgets and (state == 'live' or state == 'expired') and sharesOf(HOLD)
if shares and not planned(shares, used, state == 'live' and first or 0, state == 'live' and 0 or first) then
  return { 'beyond', 'overdrawn' }
end
if state == 'live' then
  over, beyond = charge(used, guessed, first, 0, 0)
elseif state == 'expired' then
  -- The true count replaces the charge of the expiry.
  over, beyond = charge(used, guessed, 0, first - second, second)
else
  return 'done'
end
if beyond then return { 'beyond', beyond } end
if over > 0 or state == 'expired' or guessed > 0 then
  resolve(HOLD, state == 'live' and 'settled' or 'corrected', used, over)
else
  redis.call('HSET', LEDGER, 'charged', charged, 'held', held, HOLD, 'settled ' .. ARGV[4] .. ' 0')
  redis.call('ZADD', TIMES, -now, HOLD)
end
if shares and #shares > 0 then
  applied(HOLD, shares, guessed)
  local names = {}
  for index, share in ipairs(shares) do names[index] = share.window.name end
  return cjson.encode(names)
end
return 'done'
`);

/** Reads the books of a key, even when they are corrupt. KEYS: as above, and its secrets. ARGV: none. */
export const REPORT: Script = scriptOf(`${LEDGER}${BUDGETS}
local function isSpoilt() ${IF_SPOILT} end
if not isSpoilt() then ${DUE} if isMore then return { 'again' } end end
local secrets = redis.call('HLEN', KEYS[3])
for _, ends in ipairs(redis.call('HVALS', KEYS[3])) do
  if ends ~= '' and tonumber(ends) <= now then secrets = secrets - 1 end
end
local told = redis.call('HMGET', LEDGER, 'key', 'revoked', 'unlimited', 'budgets', 'granted', 'charged', 'held', 'overdraft',
  'estimated')
for index, value in ipairs(told) do told[index] = value or '' end
return { 'told', secrets .. '', unpack(told) }
`);

/** Adds units to a key's quota, or takes available units back. ARGV: an empty hold, the units. */
export const GRANT: Script = scriptOf(`${VERB}
if redis.call('HGET', LEDGER, 'revoked') == '1' then return { 'revoked' } end
if unlimited then return { 'unlimited' } end
local units = tonumber(ARGV[4])
local available = math.max(0, granted - charged - held)
if -units > available then return { 'few', text(available) } end
if units > MOST - granted then return { 'beyond', 'granted' } end
redis.call('HSET', LEDGER, 'granted', granted + units)
return { 'done' }
`);

/** Charges some expired holds, and returns their number. ARGV: an empty hold. */
export const SWEEP: Script = scriptOf(`${LEDGER}${BUDGETS}${IF_SPOILT}
${TAKE}
return { 'done', take(redis.call('ZRANGEBYSCORE', TIMES, 0, now, 'LIMIT', 0, BATCH)) .. '' }
`);

/** Deletes some resolved holds, and returns their number. ARGV: an empty hold, the time before which the holds were resolved. */
export const PRUNE: Script = scriptOf(`
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. -ARGV[4], '(0', 'LIMIT', 0, 100)
for _, id in ipairs(ids) do
  redis.call('HDEL', KEYS[1], id, 'shares:' .. id)
  redis.call('ZREM', KEYS[2], id)
end
return { 'done', #ids .. '' }
`);

/**
 * Makes a key. KEYS: the key. ARGV: the key as JSON, 1 for an unlimited key or 0, its grant, the units already used, its budgets as JSON
 * or an empty text, the name of its budget or an empty text. Returns 1, 0 when the key exists already, or -1 when the budget is removed.
 */
export const CREATE: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[6] ~= '' and redis.call('HEXISTS', ARGV[6], 'removed') == 1 then return -1 end
redis.call('HSET', KEYS[1], 'key', ARGV[1], 'unlimited', ARGV[2], 'granted', ARGV[3], 'charged', ARGV[4],
  'held', '0', 'overdraft', '0', 'estimated', '0', 'revoked', '0')
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'budgets', ARGV[5]) end
return 1
`);

/**
 * Adds a new secret to the list of its key's secrets. KEYS: the key, its secrets. ARGV: the hash, the time when it expires or an empty
 * text. Returns the key as JSON, and the number of its changes.
 */
export const LINK: Script = scriptOf(`
local key, revoked, changes = unpack(redis.call('HMGET', KEYS[1], 'key', 'revoked', 'changes'))
if not key then return { 'unknown' } end
if revoked == '1' then return { 'revoked' } end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return { 'done', key, changes or '0' }
`);

/**
 * Sets all secrets of a key but one to expire after the overlap. A secret that expires earlier keeps its expiry. KEYS: the key, its
 * secrets. ARGV: the time to add to the clock, the overlap, the hash of the secret to keep. Returns each changed hash and its expiry.
 */
export const RETIRE: Script = scriptOf(`
${NOW}
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

/** Deletes all secrets of a key for good. KEYS: the key, its secrets. Returns their hashes, or 'unknown' when there is no such key. */
export const REVOKE: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'unknown' } end
redis.call('HSET', KEYS[1], 'revoked', '1')
local hashes = redis.call('HKEYS', KEYS[2])
table.insert(hashes, 1, 'done')
redis.call('DEL', KEYS[2])
return hashes
`);

/** Finds a secret's key. KEYS: the secret. ARGV: the time to add to the clock. Returns the key as JSON. */
export const FIND: Script = scriptOf(`
local key, ends = unpack(redis.call('HMGET', KEYS[1], 'key', 'ends'))
if not key then return false end
${NOW}
if ends and tonumber(ends) <= now then return false end
return key
`);

/**
 * Changes a key, unless it was changed since it was read. KEYS: the key, its secrets. ARGV: the key as JSON as it was read, and as it
 * shall be. Returns the number of the key's changes, and the hashes of its secrets.
 */
export const CHANGE: Script = scriptOf(`
local key, revoked = unpack(redis.call('HMGET', KEYS[1], 'key', 'revoked'))
if not key then return { 'unknown' } end
if revoked == '1' then return { 'revoked' } end
if key ~= ARGV[1] then return { 'again' } end
redis.call('HSET', KEYS[1], 'key', ARGV[2])
return { 'done', redis.call('HINCRBY', KEYS[1], 'changes', 1) .. '', unpack(redis.call('HKEYS', KEYS[2])) }
`);

/**
 * Writes a changed key to one of its secrets, unless the secret has a later change. KEYS: the secret. ARGV: the key as JSON, the number
 * of the key's changes.
 */
export const CHANGE_SECRET: Script = scriptOf(`
local key, changes = unpack(redis.call('HMGET', KEYS[1], 'key', 'changes'))
if key and tonumber(changes or '0') < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], 'key', ARGV[1], 'changes', ARGV[2]) end
return 1
`);

/**
 * Stores a new secret. KEYS: the secret. ARGV: the key as JSON, the time when the secret expires or an empty text. Returns 1, or 0 when
 * the secret exists already.
 */
export const TAKE_SECRET: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'key', ARGV[1])
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'ends', ARGV[2]) end
return 1
`);

/** Sets the time when a secret expires. KEYS: the secret. ARGV: the time. */
export const END_SECRET: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'ends', ARGV[1]) end
return 1
`);

/**
 * Claims a hold's id for a key, and counts the claims. KEYS: the owner of the id. ARGV: the key's id, the time for which the owner is
 * remembered. Returns the owner.
 */
export const CLAIM: Script = scriptOf(`
-- A string was written by RESERVE: the slot of the id is by chance also the slot of the ledger.
if redis.call('TYPE', KEYS[1]).ok == 'string' then return redis.call('GET', KEYS[1]) end
local owner = redis.call('HGET', KEYS[1], 'key')
if owner and owner ~= ARGV[1] then return owner end
redis.call('HSET', KEYS[1], 'key', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'claims', 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return ARGV[1]
`);

/** Takes back the claim of a hold that was refused. KEYS: the owner of the id. */
export const UNCLAIM: Script = scriptOf(`
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HINCRBY', KEYS[1], 'claims', -1) < 1 then
  redis.call('DEL', KEYS[1])
end
return 1
`);

/**
 * Returns the api key that owns a hold, and extends the time for which the owner is remembered. KEYS: the owner of the id: a hash
 * when CLAIM has written it, a string otherwise. ARGV: the time for which the owner is remembered.
 */
export const OWNER: Script = scriptOf(`
local isClaimed = redis.call('TYPE', KEYS[1]).ok == 'hash'
local owner = isClaimed and redis.call('HGET', KEYS[1], 'key') or redis.call('GET', KEYS[1])
if owner and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return owner
`);

/**
 * Makes a budget. KEYS: the budget, the leases, the list of budgets. ARGV: the id, the terms as JSON, the amount, 1 for rollover or 0,
 * the beginning and the end of the period, the name of the parent or an empty text. Returns 1, 0 when the budget exists already, -1 when it
 * was removed, or -2 when the parent is removed.
 */
export const CREATE_BUDGET: Script = scriptOf(`
if redis.call('HEXISTS', KEYS[1], 'removed') == 1 then return -1 end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[7] ~= '' and redis.call('HEXISTS', ARGV[7], 'removed') == 1 then return -2 end
redis.call('HSET', KEYS[1], 'terms', ARGV[2], 'amount', ARGV[3], 'rollover', ARGV[4], 'starts', ARGV[5], 'ends', ARGV[6],
  'granted', ARGV[3], 'charged', '0', 'held', '0', 'overdraft', '0', 'estimated', '0', 'told', '0')
redis.call('ZADD', KEYS[3], '0', ARGV[1])
return 1
`);

/**
 * Begins to remove a budget: from now on, no further key and no child budget can draw on it. KEYS: the budget. ARGV: a random token. The
 * field `removed` is the token, and at the end `yes`. Returns the terms, or nothing when there is no such budget.
 */
export const BEGIN_REMOVAL: Script = scriptOf(`
if redis.call('HGET', KEYS[1], 'removed') == 'yes' then return false end
local terms = redis.call('HGET', KEYS[1], 'terms')
if terms then redis.call('HSET', KEYS[1], 'removed', ARGV[1]) end
return terms
`);

/** Takes the beginning of a removal back, unless another process has begun to remove the budget. KEYS: the budget. ARGV: the token. */
export const UNDO_REMOVAL: Script = scriptOf(`
if redis.call('HGET', KEYS[1], 'removed') == ARGV[1] then redis.call('HDEL', KEYS[1], 'removed') end
return 1
`);

/**
 * Removes a budget that no key and no child budget draws on. Its hash stays. KEYS: the budget, the list of budgets. ARGV: the token, the
 * terms as JSON, the id. Returns `done`, `held` when running calls draw on it, or `other` when another process has begun to remove it.
 */
export const END_REMOVAL: Script = scriptOf(`
if redis.call('HGET', KEYS[1], 'removed') ~= ARGV[1] then return 'other' end
local fields = redis.call('HGETALL', KEYS[1])
for index = 1, #fields, 2 do
  local held = fields[index] == 'held' and fields[index + 1]
    or string.sub(fields[index], 1, 7) == 'closed:' and string.match(fields[index + 1], '^%d+ %d+ (%d+)')
  if held and tonumber(held) > 0 then return 'held' end
end
redis.call('HSET', KEYS[1], 'removed', 'yes', 'terms', ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[3])
return 'done'
`);

/**
 * Begins a period, and closes the one before. KEYS: the budget. ARGV: the beginning of the period to close, the beginning and the end of
 * the next, 1 when periods between them were skipped or 0. Does nothing when the period is closed already.
 */
export const TURN: Script = scriptOf(`
local found = redis.call('HMGET', KEYS[1], 'starts', 'amount', 'rollover', 'granted', 'charged', 'held', 'overdraft', 'estimated')
if found[1] ~= ARGV[1] then return 0 end
local amount, granted = tonumber(found[2]), tonumber(found[4])
local unused = found[3] == '1' and math.min(amount, math.max(0, granted - tonumber(found[5]) - tonumber(found[6]))) or 0
local taken = found[3] == '1' and ARGV[4] == '1' and amount or unused
local left = string.format('%.0f', granted - unused)
redis.call('HSET', KEYS[1], 'closed:' .. found[1], table.concat({ left, found[5], found[6], found[7], found[8] }, ' '),
  'starts', ARGV[2], 'ends', ARGV[3], 'granted', math.min(9007199254740991, amount + taken), 'charged', '0', 'held', '0',
  'overdraft', '0', 'estimated', '0', 'told', '0')
return 1
`);

/**
 * Reads a budget, or changes it first. KEYS: the budget. ARGV: the time to add to the clock, 'read', 'amount' or 'top-up', the units.
 */
export const BUDGET: Script = scriptOf(`
${NOW}
local found = redis.call('HMGET', KEYS[1], 'ends', 'amount', 'granted', 'charged', 'told')
if not found[1] then return { 'unknown' } end
if ARGV[2] ~= 'read' and redis.call('HEXISTS', KEYS[1], 'removed') == 1 then return { 'unknown' } end
if now >= tonumber(found[1]) then return { 'turn', KEYS[1], string.format('%.0f', now) } end
if ARGV[2] ~= 'read' then
  local most, units, granted, charged = 9007199254740991, tonumber(ARGV[3]), tonumber(found[3]), tonumber(found[4])
  if ARGV[2] == 'top-up' then
    if units > most - granted then return { 'beyond', 'granted' } end
    granted = granted + units
  else
    granted = math.max(0, math.min(most, granted + units - tonumber(found[2])))
    redis.call('HSET', KEYS[1], 'amount', ARGV[3])
  end
  local reached = 0
  for _, percent in ipairs({ 50, 80, 100 }) do
    if charged > 0 and charged / granted >= percent / 100 then reached = percent end
  end
  redis.call('HSET', KEYS[1], 'granted', granted, 'told', math.min(tonumber(found[5]), reached))
end
return { 'told', unpack(redis.call('HMGET', KEYS[1], 'terms', 'amount', 'starts', 'ends', 'granted', 'charged', 'held', 'overdraft',
  'estimated')) }
`);

/**
 * Finds the thresholds that a budget has reached, and remembers them. KEYS: the budget. ARGV: the least units of a call that was refused,
 * or 0. Returns the highest threshold told before, the highest now, the terms and the period; nothing when there is no news.
 */
export const NEWS: Script = scriptOf(`
local found = redis.call('HMGET', KEYS[1], 'told', 'granted', 'charged', 'terms', 'starts', 'ends')
if not found[1] then return {} end
local granted, charged, reached = tonumber(found[2]), tonumber(found[3]), 0
for _, percent in ipairs({ 50, 80, 100 }) do
  if charged > 0 and charged / granted >= percent / 100 then reached = percent end
end
if tonumber(ARGV[1]) > math.max(0, granted - charged) then reached = 100 end
if reached <= tonumber(found[1]) then return {} end
redis.call('HSET', KEYS[1], 'told', reached)
return { found[1], reached .. '', found[2], found[3], found[4], found[5], found[6] }
`);

/**
 * Lets a key draw on other budgets, and tells its secrets. KEYS: the key, its secrets. ARGV: the key as JSON before and after, its budgets
 * as JSON, the beginning of the names of secrets, the name of its budget or an empty text. Returns 0 when the key was changed meanwhile, and
 * -1 when the budget is removed.
 */
export const ASSIGN: Script = scriptOf(`
if ARGV[5] ~= '' and redis.call('HEXISTS', ARGV[5], 'removed') == 1 then return -1 end
if redis.call('HGET', KEYS[1], 'key') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'key', ARGV[2], 'budgets', ARGV[3])
local changes = redis.call('HINCRBY', KEYS[1], 'changes', 1)
for _, hash in ipairs(redis.call('HKEYS', KEYS[2])) do
  redis.call('HSET', ARGV[4] .. hash, 'key', ARGV[2], 'changes', changes)
end
return 1
`);

/** Notes a recall of a key, and deletes old recalls. KEYS: the recalls. ARGV: the time to add to the clock, the key's id, the age of old recalls. */
export const RECALL: Script = scriptOf(`
${NOW}
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
return 1
`);

/** Returns the ids of recalled keys. KEYS: the recalls. ARGV: the time to add to the clock, the most age of a recall. */
export const RECALLED: Script = scriptOf(`
${NOW}
return redis.call('ZRANGEBYSCORE', KEYS[1], now - ARGV[2], '+inf')
`);
