-- Deletes locks where the token is, and says which number was stored (R10); those who wait are told, and how many they are (R9).
-- ARGV per item: '<random>:', fence retention (0: no fencing); before them, with order fair, the agent whose ticket is taken off (or '').
-- KEYS per item: lock key, fence key where the item fences, tickets with order fair (and tickets.lua in front).
-- Answers a list; no item can make another one fail.
local agent, from = ARGV[1], 2
if #ARGV % 2 == 0 then agent, from = nil, 1 end

local function release(key, fence, tickets, own)
    local held = get(key)
    if tickets and agent ~= '' then redis.pcall('HDEL', tickets, agent) end -- also where somebody else's attempt has the key
    if held == false then return -1 end
    if not held or string.sub(held, 1, 41) ~= own then return seen('held', key, held) end
    local number = fence and stored_number(fence) or 0
    redis.call('DEL', key)
    if tickets then -- whatever is wrong with them, the key is deleted
        local well, first = pcall(line_of, tickets, agent)
        tell(key, well and first)
        return number
    end
    local channel, agents = channel_of(key)
    if agents > 0 then redis.pcall('PUBLISH', channel, agents) end
    return number
end

local replies, at = {}, 1
for i = from, #ARGV, 2 do
    local key, fence, tickets = KEYS[at], nil, nil
    at = at + 1
    if ARGV[i + 1] ~= '0' then
        fence = KEYS[at]
        at = at + 1
    end
    if agent then
        tickets = KEYS[at]
        at = at + 1
    end
    local well, entry = pcall(release, key, fence, tickets, ARGV[i])
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[#replies + 1] = entry
end
return replies
