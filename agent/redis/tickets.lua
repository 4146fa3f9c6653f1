-- The part of the scripts of order fair, after the common part (R9). Tickets are a hash: agent ->
-- '<number>:<until, ms of TIME>'. A lock that readers share has '<number>:<until>:<mode>', and the
-- mode is r or w (R18).

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Returns whether an agent is served before another one: by number, then by the agent's name.
local function is_before(number, agent, other)
    return number < other.number or number == other.number and agent < other.agent
end

-- Agents keep a ticket for 3 s at a time. A ticket that lasts for more than twice as long was
-- written before this master's clock was set back. It would delay all agents for that long.
local longest = 6000

-- Returns the lowest ticket, the largest number up to `most`, and the lowest ticket of a writer.
-- The ticket of the agent `own` is left out. Tickets that have expired are deleted. If the key has
-- another type, the master has no vote on this lock until the key is gone. A caller must catch that
-- error by pcall or know the key's type: servers crash if a script ends with a table without `err`.
local function line_of(tickets, own, most)
    local now, all, first, last, writer = now_ms(), redis.pcall('HGETALL', tickets), nil, 0, nil
    if all.err and string.find(all.err, 'WRONGTYPE', 1, true) then
        error({'spoiled', redis.call('PTTL', tickets), 'tickets'})
    end
    if all.err then error(all) end
    for i = 1, #all, 2 do
        local agent, number, till, mode = all[i], string.match(all[i + 1], '^(%d+):(%d+):?([rw]?)$')
        number, till = tonumber(number), tonumber(till)
        if not till or till <= now or till > now + longest then
            redis.call('HDEL', tickets, agent)
        elseif agent ~= own then
            local ticket = {agent = agent, number = number, left = till - now, mode = mode}
            if not first or is_before(number, agent, first) then
                first = ticket
            end
            if mode ~= 'r' and not (writer and is_before(writer.number, writer.agent, ticket)) then
                writer = ticket
            end
            if most and number <= most then last = math.max(last, number) end
        end
    end
    return first, last, writer
end

-- Returns whether it is the agent's turn, its number, and the first ticket of the others. If the
-- mode is r, only tickets of writers count, because a reader may pass readers (R18).
local function is_next(tickets, agent, number, fresh, mode)
    -- 2 s: a number that is further ahead is of a wrong clock
    local first, last, writer = line_of(tickets, agent, number + 2000000)
    if mode == 'r' then first = writer end
    if fresh == '1' then number = math.max(number, last + 1) end
    local turn = not first or number > 0 and is_before(number, agent, first)
    return turn, number, first
end

local function keep(tickets, agent, number, ms, mode)
    if ms == 0 then return end
    local ticket = string.format('%.0f:%.0f', number, now_ms() + ms)
    redis.call('HSET', tickets, agent, mode ~= '' and ticket .. ':' .. mode or ticket)
    redis.call('PEXPIRE', tickets, ms)
end

-- Returns the answer to a refused attempt, with the number of its ticket. Keeps the ticket for
-- `ms`.
local function kept(tickets, agent, number, ms, answer, mode)
    keep(tickets, agent, number, tonumber(ms), mode)
    answer[4] = number
    return answer
end
