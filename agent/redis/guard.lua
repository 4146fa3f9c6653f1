-- What the scripts that take locks ask of the guard (D5.3). They have named the keys `vote` and
-- `marker` (nil where the group is not guarded), have read the vote into `read[at]`, and say what
-- the agent knows of it in `known`: the vote itself if all its proposals are above the floor and up
-- to the top, the same with '!' in front if one is not, '' if it knows none.

-- (top)
-- Until when this master has no vote, in ms: false where it has one, -1 where that is not known. A
-- vote that is not the one the agent knows is of another run, another epoch or other data, so the
-- agent must look at the marker first.
local function guard_left()
    local stands = vote and read[at]
    local same = stands and string.sub(stands, 2) == string.sub(known, 2)
    if not vote or same and not has_followed(stands) then return false end
    local was = stands and {} or redis.pcall('HMGET', marker, 'since', 'max_ttl')
    local since, max_ttl = tonumber(was[1] or nil), tonumber(was[2] or nil)
    if not (since and max_ttl) then return -1 end
    local time = redis.call('TIME')
    local left = since + max_ttl + 1001 - (time[1] * 1000 + math.floor(time[2] / 1000))
    return left > 0 and left or -1
end

-- What was granted before this master forgot is not above the floor, whatever is stored here. A
-- holder hands over without a vote as well, so then the marker tells it.
local function floor()
    if not vote then return 0 end
    local stands = read[at] and string.match(read[at], ':(%d+)$')
    return tonumber(stands or redis.call('HGET', marker, 'floor') or nil) or 0
end

-- The number that is granted (R12), from the stored one (nil: it is below the proposed one). A
-- number above the top is not stored before the top has been lifted.
local function number_of(stored, proposed)
    local number = math.max(stored and stored + 1 or 0, tonumber(proposed))
    if not vote or read[at] == known and number == tonumber(proposed) then return number end
    number = math.max(number, floor() + 1)
    lift(marker, number)
    return number
end
