/* `lockagent healthcheck` asks a running agent for its health, in images without curl. */
#ifndef LOCKAGENT_HEALTHCHECK_H
#define LOCKAGENT_HEALTHCHECK_H

#include <stdbool.h>

#include "config/config.h"

/* Requests /livez, or /readyz if `ready`. Returns 0 if the answer is 200; otherwise 1, with the
 * reason on stderr. */
int healthcheck(const struct config_address *address, bool ready);

#endif
