-- Raises numbers in the second phase of fencing. If the token is found, its number becomes the one
-- that was granted, and the stored number becomes at least that (R12, R19).
-- KEYS: lock key, fence key, and the marker if the group is guarded. ARGV: value, number, fence
-- retention.
-- (top)
local held = get(KEYS[1])
local found, ends = find(KEYS[1], held, ARGV[1])
if not found or not is_own(found, ARGV[1]) then
    return denied(KEYS[1], held, mode_of(ARGV[1]), found, ends)
end
local number, retention = tonumber(ARGV[2]), tonumber(ARGV[3])
local stored = stored_number(KEYS[2], number + ahead)
if not stored then return {'spoiled', redis.call('PTTL', KEYS[2])} end
if stored < number then
    if KEYS[3] and retention ~= -1 then lift(KEYS[3], number) end -- Java's counter has no top
    store_number(KEYS[2], number, retention)
end
set_right(KEYS[1], found, ARGV[1], ends)
return math.max(stored, number)
