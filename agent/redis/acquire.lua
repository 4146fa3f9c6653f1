-- Takes one lock and numbers the grant (R1, R12).
-- KEYS: lock key, fence key where the policy fences. ARGV: value, ttl, fence retention (0: no fencing), proposed number.
-- The fence key is read first, so that whatever is wrong with it fails before anything is written.
local value, retention = ARGV[1], tonumber(ARGV[3])
local stored = 0
if retention > 0 then
    stored = stored_number(KEYS[2])
    if not stored then return {'foreign', redis.call('PTTL', KEYS[2])} end
end
if not redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[2]) then
    local held = get(KEYS[1])
    if held == value then return stored end -- a doubled command: granted before, and numbered then
    return seen('held', KEYS[1], held or nil)
end
if retention == 0 then return 0 end
local number = math.max(stored + 1, tonumber(ARGV[4]))
local set = redis.pcall('SET', KEYS[2], number, 'PX', retention)
if set.err then -- an error must mean that nothing was done
    redis.call('DEL', KEYS[1])
    return set
end
return number
