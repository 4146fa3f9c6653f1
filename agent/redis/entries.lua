-- The store of locks that readers share (R17), with the functions that strings.lua lists. The
-- lock's own name is the key of a sorted set. A member is '<mode>:<value>', and the mode is r or w.
-- Its score is the end of the lease in ms of the master's TIME. An entry is live if it ends later
-- than now. A live writer is alone, so the entry that ends last has the mode of all live entries.
local now = now_ms()

-- Returns the live entry that ends last; see strings.lua.
local function get(key)
    local last = redis.pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
    if last.err then
        if string.find(last.err, 'WRONGTYPE', 1, true) then return nil end
        return redis.call('ZRANGE', key, -1, -1)
    end
    if not last[1] then return false end
    local entry, ends = last[1], tonumber(last[2])
    local mode = string.match(entry, '^([rw]):')
    if not (mode and number_in(entry)) then return nil end
    return ends > now and {mode = mode, ends = ends, entry = entry, label = label_of(entry)}
end

local function has_room(last, mode)
    return last == false or last and last.mode == 'r' and mode == 'r'
end

-- Like told() of strings.lua. It also answers the mode of the holders and how many of them read.
local function told(word, key, last, found, ends)
    if found then return {word, ends - now, label_of(found)} end
    if not last then return {'foreign', redis.call('PTTL', key)} end
    local readers = 0
    if last.mode == 'r' then
        readers = redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf')
    end
    return {word, last.ends - now, last.label, 0, last.mode, readers}
end

-- Returns when the entry ends, and nil if it is missing or not live.
local function end_of(key, entry)
    local ends = tonumber(redis.call('ZSCORE', key, entry) or nil)
    return ends and ends > now and ends or nil
end

-- For each key that was searched: the random part of an entry -> the entry. A call may name 50
-- tokens that a key with thousands of readers does not have, so its entries are read once.
local searched = {}

-- Notes the entry that a token has now.
local function note_entry(key, entry)
    if searched[key] then searched[key][string.sub(entry, 3, 43)] = entry end
end

-- Finds the entry of a token; see strings.lua. If another agent has adopted the entry, or if its
-- label or number is not known, it is searched by its random part.
local function find(key, last, entry)
    if not last then return nil end
    local ends = end_of(key, entry)
    if ends then return entry, ends end
    if not searched[key] then
        searched[key] = {}
        for _, other in ipairs(redis.call('ZRANGE', key, 0, -1)) do note_entry(key, other) end
    end
    local other = searched[key][string.sub(entry, 3, 43)]
    ends = other and end_of(key, other)
    return ends and other, ends
end

-- Adds an entry. The key lives as long as the entry that ends last. ZADD comes first, because a
-- master out of memory refuses a write only while the script has written nothing. If PEXPIREAT is
-- refused, the entry is removed again: no key is without expiry.
local function enter(key, entry, ttl, last)
    local ends = now + ttl
    redis.call('ZADD', key, ends, entry)
    local set = redis.pcall('PEXPIREAT', key, math.max(ends, last and last.ends or 0))
    if type(set) == 'table' then
        redis.call('ZREM', key, entry)
        return set
    end
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
    note_entry(key, entry)
end

-- Prolongs an entry. PEXPIREAT comes first, because a master out of memory does not refuse it.
-- After that write the master refuses nothing.
local function prolong(key, entry, ttl, ends)
    local later = math.max(ends, now + ttl)
    redis.call('PEXPIREAT', key, later, 'GT')
    redis.call('ZADD', key, later, entry)
    return later
end

local function rename(key, found, entry, ends)
    redis.call('ZADD', key, ends, entry)
    redis.call('ZREM', key, found)
    note_entry(key, entry)
end

-- Removes an entry. The key is free for others after a writer and after the last reader (R18).
local function leave(key, entry)
    redis.call('ZREM', key, entry)
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
    local rest = get(key)
    if rest then redis.call('PEXPIREAT', key, rest.ends) end
    return not rest or mode_of(entry) ~= 'r'
end

-- Returns all live entries.
local function values_of(key)
    local values = {}
    for _, entry in ipairs(redis.call('ZRANGE', key, 0, -1)) do
        if end_of(key, entry) then values[#values + 1] = entry end
    end
    return values
end
