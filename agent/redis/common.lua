-- Functions that the scripts of this folder share. They read keys that other programs may have
-- written. embed.py puts the functions that a script uses before the script, or after its usual
-- case. Every function and every command costs a master time, so the usual case makes no function
-- and calls as few commands as possible.
--
-- Every script answers one entry per item:
--   a number n >= 0, or its text   yes; n is the fencing number that was granted, or the stored one
--                                  if the script had to look at it
--   -1                             the key does not exist
--   a list that begins with a word
--   an error
-- A list has these columns, and ends at the last one that is known: word, ms that are left or a
-- number, label (of `spoiled`: 'tickets' if it is the key of the tickets), the number of a ticket
-- or the slots, mode, number of readers, number of waiters, '<agent>:<number>' of a read value.
-- Fencing numbers stay the texts that are stored and sent. They become numbers only for arithmetic.
-- Results go to redis.call as numbers, because tostring() gives 1.76e+15 (R12).

-- Returns the string at `key`, false if there is none, and nil if the key has another type. Raises
-- other errors.
local function text_at(key)
    local value = redis.pcall('GET', key)
    if type(value) ~= 'table' then return value end
    if string.find(value.err, 'WRONGTYPE', 1, true) then return nil end
    return redis.call('GET', key)
end

-- The largest number that a double tells from its neighbours, and how far ahead of the agreed time
-- one may be, in us (R12).
local exact, ahead = 9007199254740991, 172800000000

-- Fencing numbers are kept in buckets (R12). A bucket is a sorted set. Its one member `n` has the
-- number as its score.

-- Returns whether RFencedLock counts on this key as well (R22). It keeps its number as a string.
local function is_counter(key)
    return form == 'redisson' and string.sub(key, 1, 20) == 'redisson_lock_token:'
end

-- Returns the number at `key`: 0 if there is none, nil if it is invalid. Invalid are a key of
-- another type, a number that Lua cannot count with, one of at least `most`, and a counter that
-- INCR refuses. Raises other errors.
local function stored_number(key, most)
    local ask = is_counter(key) and {'GET', key} or {'ZSCORE', key, 'n'}
    local stored = redis.pcall(unpack(ask))
    if type(stored) == 'table' then
        if string.find(stored.err, 'WRONGTYPE', 1, true) then return nil end
        return redis.call(unpack(ask))
    end
    local counts = stored and (stored == '0' or string.find(stored, '^[1-9]%d*$'))
    if is_counter(key) and stored and not counts then return nil end
    local number = math.floor(tonumber(stored or 0))
    return number <= exact and not (most and number >= most) and number or nil
end

-- Stores a number that is above the stored one. Neither a bucket nor a counter expires: a master
-- would begin at 0 again.
local function store_number(key, number)
    if is_counter(key) then
        redis.call('SET', key, number)
    else
        redis.call('ZADD', key, 'GT', number, 'n')
    end
end

-- Returns the channel on which releases of the key are published, and how many agents wait there
-- (R9; -1: the command is not allowed). All slots of a semaphore share one channel.
local function channel_of(key)
    local channel = 'lockagent:channel:' .. string.gsub(key, '^lockagent:slot:%d+:', '')
    local agents = redis.pcall('PUBSUB', 'NUMSUB', channel)
    return channel, agents.err and -1 or agents[2]
end

-- Tells the waiting agents that the key is free. The message has the number of waiting agents, the
-- slot of a semaphore (R20), and the agent whose turn it is. It also has the mode of that agent's
-- ticket, if any: when a reader's turn comes, all readers may come (R18).
local function tell(key, first)
    local channel, agents = channel_of(key)
    local message, slot = agents, form == 'slots' and string.match(key, '^lockagent:slot:(%d+):')
    if slot then message = message .. ' slot ' .. slot end
    if first then message = message .. ' ' .. first.agent end
    if first and first.mode ~= '' then message = message .. ' ' .. first.mode end
    if agents > 0 then redis.pcall('PUBLISH', channel, message) end
end

-- Values are '<random>:<agent>:<number>:<label>': 40 hex digits that only the holder knows, 8 that
-- name the agent that owns the hold, the fencing number that was granted (0: none), and the public
-- label. The first 41 bytes are compared if the holder asked, and 50 if the agent acts of itself
-- (D3). A value of form shared begins with its mode and a colon (R17).
local front = form == 'shared' and 2 or 0

-- Returns the number of a value as text, and nil if the value has another shape.
local function number_in(value)
    local at, number = string.match(value, '^%x+:%x%x%x%x%x%x%x%x:()(%d+):', front + 1)
    return at == front + 51 and number or nil
end

-- Returns '<agent>:<number>' of a value, and '' if the value has another shape.
local function name_in(value)
    local number = number_in(value)
    return number and string.sub(value, front + 42, front + 50 + #number) or ''
end

-- Returns the label of a value, and '' if the value has another shape. A label that is too long is
-- cut to one byte more than the longest valid label, so that the agent can see it.
local function label_of(value)
    local number = number_in(value)
    return number and string.sub(value, front + 52 + #number, front + 116 + #number) or ''
end

-- Returns the mode at the beginning of a value, r or w, and '' if the form has no modes.
local function mode_of(value)
    return form == 'shared' and string.sub(value, 1, 1) or ''
end

-- Returns the value with another number.
local function with_number(value, number)
    local rest = front + 51 + #number_in(value)
    return string.sub(value, 1, front + 50) .. string.format('%.0f', number)
        .. string.sub(value, rest)
end

-- Returns the name by which `lockagent unlock` knows a hold: the first 12 digits of its random
-- part. The other 28 stay secret.
local function name_of(value)
    return string.sub(value, front + 1, front + 12)
end

-- Returns the key of the tombstone that an unlocked hold leaves on a master (R25).
local function tombstone_of(key, name)
    return 'lockagent:unlocked:' .. name .. ':' .. key
end

-- Returns whether both values name the same agent.
local function is_own(found, value)
    return string.sub(found, front + 42, front + 50) == string.sub(value, front + 42, front + 50)
end

-- Returns whether the first value names the agent of the second one. An agent that has adopted the
-- hold back has the keys of its other name as well, which differs in the last bit (D3.3).
local function is_ours(found, value)
    if is_own(found, value) then return true end
    local last = tonumber(string.sub(value, front + 49, front + 49), 16)
    local other = string.sub(value, front + 42, front + 48) .. string.format('%x:', last - 1)
    return last % 2 == 1 and string.sub(found, front + 42, front + 50) == other
end

-- Returns whether a master that has replicas may have followed one of them since the vote was
-- written. Its replication id is then not the one in the vote (R21).
local function has_followed(stands)
    local replid = string.match(stands, '^@.*:(%x+):%d+$')
    local info = replid and redis.pcall('INFO', 'replication')
    return replid and not (type(info) == 'string'
        and string.find(info, 'master_replid:' .. replid, 1, true))
end

-- Returns whether a holder may be answered by the release, and this master does not have the vote
-- that the agent knows (D3.4, release.lua; known nil: any vote). The vote is read once per call.
local has_vote
local function is_guarded(number_text, vote, known)
    if number_text == '' or not vote then return false end
    if has_vote == nil then
        local stands = redis.pcall('GET', vote)
        has_vote = type(stands) == 'string' and (not known or stands == known)
            and not has_followed(stands)
    end
    return not has_vote
end
