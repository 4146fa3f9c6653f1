-- Renews, repairs or adopts locks. No lease is ever shortened (R7).
-- ARGV: renew|resume|repair|adopt, then for each item: value and ttl. A repair and an adoption
-- have also the number (0: no fencing). A repair has also for how long it may create the key
-- (deadline.lua), and 1 if no round proves that the lock was not released elsewhere. Then only a
-- master without a vote creates the key (R7). After the items of a repair comes the clock. An
-- adoption works for the hold of any agent and does not know the mode. It needs exactly the number
-- in the value, and writes the agent's name into it. A renewal and a repair need the agent's name
-- in the value, and correct the number (D3). An adopter's renewal and repair take its other name
-- as well, and write their own. All of them write the label, unless theirs is empty (D3.9).
-- KEYS: the lock keys of all items; vote and marker if the group is guarded, but a renewal has the
-- marker alone; and for a repair the keys of the numbers of those that fence.
-- A resumption is a renewal on a master that has perhaps not granted the lock (R24). If the group
-- is guarded, its last argument and that of an adoption is the vote that the agent knows. A master
-- with another vote may have forgotten the lock, and a native command may have set the key anew
-- since. It extends the lock, and answers 'guarded' (R24). To an adoption it answers nothing else
-- (D3.4).
-- A renewal, a resumption and a repair of a hold that `lockagent unlock` has deleted answer
-- 'unlocked' (R25).
-- Answers a list, or 0 if all items answer 0. No item can make another one fail. If a token is
-- missing, its key has room for it, and the group is guarded, then the list ends with the marker's
-- epoch ('': no marker, or the server has followed another one since, R21). A new epoch shows that
-- the master has forgotten its data (R7).
local mode, missing = ARGV[1], false
local size = mode == 'repair' and 5 or mode == 'adopt' and 3 or 2
local more = (#ARGV - 1) % size -- after the items
local count, done, locks = (#ARGV - 1 - more) / size, 0, {}

-- The usual case: the lock is there, with its number and its label.
if mode == 'renew' and form == 'plain' then
    locks = redis.pcall('MGET', unpack(KEYS, 1, count)) -- refused as a whole: nothing is there
    for i = 1, count do
        if locks[i] == ARGV[2 * i] then
            local set = redis.pcall('PEXPIRE', KEYS[i], ARGV[2 * i + 1], 'GT')
            if set == 0 or set == 1 then locks[i], done = 0, done + 1 end
        end
    end
    if done == count then return 0 end
end

local vote = KEYS[count + 1] == 'lockagent:votes' and KEYS[count + 1]
local marker = KEYS[mode == 'renew' and count + 1 or vote and count + 2]

-- (common)
local known = more == 1 and mode ~= 'repair' and ARGV[#ARGV]
local same = known and redis.pcall('GET', vote) == known
local counts = not known or same and not has_followed(known)
local clock = mode == 'repair' and ARGV[#ARGV] or '0'
-- (deadline)

-- Raises the stored number to the hold's, and returns the larger of the two; nil if the stored one
-- is invalid.
local function raised(fence, number)
    local stored = stored_number(fence)
    if stored and stored < number then store_number(fence, number) end
    return stored and math.max(stored, number)
end

local function repair(key, fence, value, ttl, number, held, may_ms, unproved)
    local stored = 0
    if unproved == '1' and not is_guarded('*', vote) then return -1 end
    if behind and (behind < 0 or may_ms - behind <= 0) then return {'late', 0} end
    if fence then
        stored = raised(fence, number)
        if not stored then return {'spoiled', -1} end
    end
    return enter(key, value, ttl, held) or {'repaired', stored}
end

-- Extends one lock, and returns its entry. The lease is prolonged first, because a master out of
-- memory refuses a write only while the script has written nothing.
local function extend(key, fence, value, ttl, number, may_ms, unproved)
    local held, adopts = get(key), mode == 'adopt'
    local found, ends = find(key, held, value)
    if found and (adopts or is_ours(found, value)) then
        local there = adopts and number > 0 and number_in(found)
        local wrong = adopts and number > 0 and there ~= number_in(value)
        if wrong then return counts and {'misnumbered', tonumber(there or 0)} or {'guarded', 0} end
        ends = prolong(key, found, ttl, ends)
        set_right(key, found, value, ends)
        if not counts then return {'guarded', 0} end
        if adopts then return {'adopted', number, label_of(found), 0, mode_of(found), 0} end
        return fence and raised(fence, number) or 0 -- only the lease counts
    end
    -- R25: an unlocked hold is never repaired.
    local unlocked = not found and not adopts
        and redis.pcall('GET', tombstone_of(key, name_of(value)))
    if type(unlocked) == 'string' then return {'unlocked', 0} end
    local answer = denied(key, held, mode_of(value), found, ends)
    missing = missing or answer == -1
    if adopts and not counts then return {'guarded', 0} end
    if answer ~= -1 then return answer end
    if mode ~= 'repair' then return -1 end
    return repair(key, fence, value, ttl, number, held, may_ms, unproved)
end

local replies, fences = {}, vote and count + 2 or count
for i = 1, count do
    local at, fence = size * i - size + 2, nil
    local number = size > 2 and tonumber(ARGV[at + 2])
    if mode == 'repair' and number > 0 then
        fences = fences + 1
        fence = KEYS[fences]
    end
    replies[i] = 0
    if locks[i] ~= 0 then
        local well, entry = pcall(extend, KEYS[i], fence, ARGV[at], tonumber(ARGV[at + 1]), number,
            ARGV[at + 3], ARGV[at + 4])
        if not well and type(entry) ~= 'table' then entry = {err = tostring(entry)} end
        replies[i] = entry
    end
end
if missing and marker then
    local epoch = redis.pcall('HGET', marker, 'epoch')
    -- It is rare, so it is not among the KEYS of each renewal.
    local stored = redis.pcall('GET', 'lockagent:votes')
    local followed = type(stored) == 'string' and has_followed(stored)
    replies[#replies + 1] = not followed and type(epoch) == 'string' and epoch or ''
end
return replies
