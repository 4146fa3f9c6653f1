-- Deletes locks of format redisson where the token is, and says which number it has, if that was
-- to be compared (R10); those who wait are told in Redisson's words (R22).
-- ARGV: per item what the value begins with, and the number that it must have ('' and '*':
-- release.lua).
-- KEYS: the lock keys of all items, and the vote where a holder asked and the group is guarded
-- (release.lua). Answers a list, or 0 where that is what all answer; no item
-- can make another one fail.
local count = #ARGV / 2
local vote = KEYS[count + 1]

-- Any other text than a number breaks the decoder of those who listen.
local function release(key, own, number_text)
    local held = get(key)
    local guarded = is_guarded(number_text, vote)
    if not held or string.sub(held, 1, #own) ~= own then
        return guarded and {'guarded', 0} or denied(key, held, own, find(key, held, own))
    end
    local compared = tonumber(number_text)
    local there = compared and number_in(held)
    local wrong = compared and there ~= number_text
    if wrong then return {'misnumbered', tonumber(there or 0)} end
    redis.call('DEL', key)
    local channel, agents = channel_of(key)
    if agents ~= 0 then redis.pcall('PUBLISH', channel, '0') end
    return guarded and {'guarded', 0} or compared or 0
end

local replies, done = {}, 0
for i = 1, count do
    local well, entry = pcall(release, KEYS[i], ARGV[2 * i - 1], ARGV[2 * i])
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
    if entry == 0 then done = done + 1 end
end
return done == count and 0 or replies
