-- Marks a fresh master as `lockagent trust --new` does, without the 2 s that it takes (D5.3). For
-- suites whose masters are to vote from the beginning; none that is about the guard uses it.
--   redis-cli --eval mark.lua lockagent:marker lockagent:votes
-- The longest lease begins at 0, and becomes the one that the agents name.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local floor = string.format('%.0f', time[1] * 1000000 + time[2])
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local epoch = string.sub(redis.sha1hex(run .. floor), 1, 16)
redis.call('HSET', KEYS[1], 'epoch', epoch, 'run', run, 'since', 0, 'max_ttl', 0, 'longer', 0,
    'longer_since', now, 'top', floor, 'floor', floor, 'told', 1)
redis.call('SET', KEYS[2], string.format('=%s:%s:%016.0f', run, epoch, floor))
return 'OK'
