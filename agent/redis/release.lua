-- Deletes locks where the token is, and says which number was stored (R10); those who wait are told, and how many they are (R9).
-- ARGV: the order; per item '<random>:', fence retention (0: no fencing) and, with order fair, whose ticket ('': nobody's) is taken off
-- (number 0), or put there for so many ms as the key is deleted (back, as an attempt is undone; or of the next one at the same agent).
-- KEYS per item: lock key, fence key where the item fences, tickets with order fair (and tickets.lua in front).
-- Answers a list; no item can make another one fail.
local fair = ARGV[1] == 'fair'

local function release(key, fence, own, tickets, agent, number, ms)
    local held = get(key)
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end -- also where somebody else's attempt has the key
    if held == false then return -1 end
    if not held or string.sub(held, 1, 41) ~= own then return seen('held', key, held) end
    local stored = fence and stored_number(fence) or 0
    redis.call('DEL', key)
    if tickets then -- whatever is wrong with them, the key is deleted
        if agent and number > 0 then pcall(keep, tickets, agent, number, ms) end
        local well, first = pcall(line_of, tickets)
        tell(key, well and first)
        return stored
    end
    local channel, agents = channel_of(key)
    if agents > 0 then redis.pcall('PUBLISH', channel, agents) end
    return stored
end

local replies, at = {}, 1
for i = 2, #ARGV, fair and 5 or 2 do
    local key, fence, tickets, agent = KEYS[at], nil, nil, nil
    at = at + 1
    if ARGV[i + 1] ~= '0' then
        fence = KEYS[at]
        at = at + 1
    end
    if fair then
        tickets, agent = KEYS[at], ARGV[i + 2] ~= '' and ARGV[i + 2]
        at = at + 1
    end
    local well, entry = pcall(release, key, fence, ARGV[i], tickets, agent, tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]))
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[#replies + 1] = entry
end
return replies
