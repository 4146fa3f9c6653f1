-- No number is stored that is above the master's top (D5.3): the top is lifted first.
local function lift(marker, number)
    local top = tonumber(redis.call('HGET', marker, 'top') or nil)
    if not top or number > top then
        redis.call('HSET', marker, 'top', string.format('%.0f', number + 2000000))
    end
end
