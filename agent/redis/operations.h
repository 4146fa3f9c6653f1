/* The core's operations (redis_send() of redis.h): sent to the masters that can take them, and what
 * became of them reported to the core. */
#ifndef LOCKAGENT_REDIS_OPERATIONS_H
#define LOCKAGENT_REDIS_OPERATIONS_H

#include "agent/redis/internal.h"

/* Hears the reply to an operation (heard_fn): it is read once, and reported item by item. */
void operations_heard(struct master *master, const struct command *command, const redisReply *reply,
                      bool sent);

/* Reports what had not been sent when it began: what the core sends in answer waits for the next
 * call. */
void operations_report_unsent(struct redis *redis);

#endif
