-- Looks at one lock and changes nothing.
-- KEYS: lock key. ARGV: the first 41 bytes of the value of the hold that the asking agent has, if
-- it has one. The answer is 'own' if that hold has the key. Its last column is the part of the
-- value that names agent and number.
local held = get(KEYS[1])
if held == false then return -1 end
local is_own = ARGV[1] and find(KEYS[1], held, ARGV[1])
local answer = told(is_own and 'own' or 'yes', KEYS[1], held)
for i = #answer + 1, 7 do answer[i] = (i == 3 or i == 5) and '' or 0 end
answer[8] = held and name_in(type(held) == 'table' and held.entry or held) or ''
return answer
