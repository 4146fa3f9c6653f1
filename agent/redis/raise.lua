-- Raises numbers in the second phase of fencing. If the token is found, its number becomes the one
-- that was granted, and the stored number becomes at least that (R12, R19).
-- KEYS: the lock key, the marker if the group is guarded, and the key of the number. ARGV: value,
-- number.
-- (top)
local held = get(KEYS[1])
local found, ends = find(KEYS[1], held, ARGV[1])
if not found or not is_own(found, ARGV[1]) then
    return denied(KEYS[1], held, mode_of(ARGV[1]), found, ends)
end
local key, marker, number = KEYS[#KEYS], KEYS[3] and KEYS[2], tonumber(ARGV[2])
local stored = stored_number(key, number + ahead)
if not stored then return {'spoiled', -1} end
if stored < number then
    if marker and not is_counter(key) then lift(marker, number) end -- a counter has no top
    store_number(key, number)
end
set_right(KEYS[1], found, ARGV[1], ends)
return math.max(stored, number)
