-- Looks at one lock, and unlocks one of its holds, for `lockagent unlock` (R25).
-- KEYS: the lock key, the key of its number if the policy fences, its tickets with order fair, and
-- the marker if the group is guarded.
-- ARGV: the name of the hold ('': none is named); the number to store, for a look the agreed time
-- in us ('0': the policy does not fence); for how many ms the tombstone stays ('0': only look).
-- Answers a word, the number that was stored ('': none, '-': it is invalid), and ms:
--   {'free', number, gone}           gone: 1 if the named hold was deleted by an earlier call
--   {'held', number, gone, hold...}  a hold is {name, agent, number, ms left, label, mode}
--   {'foreign', number, ms left}     the key has another type or shape
-- to unlock:
--   {'deleted', number, 0}           the larger one of the stored number and the hold's, unless the
--                                    hold's was never granted; the hold was there, now or in an
--                                    earlier call
--   {'missing', number, 0}           the hold was not there. A command of its attempt that is in
--                                    flight may still bring it; a repair may not
-- The hold is compared before it is deleted. The tombstone is written in both cases.
local key, name, asked, ms = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
-- (common)
-- (top)
local fair, fences = form == 'fair' or form == 'shared', asked ~= '0'
local number_key, tickets = fences and KEYS[2], fair and KEYS[fences and 3 or 2]
local marker = KEYS[2 + (fences and 1 or 0) + (fair and 1 or 0)]
local held = get(key)
local most = asked + ahead -- a number from here on was never granted (R12)
local number = fences and stored_number(number_key, most)
local stored = not fences and '' or number and string.format('%.0f', number) or '-'

local function look()
    local gone = name ~= '' and redis.pcall('GET', tombstone_of(key, name)) == 'deleted'
    local holds = {held and 'held' or 'free', stored, gone and 1 or 0}
    for _, value in ipairs(values_of(key, held)) do
        local there = number_in(value)
        if not there then return {'foreign', stored, redis.call('PTTL', key)} end
        local found, ends = find(key, held, value)
        local seen = told('yes', key, held, found, ends)
        local agent = string.sub(value, front + 42, front + 49)
        holds[#holds + 1] = {name_of(value), agent, there, seen[2], seen[3], mode_of(value)}
    end
    return holds
end

-- Returns the value of the hold on this master, and nil if it is not there.
local function value_named()
    for _, value in ipairs(values_of(key, held)) do
        if number_in(value) and name_of(value) == name then return value end
    end
end

-- Stores the number first: a master out of memory refuses a write only while the script has
-- written nothing.
local function unlock()
    local value, tombstone = value_named(), tombstone_of(key, name)
    local there, well, first = value and number_in(value), nil, nil
    if number and number < tonumber(asked) then
        if marker and not is_counter(number_key) then lift(marker, tonumber(asked)) end
        store_number(number_key, tonumber(asked))
    end
    local deleted = value or redis.call('GET', tombstone) == 'deleted'
    redis.call('SET', tombstone, deleted and 'deleted' or 'missing', 'PX', ms)
    local free = value and leave(key, value)
    if free and fair then well, first = pcall(line_of, tickets) end
    if free then tell(key, well and first) end
    local larger = number and there and tonumber(there) > number and tonumber(there) < most
    return {deleted and 'deleted' or 'missing', larger and there or stored, 0}
end

if held == nil then return {'foreign', stored, redis.call('PTTL', key)} end
return ms == '0' and look() or unlock()
