-- Takes one lock and numbers the grant (R1, R12), or hands it from a holder that releases it to the next (R9).
-- KEYS: lock key, fence key where the policy fences, tickets with order fair, marker where the group is guarded.
-- ARGV: value, ttl, fence retention (0: no fencing), proposed number, and for a hand-over '<random>:' of the holder; with order fair that or '',
-- and the agent's ticket: agent, number (0: it does not wait), how long it is kept (0: not at all), 1 if no master has heard of it.
-- A hand-over also answers how many agents wait for the key; a refusal, with order fair, the number of the agent's ticket.
-- With order fair tickets.lua stands in front. The fence key is read first, so that whatever is wrong with it fails before anything is written.
local function guard_left(marker)
    local was = redis.pcall('HMGET', marker, 'since', 'max_ttl')
    local since, max_ttl = tonumber(was[1] or nil), tonumber(was[2] or nil)
    if not (since and max_ttl) then return -1 end
    local time = redis.call('TIME')
    local left = since + max_ttl + 1001 - (time[1] * 1000 + math.floor(time[2] / 1000))
    return left > 0 and left
end

local value, retention, previous, agent = ARGV[1], tonumber(ARGV[3]), ARGV[5] ~= '' and ARGV[5], ARGV[6]
local at, tickets, turn, number, first = retention > 0 and 3 or 2
if agent then tickets, at = KEYS[at], at + 1 end
local marker = KEYS[at]
local held = previous and get(KEYS[1])
local inherits = held and string.sub(held, 1, 41) == previous

local function granted(number)
    if not previous then return number end
    local _, agents = channel_of(KEYS[1])
    return {'handed', number, agents}
end

if marker and not inherits then -- D5.3: who may have forgotten has no vote until whatever it forgot has run out
    local left = guard_left(marker)
    if left then return {'guarded', left} end
end
local stored = 0
if retention > 0 then
    stored = stored_number(KEYS[2])
    if not stored then return {'foreign', redis.call('PTTL', KEYS[2])} end
end
if agent then turn, number, first = is_next(tickets, agent, tonumber(ARGV[7]), ARGV[9]) end
if agent and not turn and (inherits or get(KEYS[1]) == false) then
    if inherits then
        redis.call('DEL', KEYS[1])
        tell(KEYS[1], first)
    end
    return kept(tickets, agent, number, {'held', first.left, ''})
end
if inherits then
    redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
elseif not redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[2]) then
    held = get(KEYS[1])
    if held == value then return granted(stored) end -- a doubled command: granted before, and numbered then
    local answer = seen('held', KEYS[1], held or nil)
    return agent and kept(tickets, agent, number, answer) or answer
end
if agent then redis.call('HDEL', tickets, agent) end
if retention == 0 then return granted(0) end
local fence = math.max(stored + 1, tonumber(ARGV[4]))
local set = redis.pcall('SET', KEYS[2], fence, 'PX', retention)
if set.err then -- an error must mean that nothing was done
    redis.call('DEL', KEYS[1])
    return set
end
return granted(fence)
