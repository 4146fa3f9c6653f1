-- What scripts answer of any store.

-- Where a token is not the agent's: 'moved' where another one has adopted it, -1 where it is not
-- there, and one of this mode might be.
local function denied(key, held, mode, found, ends)
    if found then return told('moved', key, held, found, ends) end
    return has_room(held, mode) and -1 or told('held', key, held)
end

-- The value that was found gets agent and number of the one that is asked for: mode and label stay.
local function set_right(key, found, asked, ends)
    if string.sub(found, 1, #asked) == asked then return end
    local right = string.sub(found, 1, front + 41) .. string.sub(asked, front + 42, front + 50)
        .. number_in(asked) .. ':' .. label_of(found)
    if right ~= found then rename(key, found, right, ends) end
end
