-- The second phase of fencing, where the token is (R12): the number in KEYS[2] becomes at least
-- ARGV[2], and then set_right() sets that of the token. KEYS[3] is the marker, where the group is
-- guarded.

-- (top)
local number, retention = tonumber(ARGV[2]), tonumber(ARGV[3])
local stored = stored_number(KEYS[2], number + ahead)
local left = redis.call('PTTL', KEYS[2])
if not stored then return {'spoiled', left} end
if stored >= number then
    set_right()
    return stored
end
if KEYS[3] and retention ~= -1 then lift(KEYS[3], number) end -- Java's counter has no top
if left == -1 or retention == -1 then
    redis.call('SET', KEYS[2], number)
else
    redis.call('SET', KEYS[2], number, 'PX', math.max(left, retention))
end
set_right()
return number
