-- Takes locks that readers share, and numbers the grants (R17, R18, R19).
-- ARGV: per item entry, ttl, fence retention (0: no fencing), proposed number and the agent's
-- ticket: agent, number (0: it does not wait), how long it is kept (0: not at all), 1 if no master
-- has heard of it.
-- KEYS: the lock keys of all items, the fence keys of those that fence, the tickets of all, vote
-- and marker where the group is guarded.
-- Answers a list, of one item that item's entry alone; no item can make another one fail. A refusal
-- also answers the number of the agent's ticket, the mode of those who have the key, and how many
-- of them read. All that can be refused is looked at before anything is written.
local size = 8
local count = #ARGV / size
local at = count + 1 -- where the vote is: behind locks, fences and tickets
for i = 3, #ARGV, size do
    if ARGV[i] ~= '0' then at = at + 1 end
end
at = at + count
local vote, marker, read = KEYS[at], KEYS[at + 1], {}
if vote then read[at] = redis.pcall('MGET', vote)[1] end
-- (guard)
local left = guard_left()

-- R19: a write's number rises, a read carries the last one.
local function number_for(mode, fence, stored, proposed, retention)
    if mode == 'r' and stored > 0 then return stored end
    local number = math.max(stored + 1, proposed)
    redis.call('SET', fence, number, 'PX', retention)
    return number
end

local function acquire(i, fence)
    local from, key = size * (i - 1), KEYS[i]
    local entry, ends, retention = ARGV[from + 1], now + ARGV[from + 2], ARGV[from + 3]
    local proposed, tickets, agent = tonumber(ARGV[from + 4]), KEYS[at - count + i - 1],
        ARGV[from + 5]
    local number, ms, fresh = tonumber(ARGV[from + 6]), ARGV[from + 7], ARGV[from + 8]
    local mode = string.sub(entry, 1, 1)
    if left then return {'guarded', left} end
    local last, stored, turn, first = last_of(key), 0, nil, nil
    local mine = last and end_of(key, entry)
    if not mine and not has_room(last, mode) then
        turn, number = is_next(tickets, agent, number, fresh, mode)
        return kept(tickets, agent, number, ms, told('held', key, last), mode)
    end
    if fence then
        stored = stored_number(fence, proposed + ahead)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
    end
    if mine then return stored end -- a doubled command: numbered then
    turn, number, first = is_next(tickets, agent, number, fresh, mode)
    if not turn then
        local answer = last and told('held', key, last) or {'held', 0, '', 0, '', 0}
        answer[2] = first.left
        return kept(tickets, agent, number, ms, answer, mode)
    end
    local granted = fence and number_for(mode, fence, stored, proposed, retention) or 0
    local refused = enter(key, entry, ends, last)
    if refused then return refused end
    if fence then redis.pcall('PEXPIRE', fence, retention, 'GT') end
    if ms ~= '0' then redis.pcall('HDEL', tickets, agent) end
    return granted
end

local replies, fences = {}, count
for i = 1, count do
    local fence = nil
    if ARGV[size * i - size + 3] ~= '0' then
        fences = fences + 1
        fence = KEYS[fences]
    end
    local well, entry = pcall(acquire, i, fence)
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
end
return count == 1 and replies[1] or replies
