-- Renews, repairs or adopts locks of format redisson; nothing is ever shortened (R7, R22).
-- ARGV: renew|repair|adopt, then per item: value, ttl, fence retention (0: no fencing, or a
-- renewal that leaves the fence key alone, R12; -1: for ever), number and, of a repair, for how
-- long it may create the key (deadline.lua); behind the items of a repair the clock. An adoption
-- needs no owner, but exactly the number in the field, and makes the agent the owner; the others
-- need the agent to be that, and set the number right (D3).
-- KEYS: the lock keys of all items, the fence keys of those with a retention, and the marker
-- where the group is guarded; of an adoption the vote before that (extend.lua). Answers a list;
-- no item can make another one fail. Where a key is missing and the group is guarded, the
-- marker's epoch ('': no marker) is its last entry (R7).
local mode, missing = ARGV[1], false
local size = mode == 'repair' and 5 or 4
local count = (#ARGV - (mode == 'repair' and 2 or 1)) / size
local clock = mode == 'repair' and ARGV[#ARGV] or '0'
-- (deadline)

local function renew(key, fence, ttl, retention, number)
    redis.call('PEXPIRE', key, ttl, 'GT')
    if not fence then return 0 end
    local stored = mode == 'renew' and 0 or stored_number(fence)
    if not stored then return 0 end -- a stranger's fence key: the lease is what counts
    if mode == 'repair' and stored < number then
        keep(fence, number, retention)
        return number
    end
    if retention > 0 then redis.call('PEXPIRE', fence, retention, 'GT') end
    return stored
end

local function repair(key, fence, value, ttl, retention, number, may_ms)
    local stored = 0
    if behind and (behind < 0 or may_ms - behind <= 0) then return {'late', 0} end
    if fence then
        stored = stored_number(fence)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        keep(fence, stored, retention)
    end
    return enter(key, value, ttl) or {'repaired', stored}
end

-- The label stays. What a master out of memory does not refuse comes first: then it refuses nothing
-- behind it.
local function extend(key, fence, value, ttl, retention, number, may_ms)
    local held, own = get(key), string.sub(value, 1, 50)
    local begins = mode == 'adopt' and string.sub(own, 1, 41) or own
    if held and string.sub(held, 1, #begins) == begins then
        local there = number_in(held)
        local wrong = mode == 'adopt' and fence and there ~= number_in(value)
        if wrong then return {'misnumbered', tonumber(there or 0)} end
        local entry = renew(key, fence, ttl, retention, number)
        rewrite(key, held, own .. number_in(value) .. ':' .. label_of(held))
        return entry
    end
    if held ~= false then return denied(key, held, own) end
    missing = true
    if mode ~= 'repair' then return -1 end
    return repair(key, fence, value, ttl, retention, number, may_ms)
end

local replies, fences = {}, count
for i = 1, count do
    local at, fence = size * i - size + 2, nil
    local ttl, retention = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if retention ~= 0 then
        fences = fences + 1
        fence = KEYS[fences]
    end
    local well, entry = pcall(extend, KEYS[i], fence, ARGV[at], ttl, retention,
        tonumber(ARGV[at + 3]), ARGV[at + 4])
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
end
local at = fences + (mode == 'adopt' and 2 or 1)
local marker = KEYS[at]
if missing and marker then
    if mode == 'adopt' and replies[1] == -1 and redis.pcall('GET', KEYS[at - 1]) == false then
        replies[1] = {'guarded', 0}
    end
    local epoch = redis.pcall('HGET', marker, 'epoch')
    replies[#replies + 1] = type(epoch) == 'string' and epoch or ''
end
return replies
