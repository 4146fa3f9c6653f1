-- The store of plain locks, of fair ones and of slots: the lock is a string, its value. The scripts
-- use a store only by these functions:
--   get(key)                          Returns the current hold of the key (`held`): false if there
--                                     is none, nil if it has another type or shape. Raises other
--                                     errors.
--   find(key, held, value)            Returns the stored value that has the same random part, with
--                                     any agent, number and label, and its end. Returns nil or
--                                     false if there is none.
--   has_room(held, mode)              Returns whether a hold of this mode may join `held`.
--   told(word, key, held, found, ends)
--                                     Returns the public part of a value that is not the caller's:
--                                     the ms that are left and the label, never the random part.
--                                     A key of another type or shape has no label.
--   enter(key, value, ttl, held)      Stores the value. Returns or raises the master's error.
--   prolong(key, found, ttl, ends)    Prolongs the lease, never shortens it. Returns its end.
--   rename(key, found, value, ends)   Replaces the token's value, and keeps its end.
--   leave(key, found)                 Deletes the value. Returns whether the key is free.
--   values_of(key, held)              Returns a list of all stored values.
local get = text_at

local function find(_, held, value)
    return held and string.sub(held, 1, 41) == string.sub(value, 1, 41) and held
end

local function has_room(held)
    return held == false
end

local function told(word, key, held)
    local left = redis.call('PTTL', key)
    if held == nil then return {'foreign', left} end
    return {word, left, label_of(held)}
end

local function enter(key, value, ttl)
    redis.call('SET', key, value, 'PX', ttl)
end

local function prolong(key, _, ttl)
    redis.call('PEXPIRE', key, ttl, 'GT')
end

local function rename(key, _, value)
    redis.call('SET', key, value, 'XX', 'KEEPTTL')
end

local function leave(key)
    redis.call('DEL', key)
    return true
end

local function values_of(_, held)
    return held and {held} or {}
end
