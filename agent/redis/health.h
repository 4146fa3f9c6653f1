/* What makes a master degraded (D5.4): role, eviction, doubled servers, clocks. From INFO and TIME
 * alone; what is not known is no fault. */
#ifndef LOCKAGENT_REDIS_HEALTH_H
#define LOCKAGENT_REDIS_HEALTH_H

#include "agent/redis/master.h"

/* What INFO has told of an earlier greeting is forgotten. */
void health_forget(struct master *master);

/* Takes the text of INFO, of any section. */
void health_take_info(struct master *master, const char *info);

/* Takes an answer to TIME, and tells the core of the reading; false when it makes no sense. */
bool health_take_time(struct master *master, const struct command *command,
                      const redisReply *reply);

/* Looks at every READY master of a group, and at this agent's own clock, and shows what it
 * finds. */
void health_look(struct redis *redis, uint8_t group);

#endif
