-- Takes locks and numbers the grants (R1, R12, R19). A hand-over passes one lock from a holder that
-- releases it to the next holder (R9).
-- ARGV, for each item:
--   the value, with the proposed number
--   ttl
--   the proposed number (0: no fencing)
--   for how long the item may be done (deadline.lua). With a minus the key is not created: native
--   commands of this attempt had set it (R24), so it has been deleted since
--   with order fair the ticket: agent, number (0: it does not wait), how long it is kept (0: not at
--   all), and 1 if no master has stored it yet
--   for a slot of a semaphore the number of slots
-- Then come, for the one item of a hand-over, the first bytes of the holder's value; the clock
-- (deadline.lua); and, if the group is guarded, the vote that the agent knows (guard.lua).
-- KEYS: the lock keys of all items, the tickets of all with order fair, vote and marker if the
-- group is guarded, and the keys of the numbers of those that fence.
-- Answers a list, or the entry alone if there is one item. No item can make another one fail. A
-- hand-over also answers how many agents wait for the key, and whether it has found the holder's
-- value and deleted it (`left`: for a waiter of another agent). A refusal also answers the number
-- of the agent's ticket (order fair), or which slots of a semaphore are taken (R20). The number is
-- stored first, so a key of a number that has another type fails before the lock is touched.
local fair, strings = form == 'fair' or form == 'shared', form ~= 'shared' and form ~= 'redisson'
local size = fair and 8 or form == 'slots' and 5 or 4
local more = #ARGV % size
local count = (#ARGV - more) / size
local at = (fair and 2 * count or count) + 1 -- index of the vote: after locks and tickets
local vote, marker = KEYS[at] == 'lockagent:votes' and KEYS[at], KEYS[at + 1]
local fence = vote and at + 1 or at - 1 -- before the keys of the numbers
local known = vote and ARGV[#ARGV]
local clock = ARGV[vote and #ARGV - 1 or #ARGV]
local previous = more > (vote and 2 or 1) and ARGV[size * count + 1]
-- (deadline)
-- A key of another type reads as missing. If the master refuses to read, all keys do: then nothing
-- is known of the stored values.
local ask, read = redis.pcall, {}
if strings then
    read = (vote or count > 1) and ask('MGET', unpack(KEYS, 1, vote and at or count)) or read
elseif vote then
    read[at] = ask('MGET', vote)[1]
end
local replies = {}

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
-- A hand-over is a release as well (D3.4). An agent whose group is closed knows no vote.
local no_vote = previous and left
    and (known ~= '' or not read[at] or has_followed(read[at]))

-- Returns the answer to a granted item. A master without a vote says so in a hand-over: then the
-- token may come back there (D3).
local function granted(key, number, inherits)
    if not previous then return number end
    local _, agents = channel_of(key)
    return {'handed', number, agents, no_vote and math.max(left, 1) or 0, inherits and 1 or 0}
end

-- Takes the lock of item i, and returns its entry. `fence` is the key of its number (nil: no
-- fencing). If it is too late, nothing is done: a hand-over then does not delete the holder's key
-- either.
local function acquire(i, fence)
    local from, key = size * (i - 1), KEYS[i]
    local value, proposed = ARGV[from + 1], ARGV[from + 3]
    local mode = form == 'shared' and string.sub(value, 1, 1) or ''
    local tickets, agent, ms = fair and KEYS[count + i], ARGV[from + 5], ARGV[from + 7]
    local stored, turn, ticket, first = nil, nil, nil, nil
    local held = read[i] or get(key)
    -- Of several entries this is the one that ends last.
    local last = type(held) == 'table' and held.entry or held
    local mine = last and string.sub(last, 1, front + 50) == string.sub(value, 1, front + 50)
    local inherits = previous and held and string.sub(held, 1, #previous) == previous
    if left and not inherits then return {'guarded', left} end
    if not mine and not inherits and not has_room(held, mode) then
        local answer = told('held', key, held)
        if form == 'slots' then return with_slots(key, ARGV[from + 5], answer) end
        if not fair then return answer end
        turn, ticket = is_next(tickets, agent, tonumber(ARGV[from + 6]), ARGV[from + 8], mode)
        return kept(tickets, agent, ticket, ms, answer, mode)
    end
    -- Native commands of this attempt may have set the key (R24): then it gets a number anew.
    -- Otherwise the command came twice, and the first one set the number.
    local anew = mine and strings and not fair and not previous
    if mine and not anew then return granted(key, fence and number_in(last) or 0) end
    local ms_left = ARGV[from + 4]
    if anew then
        ms_left = math.abs(ms_left)
    elseif not behind and string.sub(ms_left, 1, 1) == '-' then
        return {'late', 0}
    end
    if behind and (behind < 0 or ms_left - behind <= 0) then return {'late', 0} end
    if fence then
        stored = stored_number(fence, tonumber(proposed) + ahead)
        if not stored then return {'spoiled', -1} end
    end
    if fair then
        turn, ticket, first = is_next(tickets, agent, tonumber(ARGV[from + 6]), ARGV[from + 8],
            mode)
        if not turn then
            if inherits then
                redis.call('DEL', key)
                tell(key, first)
            end
            if inherits and no_vote then return {'guarded', left} end
            local answer = held and not inherits and told('held', key, held) or
                {inherits and 'left' or 'held', 0, ''}
            answer[2] = first.left
            return kept(tickets, agent, ticket, ms, answer, mode)
        end
    end
    local number = 0
    -- R19: a write gets a higher number. A read gets the last one, which is above the floor.
    if fence and mode == 'r' and stored > floor() then
        number = stored
    elseif fence then -- a counter of Java has neither floor nor top (R22)
        number = is_counter(fence) and math.max(stored + 1, tonumber(proposed))
            or number_of(stored, proposed)
        store_number(fence, number)
    end
    if anew then
        prolong(key, held, ARGV[from + 2]) -- the end that they named may be too early
        rename(key, held, with_number(value, number))
        return granted(key, number)
    end
    local refused = enter(key, with_number(value, number), ARGV[from + 2], held)
    if refused then return refused end
    if fair and ms ~= '0' then redis.pcall('HDEL', tickets, agent) end -- it ends by itself
    return granted(key, number, inherits)
end

for i = 1, count do
    local fenced = ARGV[size * i - size + 3] ~= '0'
    if fenced then fence = fence + 1 end
    local well, entry = pcall(acquire, i, fenced and KEYS[fence] or nil)
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[i] = entry
end
return count == 1 and replies[1] or replies
