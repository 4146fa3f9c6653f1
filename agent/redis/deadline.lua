-- Computes until when a command may create a key (R5). Each item says for how many ms after `clock`
-- it may. `clock` is an argument after the items: the least time that this master's clock can have
-- shown when the agent sent the command ('0': not known). If the clock shows less now, it has been
-- set back since.
local time = clock ~= '0' and redis.call('TIME')
local behind = time and time[1] * 1000 + time[2] / 1000 - clock
