-- The store of format redisson, where it differs from strings.lua (R22). The lock is a hash, as
-- RLock of Redisson keeps it: the field of its holder, with the count of its entries, which of
-- ours is 1 for ever, and a field `mode`: RReadWriteLock takes a hash without one for its own. No
-- script of Redisson reads what the field of another holder is called.

-- The field of the holder, '' where that is nobody of ours; false where there is none, nil where
-- the key has another type. Other errors are raised.
local function get(key)
    local mode = redis.pcall('HGET', key, 'mode')
    if type(mode) == 'table' then
        if string.find(mode.err, 'WRONGTYPE', 1, true) then return nil end
        return redis.call('HGET', key, 'mode')
    end
    if mode ~= 'lockagent' then return redis.call('EXISTS', key) == 1 and '' end
    local fields = redis.call('HGETALL', key)
    return fields[fields[1] == 'mode' and 3 or 1] or ''
end

-- Where Redisson tells of releases of the key, and how many listen there, whoever they are; -1
-- where that may not be asked. A name with a brace in it gets none.
local function channel_of(key)
    local named = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
    local channel = 'redisson_lock__channel:' .. named
    local agents = redis.pcall('PUBSUB', 'NUMSUB', channel)
    return channel, agents.err and -1 or agents[2]
end

local function rename(key, found, value)
    redis.call('HSET', key, value, 1)
    redis.call('HDEL', key, found)
end

-- Any other text than a number breaks the decoder of those who listen.
local function tell(key)
    local channel, agents = channel_of(key)
    if agents ~= 0 then redis.pcall('PUBLISH', channel, '0') end
end

-- A refusal also says how many wait: no message does.
local function told(word, key, held)
    local left = redis.call('PTTL', key)
    if held == nil then return {'foreign', left} end
    if word ~= 'held' then return {word, left, label_of(held)} end
    local _, agents = channel_of(key)
    return {word, left, label_of(held), 0, '', 0, agents}
end

-- What is handed over is taken off first. What is refused behind the first write takes that back:
-- no key is without expiry.
local function enter(key, value, ttl, held)
    if held then redis.call('DEL', key) end
    redis.call('HSET', key, value, 1, 'mode', 'lockagent')
    local set = redis.pcall('PEXPIRE', key, ttl)
    if type(set) ~= 'table' then return end
    redis.call('DEL', key)
    return set
end
