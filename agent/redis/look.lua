-- Looks at all slots of a semaphore and changes nothing (R20).
-- KEYS: the keys of the slots. Answers, like read.lua, the entry of the first slot that is taken.
-- Its ms are those of the slot that expires first. It also says which slots are taken, one
-- character each, and in the last column agent and number of the entry.
local taken, answer = {}, nil
for i = 1, #KEYS do
    local held = get(KEYS[i])
    taken[i] = held == false and 0 or 1
    if held ~= false then
        local one = told('yes', KEYS[i], held)
        answer = answer or {one[1], -1, one[3] or '', '', '', 0, 0, held and name_in(held) or ''}
        if one[2] >= 0 and (answer[2] < 0 or one[2] < answer[2]) then answer[2] = one[2] end
    end
end
if not answer then return -1 end
answer[4] = table.concat(taken)
return answer
