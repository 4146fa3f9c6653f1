-- Takes locks and numbers the grants (R1, R12, R19), or hands one from a holder that releases it to
-- the next (R9).
-- ARGV: per item value with the proposed number, ttl, fence retention (0: no fencing; -1: for
-- ever), that number, for how long it may be done (deadline.lua) and, with order fair, the ticket:
-- agent, number (0: it does not wait), how long it is kept (0: not at all), 1 if no master has
-- heard of it; for a slot of a semaphore how many there are. Behind the one item of a hand-over
-- stands what the holder's value begins with. Behind that come the clock (deadline.lua) and,
-- where the group is guarded, the vote that the agent knows (guard.lua).
-- KEYS: the lock keys of all items, the fence keys of those that fence, the tickets of all with
-- order fair, vote and marker where the group is guarded.
-- Answers a list, of one item that item's entry alone; no item can make another one fail. A
-- hand-over also answers how many agents wait for the key; a refusal, with order fair, the
-- number of the agent's ticket; of a semaphore, which slots are taken (R20). A fence key is written
-- first, so that whatever is wrong with it fails before the lock is touched.
local fair, strings = form == 'fair' or form == 'shared', form ~= 'shared' and form ~= 'redisson'
local size = fair and 9 or form == 'slots' and 6 or 5
local more = #ARGV % size
local count = (#ARGV - more) / size
local at = count + 1 -- where the vote is: behind locks, fences and tickets
for i = 3, size * count, size do
    if ARGV[i] ~= '0' then at = at + 1 end
end
if fair then at = at + count end
local vote, marker = KEYS[at], KEYS[at + 1]
local known = vote and ARGV[#ARGV]
local clock = ARGV[vote and #ARGV - 1 or #ARGV]
local previous = more > (vote and 2 or 1) and ARGV[size * count + 1]
-- (deadline)
-- What is of another type is as missing, and so is all of it where reading is refused: then nothing
-- is known of what is stored.
local ask, read = redis.pcall, {}
if strings then
    read = KEYS[2] and ask('MGET', unpack(KEYS, 1, vote and at)) or read
elseif vote then
    read[at] = ask('MGET', vote)[1]
end
local usual = strings and not (fair or previous or read.err)
    and (not vote or read[at] == known and string.byte(known) ~= 64) -- '@': guard.lua

-- The usual case: a free key, on a master that votes as the agent knows. Of the others it is noted
-- whether the stored number is below the proposed one, compared as texts: a double of so many
-- digits takes a master as long as a write.
local replies, done, fences = nil, 0, count
for i = 1, count do
    local from = size * (i - 1)
    local retention, proposed = ARGV[from + 3], ARGV[from + 4]
    local late = behind and (behind < 0 or ARGV[from + 5] - behind <= 0)
    local well, fenced, lower = usual and not read[i] and not late, retention ~= '0', false
    if fenced then
        fences = fences + 1
        local stored = (fair or previous or not read[i]) and read[fences]
        lower = stored and (#stored < #proposed or #stored == #proposed and stored < proposed)
            and string.find(stored, '^[1-9]%d*$') == 1
        if well and lower then
            well = ask('SET', KEYS[fences], proposed, 'PX', retention).ok
        elseif well then -- GET refuses what is of another type
            well = not stored and not ask('SET', KEYS[fences], proposed, 'PX', retention, 'GET')
        end
    end
    local set = well and ask('SET', KEYS[i], ARGV[from + 1], 'NX', 'PX', ARGV[from + 2])
    if set and set.ok and count == 1 then return fenced and proposed or 0 end
    replies = replies or {}
    if set and set.ok then
        replies[i], done = fenced and proposed or 0, done + 1
    else
        replies[i] = lower or false
    end
end
if done == count then return replies end

-- (common)
-- (guard)
-- R20: a refusal says which slots of the key are taken, one character each, and for how long the
-- first of them to run out still is. Their names are made here: an attempt that is granted names
-- no other slot.
local function with_slots(key, permits, answer)
    local own, taken, least = string.match(key, '^lockagent:slot:%d+(:.*)$'), {}, -1
    for i = 1, permits do
        local ms = redis.pcall('PTTL', 'lockagent:slot:' .. i - 1 .. own)
        taken[i] = ms == -2 and 0 or 1
        if type(ms) == 'number' and ms >= 0 and (least < 0 or ms < least) then least = ms end
    end
    return {answer[1], least, answer[3] or '', table.concat(taken)}
end

local left = guard_left()

-- A master without a vote says so as it hands over: then the token may come back there (D3).
local function granted(key, number)
    if not previous then return number end
    local _, agents = channel_of(key)
    return {'handed', number, agents, left and math.max(left, 1) or 0}
end

-- `fence`: which key that is; `lower`: what is stored there is below the proposed number. Where it
-- is too late nothing is done: neither is the key of a holder taken off that is to be handed over.
local function acquire(i, fence, lower)
    local from, key = size * (i - 1), KEYS[i]
    local value, proposed = ARGV[from + 1], ARGV[from + 4]
    local mode = form == 'shared' and string.sub(value, 1, 1) or ''
    local tickets, agent, ms = fair and KEYS[at - count + i - 1], ARGV[from + 6], ARGV[from + 8]
    local stored, turn, ticket, first = nil, nil, nil, nil
    local held = read[i] or get(key)
    local last = type(held) == 'table' and held.entry or held -- of entries that which ends last
    local mine = last and string.sub(last, 1, front + 50) == string.sub(value, 1, front + 50)
    local inherits = previous and held and string.sub(held, 1, #previous) == previous
    if left and not inherits then return {'guarded', left} end
    if not mine and not inherits and not has_room(held, mode) then
        local answer = told('held', key, held)
        if form == 'slots' then return with_slots(key, ARGV[from + 6], answer) end
        if not fair then return answer end
        turn, ticket = is_next(tickets, agent, tonumber(ARGV[from + 7]), ARGV[from + 9], mode)
        return kept(tickets, agent, ticket, ms, answer, mode)
    end
    -- a doubled command: numbered then
    if mine then return granted(key, fence and number_in(last) or 0) end
    if behind and (behind < 0 or ARGV[from + 5] - behind <= 0) then return {'late', 0} end
    if fence and not lower then
        stored = stored_number(KEYS[fence], tonumber(proposed) + ahead, read[fence])
        if not stored then return {'spoiled', redis.call('PTTL', KEYS[fence])} end
    end
    if fair then
        turn, ticket, first = is_next(tickets, agent, tonumber(ARGV[from + 7]), ARGV[from + 9],
            mode)
        if not turn then
            if inherits then
                redis.call('DEL', key)
                tell(key, first)
            end
            if inherits and left then return {'guarded', left} end
            local answer = held and not inherits and told('held', key, held) or {'held', 0, ''}
            answer[2] = first.left
            return kept(tickets, agent, ticket, ms, answer, mode)
        end
    end
    local number, retention = 0, ARGV[from + 3]
    -- R19: a write's number rises, a read carries the last one, which is above the floor.
    if fence and mode == 'r' and stored > floor() then
        number = stored
    elseif fence and retention == '-1' then -- Java counts on without top and floor (R22)
        number = math.max(stored + 1, tonumber(proposed))
        redis.call('SET', KEYS[fence], number)
    elseif fence then
        number = number_of(stored, proposed)
        redis.call('SET', KEYS[fence], number, 'PX', retention)
    end
    local refused = enter(key, with_number(value, number), ARGV[from + 2], held)
    if refused then return refused end
    -- behind the entry, which a master out of memory does not refuse behind any write
    if fence and mode == 'r' then redis.pcall('PEXPIRE', KEYS[fence], retention, 'GT') end
    if fair and ms ~= '0' then redis.call('HDEL', tickets, agent) end
    return granted(key, number)
end

fences = count
for i = 1, count do
    local fence, lower = nil, replies[i]
    if ARGV[size * i - size + 3] ~= '0' then
        fences = fences + 1
        fence = fences
    end
    if type(lower) == 'boolean' then
        local well, entry = pcall(acquire, i, fence, lower)
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        replies[i] = entry
    end
end
return count == 1 and replies[1] or replies
