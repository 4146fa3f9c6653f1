-- Looks at one lock and changes nothing.
-- KEYS: lock key.
local held = get(KEYS[1])
if held == false then return -1 end
return seen('yes', KEYS[1], held)
