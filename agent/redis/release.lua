-- Deletes the locks that the tokens hold. Answers the number of a token if it was to be compared
-- (R10). Tells the waiting agents that the key is free, and how many they are (R9).
-- ARGV, for each item:
--   the value; its agent, number and label count only as the next argument says
--   the number that it must have. '': any; no holder asked for the release, so the value must
--   name the agent. '-': the same, but a holder may be answered by it. '*': any; the holder
--   asked. '+': the same, and native commands may have deleted the key and told no agent (R24).
--   Otherwise: exactly this one; the holder asked
--   with order fair the agent of a ticket ('': none), its number and ms. Number 0 deletes the
--   ticket. Any other number stores it for so many ms when the key is freed: an undone attempt puts
--   its ticket back, or the next attempt of the same agent gets one
--   with form shared also the mode of the ticket
-- Then comes, if the group is guarded, the vote that the agent knows ('': it knows none).
-- KEYS: the lock keys of all items, the tickets of all with order fair, and the vote if the group
-- is guarded. A master without that vote may have forgotten the lock. Another agent that has the
-- lock may then create the key anew before it learns of the release (R7). So such a master answers
-- 'guarded' to every release that may answer a holder (D3.4), also if it deletes the key.
-- Answers a list, or 0 if all items answer 0. No item can make another one fail.
local fair = form == 'fair' or form == 'shared'
local size = form == 'shared' and 6 or fair and 5 or 2
local more = #ARGV % size
local count, done, locks = (#ARGV - more) / size, 0, {}
local known = more == 1 and ARGV[#ARGV]

-- The usual case: the lock is there, no number is to be compared, and this master has a vote.
if form == 'plain' then
    local ask, own = redis.pcall, count > 1 and {} or KEYS
    locks = ask('MGET', unpack(KEYS)) -- refused as a whole: nothing is there
    local votes = locks[count + 1]
    votes = not known or votes == known and string.byte(votes) ~= 64 -- '@': has_followed
    for i = 1, count do
        local begins, value, number = ARGV[2 * i - 1], locks[i], ARGV[2 * i]
        local any = (number == '*' or number == '+') and votes or number == ''
        if value and any and string.sub(value, 1, #begins) == begins then
            locks[i], done = 0, done + 1
            own[done] = KEYS[i]
        end
    end
    if done > 0 then
        local deleted = ask('DEL', unpack(own, 1, done)) -- without the vote, which is the last key
        if type(deleted) == 'table' then
            locks, done = {}, 0 -- refused as a whole
        else
            -- Every agent that waits for a key is on the first channel.
            local all = ask('PUBSUB', 'NUMSUB', 'lockagent:channel:/')[2]
            local channels = {}
            for i = 1, all and all > 0 and done or 0 do
                channels[i] = 'lockagent:channel:' .. own[i]
            end
            local agents = channels[1] and ask('PUBSUB', 'NUMSUB', unpack(channels))
            for i = 1, #channels do
                local waiting = agents[2 * i]
                if waiting and waiting > 0 then ask('PUBLISH', channels[i], waiting) end
            end
        end
    end
    if done == count then return 0 end
end

-- (common)
local vote = KEYS[count + (fair and count or 0) + 1]

-- Releases one lock, and returns its entry. The key is freed even if the tickets are invalid.
local function release(key, value, number_text, tickets, agent, number, ms, mode)
    -- The ticket is deleted even if another attempt has the key.
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end
    local held, asked = get(key), number_text ~= '' and number_text ~= '-'
    local found, ends = find(key, held, value)
    local guarded = is_guarded(number_text, vote, known)
    if not found or not asked and not is_own(found, value) then
        if number_text == '+' and held == false then tell(key) end
        -- The mode of the token may not be known. A reader that holds the lock as well does not
        -- make the token wrong (C4).
        return guarded and {'guarded', 0} or denied(key, held, 'r', found, ends)
    end
    local compared = tonumber(number_text)
    local there = compared and number_in(found)
    local wrong = compared and there ~= number_text
    if wrong then return guarded and {'guarded', 0} or {'misnumbered', tonumber(there or 0)} end
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
