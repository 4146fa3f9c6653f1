-- Renews, repairs or adopts entries of locks that readers share (R7, R17); nothing is ever
-- shortened.
-- ARGV: renew|repair|adopt, then per item: entry, ttl, fence retention (0: no fencing, or a renewal
-- that leaves the fence key alone, R12), number. An adoption needs no owner and knows no mode, but
-- exactly the number, and makes the agent the owner; the others need the agent to be that (D3).
-- KEYS: the lock keys of all items, the fence keys of those with a retention, and the marker where
-- the group is guarded. Answers a list; no item can make another one fail. Where an entry is
-- missing and the group is guarded, the marker's epoch ('': no marker) is its last entry (R7).
local mode, missing = ARGV[1], false
local count = (#ARGV - 1) / 4

-- one without expiry gets one: fence keys live for the retention (R12)
local function store(key, number, retention)
    redis.call('SET', key, number, 'PX', math.max(redis.call('PTTL', key), retention))
end

-- What a master without memory does not refuse comes first: then it refuses nothing behind it.
local function prolong(key, entry, own, ends)
    redis.call('PEXPIREAT', key, ends, 'GT')
    redis.call('ZADD', key, ends, own)
    if own ~= entry then redis.call('ZREM', key, entry) end
end

local function repair(key, fence, entry, ends, retention, number, last)
    if not has_room(last, string.sub(entry, 1, 1)) then return told('held', key, last) end
    local stored = 0
    if fence then
        stored = stored_number(fence)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        store(fence, stored, retention)
    end
    return enter(key, entry, ends, last) or {'repaired', stored}
end

-- The mode and the label stay.
local function adopt(key, fence, entry, found, ends, retention, number)
    local stored = fence and stored_number(fence)
    local wrong = number == 0 or stored ~= number
    if fence and wrong then return {'misnumbered', stored or 0} end
    local label = string.sub(found, 53, 117)
    prolong(key, found, string.sub(found, 1, 43) .. agent_of(entry) .. ':' .. label, ends)
    if fence then redis.call('PEXPIRE', fence, retention, 'GT') end
    return {'adopted', stored or 0, label, 0, string.sub(found, 1, 1), 0}
end

local function extend(key, fence, entry, ttl, retention, number)
    local last, found, ends = last_of(key), nil, nil
    if last then found, ends = find(key, entry) end
    if not found then
        if last == nil then return told('held', key, last) end
        missing = true
        if mode == 'repair' then
            return repair(key, fence, entry, now + ttl, retention, number, last)
        end
        return has_room(last, string.sub(entry, 1, 1)) and -1 or told('held', key, last)
    end
    local later = math.max(ends, now + ttl)
    if mode == 'adopt' then return adopt(key, fence, entry, found, later, retention, number) end
    if agent_of(found) ~= agent_of(entry) then
        return {'moved', ends - now, string.sub(found, 53, 117)}
    end
    prolong(key, found, found, later)
    local stored = fence and mode == 'repair' and stored_number(fence)
    if not stored then -- a renewal, or a stranger's fence key: the lease is what counts
        if fence then redis.call('PEXPIRE', fence, retention, 'GT') end
        return 0
    end
    if stored < number then store(fence, number, retention) end
    return math.max(stored, number)
end

local replies, fences = {}, count
for i = 1, count do
    local at, fence = 4 * i - 2, nil
    local ttl, retention = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if retention > 0 then
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
