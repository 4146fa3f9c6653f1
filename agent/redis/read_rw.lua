-- Looks at one lock that readers share and changes nothing.
-- KEYS: lock key.
local last = get(KEYS[1])
if last == false then return -1 end
return told('yes', KEYS[1], last)
