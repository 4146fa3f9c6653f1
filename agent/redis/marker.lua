-- Starts and keeps this master's marker (D5.3), a hash:
--   epoch         random; another one than before means: this master may have forgotten
--   run           the server's run id
--   replid        its replication id ('': not known)
--   since         when the epoch began, ms of TIME; 0: trusted by hand
--   max_ttl       the longest lease that any agent named, in ms
--   longer        the longest that was named since longer_since: max_ttl falls back to it
--   longer_since  ms of TIME
--   top           no master stores a granted number above its top (R12), in us
--   floor         a number that is granted without a stored one is above it, in us
--   told          how it came to vote: 0 it has not been told since it forgot, 1 by enough masters
--                 that remember, 2 by a guess
-- The vote is another key, which exists exactly while this master votes: `=<run>:<epoch>:<floor>`,
-- or `@<run>:<epoch>:<replid>:<floor>` if the group's master has replicas (R21): for as long as it
-- has any, also if an agent asks that is not configured so. An acquire and a release compare it
-- with the vote that the agent knows. Only this script and new.lua write it, and this script checks
-- it in every call.
-- KEYS: marker, vote, layouts. ARGV: run id ('' if INFO is not allowed); the epoch to start if one
-- is to be started; the agent's longest lease in ms; how; the number that top becomes at least (0:
-- as it is); the epochs that the agent knows of the other masters, each with a blank behind it; the
-- agreed time in us; of tell and trust the epoch that the agent has seen, the top that it tells,
-- and what told becomes ('', 0 and 0 of the others); 1 if the group's master has replicas; and of
-- the layout (R23) its name ('': none is compared), its text, how long to note it in ms (0: not at
-- all; negative: only if it is noted already), and the names of its neighbours, each with a blank
-- behind it. `how`:
--   restart  a new epoch if the marker is missing or names another run, or if the server has
--            followed another one since
--   keep     a new epoch if the marker is missing
--   tell     keep; the agent's top and told count if the guard is over and the epoch is as seen
--   trust    restart; then the guard is over; top and told count if the epoch is as seen ('': any)
-- A master with the epoch of another one is a copy, and begins a new epoch.
-- Answers epoch, ms until its guard is over (0: it is), max_ttl, top, floor, told, the vote ('': it
-- has none), 1 if top or floor is a number that was never granted (R12), its TIME in ms, 1 if the
-- layout is noted for long enough, the number of layouts at work, and those that are not among the
-- neighbours: ms until it is forgotten, and text, of at most four.
--
-- The layouts (R23) are a hash: name -> '<forgotten at, ms of TIME> <noted for, ms> <text>'. If a
-- layout is at work that is not among the neighbours, the agent's own is not noted.
local marker, how, fresh = KEYS[1], ARGV[4], ARGV[2]
local two_days, longest, margin, settling = 172800000000, 3600000, 1001, 10000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns the time until a layout is forgotten, 0 if it is, its text, and whether it is noted for
-- longer than that: a clock that was set back must not keep it for longer than it was noted for.
local function layout_of(entry)
    local at, kept, text = string.match(entry, '^(%d+) (%d+) (.*)$')
    local until_ms = at and tonumber(at) - now
    local left = at and math.min(until_ms, tonumber(kept), 2 * longest)
    return left and math.max(0, left) or 0, text or '', left and left < until_ms
end

local own, noted, at_work, others = ARGV[12], 0, 0, {}
if own ~= '' then
    local layouts, keep, known, rewrites = KEYS[3], tonumber(ARGV[14]), ARGV[15], 5000
    local all, left, is_new, gone = redis.call('HGETALL', layouts), 0, true, {}
    for i = 1, #all, 2 do
        local for_ms, text, beyond = layout_of(all[i + 1])
        if beyond then
            redis.call('HSET', layouts, all[i],
                string.format('%.0f %.0f %s', now + for_ms, for_ms, text))
        end
        if all[i] == own and for_ms > 0 then
            left, is_new = for_ms, false
        elseif for_ms == 0 then
            gone[#gone + 1] = all[i]
        elseif #others < 8
            and not string.find(' ' .. known, ' ' .. all[i] .. ' ', 1, true) then
            others[#others + 1] = for_ms
            others[#others + 1] = string.sub(text, 1, 4097)
        end
    end
    for _, name in ipairs(gone) do redis.call('HDEL', layouts, name) end
    at_work = #all / 2 - #gone
    if keep < 0 then keep = left > 0 and -keep or 0 end
    if #others == 0 and keep > 0 and left < keep - rewrites then
        local value = string.format('%.0f %.0f %s', now + keep, keep, ARGV[13])
        redis.call('HSET', layouts, own, value)
        at_work, left = at_work + (is_new and 1 or 0), keep
    end
    if keep > 0 and left >= keep - rewrites then noted = 1 end
end

local names, words = {'epoch', 'run', 'replid', 'since', 'max_ttl', 'longer', 'longer_since', 'top',
    'floor', 'told'}, 3
local was, is, missing = redis.call('HMGET', marker, unpack(names)), {}, false
for i, name in ipairs(names) do
    if i > words then was[i] = tonumber(was[i]) end
    if i <= words or (was[i] and was[i] >= 0) then is[name] = was[i] end
    missing = missing or not (is[name] or name == 'replid')
end
is.replid = is.replid or ''
-- Another client may have written it. No agent could read such a marker.
missing = missing or is.epoch == '' or #is.epoch > 24 or #is.run > 40 or #is.replid > 40
    or string.find(is.epoch .. is.run .. is.replid, '%z') or is.told > 2 or is.told % 1 ~= 0
local named = tonumber(ARGV[3])
local copied = not missing and string.find(' ' .. ARGV[6], ' ' .. is.epoch .. ' ', 1, true)
-- A server that followed another one has another replication id, and a second one. A server that
-- gets its first replica, or is backed up, has another id and no second one: it keeps its data.
local info = redis.pcall('INFO', 'replication')
info = type(info) == 'string' and info or ''
local replid = string.match(info, 'master_replid:(%x+)') or ''
local followed = replid ~= is.replid and replid ~= '' and is.replid ~= ''
    and string.find(info, 'master_replid2:0*[^0\r\n]')
local compares = how == 'restart' or how == 'trust'
local restarted = compares and (ARGV[1] == '' or is.run ~= ARGV[1] or followed)

if missing or restarted or copied then
    is.epoch, is.run, is.since, is.told = fresh, ARGV[1], now, 0
    is.max_ttl, is.longer, is.longer_since = is.max_ttl or 0, is.longer or 0, is.longer_since or now
    is.top, is.floor = is.top or 0, is.floor or 0
end
-- The others leave what shows it to the next question that compares.
if replid ~= '' and (compares or not followed) then is.replid = replid end
-- A clock that was set back must not make a guard longer.
is.since, is.longer_since = math.min(is.since, now), math.min(is.longer_since, now)
is.longer = math.min(math.max(is.longer, named), longest)
is.max_ttl = math.min(math.max(is.max_ttl, named), longest)
if now - is.longer_since > is.max_ttl + settling then
    is.max_ttl, is.longer, is.longer_since = is.longer, named, now
end
is.top = math.max(is.top, tonumber(ARGV[5]))
if how == 'trust' then is.since = 0 end
local left = math.max(0, is.since + math.max(is.max_ttl, is.longer) + margin - now)
if (how == 'tell' and left == 0 and is.told == 0 and ARGV[8] == is.epoch)
    or (how == 'trust' and (ARGV[8] == '' or ARGV[8] == is.epoch)) then
    is.top = math.max(is.top, tonumber(ARGV[9]))
    is.floor, is.told = is.top, tonumber(ARGV[10])
end

local changed = {}
for i, name in ipairs(names) do
    if is[name] ~= was[i] then
        changed[#changed + 1] = name
        changed[#changed + 1] = i > words and string.format('%.0f', is[name]) or is[name]
    end
end
if #changed > 0 then redis.call('HSET', marker, unpack(changed)) end

local most = math.max(tonumber(ARGV[7]), now * 1000) + two_days
local spoiled = is.top >= most or is.floor >= most
local stands = redis.pcall('GET', KEYS[2])
local vote = string.format('=%s:%s:%016.0f', is.run, is.epoch, is.floor)
local bound = string.format('@%s:%s:%s:%016.0f', is.run, is.epoch, is.replid, is.floor)
-- Some agents may have `replicas` and others not yet. An agent without it takes both.
local keeps = stands == bound and string.find(info, 'connected_slaves:[1-9]')
if (ARGV[11] == '1' or keeps) and is.replid ~= '' then vote = bound end
if left > 0 or is.told == 0 or spoiled then
    vote = ''
    if stands then redis.call('DEL', KEYS[2]) end
elseif stands ~= vote then
    local set = redis.pcall('SET', KEYS[2], vote)
    if set.err then vote = '' end
end
return {is.epoch, left, is.max_ttl, is.top, is.floor, is.told, vote, spoiled and 1 or 0, now, noted,
    at_work, others}
