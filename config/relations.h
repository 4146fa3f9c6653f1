/* The last pass over a configuration: what must hold between keys, and the defaults that depend on
 * other keys. */
#ifndef LOCKAGENT_CONFIG_RELATIONS_H
#define LOCKAGENT_CONFIG_RELATIONS_H

#include "config/settings.h"

/* Checks all of them, those of policies too. */
void config_relations_check(struct config_loading *loading);

#endif
