-- Takes entries of locks that readers share out, where they are (R10, R17), and says which number
-- was stored, if that was to be compared; those who wait are told when a writer left, or the last
-- reader (R18).
-- ARGV: per item entry, 1 if the holder asked for it (then it counts whichever agent owns it, D3),
-- the number that must be stored ('': any), and whose ticket ('': nobody's) is taken off (number
-- 0), or put there for so many ms and with this mode: that of who waits first at the agent.
-- KEYS: the lock keys of all items, the fence keys of those with a number, and the tickets of all.
-- Answers a list, or 0 where that is what all answer; no item can make another one fail.
local size = 7
local count = #ARGV / size

-- Whatever is wrong with the tickets, the entry is gone.
local function tell_next(key, tickets, agent, number, ms, mode, left)
    if agent and number > 0 then pcall(keep, tickets, agent, number, ms, mode) end
    local rest = last_of(key)
    if rest then redis.call('PEXPIREAT', key, rest.ends) end
    if rest and left == 'r' then return end
    local well, first = pcall(line_of, tickets)
    tell(key, well and first)
end

local function release(key, entry, asked, fence, fencing_number, tickets, agent, number, ms, mode)
    -- also where somebody else's attempt has the key
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end
    local last, found, ends = last_of(key), nil, nil
    if last and asked then
        found, ends = find(key, entry)
    elseif last then -- who acts of itself has told the masters the name
        ends = end_of(key, entry)
        found = ends and entry
    end
    if not found then
        local here = last == false or last and last.mode == 'r'
        return here and -1 or told('held', key, last)
    end
    local stored = fence and stored_number(fence) or 0
    local wrong = fencing_number and (fencing_number == 0 or stored ~= fencing_number)
    if wrong then return {'misnumbered', stored} end
    redis.call('ZREM', key, found)
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
    tell_next(key, tickets, agent, number, ms, mode, string.sub(found, 1, 1))
    return stored
end

local replies, fences, done = {}, 0, 0
for i = 1, count do
    local at, fence = 1 + size * (i - 1), nil
    local fencing_number = tonumber(ARGV[at + 2])
    if fencing_number then
        fences = fences + 1
        fence = KEYS[count + fences]
    end
    local well, entry = pcall(release, KEYS[i], ARGV[at], ARGV[at + 1] == '1', fence,
        fencing_number, KEYS[#KEYS - count + i], ARGV[at + 3] ~= '' and ARGV[at + 3],
        tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]), ARGV[at + 6])
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
    if entry == 0 then done = done + 1 end
end
return done == count and 0 or replies
