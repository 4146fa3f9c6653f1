/* What is asked of a READY master aside from the core's operations: its scripts again, its marker,
 * and probes of its health. */
#ifndef LOCKAGENT_REDIS_UPKEEP_H
#define LOCKAGENT_REDIS_UPKEEP_H

#include "agent/redis/master.h"

/* After a NOSCRIPT. Whoever asks again comes behind these on the same pipeline. */
void upkeep_reload_scripts(struct master *master);

/* Hears what a guard has asked of a READY master (redis->marker_heard). */
void upkeep_heard_marker(struct master *master, const struct command *command,
                         const redisReply *reply, bool sent);

/* How many replicas it has (R21). */
void upkeep_count_replicas(struct master *master);

void upkeep_probe(struct master *master);

/* Reads the clock of a READY master, or of all that a group has (R14). */
void upkeep_read_clock(struct master *master);
void upkeep_read_clocks(struct redis *redis, uint8_t group);

#endif
