-- Renews, repairs or adopts locks. No lease is ever shortened (R7).
-- ARGV: renew|repair|adopt, then for each item: value, ttl, fence retention (0: no fencing, or a
-- renewal that leaves the fence key alone, R12; -1: forever), number and, for a repair, for how
-- long it may create the key (deadline.lua), and 1 if no round proves that the lock was not
-- released elsewhere. Then only a master without a vote creates the key (R7). After the items of a
-- repair comes the clock. An adoption works for the hold of any agent and does not know the mode.
-- It needs exactly the number in the value, and writes the agent's name into it. A renewal and a
-- repair need the agent's name in the value, and correct the number (D3).
-- KEYS: the lock keys of all items, the fence keys of those with a retention, and the marker if the
-- group is guarded. An adoption and a repair have the vote before the marker. A master without a
-- vote may have forgotten the lock, and answers 'guarded' to an adoption in place of -1 (D3).
-- Answers a list, or 0 if all items answer 0. No item can make another one fail. If a token is
-- missing, its key has room for it, and the group is guarded, then the list ends with the marker's
-- epoch ('': no marker). A new epoch shows that the master has forgotten its data (R7).
local mode, missing = ARGV[1], false
local size = mode == 'repair' and 6 or 4
local count, done, locks = (#ARGV - (mode == 'repair' and 2 or 1)) / size, 0, {}

-- The usual case: the lock is there, with its number, and its fence key is left alone.
if mode == 'renew' and form == 'plain' then
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

local after = count + 1 -- the first key after the fence keys
for i = 1, count do
    if ARGV[size * i - size + 4] ~= '0' then after = after + 1 end
end
local vote = mode ~= 'renew' and KEYS[after]
local marker = KEYS[mode == 'renew' and after or after + 1]

-- (common)
local clock = mode == 'repair' and ARGV[#ARGV] or '0'
-- (deadline)

-- Keeps the fence key of a token that was found for the retention at least, and returns its number.
-- A repair raises that number.
local function retain(fence, retention, number)
    if not fence then return 0 end
    local stored = mode == 'renew' and 0 or stored_number(fence)
    if not stored then return 0 end -- the fence key is invalid: only the lease counts
    if mode == 'repair' and stored < number then
        store_number(fence, number, retention)
        return number
    end
    if retention > 0 then redis.call('PEXPIRE', fence, retention, 'GT') end
    return stored
end

local function repair(key, fence, value, ttl, retention, number, held, may_ms, unproved)
    local stored = 0
    if unproved == '1' and not is_guarded('*', vote) then return -1 end
    if behind and (behind < 0 or may_ms - behind <= 0) then return {'late', 0} end
    if fence then
        stored = stored_number(fence)
        if not stored then return {'spoiled', redis.call('PTTL', fence)} end
        stored = math.max(stored, number)
        store_number(fence, stored, retention)
    end
    return enter(key, value, ttl, held) or {'repaired', stored}
end

-- Extends one lock, and returns its entry. The lease is prolonged first, because a master out of
-- memory refuses a write only while the script has written nothing.
local function extend(key, fence, value, ttl, retention, number, may_ms, unproved)
    local held, adopts = get(key), mode == 'adopt'
    local found, ends = find(key, held, value)
    if found and (adopts or is_own(found, value)) then
        local there = adopts and fence and number_in(found)
        local wrong = adopts and fence and there ~= number_in(value)
        if wrong then return {'misnumbered', tonumber(there or 0)} end
        ends = prolong(key, found, ttl, ends)
        set_right(key, found, value, ends)
        local stored = retain(fence, retention, number)
        return adopts and {'adopted', number, label_of(found), 0, mode_of(found), 0} or stored
    end
    local answer = denied(key, held, mode_of(value), found, ends)
    if answer ~= -1 then return answer end
    missing = true
    if mode ~= 'repair' then return -1 end
    return repair(key, fence, value, ttl, retention, number, held, may_ms, unproved)
end

local replies, fences = {}, count
for i = 1, count do
    local at, fence = size * i - size + 2, nil
    local ttl, retention = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    if retention ~= 0 then
        fences = fences + 1
        fence = KEYS[fences]
    end
    replies[i] = 0
    if locks[i] ~= 0 then
        local well, entry = pcall(extend, KEYS[i], fence, ARGV[at], ttl, retention,
            tonumber(ARGV[at + 3]), ARGV[at + 4], ARGV[at + 5])
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        replies[i] = entry
    end
end
if missing and marker then
    if mode == 'adopt' and replies[1] == -1 and is_guarded('*', vote) then
        replies[1] = {'guarded', 0}
    end
    local epoch = redis.pcall('HGET', marker, 'epoch')
    replies[#replies + 1] = type(epoch) == 'string' and epoch or ''
end
return replies
