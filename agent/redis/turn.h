/* The room's turn of the loop: what was not sent is reported, then what is dirty is written; and
 * the tick. Its handles are the last to close. */
#ifndef LOCKAGENT_REDIS_TURN_H
#define LOCKAGENT_REDIS_TURN_H

#include "agent/redis/internal.h"

void turn_start(struct redis *redis);

#endif
