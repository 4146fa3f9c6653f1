-- The store of format redisson, as far as it differs from strings.lua (R22). The lock is a hash, as
-- RLock of Redisson keeps it. One field is named after the holder and has the count of its entries,
-- which is always 1 for an agent. The other field is `mode`: RReadWriteLock takes a hash without it
-- for its own. No script of Redisson reads the name of another holder's field.

-- Returns the field of the holder: '' if the holder is no agent, false if there is none, nil if the
-- key has another type. Raises other errors.
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

-- Returns the channel on which Redisson publishes releases of the key, and how many clients of any
-- kind have subscribed to it (-1: the command is not allowed). A name that has a brace gets no
-- further braces.
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

-- Publishes a release. Only a number is sent: any other text breaks the decoder of Redisson's
-- subscribers.
local function tell(key)
    local channel, agents = channel_of(key)
    if agents ~= 0 then redis.pcall('PUBLISH', channel, '0') end
end

-- Like told() of strings.lua. A refusal also says how many clients wait, because messages do not.
local function told(word, key, held)
    local left = redis.call('PTTL', key)
    if held == nil then return {'foreign', left} end
    if word ~= 'held' then return {word, left, label_of(held)} end
    local _, agents = channel_of(key)
    return {word, left, label_of(held), 0, '', 0, agents}
end

-- Like enter() of strings.lua. A hand-over first deletes the key of the holder. If the expiry is
-- refused after the first write, the key is deleted: no key is without expiry.
local function enter(key, value, ttl, held)
    if held then redis.call('DEL', key) end
    redis.call('HSET', key, value, 1, 'mode', 'lockagent')
    local set = redis.pcall('PEXPIRE', key, ttl)
    if type(set) ~= 'table' then return end
    redis.call('DEL', key)
    return set
end
