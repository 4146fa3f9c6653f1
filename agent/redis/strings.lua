-- The store of plain locks, of fair ones and of slots: the lock is a string, its value. The scripts
-- know a store by these verbs alone:
--   get(key)                          what has the key; false where nothing does, nil where it is
--                                     nobody's who keeps the rules. Other errors are raised
--   find(key, held, value)            the value of the same random part that is there, whichever
--                                     agent, number and label it names, and until when; nil or
--                                     false where there is none
--   has_room(held, mode)              whether one of this mode may be beside what is there
--   told(word, key, held, found, ends)
--                                     what may be told of a value that is not the caller's: how
--                                     long it has, and the label, never the random part; nothing
--                                     of a shape that is not ours
--   enter(key, value, ttl, held)      puts it there. Answers an error where that was refused
--   prolong(key, found, ttl, ends)    never shortens; answers until when it is
--   rename(key, found, value, ends)   the token's value becomes another one, and lives as long
--   leave(key, found)                 takes it off. Answers whether that frees the key for others
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
