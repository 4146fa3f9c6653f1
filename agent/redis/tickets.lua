-- What the scripts of order fair begin with, behind the common part (R9). Tickets are a hash: agent -> '<number>:<until, ms of TIME>'.

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The lowest ticket, but for the agent's `own`, and the largest number up to `most`. What has run out is forgotten.
local function line_of(tickets, own, most)
    local now, all, first, last = now_ms(), redis.call('HGETALL', tickets), nil, 0
    for i = 1, #all, 2 do
        local agent, number, till = all[i], string.match(all[i + 1], '^(%d+):(%d+)$')
        number, till = tonumber(number), tonumber(till)
        if not till or till <= now then
            redis.call('HDEL', tickets, agent)
        elseif agent ~= own then
            if not first or number < first.number or number == first.number and agent < first.agent then
                first = {agent = agent, number = number, left = till - now}
            end
            if most and number <= most then last = math.max(last, number) end
        end
    end
    return first, last
end

-- True when nobody is to be served before the agent; its number, and whoever is first of the others.
local function is_next(tickets, agent, number, fresh)
    local first, last = line_of(tickets, agent, number + 2000000) -- 2 s: what is further ahead is of a wrong clock
    if fresh == '1' then number = math.max(number, last + 1) end
    local turn = not first or number > 0 and (number < first.number or number == first.number and agent < first.agent)
    return turn, number, first
end

local function keep(tickets, agent, number, ms)
    if ms == 0 then return end
    redis.call('HSET', tickets, agent, string.format('%.0f:%.0f', number, now_ms() + ms))
    redis.call('PEXPIRE', tickets, ms)
end

-- What refuses an attempt, with the number of the ticket, which is kept for ARGV[8] ms.
local function kept(tickets, agent, number, answer)
    keep(tickets, agent, number, tonumber(ARGV[8]))
    answer[4] = number
    return answer
end

-- Those who wait are told that the key is free, how many they are, and whose turn it is.
local function tell(key, first)
    local channel, agents = channel_of(key)
    if agents > 0 then redis.pcall('PUBLISH', channel, first and agents .. ' ' .. first.agent or agents) end
end
