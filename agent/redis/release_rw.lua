-- Takes entries of locks that readers share out, where they are (R10, R17), and says which
-- number they have, if that was to be compared; those who wait are told when a writer left, or
-- the last reader (R18).
-- ARGV: per item entry, 1 if the holder asked for it (then it counts whichever agent owns it,
-- D3), the number that it must have ('' and '*': release.lua), and whose ticket ('': none)
-- is taken off (number 0), or put there for so many ms and with this mode: that of who waits first
-- at the agent.
-- KEYS: the lock keys of all items, the tickets of all, and the vote where a holder asked and the
-- group is guarded (release.lua). Answers a list, or 0 where that is what
-- all answer; no item can make another one fail.
local size = 7
local count = #ARGV / size
local vote = KEYS[2 * count + 1]

-- Whatever is wrong with the tickets, the entry is gone.
local function tell_next(key, tickets, agent, number, ms, mode, left)
    if agent and number > 0 then pcall(keep, tickets, agent, number, ms, mode) end
    local rest = get(key)
    if rest then redis.call('PEXPIREAT', key, rest.ends) end
    if rest and left == 'r' then return end
    local well, first = pcall(line_of, tickets)
    tell(key, well and first)
end

local function release(key, entry, asked, number_text, tickets, agent, number, ms, mode)
    local compared = tonumber(number_text)
    -- also where somebody else's attempt has the key
    if agent and number == 0 then redis.pcall('HDEL', tickets, agent) end
    local last, found = get(key), nil
    local guarded = is_guarded(number_text, vote)
    if last then found = find(key, last, entry) end
    if not found or not asked and not is_own(found, entry) then
        if guarded then return {'guarded', 0} end
        local here = last == false or last and last.mode == 'r'
        return here and -1 or told('held', key, last)
    end
    local there = compared and number_in(found)
    local wrong = compared and there ~= number_text
    if wrong then return {'misnumbered', tonumber(there or 0)} end
    redis.call('ZREM', key, found)
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
    tell_next(key, tickets, agent, number, ms, mode, string.sub(found, 1, 1))
    return guarded and {'guarded', 0} or compared or 0
end

local replies, done = {}, 0
for i = 1, count do
    local at = 1 + size * (i - 1)
    local well, entry = pcall(release, KEYS[i], ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2],
        KEYS[count + i], ARGV[at + 3] ~= '' and ARGV[at + 3], tonumber(ARGV[at + 4]),
        tonumber(ARGV[at + 5]), ARGV[at + 6])
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
    if entry == 0 then done = done + 1 end
end
return done == count and 0 or replies
