-- Renews, repairs or adopts locks of format redisson; nothing is ever shortened (R7, R22).
-- ARGV: renew|repair|adopt, then per item: '<random>:<agent>:<label>', ttl, fence retention (0: no
-- fencing, or a renewal that leaves the fence key alone, R12; -1: for ever), number. An adoption
-- needs no owner, but exactly the number, and makes the agent the owner; the others need the agent
-- to be that (D3).
-- KEYS: the lock keys of all items, the fence keys of those with a retention, and the marker where
-- the group is guarded. Answers a list; no item can make another one fail. Where a key is missing
-- and the group is guarded, the marker's epoch ('': no marker) is its last entry (R7).
local mode, missing = ARGV[1], false
local count = (#ARGV - 1) / 4

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

-- The label stays. What a master out of memory does not refuse has come first (renew): then it
-- refuses nothing behind it.
local function rename(key, held, own)
    local value = own .. label_of(held)
    if value == held then return end
    redis.call('HSET', key, value, 1)
    redis.call('HDEL', key, held)
end

local function repair(key, fence, value, ttl, retention, number)
    local stored = 0
    if fence then
        stored = stored_number(fence)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        keep(fence, stored, retention)
    end
    return enter(key, value, ttl) or {'repaired', stored}
end

local function extend(key, fence, value, ttl, retention, number)
    local held, own = get(key), string.sub(value, 1, 50)
    local begins = mode == 'adopt' and string.sub(own, 1, 41) or own
    if held and string.sub(held, 1, #begins) == begins then
        if mode == 'adopt' and fence then
            local stored = stored_number(fence)
            if number == 0 or stored ~= number then return {'misnumbered', stored or 0} end
        end
        local entry = renew(key, fence, ttl, retention, number)
        if mode == 'adopt' then rename(key, held, own) end
        return entry
    end
    if held ~= false then return denied(key, held, own) end
    missing = true
    if mode ~= 'repair' then return -1 end
    return repair(key, fence, value, ttl, retention, number)
end

local replies, fences = {}, count
for i = 1, count do
    local at, fence = 4 * i - 2, nil
    local ttl, retention = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if retention ~= 0 then
        fences = fences + 1
        fence = KEYS[fences]
    end
    local well, entry = pcall(extend, KEYS[i], fence, ARGV[at], ttl, retention,
        tonumber(ARGV[at + 3]))
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
end
local marker = KEYS[fences + 1]
if missing and marker then
    local epoch = redis.pcall('HGET', marker, 'epoch')
    replies[#replies + 1] = type(epoch) == 'string' and epoch or ''
end
return replies
