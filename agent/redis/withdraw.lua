-- Takes an agent's ticket off; where another one's turn comes by that, and there is room for it,
-- those who wait are told (R9, R18).
-- KEYS: lock key, tickets. ARGV: agent.
local had = redis.call('HDEL', KEYS[2], ARGV[1])
local first = line_of(KEYS[2], ARGV[1])
if had == 1 and first and has_room(get(KEYS[1]), first.mode) then tell(KEYS[1], first) end
return 0
