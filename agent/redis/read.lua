-- Looks at one lock and changes nothing.
-- KEYS: lock key. ARGV: the first 41 bytes of the value of the hold that the asking agent has, if
-- it has one. The answer is 'own' if that hold has the key.
local held = get(KEYS[1])
if held == false then return -1 end
local is_own = ARGV[1] and find(KEYS[1], held, ARGV[1])
return told(is_own and 'own' or 'yes', KEYS[1], held)
