-- The store of locks that readers share (R17), by the verbs of strings.lua. Under the lock's own
-- name stands a sorted set: member '<mode>:<value>', where the mode is r or w, score the end of its
-- lease in ms of the master's TIME. Live is what ends later than now. A live writer is alone, so
-- the entry that ends last tells the mode of all, however many there are.
local now = now_ms()

-- The live entry that ends last.
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

-- Of all who have the key also how many of them read.
local function told(word, key, last, found, ends)
    if found then return {word, ends - now, label_of(found)} end
    if not last then return {'foreign', redis.call('PTTL', key)} end
    local readers = 0
    if last.mode == 'r' then
        readers = redis.call('ZCOUNT', key, string.format('(%.0f', now), '+inf')
    end
    return {word, last.ends - now, last.label, 0, last.mode, readers}
end

-- When the entry ends; nil where it is not there, or not live.
local function end_of(key, entry)
    local ends = tonumber(redis.call('ZSCORE', key, entry) or nil)
    return ends and ends > now and ends or nil
end

-- Where another agent has adopted it, or its label or number is not known, all are looked through.
local function find(key, last, entry)
    if not last then return nil end
    local ends = end_of(key, entry)
    if ends then return entry, ends end
    local random = string.sub(entry, 3, 43)
    for _, other in ipairs(redis.call('ZRANGE', key, 0, -1)) do
        if string.sub(other, 3, 43) == random then
            ends = end_of(key, other)
            return ends and other, ends
        end
    end
end

-- The key lives as long as what ends last. What creates an entry comes first: a master out of
-- memory refuses it only as long as a script has written nothing. What is refused behind it takes
-- it back, for no key is without expiry.
local function enter(key, entry, ttl, last)
    local ends = now + ttl
    redis.call('ZADD', key, ends, entry)
    local set = redis.pcall('PEXPIREAT', key, math.max(ends, last and last.ends or 0))
    if type(set) == 'table' then
        redis.call('ZREM', key, entry)
        return set
    end
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
end

-- What a master without memory does not refuse comes first: then it refuses nothing behind it.
local function prolong(key, entry, ttl, ends)
    local later = math.max(ends, now + ttl)
    redis.call('PEXPIREAT', key, later, 'GT')
    redis.call('ZADD', key, later, entry)
    return later
end

local function rename(key, found, entry, ends)
    redis.call('ZADD', key, ends, entry)
    redis.call('ZREM', key, found)
end

-- A writer that leaves frees the key, and the last reader (R18).
local function leave(key, entry)
    redis.call('ZREM', key, entry)
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
    local rest = get(key)
    if rest then redis.call('PEXPIREAT', key, rest.ends) end
    return not rest or mode_of(entry) ~= 'r'
end
