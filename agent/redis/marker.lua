-- Starts and keeps this master's marker (D5.3): hash `epoch`, `run`, `since` and `max_ttl` (both in
-- ms), and `birth`: '' for none, 'new' where the marker may be the first one here, or the name of
-- the birth of a new group (agent/core/guard.c).
-- Beside it stands the vote, which acquire.lua reads in its place: the epoch, exactly while the
-- master votes, as far as this script knows. It is looked at here with every marker, and whatever
-- begins an epoch takes it off in the same call.
-- KEYS: marker, vote. ARGV: run_id ('' where INFO is not allowed), epoch to start if one is to be
-- started, the agent's max_ttl, how, and for the last two the epoch that the agent has seen and the
-- name of the birth:
--   restart  a new epoch, since now, if the marker is missing or names another run
--   keep     a new epoch, since now, if the marker is missing
--   begin    the same, and a marker that was missing is new
--   trust    votes at once, whatever was
--   join     of this epoch and new: is one of that birth
--   vote     of this epoch and that birth: votes at once
-- Answers epoch, ms until it votes (0: it does), birth, and max_ttl.
local marker, how = KEYS[1], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local was = redis.call('HMGET', marker, 'epoch', 'run', 'since', 'max_ttl', 'birth')
local was_since, was_max_ttl = tonumber(was[3] or nil), tonumber(was[4] or nil)
local epoch, run, since, max_ttl, birth = was[1], was[2], was_since, was_max_ttl, was[5] or ''
local missing = not (epoch and run and since and max_ttl)
if missing or (how == 'restart' and (ARGV[1] == '' or run ~= ARGV[1])) then
    epoch, run, since, birth = ARGV[2], ARGV[1], now, how == 'begin' and 'new' or ''
elseif since > 0 and since + max_ttl + 1001 <= now then
    birth = '' -- it has come to vote by waiting: whatever it learned since is not to be forgotten
end
if how == 'trust' then
    run, since, birth = ARGV[1], 0, ''
elseif epoch == ARGV[5] then
    if how == 'join' and birth == 'new' then birth = ARGV[6]
    elseif how == 'vote' and birth ~= '' and birth == ARGV[6] then since = 0
    end
end
max_ttl = math.max(max_ttl or 0, tonumber(ARGV[3]))
if epoch ~= was[1] or run ~= was[2] or since ~= was_since or max_ttl ~= was_max_ttl
    or birth ~= (was[5] or '') then
    redis.call('HSET', marker, 'epoch', epoch, 'run', run, 'since', since, 'max_ttl', max_ttl,
        'birth', birth)
end
local left = math.max(0, since + max_ttl + 1001 - now)
local vote = redis.pcall('GET', KEYS[2])
if left > 0 then
    if vote then redis.call('DEL', KEYS[2]) end
elseif vote ~= epoch then
    redis.pcall('SET', KEYS[2], epoch) -- a master without memory votes by its marker
end
return {epoch, left, birth, max_ttl}
