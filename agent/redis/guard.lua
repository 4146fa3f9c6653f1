-- The guard's part of the scripts that take locks (D5.3). These scripts set `vote` and `marker` to
-- the keys (nil if the group is not guarded), and `read[at]` to the stored vote. They set `known`
-- to the vote that the agent knows: '' if it knows none. The vote has '!' in place of its first
-- character unless all proposals of the agent are above the floor and up to the top.

-- (top)
-- Returns for how many ms this master has no vote: false if it has one, -1 if that is not known. A
-- vote that differs from the agent's is of another run, another epoch or other data, so the agent
-- must look at the marker first.
local function guard_left()
    local stored_vote = vote and read[at]
    local same = stored_vote and known ~= '' and string.sub(stored_vote, 2) == string.sub(known, 2)
    if not vote or same and not has_followed(stored_vote) then return false end
    local was = stored_vote and {} or redis.pcall('HMGET', marker, 'since', 'max_ttl')
    local since, max_ttl = tonumber(was[1] or nil), tonumber(was[2] or nil)
    if not (since and max_ttl) then return -1 end
    local time = redis.call('TIME')
    local left = since + max_ttl + 1001 - (time[1] * 1000 + math.floor(time[2] / 1000))
    return left > 0 and left or -1
end

-- Returns the floor. No number that was granted before this master forgot its data is above it. A
-- hand-over also happens on a master without a vote, so the floor is then read from the marker.
local function floor()
    if not vote then return 0 end
    local stored_floor = read[at] and string.match(read[at], ':(%d+)$')
    return tonumber(stored_floor or redis.call('HGET', marker, 'floor') or nil) or 0
end

-- Returns the number that is granted (R12). The top is lifted before a number above it is stored.
local function number_of(stored, proposed)
    local number = math.max(stored + 1, tonumber(proposed))
    if not vote or read[at] == known and number == tonumber(proposed) then return number end
    number = math.max(number, floor() + 1)
    lift(marker, number)
    return number
end
