-- Deletes locks where the token is, and says which number was stored (R10); those who wait are told, and how many they are (R9).
-- ARGV per item: '<random>:', fence retention (0: no fencing). KEYS per item: lock key, fence key where the item fences.
-- Answers a list; no item can make another one fail.
local function release(key, fence, own)
    local held = get(key)
    if held == false then return -1 end
    if not held or string.sub(held, 1, 41) ~= own then return seen('held', key, held) end
    local number = fence and stored_number(fence) or 0
    redis.call('DEL', key)
    local channel, agents = channel_of(key)
    if agents > 0 then redis.pcall('PUBLISH', channel, agents) end
    return number
end

local replies, at = {}, 1
for i = 1, #ARGV, 2 do
    local key, fence = KEYS[at], nil
    at = at + 1
    if ARGV[i + 1] ~= '0' then
        fence = KEYS[at]
        at = at + 1
    end
    local well, entry = pcall(release, key, fence, ARGV[i])
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[#replies + 1] = entry
end
return replies
