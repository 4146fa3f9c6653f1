-- Second phase of fencing: where the token is, its number becomes the one that was granted, and the
-- stored one at least that (R12).
-- KEYS: lock key, fence key, and the marker where the group is guarded. ARGV: value, number, fence
-- retention.
local held, own = get(KEYS[1]), string.sub(ARGV[1], 1, 50)
if not held or string.sub(held, 1, 50) ~= own then
    return denied(KEYS[1], held, own, find(KEYS[1], held, own))
end
local function set_right()
    rename(KEYS[1], held, own .. ARGV[2] .. ':' .. label_of(held))
end
-- (number)
