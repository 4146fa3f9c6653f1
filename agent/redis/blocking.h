/* A connection to a master without a loop, for what is asked once: every call blocks, for a bounded
 * time. */
#ifndef LOCKAGENT_REDIS_BLOCKING_H
#define LOCKAGENT_REDIS_BLOCKING_H

#include <hiredis/hiredis.h>

#include "config/config.h"

struct blocking;

/* Connects, with TLS where the master's URL asks for it. NULL, and `why`. */
struct blocking *blocking_open(const struct config_group *group, const struct config_master *master,
                               char *why, size_t why_size);

/* Asks, as resp_end() gives it. The reply is freed with freeReplyObject(); NULL, and `why`, when
 * there was none. */
redisReply *blocking_ask(struct blocking *blocking, struct text command, char *why,
                         size_t why_size);

void blocking_close(struct blocking *blocking);

#endif
