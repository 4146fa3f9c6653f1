-- Second phase of fencing for locks that readers share: where the entry is, the stored number
-- becomes at least the one that was granted (R12, R19).
-- KEYS: lock key, fence key. ARGV: entry, number, fence retention.
local last = last_of(KEYS[1])
if not (last and end_of(KEYS[1], ARGV[1])) then
    local here = last == false or last and has_room(last, string.sub(ARGV[1], 1, 1))
    return here and -1 or told('held', KEYS[1], last)
end
-- (number)
