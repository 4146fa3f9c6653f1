-- What every script of this folder begins with: reading keys that may not be ours. The generator puts this text in front of each.
--
-- Every script answers one entry per item: a number n >= 0 (yes, and the master stores the fencing number n), -1 (the key is
-- not there), a list that begins with a word, or an error. Numbers go to redis.call as numbers: tostring() gives 1.76e+15 (R12).

-- The string at `key`; false where there is none, nil where the key has another type. Other errors are raised.
local function get(key)
    local value = redis.pcall('GET', key)
    if type(value) ~= 'table' then return value end
    if string.find(value.err, 'WRONGTYPE', 1, true) then return nil end
    return redis.call('GET', key)
end

-- The number in a fence key: 0 where there is none, nil where somebody else's value is stored.
local function stored_number(key)
    local value = get(key)
    if not value then return value == false and 0 or nil end
    if #value > 16 or string.find(value, '%D') then return nil end
    return tonumber(value)
end

-- The channel on which releases of the key are published, and how many agents wait there (R9); -1 where that may not be asked.
local function channel_of(key)
    local channel = 'lockagent:channel:' .. key
    local agents = redis.pcall('PUBSUB', 'NUMSUB', channel)
    return channel, agents.err and -1 or agents[2]
end

-- What may be told of a value that is not the caller's: the label, never the random part; nothing of a shape that is not ours.
local function seen(word, key, value)
    local left = redis.call('PTTL', key)
    if value == nil then return {'foreign', left} end
    local _, colon = string.find(value, '^%x+:')
    return {word, left, colon == 41 and string.sub(value, 42, 105) or ''}
end
