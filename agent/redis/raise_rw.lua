-- Second phase of fencing for locks that readers share: where the entry is, its number becomes the
-- one that was granted, and the stored one at least that (R12, R19).
-- KEYS: lock key, fence key, and the marker where the group is guarded. ARGV: entry, number, fence
-- retention.
local last, found, ends = get(KEYS[1]), nil, nil
found, ends = find(KEYS[1], last, ARGV[1])
if not found or not is_own(found, ARGV[1]) then
    local here = last == false or last and has_room(last, string.sub(ARGV[1], 1, 1))
    return here and -1 or told('held', KEYS[1], last)
end
local function set_right()
    if found == ARGV[1] then return end
    redis.call('ZADD', KEYS[1], ends, ARGV[1])
    redis.call('ZREM', KEYS[1], found)
end
-- (number)
