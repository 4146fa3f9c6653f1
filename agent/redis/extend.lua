-- Renews, repairs or adopts locks; nothing is ever shortened (R7).
-- ARGV: renew|repair|adopt, then per item: '<random>:<label>', ttl, fence retention (0: no fencing), number.
-- KEYS per item: lock key, fence key where the item fences; behind them the marker where the group is guarded. Answers a list; no item
-- can make another one fail. Where a key is missing and the group is guarded, the marker's epoch ('': no marker) is its last entry:
-- a master that forgot since says so by that (R7).
local mode, missing = ARGV[1], false

local function keep(key, ms)
    local left = redis.call('PTTL', key)
    if left >= 0 and left < ms then redis.call('PEXPIRE', key, ms) end
end

local function store(key, number, retention)
    local left = redis.call('PTTL', key)
    if left == -1 then
        redis.call('SET', key, number)
    else
        redis.call('SET', key, number, 'PX', math.max(left, retention))
    end
end

local function renew(key, fence, stored, ttl, retention, number)
    keep(key, ttl)
    if not fence then return 0 end
    if not stored then return 0 end -- a stranger's fence key: the lease is what counts
    if mode == 'repair' and stored < number then
        store(fence, number, retention)
        return number
    end
    keep(fence, retention)
    return stored
end

local function repair(key, fence, stored, value, ttl, retention, number)
    if fence then
        if not stored then return {'foreign', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        store(fence, stored, retention)
    end
    redis.call('SET', key, value, 'NX', 'PX', ttl)
    return {'repaired', stored or 0}
end

local function extend(key, fence, value, ttl, retention, number)
    local held, stored = get(key), nil
    if fence then stored = stored_number(fence) end
    if held and string.sub(held, 1, 41) == string.sub(value, 1, 41) then
        if mode == 'adopt' and fence and (number == 0 or stored ~= number) then return {'misnumbered', stored or 0} end
        return renew(key, fence, stored, ttl, retention, number)
    end
    if held ~= false then return seen('held', key, held) end
    missing = true
    if mode ~= 'repair' then return -1 end
    return repair(key, fence, stored, value, ttl, retention, number)
end

local replies, at = {}, 1
for i = 2, #ARGV, 4 do
    local key, fence, retention = KEYS[at], nil, tonumber(ARGV[i + 2])
    at = at + 1
    if retention > 0 then
        fence = KEYS[at]
        at = at + 1
    end
    local well, entry = pcall(extend, key, fence, ARGV[i], tonumber(ARGV[i + 1]), retention, tonumber(ARGV[i + 3]))
    if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
    replies[#replies + 1] = entry
end
if missing and KEYS[at] then
    local epoch = redis.pcall('HGET', KEYS[at], 'epoch')
    replies[#replies + 1] = type(epoch) == 'string' and epoch or ''
end
return replies
