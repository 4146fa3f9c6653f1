-- Renews, repairs or adopts locks; nothing is ever shortened (R7).
-- ARGV: renew|repair|adopt, then per item: '<random>:<agent>:<label>', ttl, fence retention (0: no
-- fencing, or a renewal that leaves the fence key alone, R12), number. An adoption needs no owner,
-- but exactly the number, and makes the agent the owner; the others need the agent to be that (D3).
-- KEYS: the lock keys of all items, the fence keys of those with a retention, and the marker where
-- the group is guarded. Answers a list, or 0 where that is what all answer; no item can make
-- another one fail. Where a key is missing and the group is guarded, the marker's epoch ('': no
-- marker) is its last entry: a master that forgot since says so by that (R7).
local mode, missing = ARGV[1], false
local count, done, locks = (#ARGV - 1) / 4, 0, {}

-- The usual case: the lock is there, and its fence key is left alone.
if mode == 'renew' then
    locks = redis.pcall('MGET', unpack(KEYS, 1, count)) -- refused as a whole: nothing is there
    for i = 1, count do
        local own, value = ARGV[4 * i - 2], locks[i]
        if ARGV[4 * i] == '0' and value and string.sub(value, 1, #own) == own then
            local set = redis.pcall('PEXPIRE', KEYS[i], ARGV[4 * i - 1], 'GT')
            if set == 0 or set == 1 then locks[i], done = 0, done + 1 end
        end
    end
    if done == count then return 0 end
end

-- (common)

-- one without expiry gets one: fence keys live for the retention (R12)
local function store(key, number, retention)
    redis.call('SET', key, number, 'PX', math.max(redis.call('PTTL', key), retention))
end

local function renew(key, fence, ttl, retention, number)
    redis.call('PEXPIRE', key, ttl, 'GT')
    if not fence then return 0 end
    local stored = mode == 'renew' and 0 or stored_number(fence)
    if not stored then return 0 end -- a stranger's fence key: the lease is what counts
    if mode == 'repair' and stored < number then
        store(fence, number, retention)
        return number
    end
    redis.call('PEXPIRE', fence, retention, 'GT')
    return stored
end

-- The label stays. What grows the lease comes first: a master out of memory refuses a SET only as
-- long as a script has written nothing.
local function adopt(key, held, own, ttl)
    local left = redis.call('PTTL', key)
    if left == -1 then
        redis.call('SET', key, own .. label_of(held))
    else
        left = math.max(left, ttl)
        redis.call('PEXPIRE', key, left)
        redis.call('SET', key, own .. label_of(held), 'PX', left)
    end
end

local function repair(key, fence, value, ttl, retention, number)
    local stored = 0
    if fence then
        stored = stored_number(fence)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        store(fence, stored, retention)
    end
    redis.call('SET', key, value, 'NX', 'PX', ttl)
    return {'repaired', stored}
end

local function extend(key, fence, value, ttl, retention, number)
    local held, own = get(key), string.sub(value, 1, 50)
    local begins = mode == 'adopt' and string.sub(own, 1, 41) or own
    if held and string.sub(held, 1, #begins) == begins then
        if mode == 'adopt' then
            local stored = fence and stored_number(fence)
            local wrong = number == 0 or stored ~= number
            if fence and wrong then return {'misnumbered', stored or 0} end
            adopt(key, held, own, ttl)
        end
        return renew(key, fence, ttl, retention, number)
    end
    if held ~= false then return denied(key, held, own) end
    missing = true
    if mode ~= 'repair' then return -1 end
    return repair(key, fence, value, ttl, retention, number)
end

local replies = {}
local fences = count
for i = 1, count do
    local at, fence = 4 * i - 2, nil
    local ttl, retention = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if retention > 0 then
        fences = fences + 1
        fence = KEYS[fences]
    end
    replies[i] = 0
    if locks[i] ~= 0 then
        local well, entry = pcall(extend, KEYS[i], fence, ARGV[at], ttl, retention,
            tonumber(ARGV[at + 3]))
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        replies[i] = entry
    end
end
local marker = KEYS[fences + 1]
if missing and marker then
    local epoch = redis.pcall('HGET', marker, 'epoch')
    replies[#replies + 1] = type(epoch) == 'string' and epoch or ''
end
return replies
