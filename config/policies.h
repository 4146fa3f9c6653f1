/* What must hold within a policy and between policies: a part of the last pass. */
#ifndef LOCKAGENT_CONFIG_POLICIES_H
#define LOCKAGENT_CONFIG_POLICIES_H

#include "config/settings.h"

/* Checks every policy, and adds the last one for `*` where there is none. The groups must be known
 * and checked. */
void config_policies_check(struct config_loading *loading);

#endif
