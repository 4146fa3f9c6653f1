-- What the scripts of order fair begin with, behind the common part (R9). Tickets are a hash: agent
-- -> '<number>:<until, ms of TIME>'.

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Who is served before whom: by number, and of equal ones the lower agent.
local function is_before(number, agent, other)
    return number < other.number or number == other.number and agent < other.agent
end

-- The lowest ticket, but for the agent's `own`, and the largest number up to `most`. What has run
-- out is forgotten.
local function line_of(tickets, own, most)
    local now, all, first, last = now_ms(), redis.call('HGETALL', tickets), nil, 0
    for i = 1, #all, 2 do
        local agent, number, till = all[i], string.match(all[i + 1], '^(%d+):(%d+)$')
        number, till = tonumber(number), tonumber(till)
        if not till or till <= now then
            redis.call('HDEL', tickets, agent)
        elseif agent ~= own then
            if not first or is_before(number, agent, first) then
                first = {agent = agent, number = number, left = till - now}
            end
            if most and number <= most then last = math.max(last, number) end
        end
    end
    return first, last
end

-- True when nobody is to be served before the agent; its number, and whoever is first of the
-- others.
local function is_next(tickets, agent, number, fresh)
    -- 2 s: what is further ahead is of a wrong clock
    local first, last = line_of(tickets, agent, number + 2000000)
    if fresh == '1' then number = math.max(number, last + 1) end
    local turn = not first or number > 0 and is_before(number, agent, first)
    return turn, number, first
end

local function keep(tickets, agent, number, ms)
    if ms == 0 then return end
    redis.call('HSET', tickets, agent, string.format('%.0f:%.0f', number, now_ms() + ms))
    redis.call('PEXPIRE', tickets, ms)
end

-- What refuses an attempt, with the number of the ticket, which is kept for so many ms.
local function kept(tickets, agent, number, ms, answer)
    keep(tickets, agent, number, tonumber(ms))
    answer[4] = number
    return answer
end

-- Those who wait are told that the key is free, how many they are, and whose turn it is.
local function tell(key, first)
    local channel, agents = channel_of(key)
    local message = first and agents .. ' ' .. first.agent or agents
    if agents > 0 then redis.pcall('PUBLISH', channel, message) end
end
