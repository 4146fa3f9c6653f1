-- Deletes locks where the token is, and says which number was stored, if that was to be compared
-- (R10); those who wait are told, and how many they are (R9).
-- ARGV: per item what the value begins with, the number that must be stored ('': any) and, with
-- order fair, whose ticket ('': nobody's) is taken off (number 0), or put there for so many ms as
-- the key is deleted (back, as an attempt is undone; or of the next one at the same agent).
-- KEYS: the lock keys of all items, the fence keys of those with a number, and the tickets of all
-- with order fair (tickets.lua stands behind the common part). Answers a list, or 0 where that is
-- what all answer; no item can make another one fail.
-- (kind)
local size = fair and 5 or 2
local count, done, locks = #ARGV / size, 0, {}

-- The usual case: the lock is there, and no number is to be compared.
if not (fair or slots) then
    local ask, own, channels = redis.pcall, count > 1 and {} or KEYS, {}
    locks = ask('MGET', unpack(KEYS, 1, count)) -- refused as a whole: nothing is there
    for i = 1, count do
        local begins, value = ARGV[2 * i - 1], locks[i]
        if value and ARGV[2 * i] == '' and string.sub(value, 1, #begins) == begins then
            locks[i], done = 0, done + 1
            own[done], channels[done] = KEYS[i], 'lockagent:channel:' .. KEYS[i]
        end
    end
    if done > 0 then
        local deleted = ask('DEL', unpack(own))
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
local function release(key, own, fence, fencing_number, tickets, agent, number, ms)
    local held = get(key)
    -- also where somebody else's attempt has the key
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end
    if not held or string.sub(held, 1, #own) ~= own then return denied(key, held, own) end
    local stored = fence and stored_number(fence) or 0
    local wrong = fencing_number and (fencing_number == 0 or stored ~= fencing_number)
    if wrong then return {'misnumbered', stored} end
    redis.call('DEL', key)
    if tickets then -- whatever is wrong with them, the key is deleted
        if agent and number > 0 then pcall(keep, tickets, agent, number, ms) end
        local well, first = pcall(line_of, tickets)
        tell(key, well and first)
        return stored
    end
    local channel, agents = channel_of(key)
    local slot = slots and string.match(key, '^lockagent:slot:(%d+):')
    if agents > 0 then
        redis.pcall('PUBLISH', channel, slot and agents .. ' slot ' .. slot or agents)
    end
    return stored
end

local replies, fences = {}, 0
for i = 1, count do
    local at, fence, tickets, agent = 1 + size * (i - 1), nil, nil, nil
    local fencing_number = tonumber(ARGV[at + 1])
    if fencing_number then
        fences = fences + 1
        fence = KEYS[count + fences]
    end
    if fair then tickets, agent = KEYS[#KEYS - count + i], ARGV[at + 2] ~= '' and ARGV[at + 2] end
    replies[i] = 0
    if locks[i] ~= 0 then
        local well, entry = pcall(release, KEYS[i], ARGV[at], fence, fencing_number, tickets, agent,
            tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]))
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        replies[i] = entry
    end
end
return replies
