-- Takes locks off where the token is, and says which number it has, if that was to be compared
-- (R10); those who wait are told, and how many they are (R9).
-- ARGV: per item the value, of which agent and what is behind it count only as told below, the
-- number that it must have ('': any, and no holder asked for the release, so that the agent must be
-- its owner; '*': any, the holder asked; else: that one, the holder asked) and, with order fair,
-- whose ticket ('': none) is taken off (number 0), or put there for so many ms as the key is freed
-- (back, as an attempt is undone; or of the next one at the same agent), and of form shared with
-- which mode.
-- KEYS: the lock keys of all items, the tickets of all with order fair, and the vote where a holder
-- asked and the group is guarded. A master without a vote may have forgotten the lock: another
-- agent that has it may create the key anew before it hears of the release (R7). So such a master
-- answers a holder's release 'guarded' (D3.4), whatever is there, and also where it deletes the
-- key.
-- Answers a list, or 0 where that is what all answer; no item can make another one fail.
local fair = form == 'fair' or form == 'shared'
local size = form == 'shared' and 6 or fair and 5 or 2
local count, done, locks = #ARGV / size, 0, {}

-- The usual case: the lock is there, no number is to be compared, and this master has a vote.
if form == 'plain' then
    local ask, own, channels = redis.pcall, count > 1 and {} or KEYS, {}
    locks = ask('MGET', unpack(KEYS)) -- refused as a whole: nothing is there
    local votes = locks[count + 1]
    votes = not KEYS[count + 1] or votes and string.byte(votes) ~= 64 -- '@': has_followed
    for i = 1, count do
        local begins, value, number = ARGV[2 * i - 1], locks[i], ARGV[2 * i]
        local any = number == '*' and votes or number == ''
        if value and any and string.sub(value, 1, #begins) == begins then
            locks[i], done = 0, done + 1
            own[done], channels[done] = KEYS[i], 'lockagent:channel:' .. KEYS[i]
        end
    end
    if done > 0 then
        local deleted = ask('DEL', unpack(own, 1, done)) -- the vote stands behind them
        if type(deleted) == 'table' then
            locks, done = {}, 0 -- refused as a whole
        else
            local agents = ask('PUBSUB', 'NUMSUB', unpack(channels))
            for i = 1, done do
                local waiting = agents[2 * i]
                if waiting and waiting > 0 then ask('PUBLISH', channels[i], waiting) end
            end
        end
    end
    if done == count then return 0 end
end

-- (common)
local vote = KEYS[count + (fair and count or 0) + 1]

-- Whatever is wrong with the tickets, the key is freed.
local function release(key, value, number_text, tickets, agent, number, ms, mode)
    -- also where somebody else's attempt has the key
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end
    local held, asked = get(key), number_text ~= ''
    local found, ends = find(key, held, value)
    local guarded = is_guarded(number_text, vote)
    if not found or not asked and not is_own(found, value) then
        -- a reader beside it does not make a token wrong (C4), whose mode may not be known
        return guarded and {'guarded', 0} or denied(key, held, 'r', found, ends)
    end
    local compared = tonumber(number_text)
    local there = compared and number_in(found)
    local wrong = compared and there ~= number_text
    if wrong then return {'misnumbered', tonumber(there or 0)} end
    local free, first = leave(key, found), nil
    if agent and number > 0 then pcall(keep, tickets, agent, number, ms, mode) end
    if free and tickets then
        local well, lowest = pcall(line_of, tickets)
        first = well and lowest
    end
    if free then tell(key, first) end
    return guarded and {'guarded', 0} or compared or 0
end

local replies = {}
for i = 1, count do
    local at, tickets, agent, entry = 1 + size * (i - 1), nil, nil, 0
    if fair then tickets, agent = KEYS[count + i], ARGV[at + 2] ~= '' and ARGV[at + 2] end
    local mode = form == 'shared' and ARGV[at + 5] or ''
    if locks[i] ~= 0 then
        local well
        well, entry = pcall(release, KEYS[i], ARGV[at], ARGV[at + 1], tickets, agent,
            tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), mode)
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        if entry == 0 then done = done + 1 end
    end
    replies[i] = entry
end
return done == count and 0 or replies
