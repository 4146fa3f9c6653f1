-- Until when a command may create a key (R5): behind its items stands `clock`, what this master's
-- clock showed at least as the agent sent it ('0': not known), and each item says for how many ms
-- from then on. Where the clock shows less, it has been set back since.
local time = clock ~= '0' and redis.call('TIME')
local behind = time and time[1] * 1000 + time[2] / 1000 - clock
