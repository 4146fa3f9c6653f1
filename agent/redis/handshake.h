/* What is asked of a master before it counts as up (D5.2). */
#ifndef LOCKAGENT_REDIS_HANDSHAKE_H
#define LOCKAGENT_REDIS_HANDSHAKE_H

#include "agent/redis/master.h"

/* Begins to greet a master on its pipeline: it is in phase GREETING then. How that ends is told to
 * master->on_greeted, once, unless the pipeline ends before. */
void handshake_begin(struct master *master);

#endif
