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

-- Those who wait are told that the key is free, how many they are, and with order fair whose turn it is (R9).
local function tell(key, next)
    local channel, agents = channel_of(key)
    if agents > 0 then redis.pcall('PUBLISH', channel, next and agents .. ' ' .. next.agent or agents) end
end

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Order fair (R9): the lowest ticket of the others, their largest number up to `most`, and TIME in ms. The hash of tickets is agent -> '<number>:<until>'; what has
-- run out is forgotten.
local function line_of(queue, own, most)
    local all, now, first, last = redis.call('HGETALL', queue), now_ms(), nil, 0
    for i = 1, #all, 2 do
        local agent, number, till = all[i], string.match(all[i + 1], '^(%d+):(%d+)$')
        number, till = tonumber(number), tonumber(till)
        if not till or till <= now then
            redis.call('HDEL', queue, agent)
        elseif agent ~= own then
            if not first or number < first.number or number == first.number and agent < first.agent then
                first = {agent = agent, number = number, left = till - now}
            end
            if most and number <= most then last = math.max(last, number) end
        end
    end
    return first, last, now
end

-- What may be told of a value that is not the caller's: the label, never the random part; nothing of a shape that is not ours.
local function seen(word, key, value)
    local left = redis.call('PTTL', key)
    if value == nil then return {'foreign', left} end
    local _, colon = string.find(value, '^%x+:')
    return {word, left, colon == 41 and string.sub(value, 42, 105) or ''}
end
