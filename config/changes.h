/* What a running agent can not take without a restart: the pass of a reload alone. */
#ifndef LOCKAGENT_CONFIG_CHANGES_H
#define LOCKAGENT_CONFIG_CHANGES_H

#include "config/settings.h"

/* Reports every key that differs from `running` and is not reloadable. The loading must be free of
 * errors. */
void config_changes_check(struct config_loading *loading, const struct config *running);

#endif
