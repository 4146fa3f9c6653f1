-- Second phase of fencing: where the token is, the stored number becomes at least the one that was
-- granted (R12).
-- KEYS: lock key, fence key. ARGV: '<random>:<agent>:', number, fence retention.
local held = get(KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then
    return denied(KEYS[1], held, ARGV[1])
end
-- (number)
