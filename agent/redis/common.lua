-- What the scripts of this folder share: reading keys that may not be ours. embed.py puts what a
-- script uses of it in front of that script, or behind its usual case, which does without: a call
-- costs a master what it makes and what it asks, so the usual case makes no function and asks as
-- little as can be.
--
-- Every script answers one entry per item: a number n >= 0, or its text (yes, and n is the
-- fencing number that was granted, or is stored, where the script had to look at it), -1 (the
-- key is not there), a list that begins with a word, or an error. A list has these columns, as far
-- as there is something to say: word, ms that are left or a number, label, the number of a ticket
-- or the slots, mode, how many read, how many wait. Fencing numbers stay the texts that they are
-- stored and sent as, and become numbers only to be counted with; those go to redis.call as
-- numbers: tostring() gives 1.76e+15 (R12).

-- The string at `key`; false where there is none, nil where the key has another type. Other errors
-- are raised.
local function text_at(key)
    local value = redis.pcall('GET', key)
    if type(value) ~= 'table' then return value end
    if string.find(value.err, 'WRONGTYPE', 1, true) then return nil end
    return redis.call('GET', key)
end

-- The largest number that a double tells from its neighbours, and how far ahead of the agreed time
-- one may be, in us (R12).
local exact, ahead = '9007199254740991', 172800000000

-- The number in a fence key, whose text may have been read before: 0 where there is none; nil where
-- it is nobody's who keeps the rules: no number, one that Lua can not count with (told by its text,
-- before it becomes a double), or one of at least `most`.
local function stored_number(key, most, read)
    local value = read or text_at(key)
    if not value then return value == false and 0 or nil end
    if value ~= '0' and not string.find(value, '^[1-9]%d*$') then return nil end
    if #value > #exact or #value == #exact and value > exact then return nil end
    local number = tonumber(value)
    if most and number >= most then return nil end
    return number
end

-- A fence key is kept for the retention at least, and one without expiry gets one (R12). One that
-- RFencedLock counts on as well (retention -1) is kept for ever: it would begin at 1.
local function store_number(fence, number, retention)
    if retention == -1 then
        redis.call('SET', fence, number)
    else
        redis.call('SET', fence, number, 'PX', math.max(redis.call('PTTL', fence), retention))
    end
end

-- The channel on which releases of the key, of a semaphore in whichever slot, are published, and
-- how many agents wait there (R9); -1 where that may not be asked.
local function channel_of(key)
    local channel = 'lockagent:channel:' .. string.gsub(key, '^lockagent:slot:%d+:', '')
    local agents = redis.pcall('PUBSUB', 'NUMSUB', channel)
    return channel, agents.err and -1 or agents[2]
end

-- Those who wait are told that the key is free, how many they are, which slot of a semaphore it is
-- (R20), and whose turn it is; where that one has a mode, also this: all who read may come with one
-- who does (R18).
local function tell(key, first)
    local channel, agents = channel_of(key)
    local message, slot = agents, form == 'slots' and string.match(key, '^lockagent:slot:(%d+):')
    if slot then message = message .. ' slot ' .. slot end
    if first then message = message .. ' ' .. first.agent end
    if first and first.mode ~= '' then message = message .. ' ' .. first.mode end
    if agents > 0 then redis.pcall('PUBLISH', channel, message) end
end

-- Values are '<random>:<agent>:<number>:<label>': 40 hex digits that only the holder knows, 8 that
-- name the agent that owns the hold, the fencing number that was granted (0: none), and what is
-- public. The first 41 bytes are compared where the holder asked, and 50 where the agent acts of
-- itself (D3). In front of a value of form shared stand its mode and a colon (R17).
local front = form == 'shared' and 2 or 0

-- The number of a value, as text; nil where that has another shape.
local function number_in(value)
    local at, number = string.match(value, '^%x+:%x%x%x%x%x%x%x%x:()(%d+):', front + 1)
    return at == front + 51 and number or nil
end

-- The label of a value; '' where that has another shape. Of one that is too long a byte more than a
-- label has, so that it shows.
local function label_of(value)
    local number = number_in(value)
    return number and string.sub(value, front + 52 + #number, front + 116 + #number) or ''
end

-- The mode in front of a value, r or w; '' where there is none.
local function mode_of(value)
    return form == 'shared' and string.sub(value, 1, 1) or ''
end

-- The value with another number.
local function with_number(value, number)
    local rest = front + 51 + #number_in(value)
    return string.sub(value, 1, front + 50) .. string.format('%.0f', number)
        .. string.sub(value, rest)
end

-- Whether both name the same agent.
local function is_own(found, value)
    return string.sub(found, front + 42, front + 50) == string.sub(value, front + 42, front + 50)
end

-- A master that has replicas may have followed one of them since the vote was written: then its
-- replication id is not the vote's (R21).
local function has_followed(stands)
    local replid = string.match(stands, '^@.*:(%x+):%d+$')
    local info = replid and redis.pcall('INFO', 'replication')
    return replid and not (type(info) == 'string'
        and string.find(info, 'master_replid:' .. replid, 1, true))
end

-- Whether a holder's release is asked of a master without a vote (D3.4, release.lua). It is looked
-- up once a call.
local has_vote
local function is_guarded(number_text, vote)
    if number_text == '' or not vote then return false end
    if has_vote == nil then
        local stands = redis.pcall('GET', vote)
        has_vote = type(stands) == 'string' and not has_followed(stands)
    end
    return not has_vote
end
