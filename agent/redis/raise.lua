-- Second phase of fencing: where the token is, the stored number becomes at least the one that was
-- granted (R12).
-- KEYS: lock key, fence key. ARGV: '<random>:<agent>:', number, fence retention.
local held = get(KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then
    return denied(KEYS[1], held, ARGV[1])
end
local number, retention = tonumber(ARGV[2]), tonumber(ARGV[3])
local stored = stored_number(KEYS[2], number + ahead)
local left = redis.call('PTTL', KEYS[2])
if not stored then return {'spoiled', left} end
if stored >= number then return stored end
if left == -1 then
    redis.call('SET', KEYS[2], number)
else
    redis.call('SET', KEYS[2], number, 'PX', math.max(left, retention))
end
return number
