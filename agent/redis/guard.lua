-- What the scripts that take locks ask of the guard (D5.3). They say what `vote` and `marker` are,
-- and have read the vote into `read[at]`.

-- Who may have forgotten has no vote until whatever it forgot has run out. That time may have
-- passed, and no marker.lua come by since to write the vote.
local function guard_left()
    if not vote or read[at] then return false end
    local was = redis.pcall('HMGET', marker, 'since', 'max_ttl')
    local since, max_ttl = tonumber(was[1] or nil), tonumber(was[2] or nil)
    if not (since and max_ttl) then return -1 end
    local time = redis.call('TIME')
    local left = since + max_ttl + 1001 - (time[1] * 1000 + math.floor(time[2] / 1000))
    return left > 0 and left
end
