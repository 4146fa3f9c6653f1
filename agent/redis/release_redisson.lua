-- Deletes locks of format redisson where the token is, and says which number was stored, if that
-- was to be compared (R10); those who wait are told in Redisson's words (R22).
-- ARGV: per item what the value begins with, and the number that must be stored ('': any).
-- KEYS: the lock keys of all items, and the fence keys of those with a number. Answers a list, or 0
-- where that is what all answer; no item can make another one fail.
local count = #ARGV / 2

-- Any other text than a number breaks the decoder of those who listen.
local function release(key, own, fence, fencing_number)
    local held = get(key)
    if not held or string.sub(held, 1, #own) ~= own then return denied(key, held, own) end
    local stored = fence and stored_number(fence) or 0
    local wrong = fencing_number and (fencing_number == 0 or stored ~= fencing_number)
    if wrong then return {'misnumbered', stored} end
    redis.call('DEL', key)
    local channel, agents = channel_of(key)
    if agents ~= 0 then redis.pcall('PUBLISH', channel, '0') end
    return stored
end

local replies, fences, done = {}, count, 0
for i = 1, count do
    local fence, fencing_number = nil, tonumber(ARGV[2 * i])
    if fencing_number then
        fences = fences + 1
        fence = KEYS[fences]
    end
    local well, entry = pcall(release, KEYS[i], ARGV[2 * i - 1], fence, fencing_number)
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
    if entry == 0 then done = done + 1 end
end
return done == count and 0 or replies
