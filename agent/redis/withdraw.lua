-- Deletes an agent's ticket. If that makes it another agent's turn, and there is room for it, the
-- waiting agents are told (R9, R18).
-- KEYS: lock key, tickets. ARGV: agent.
-- HDEL comes first, because it refuses a key of another type with an error of its own.
local had = redis.call('HDEL', KEYS[2], ARGV[1])
local first = line_of(KEYS[2], ARGV[1])
if had == 1 and first and has_room(get(KEYS[1]), first.mode) then tell(KEYS[1], first) end
return 0
