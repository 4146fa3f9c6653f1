/* How an agent names itself to a master: user and password, as AUTH. */
#ifndef LOCKAGENT_REDIS_AUTH_H
#define LOCKAGENT_REDIS_AUTH_H

#include "agent/redis/asking.h"
#include "config/config.h"

/* Builds the AUTH of a connection to this master in `resp`: 1; 0 when none is needed; -1 and `why`
 * when the password can not be had. The password is the URL's, or else the file's, which is read
 * anew every time. Whoever sends the command, `*ret_command`, then wipes it (resp_wipe). */
int auth_ask(struct resp *resp, const struct config_group *group,
             const struct config_master *master, struct text *ret_command, char *why,
             size_t why_size);

#endif
