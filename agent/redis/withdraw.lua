-- Takes an agent's ticket off; where that makes it another one's turn, those who wait are told
-- (R9).
-- KEYS: lock key, tickets. ARGV: agent.
local had = redis.call('HDEL', KEYS[2], ARGV[1])
local first = line_of(KEYS[2], ARGV[1])
if had == 1 and first and get(KEYS[1]) == false then tell(KEYS[1], first) end
return 0
