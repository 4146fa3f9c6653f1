/* A connection to a master without a loop, for commands by hand. Every call blocks for a bounded
 * time. */
#ifndef LOCKAGENT_REDIS_BLOCKING_H
#define LOCKAGENT_REDIS_BLOCKING_H

#include <hiredis/hiredis.h>

#include "config/config.h"

struct blocking;

/* Connects, with TLS if the master's URL asks for it. Returns NULL, with `why`, if that fails. */
struct blocking *blocking_open(const struct config_group *group, const struct config_master *master,
                               char *why, size_t why_size);

/* Sends a command of resp_end() and waits for the reply. The caller frees it with
 * freeReplyObject(). Returns NULL, with `why`, if there was none. */
redisReply *blocking_ask(struct blocking *blocking, struct text command, char *why,
                         size_t why_size);

void blocking_close(struct blocking *blocking);

#endif
