/**
 * The Lua scripts of the quota store in Redis. Most compare, write and read fields, and know no rule of the ledger. Those of the fast
 * verbs do, for the usual case.
 */

import { NOW, type Script, scriptOf } from "./client.ts";

/** Stands for a field that does not exist, where the values of fields are compared. */
export const MISSING = "\0";

/** The fields of a key's hash that `EXCHANGE` returns, in this order. */
export const KEY_FIELDS = [
  "unlimited",
  "granted",
  "charged",
  "held",
  "overdraft",
  "estimated",
  "budgets",
  "key",
  "revoked",
  "changes",
] as const;

/** The fields of a budget's hash that `EXCHANGE` returns, in this order. */
export const BUDGET_FIELDS = [
  "terms",
  "removed",
  "amount",
  "starts",
  "ends",
  "granted",
  "charged",
  "held",
  "overdraft",
  "estimated",
  "told",
] as const;

const listed = (fields: readonly string[]): string => fields.map((field) => `'${field}'`).join(", ");

/**
 * Lua that returns the number of a ledger's live holds whose leases have ended, and deletes some holds that were resolved long ago. One
 * query finds both, and usually finds none.
 */
const DUE = `
local function dueOf(ledger, times, retention)
  if #redis.call('ZRANGEBYSCORE', times, retention - now, now, 'LIMIT', 0, 1) == 0 then return 0 end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', times, retention - now, '(0', 'LIMIT', 0, 100)) do
    redis.call('HDEL', ledger, id, 'shares:' .. id)
    redis.call('ZREM', times, id)
  end
  return redis.call('ZCOUNT', times, 0, now)
end
`;

/**
 * The beginning of a fast verb. KEYS: the ledger, its times, and the owner of the hold's id. ARGV: the time to add to the clock, the time
 * for which resolved holds are retained, the field of the hold, then the arguments of the verb itself. A verb returns nothing, and changes
 * nothing, when the rules must run instead: the key is unknown or corrupt, it has expired holds, a period of its budgets is over, a sum
 * would pass MOST, or as the verb itself says.
 */
const FAST = `
${NOW}
${DUE}
local LEDGER, TIMES, HOLD, MOST = KEYS[1], KEYS[2], ARGV[3], 9007199254740991
local stored = redis.call('HMGET', LEDGER, 'unlimited', 'granted', 'charged', 'held', 'overdraft', 'estimated', HOLD, 'budgets')
local unlimited, hold = stored[1] == '1', stored[7]
local granted, charged, held = tonumber(stored[2]), tonumber(stored[3]), tonumber(stored[4])
local overdraft, estimated = tonumber(stored[5]), tonumber(stored[6])
if not (granted and charged and held and overdraft and estimated) or math.min(granted, charged, held, overdraft, estimated) < 0
  or math.max(granted, charged, held, overdraft, estimated) > MOST then return false end
if dueOf(LEDGER, TIMES, tonumber(ARGV[2])) > 0 then return false end

-- Converts a number to exact text. Lua's own conversion is exact only below 15 digits.
local function text(number)
  return number < 1e14 and number .. '' or string.format('%.0f', number)
end

-- Reads the granted units and the second number of a live hold.
local function live()
  local first, second = string.match(hold or '', '^live (%d+) (%d+)$')
  return tonumber(first), tonumber(second)
end

-- Reads the current period of a budget. Returns nil when it is over, or not the one that began at a time.
local function windowOf(name, starts)
  local found = redis.call('HMGET', name, 'starts', 'ends', 'granted', 'charged', 'held', 'overdraft', 'estimated', 'told')
  if not found[1] or (starts and starts ~= found[1]) or now >= tonumber(found[2]) then return nil end
  return { name = name, starts = found[1], granted = tonumber(found[3]), charged = tonumber(found[4]), held = tonumber(found[5]),
    overdraft = tonumber(found[6]), estimated = tonumber(found[7]), told = tonumber(found[8] or '0') }
end

-- Reads the periods that cover the hold. Returns nil when the rules must run.
local function covering()
  local windows = {}
  local shares = stored[8] and redis.call('HGET', LEDGER, 'shares:' .. HOLD)
  for index, share in ipairs(shares and cjson.decode(shares) or {}) do
    windows[index] = windowOf(share[1], share[2])
    if not windows[index] then return nil end
  end
  return windows
end
`;

/**
 * Opens a hold. ARGV: atLeast, atMost, the lease, the limit of a hold of an unlimited key, the key's id, the name of the leases. Returns the
 * granted units. Leaves a refusal, and an id that is known, to the rules.
 */
export const RESERVE: Script = scriptOf(`${FAST}
if hold then return false end
local least, units = tonumber(ARGV[4]), math.min(tonumber(ARGV[5]), math.max(0, granted - charged - held))
if unlimited then
  local countable = MOST - charged - held
  if least > countable then return false end
  units = math.max(least, math.min(tonumber(ARGV[5]), tonumber(ARGV[7]), countable))
end
local windows = {}
for index, name in ipairs(stored[8] and cjson.decode(stored[8]).names or {}) do
  local window = windowOf(name)
  if not window then return false end
  units = math.min(units, math.max(0, window.granted - window.charged - window.held))
  windows[index] = window
end
if units < least then return false end
local lifetime = tonumber(ARGV[6]) + tonumber(ARGV[2])
if not redis.call('SET', KEYS[3], ARGV[8], 'NX', 'PX', lifetime) then
  if redis.pcall('GET', KEYS[3]) ~= ARGV[8] then return false end
  redis.call('PEXPIRE', KEYS[3], lifetime)
end
redis.call('HSET', LEDGER, 'held', held + units, HOLD, 'live ' .. text(units) .. ' 0')
redis.call('ZADD', TIMES, now + ARGV[6], HOLD)
if #windows > 0 then
  local shares = {}
  for index, window in ipairs(windows) do
    redis.call('HSET', window.name, 'held', window.held + units)
    shares[index] = { window.name, window.starts, '0' }
  end
  redis.call('HSET', LEDGER, 'shares:' .. HOLD, cjson.encode(shares))
  redis.call('ZADD', ARGV[9], now + ARGV[6], LEDGER .. ' ' .. HOLD)
end
return units
`);

/** Renews a live hold. ARGV: the lease, the units used so far, the units to keep or an empty text, the name of the leases. Returns 1. */
export const RENEW: Script = scriptOf(`${FAST}
local units = live()
if not units then return false end
local freed = ARGV[6] == '' and 0 or math.max(0, units - math.max(tonumber(ARGV[5]), tonumber(ARGV[6])))
if freed > 0 then
  local windows = covering()
  if not windows then return false end
  redis.call('HSET', LEDGER, 'held', held - freed)
  for _, window in ipairs(windows) do redis.call('HSET', window.name, 'held', window.held - freed) end
end
redis.call('HSET', LEDGER, HOLD, 'live ' .. text(units - freed) .. ' ' .. ARGV[5])
redis.call('ZADD', TIMES, now + ARGV[4], HOLD)
if stored[8] then redis.call('ZADD', ARGV[7], 'XX', now + ARGV[4], LEDGER .. ' ' .. HOLD) end
redis.call('PEXPIRE', KEYS[3], tonumber(ARGV[4]) + tonumber(ARGV[2]))
return 1
`);

/**
 * Settles a live hold. ARGV: the units used, how many of them rest on estimates, 1 when the host is told of thresholds or 0, the name of
 * the leases. Returns 1. Leaves a settlement with which a budget reaches a threshold to the rules.
 */
export const SETTLE: Script = scriptOf(`${FAST}
local units, used, guessed = live(), tonumber(ARGV[4]), tonumber(ARGV[5])
local windows = units and covering()
if not windows then return false end
local remaining = held - units
local over = unlimited and 0 or math.max(0, used - math.max(0, granted - charged - remaining))
if used - over > MOST - charged - remaining or over > MOST - overdraft then return false end
for _, window in ipairs(windows) do
  window.held = window.held - units
  window.over = math.max(0, used - math.max(0, window.granted - window.charged - window.held))
  if window.over > MOST - window.overdraft then return false end
  local threshold = window.told < 50 and 0.5 or window.told < 80 and 0.8 or 1
  local total = window.charged + used - window.over
  if ARGV[6] == '1' and window.told < 100 and total > 0 and (window.granted <= 0 or total / window.granted >= threshold) then return false end
end
redis.call('HSET', LEDGER, 'charged', charged + used - over, 'held', remaining, 'overdraft', overdraft + over,
  'estimated', estimated + math.min(guessed, used - over), HOLD, 'settled ' .. ARGV[4] .. ' ' .. text(over))
redis.call('ZADD', TIMES, -now, HOLD)
if #windows > 0 then
  local shares = {}
  for index, window in ipairs(windows) do
    local charge = used - window.over
    redis.call('HSET', window.name, 'charged', window.charged + charge, 'held', window.held,
      'overdraft', window.overdraft + window.over, 'estimated', window.estimated + math.min(guessed, charge))
    shares[index] = { window.name, window.starts, text(window.over) }
  end
  redis.call('HSET', LEDGER, 'shares:' .. HOLD, cjson.encode(shares))
  redis.call('ZREM', ARGV[7], LEDGER .. ' ' .. HOLD)
end
return 1
`);

/**
 * Writes to the ledgers of some keys if all fields that the writer has read still have the same values. Otherwise, or when nothing is
 * to be written, reads the ledgers. All of it is one atomic step.
 *
 * The ledger of a key is a hash: the key itself, its books, and each hold as `hold:ID`. A live hold is `live GRANTED NOTED`, a resolved
 * hold `STATE USED OVERDRAFT`. A key that has, or had, a budget has a field `budgets`: JSON with the names of the budgets' hashes, and
 * the name of the leases of all holds with shares. Each of its holds has a field `shares:hold:ID`: JSON with the name of a budget, the
 * beginning of its period, and its overdraft. The times of a ledger are a sorted set of the holds' fields: the end of a live hold's lease,
 * and the negative of the time at which a hold was resolved. The hash of a budget has the books of the current period, and those of closed
 * periods as `closed:BEGINNING`. In a cluster, budgets need a prefix with one slot for all keys, so that a script may use names that it
 * has not declared.
 *
 * KEYS: the names that decide on the slot. ARGV: the time to add to the clock; the time for which resolved holds are retained; the number
 * of keys; the time before which holds to delete were resolved, or an empty text; the number of budgets, and their names; for each key
 * its ledger, its times, the number of holds, and for each hold its field and the name of its owner or an empty text.
 *
 * To write: the time until which what was read may be used, or an empty text; for each key the number of expired holds that were seen; the
 * number of comparisons, and for each a hash, the number of fields, the fields and their values; the number of owners, and for each its
 * name and the key that may own it; then, to the end, commands: the name, the number of arguments and the arguments. The commands
 * `lease` and `renewed` add a time from now on to a sorted set, and `ended` the negative of now.
 *
 * Returns 1 and the time when it has written. Otherwise returns 0, the time, for each key its fields, the number of its expired holds, and
 * some holds; the fields of all budgets concerned; and the closed periods that shares name.
 */
export const EXCHANGE: Script = scriptOf(`
${NOW}
${DUE}
local retention, at, budgets, scopes = tonumber(ARGV[2]), 6, {}, {}
for index = 1, tonumber(ARGV[5]) do
  budgets[index] = ARGV[at]
  at = at + 1
end

-- The owner of a hold's id is a text, or in a cluster a hash.
local function ownerOf(name)
  local owner = redis.pcall('GET', name)
  if type(owner) == 'table' then return redis.call('HGET', name, 'key') end
  return owner
end

for index = 1, tonumber(ARGV[3]) do
  local scope = { ledger = ARGV[at], times = ARGV[at + 1], holds = tonumber(ARGV[at + 2]), first = at + 3 }
  at = at + 3 + 2 * scope.holds
  scopes[index] = scope
  scope.due = dueOf(scope.ledger, scope.times, retention)
end

local function isSame()
  if ARGV[at] ~= '' and now >= tonumber(ARGV[at]) then return false end
  at = at + 1
  for _, scope in ipairs(scopes) do
    if tonumber(ARGV[at]) ~= scope.due then return false end
    at = at + 1
  end
  local comparisons = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, comparisons do
    local name, count = ARGV[at], tonumber(ARGV[at + 1])
    local found = redis.call('HMGET', name, unpack(ARGV, at + 2, at + 1 + count))
    for index = 1, count do
      if (found[index] or '\\0') ~= ARGV[at + 1 + count + index] then return false end
    end
    at = at + 2 + 2 * count
  end
  local owners = tonumber(ARGV[at])
  at = at + 1
  for _ = 1, owners do
    local owner = ownerOf(ARGV[at])
    if owner and owner ~= ARGV[at + 1] then return false end
    at = at + 2
  end
  return true
end

if ARGV[at] and isSame() then
  while ARGV[at] do
    local command, count = ARGV[at], tonumber(ARGV[at + 1])
    if command == 'lease' then
      redis.call('ZADD', ARGV[at + 2], now + ARGV[at + 3], ARGV[at + 4])
    elseif command == 'renewed' then
      redis.call('ZADD', ARGV[at + 2], 'XX', now + ARGV[at + 3], ARGV[at + 4])
    elseif command == 'ended' then
      redis.call('ZADD', ARGV[at + 2], -now, ARGV[at + 3])
    else
      redis.call(command, unpack(ARGV, at + 2, at + 1 + count))
    end
    at = at + 2 + count
  end
  return { 1, string.format('%.0f', now) }
end

local wanted, isWanted, shared = {}, {}, {}
local function want(name)
  if isWanted[name] then return end
  isWanted[name] = true
  wanted[#wanted + 1] = name
end
for _, name in ipairs(budgets) do want(name) end

local keys = {}
for index, scope in ipairs(scopes) do
  local fields = redis.call('HMGET', scope.ledger, ${listed(KEY_FIELDS)})
  local holds, isRead = {}, {}
  if fields[7] then
    for _, name in ipairs(cjson.decode(fields[7]).names) do want(name) end
  end
  local function read(id, owner)
    if isRead[id] then return end
    isRead[id] = true
    local value, shares = redis.call('HGET', scope.ledger, id), false
    if fields[7] and value then shares = redis.call('HGET', scope.ledger, 'shares:' .. id) end
    if shares then
      for _, share in ipairs(cjson.decode(shares)) do
        want(share[1])
        shared[#shared + 1] = share
      end
    end
    holds[#holds + 1] = { id, value, redis.call('ZSCORE', scope.times, id), shares, owner or false }
  end
  for hold = scope.first, scope.first + 2 * scope.holds - 2, 2 do
    read(ARGV[hold], ARGV[hold + 1] ~= '' and ownerOf(ARGV[hold + 1]))
  end
  if scope.due > 0 then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', scope.times, 0, now, 'LIMIT', 0, 100)) do read(id) end
  end
  if ARGV[4] ~= '' then
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', scope.times, '(' .. -ARGV[4], '(0', 'LIMIT', 0, 100)) do read(id) end
  end
  keys[index] = { fields, scope.due, holds }
end

local found, current, closed, isClosed = {}, {}, {}, {}
for index, name in ipairs(wanted) do
  local fields = redis.call('HMGET', name, ${listed(BUDGET_FIELDS)})
  found[index] = { name, fields }
  current[name] = fields[${BUDGET_FIELDS.indexOf("starts") + 1}]
end
for _, share in ipairs(shared) do
  local name, starts = share[1], share[2]
  if current[name] and current[name] ~= starts and not isClosed[name .. ' ' .. starts] then
    isClosed[name .. ' ' .. starts] = true
    closed[#closed + 1] = { name, starts, redis.call('HGET', name, 'closed:' .. starts) }
  end
end
return { 0, string.format('%.0f', now), keys, found, closed }
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
 * Writes a changed key to one of its secrets, unless the secret has a later change. KEYS: the secret. ARGV: the key as JSON, the number
 * of the key's changes.
 */
export const CHANGE_SECRET: Script = scriptOf(`
local key, changes = unpack(redis.call('HMGET', KEYS[1], 'key', 'changes'))
if key and tonumber(changes or '0') < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], 'key', ARGV[1], 'changes', ARGV[2]) end
return 1
`);

/**
 * Stores a new secret. KEYS: the secret. ARGV: the key as JSON, the number of the key's changes, the time when the secret expires or an
 * empty text. Returns 1, or 0 when the secret exists already.
 */
export const TAKE_SECRET: Script = scriptOf(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'key', ARGV[1], 'changes', ARGV[2])
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'ends', ARGV[3]) end
return 1
`);

/** Sets the time when a secret expires. KEYS: the secret. ARGV: the time, or an empty text for a secret that does not expire. */
export const END_SECRET: Script = scriptOf(`
if ARGV[1] == '' then redis.call('HDEL', KEYS[1], 'ends')
elseif redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'ends', ARGV[1]) end
return 1
`);

/**
 * Claims a hold's id for a key, and counts the claims. KEYS: the owner of the id. ARGV: the key's id, the time for which the owner is
 * remembered. Returns the owner.
 */
export const CLAIM: Script = scriptOf(`
-- A text was written by EXCHANGE: the slot of the id is by chance also the slot of the ledger.
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
 * Returns the api key that owns a hold, and remembers the owner for longer. KEYS: the owner of the id, which is a hash after CLAIM, and
 * otherwise a text. ARGV: the time to remember the owner.
 */
export const OWNER: Script = scriptOf(`
local isClaimed = redis.call('TYPE', KEYS[1]).ok == 'hash'
local owner = isClaimed and redis.call('HGET', KEYS[1], 'key') or redis.call('GET', KEYS[1])
if owner and redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return owner
`);

/**
 * Begins to remove a budget: from now on, no further key and no child budget can draw on it. KEYS: the budget. ARGV: a random token. The
 * field `removed` is the token, and at the end `yes`. Returns 1, or nothing when there is no such budget.
 */
export const BEGIN_REMOVAL: Script = scriptOf(`
if redis.call('HGET', KEYS[1], 'removed') == 'yes' or redis.call('EXISTS', KEYS[1]) == 0 then return false end
redis.call('HSET', KEYS[1], 'removed', ARGV[1])
return 1
`);

/** Takes the beginning of a removal back, unless another process has begun to remove the budget. KEYS: the budget. ARGV: the token. */
export const UNDO_REMOVAL: Script = scriptOf(`
if redis.call('HGET', KEYS[1], 'removed') == ARGV[1] then redis.call('HDEL', KEYS[1], 'removed') end
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
