-- Takes locks that readers share, and numbers the grants (R17, R18, R19).
-- ARGV: per item entry with the proposed number, ttl, fence retention (0: no fencing), that number,
-- for how long it may be done (deadline.lua) and the agent's ticket: agent, number (0: it does not
-- wait), how long it is kept (0: not at all), 1 if no master has heard of it. Behind that come the
-- clock (deadline.lua) and, where the group is guarded, the vote that the agent knows (guard.lua).
-- KEYS: the lock keys of all items, the fence keys of those that fence, the tickets of all, vote
-- and marker where the group is guarded.
-- Answers a list, of one item that item's entry alone; no item can make another one fail. A refusal
-- also answers the number of the agent's ticket, the mode of those who have the key, and how many
-- of them read. All that can be refused is looked at before anything is written.
local size = 9
local count = (#ARGV - #ARGV % size) / size
local at = count + 1 -- where the vote is: behind locks, fences and tickets
for i = 3, size * count, size do
    if ARGV[i] ~= '0' then at = at + 1 end
end
at = at + count
local vote, marker, known, read = KEYS[at], KEYS[at + 1], ARGV[#ARGV], {}
if vote then read[at] = redis.pcall('MGET', vote)[1] end
local clock = ARGV[vote and #ARGV - 1 or #ARGV]
-- (deadline)
-- (guard)
local left = guard_left()

-- R19: a write's number rises, a read carries the last one. One up to the floor is not the last.
local function number_for(mode, fence, stored, proposed, retention)
    if mode == 'r' and stored > floor() then return stored end
    local number = number_of(stored, proposed)
    redis.call('SET', fence, number, 'PX', retention)
    return number
end

local function acquire(i, fence)
    local from, key = size * (i - 1), KEYS[i]
    local entry, ttl, retention = ARGV[from + 1], ARGV[from + 2], ARGV[from + 3]
    local proposed, tickets, agent = tonumber(ARGV[from + 4]), KEYS[at - count + i - 1],
        ARGV[from + 6]
    local number, ms, fresh = tonumber(ARGV[from + 7]), ARGV[from + 8], ARGV[from + 9]
    local mode = string.sub(entry, 1, 1)
    if left then return {'guarded', left} end
    local last, stored, turn, first = get(key), 0, nil, nil
    local mine = last and string.sub(last.entry, 1, 52) == string.sub(entry, 1, 52)
    if not mine and not has_room(last, mode) then
        turn, number = is_next(tickets, agent, number, fresh, mode)
        return kept(tickets, agent, number, ms, told('held', key, last), mode)
    end
    -- a doubled command: numbered then
    if mine then return fence and tonumber(number_in(last.entry)) or 0 end
    if behind and (behind < 0 or ARGV[from + 5] - behind <= 0) then return {'late', 0} end
    if fence then
        stored = stored_number(fence, proposed + ahead)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
    end
    turn, number, first = is_next(tickets, agent, number, fresh, mode)
    if not turn then
        local answer = last and told('held', key, last) or {'held', 0, '', 0, '', 0}
        answer[2] = first.left
        return kept(tickets, agent, number, ms, answer, mode)
    end
    local granted = fence and number_for(mode, fence, stored, proposed, retention) or 0
    entry = with_number(entry, granted)
    local refused = enter(key, entry, ttl, last)
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
