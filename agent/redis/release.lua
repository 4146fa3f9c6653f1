-- Deletes locks where the token is, and says which number it has, if that was to be compared (R10);
-- those who wait are told, and how many they are (R9).
-- ARGV: per item what the value begins with, the number that it must have ('': any, and no holder
-- asked for the release; '*': any, the holder asked; else: that one, the holder asked) and, with
-- order fair, whose ticket ('': none) is taken off (number 0), or put there for so many ms as
-- the key is deleted (back, as an attempt is undone; or of the next one at the same agent).
-- KEYS: the lock keys of all items, the tickets of all with order fair (tickets.lua stands behind
-- the common part), and the vote where a holder asked and the group is guarded. A master without a
-- vote may have forgotten the lock: another agent that has it may create the key anew before it
-- hears of the release (R7). So such a master answers a holder's release 'guarded' (D3.4), whatever
-- is there, and also where it deletes the key.
-- Answers a list, or 0 where that is what all answer; no item can make another one fail.
local fair, slots = form == 'fair', form == 'slots'
local size = fair and 5 or 2
local count, done, locks = #ARGV / size, 0, {}

-- The usual case: the lock is there, no number is to be compared, and this master has a vote.
if not (fair or slots) then
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

local function release(key, own, number_text, tickets, agent, number, ms)
    local held = get(key)
    -- also where somebody else's attempt has the key
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end
    local guarded = is_guarded(number_text, vote)
    if not held or string.sub(held, 1, #own) ~= own then
        return guarded and {'guarded', 0} or denied(key, held, own, find(key, held, own))
    end
    local compared = tonumber(number_text)
    local there = compared and number_in(held)
    local wrong = compared and there ~= number_text
    if wrong then return {'misnumbered', tonumber(there or 0)} end
    redis.call('DEL', key)
    if tickets then -- whatever is wrong with them, the key is deleted
        if agent and number > 0 then pcall(keep, tickets, agent, number, ms) end
        local well, first = pcall(line_of, tickets)
        tell(key, well and first)
        return guarded and {'guarded', 0} or compared or 0
    end
    local channel, agents = channel_of(key)
    local slot = slots and string.match(key, '^lockagent:slot:(%d+):')
    if agents > 0 then
        redis.pcall('PUBLISH', channel, slot and agents .. ' slot ' .. slot or agents)
    end
    return guarded and {'guarded', 0} or compared or 0
end

local replies = {}
for i = 1, count do
    local at, tickets, agent = 1 + size * (i - 1), nil, nil
    if fair then tickets, agent = KEYS[count + i], ARGV[at + 2] ~= '' and ARGV[at + 2] end
    replies[i] = 0
    if locks[i] ~= 0 then
        local well, entry = pcall(release, KEYS[i], ARGV[at], ARGV[at + 1], tickets, agent,
            tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]))
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        replies[i] = entry
    end
end
return replies
