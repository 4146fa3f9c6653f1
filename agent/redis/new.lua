-- Marks a master that no agent has ever used, for `lockagent trust --new` (D5.3). Each run of the
-- command calls it three times, on all masters of a group before the next call begins.
-- KEYS: marker, vote, the key of this run. ARGV: the call:
--   claim  writes the key of this run
--   look   changes nothing
--   vote   writes marker and vote, and deletes the key of this run
-- then the run id ('' if INFO is not allowed); 1 if a vote of another run counts (durable); the
-- epoch that begins; the longest lease in ms.
-- Answers the state of the master, and ms:
--   {'votes', 0}
--   {'marked', until its guard is over (0: it is)}
--   {'lost', 0}  it has forgotten the key of this run
--   {'new', 0}   none of these, and the call is done
local marker, vote, own, call = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', marker, vote) > 0 then
    local was = redis.pcall('HMGET', marker, 'run', 'since', 'max_ttl', 'longer')
    local run, since, max_ttl = was[1], tonumber(was[2] or nil), tonumber(was[3] or nil)
    local left = max_ttl and math.max(max_ttl, tonumber(was[4] or nil) or 0) + 1001
    local same = run and (ARGV[3] == '1' or run == ARGV[2])
    if same and redis.call('EXISTS', vote) == 1 then return {'votes', 0} end
    if same and since and left then left = math.max(0, since + left - now) end
    return {'marked', left or ARGV[5] + 1001}
end
if call == 'claim' then
    redis.call('SET', own, 1, 'PX', 5000)
elseif redis.call('EXISTS', own) == 0 then
    return {'lost', 0}
end
if call == 'vote' then
    local floor = string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('HSET', marker, 'epoch', ARGV[4], 'run', ARGV[2], 'since', 0, 'max_ttl', ARGV[5],
        'longer', ARGV[5], 'longer_since', string.format('%.0f', now), 'top', floor,
        'floor', floor, 'told', 1)
    redis.call('SET', vote, string.format('=%s:%s:%016.0f', ARGV[2], ARGV[4], floor))
    redis.call('DEL', own)
end
return {'new', 0}
