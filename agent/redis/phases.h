/* One master's way through its phases (master.h): resolve, connect, greet, serve, and again. */
#ifndef LOCKAGENT_REDIS_PHASES_H
#define LOCKAGENT_REDIS_PHASES_H

#include "agent/redis/master.h"

/* Begins with a master whose configuration has been set. */
void phases_start(struct master *master);

/* Every TICK_MS: its silence, and when it is probed. */
void phases_tick(struct master *master);

/* Ends all that is open of it, now or as soon as libuv lets go. Idempotent. */
void phases_stop(struct master *master);

#endif
