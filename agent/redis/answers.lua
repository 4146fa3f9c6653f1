-- Answers that are the same for every store.

-- Returns the answer to a token that is not the agent's: 'moved' if another agent has adopted it,
-- -1 if it is missing and an entry of this mode has room, and 'held' or 'foreign' otherwise.
local function denied(key, held, mode, found, ends)
    if found then return told('moved', key, held, found, ends) end
    return has_room(held, mode) and -1 or told('held', key, held)
end

-- Gives the value that was found the agent, the number and the label of the value that the command
-- names. The mode stays, and the label if the command names none (D3.9).
local function set_right(key, found, asked, ends)
    local label = label_of(asked)
    if found == asked or label == '' and string.sub(found, 1, #asked) == asked then return end
    local right = string.sub(found, 1, front + 41) .. string.sub(asked, front + 42, front + 50)
        .. number_in(asked) .. ':' .. (label ~= '' and label or label_of(found))
    if right ~= found then rename(key, found, right, ends) end
end
