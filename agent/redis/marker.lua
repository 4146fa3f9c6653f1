-- Starts, keeps or looks for this master's marker (D5.3): hash `epoch`, `run`, `since` and `max_ttl` (both in ms).
-- KEYS: marker. ARGV: run_id ('' where INFO is not allowed), epoch to start if one is to be started, the agent's max_ttl, and how:
--   restart  a new epoch, since now, if the marker is missing or names another run
--   keep     a new epoch, since now, if the marker is missing
--   look     leaves a missing marker missing
--   new      a marker that is missing is written, and votes at once; ARGV[5]: TIME when it was seen missing, too long ago is `look`
--   trust    votes at once, whatever was
-- Answers epoch ('': missing), ms until it votes (0: it does), and TIME in ms.
local marker, how = KEYS[1], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local was = redis.call('HMGET', marker, 'epoch', 'run', 'since', 'max_ttl')
local epoch, run, since, max_ttl = was[1], was[2], tonumber(was[3] or nil), tonumber(was[4] or nil)
local missing = not (epoch and run and since and max_ttl)
if how == 'new' and now - tonumber(ARGV[5]) > 5000 then how = 'look' end
if missing and how == 'look' then return {'', -1, now} end
if missing or (how == 'restart' and (ARGV[1] == '' or run ~= ARGV[1])) then
    epoch, run, since = ARGV[2], ARGV[1], how == 'new' and 0 or now
end
if how == 'trust' then run, since = ARGV[1], 0 end
max_ttl = math.max(max_ttl or 0, tonumber(ARGV[3]))
if epoch ~= was[1] or run ~= was[2] or since ~= tonumber(was[3] or nil) or max_ttl ~= tonumber(was[4] or nil) then
    redis.call('HSET', marker, 'epoch', epoch, 'run', run, 'since', since, 'max_ttl', max_ttl)
end
return {epoch, math.max(0, since + max_ttl + 1001 - now), now}
