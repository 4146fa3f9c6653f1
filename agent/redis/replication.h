/* The WAIT for a master's replicas (R21): sent, heard, and what follows from its answer. What is to
 * be waited for, and when, core/replicas.h decides. */
#ifndef LOCKAGENT_REDIS_REPLICATION_H
#define LOCKAGENT_REDIS_REPLICATION_H

#include "agent/redis/master.h"

/* The turn ends: sends a WAIT behind what was written in it, where that needs one. The master has a
 * pipeline. */
void replication_turn(struct master *master);

/* The timer of a READY master: its WAIT may have lasted for too long. */
void replication_time(struct master *master);

#endif
