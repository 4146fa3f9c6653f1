-- What scripts answer of any store.

-- Where `value` is not to be changed: 'moved' where another agent has adopted the token, -1 where
-- it is not there, and one of its mode might be.
local function denied(key, held, value, found, ends)
    if found then return told('moved', key, held, found, ends) end
    return has_room(held, mode_of(value)) and -1 or told('held', key, held)
end
