/* `lockagent healthcheck`: asks a running agent whether it is well, for images without curl. */
#ifndef LOCKAGENT_HEALTHCHECK_H
#define LOCKAGENT_HEALTHCHECK_H

#include <stdbool.h>

#include "config/config.h"

/* GET /livez, or /readyz when `ready`. Returns 0 when the answer is 200; else 1, with the reason on
 * stderr. */
int healthcheck(const struct config_address *address, bool ready);

#endif
