/* Builds AUTH: the agent's user and password for a master. */
#ifndef LOCKAGENT_REDIS_AUTH_H
#define LOCKAGENT_REDIS_AUTH_H

#include "agent/redis/asking.h"
#include "config/config.h"

/* Builds the AUTH for a connection to this master in `resp`. Returns 1, with `*ret_command`; 0 if
 * none is needed; -1, with `why`, if the password cannot be read. The password is the URL's. If the
 * URL has none, it is read from the file each time. The caller wipes the command after it was sent
 * (resp_wipe()). */
int auth_ask(struct resp *resp, const struct config_group *group,
             const struct config_master *master, struct text *ret_command, char *why,
             size_t why_size);

#endif
