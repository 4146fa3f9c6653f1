/* A master's service to the core: when it begins, pauses and ends, and which errors make it
 * pause. */
#ifndef LOCKAGENT_REDIS_SERVICE_H
#define LOCKAGENT_REDIS_SERVICE_H

#include "agent/redis/master.h"

/* The greeting has ended well: it is READY. */
void service_up(struct master *master);

/* It can not be used, and `why`. */
void service_down(struct master *master, const char *why);

/* It can not serve now: it is greeted again later, on the same pipeline. */
void service_pause(struct master *master, const char *why);

/* An error reply while READY; `text` is the server's. */
void service_refused(struct master *master, enum redis_outcome outcome, const char *text);

#endif
