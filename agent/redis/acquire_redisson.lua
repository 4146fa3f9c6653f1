-- Takes locks of format redisson and numbers the grants (R1, R12, R22), or hands one from a
-- holder that releases it to the next (R9).
-- ARGV: per item value with the proposed number, ttl, fence retention (0: no fencing; -1: for
-- ever), that number, for how long it may be done (deadline.lua). Behind the one item of a
-- hand-over stands what the holder's value begins with. Behind that come the clock
-- (deadline.lua) and, where the group is guarded, the vote that the agent knows (guard.lua).
-- KEYS: the lock keys of all items, the fence keys of those that fence, vote and marker where
-- the group is guarded.
-- Answers a list, of one item that item's entry alone; no item can make another one fail. A
-- hand-over and a refusal also answer how many listen to the key's channel. All that can be
-- refused is looked at before anything is written, and the own field is no second entry: a
-- command may come twice.
local size = 5
local more = #ARGV % size
local count = (#ARGV - more) / size
local at = count + 1 -- where the vote is: behind locks and fences
for i = 3, size * count, size do
    if ARGV[i] ~= '0' then at = at + 1 end
end
local vote, marker, known, read = KEYS[at], KEYS[at + 1], ARGV[#ARGV], {}
local clock = ARGV[vote and #ARGV - 1 or #ARGV]
local previous = more > (vote and 2 or 1) and ARGV[size * count + 1]
-- (deadline)
if vote then read[at] = redis.pcall('MGET', vote)[1] end
-- (guard)
local left = guard_left()

local function refused(key, held)
    local answer = told('held', key, held)
    if held == nil then return answer end
    local _, agents = channel_of(key)
    return {answer[1], answer[2], answer[3], 0, '', 0, agents}
end

local function granted(key, number)
    if not previous then return number end
    local _, agents = channel_of(key)
    return {'handed', number, agents, left and math.max(left, 1) or 0}
end

local function acquire(i, fence)
    local from, key = size * (i - 1), KEYS[i]
    local value, ttl = ARGV[from + 1], ARGV[from + 2]
    local retention, proposed = tonumber(ARGV[from + 3]), tonumber(ARGV[from + 4])
    local held, number = get(key), 0
    local mine = held and string.sub(held, 1, 50) == string.sub(value, 1, 50)
    local inherits = previous and held and string.sub(held, 1, #previous) == previous
    if left and not inherits then return {'guarded', left} end
    if held ~= false and not mine and not inherits then return refused(key, held) end
    -- a doubled command: numbered then
    if mine then return granted(key, fence and tonumber(number_in(held)) or 0) end
    if behind and (behind < 0 or ARGV[from + 5] - behind <= 0) then return {'late', 0} end
    if fence then
        number = stored_number(fence, proposed + ahead)
        if not number then return {'spoiled', redis.call('PTTL', fence)} end
    end
    if fence then -- Java counts on without top and floor
        number = retention == -1 and math.max(number + 1, proposed) or number_of(number, proposed)
        store_number(fence, number, retention)
    end
    if inherits then redis.call('DEL', key) end
    return enter(key, with_number(value, number), ttl) or granted(key, number)
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
