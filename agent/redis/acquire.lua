-- Takes locks and numbers the grants (R1, R12, R19). A hand-over passes one lock from a holder that
-- releases it to the next holder (R9).
-- ARGV, for each item:
--   the value, with the proposed number
--   ttl
--   fence retention (0: no fencing; -1: forever)
--   the proposed number
--   for how long the item may be done (deadline.lua)
--   with order fair the ticket: agent, number (0: it does not wait), how long it is kept (0: not at
--   all), and 1 if no master has stored it yet
--   for a slot of a semaphore the number of slots
-- Then come, for the one item of a hand-over, the first bytes of the holder's value; the clock
-- (deadline.lua); and, if the group is guarded, the vote that the agent knows (guard.lua).
-- KEYS: the lock keys of all items, the fence keys of those that fence, the tickets of all with
-- order fair, and vote and marker if the group is guarded.
-- Answers a list, or the entry alone if there is one item. No item can make another one fail. A
-- hand-over also answers how many agents wait for the key. A refusal also answers the number of
-- the agent's ticket (order fair), or which slots of a semaphore are taken (R20). A fence key is
-- written first, so an invalid fence key fails before the lock is touched.
local fair, strings = form == 'fair' or form == 'shared', form ~= 'shared' and form ~= 'redisson'
local size = fair and 9 or form == 'slots' and 6 or 5
local more = #ARGV % size
local count = (#ARGV - more) / size
local at = count + 1 -- index of the vote: after locks, fences and tickets
for i = 3, size * count, size do
    if ARGV[i] ~= '0' then at = at + 1 end
end
if fair then at = at + count end
local vote, marker = KEYS[at], KEYS[at + 1]
local known = vote and ARGV[#ARGV]
local clock = ARGV[vote and #ARGV - 1 or #ARGV]
local previous = more > (vote and 2 or 1) and ARGV[size * count + 1]
-- (deadline)
-- A key of another type reads as missing. If the master refuses to read, all keys do: then nothing
-- is known of the stored values.
local ask, read = redis.pcall, {}
if strings then
    read = KEYS[2] and ask('MGET', unpack(KEYS, 1, vote and at)) or read
elseif vote then
    read[at] = ask('MGET', vote)[1]
end
local usual = strings and not (fair or previous or read.err)
    and (not vote or read[at] == known and string.byte(known) ~= 64) -- '@': guard.lua

-- The usual case: a free key, on a master whose vote is the one that the agent knows. For other
-- items the loop notes whether the stored number is below the proposed one. It compares texts: a
-- double of so many digits takes a master as long as a write.
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
        elseif well then -- GET refuses a key of another type
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
-- Adds to a refusal which slots of the key are taken, one character each, and how many ms the first
-- of them to expire has left (R20). The names of the slots are made here, because an attempt that
-- is granted needs no other slot.
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

-- Returns the answer to a granted item. A master without a vote says so in a hand-over: then the
-- token may come back there (D3).
local function granted(key, number)
    if not previous then return number end
    local _, agents = channel_of(key)
    return {'handed', number, agents, left and math.max(left, 1) or 0}
end

-- Takes the lock of item i, and returns its entry. `fence` is the index of its fence key (nil: no
-- fencing). `lower` is true if the stored number is below the proposed one. If it is too late,
-- nothing is done: a hand-over then does not delete the holder's key either.
local function acquire(i, fence, lower)
    local from, key = size * (i - 1), KEYS[i]
    local value, proposed = ARGV[from + 1], ARGV[from + 4]
    local mode = form == 'shared' and string.sub(value, 1, 1) or ''
    local tickets, agent, ms = fair and KEYS[at - count + i - 1], ARGV[from + 6], ARGV[from + 8]
    local stored, turn, ticket, first = nil, nil, nil, nil
    local held = read[i] or get(key)
    -- Of several entries this is the one that ends last.
    local last = type(held) == 'table' and held.entry or held
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
    -- The command came twice: the first one set the number.
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
    -- R19: a write gets a higher number. A read gets the last one, which is above the floor.
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
    -- This comes after the entry: a master out of memory refuses nothing after the first write.
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
