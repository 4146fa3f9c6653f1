-- Renews, repairs or adopts entries of locks that readers share (R7, R17); nothing is ever
-- shortened.
-- ARGV: renew|repair|adopt, then per item: entry, ttl, fence retention (0: no fencing, or a
-- renewal that leaves the fence key alone, R12), number and, of a repair, for how long it may
-- create the entry (deadline.lua); behind the items of a repair the clock. An adoption needs no
-- owner and knows no mode, but exactly the number in the entry, and makes the agent the owner;
-- the others need the agent to be that, and set the number right (D3).
-- KEYS: the lock keys of all items, the fence keys of those with a retention, and the marker
-- where the group is guarded; of an adoption the vote before that (extend.lua). Answers a list;
-- no item can make another one fail. Where an entry is missing and the group is guarded, the
-- marker's epoch ('': no marker) is its last entry (R7).
local mode, missing = ARGV[1], false
local size = mode == 'repair' and 5 or 4
local count = (#ARGV - (mode == 'repair' and 2 or 1)) / size
local clock = mode == 'repair' and ARGV[#ARGV] or '0'
-- (deadline)

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

local function repair(key, fence, entry, ends, retention, number, last, may_ms)
    if not has_room(last, string.sub(entry, 1, 1)) then return told('held', key, last) end
    if behind and (behind < 0 or may_ms - behind <= 0) then return {'late', 0} end
    local stored = 0
    if fence then
        stored = stored_number(fence)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        store(fence, stored, retention)
    end
    return enter(key, entry, ends, last) or {'repaired', stored}
end

-- The name of the entry as this agent's, with the right number: the mode and the label stay.
local function own_name(found, entry)
    local number = number_in(string.sub(entry, 3))
    return string.sub(found, 1, 43) .. string.sub(entry, 44, 52) .. number .. ':' .. label_in(found)
end

local function adopt(key, fence, entry, found, ends, retention, number)
    local there = number_in(string.sub(found, 3))
    local wrong = fence and there ~= number_in(string.sub(entry, 3))
    if wrong then return {'misnumbered', tonumber(there or 0)} end
    prolong(key, found, own_name(found, entry), ends)
    if fence then redis.call('PEXPIRE', fence, retention, 'GT') end
    return {'adopted', number, label_in(found), 0, string.sub(found, 1, 1), 0}
end

-- The fence key of an entry that is there: it is kept for the retention at least, and a repair
-- raises its number.
local function retain(fence, retention, number)
    if not fence then return 0 end
    local stored = mode == 'renew' and 0 or stored_number(fence)
    if not stored then return 0 end -- a stranger's fence key: the lease is what counts
    if mode == 'repair' and stored < number then
        store(fence, number, retention)
        return number
    end
    redis.call('PEXPIRE', fence, retention, 'GT')
    return stored
end

local function extend(key, fence, entry, ttl, retention, number, may_ms)
    local last, found, ends = last_of(key), nil, nil
    if last then found, ends = find(key, entry) end
    if not found then
        if last == nil then return told('held', key, last) end
        missing = true
        if mode == 'repair' then
            return repair(key, fence, entry, now + ttl, retention, number, last, may_ms)
        end
        return has_room(last, string.sub(entry, 1, 1)) and -1 or told('held', key, last)
    end
    local later = math.max(ends, now + ttl)
    if mode == 'adopt' then return adopt(key, fence, entry, found, later, retention, number) end
    if agent_of(found) ~= agent_of(entry) then
        return {'moved', ends - now, label_in(found)}
    end
    prolong(key, found, own_name(found, entry), later)
    return retain(fence, retention, number)
end

local replies, fences = {}, count
for i = 1, count do
    local at, fence = size * i - size + 2, nil
    local ttl, retention = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if retention > 0 then
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
