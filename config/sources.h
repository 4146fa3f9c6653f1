/* Environment and flags: other spellings of the same keys. */
#ifndef LOCKAGENT_CONFIG_SOURCES_H
#define LOCKAGENT_CONFIG_SOURCES_H

#include "config/settings.h"

/* Adds what the environment sets (`environ`-style; NULL: nothing), then the overrides
 * ("key=value"), so that these have the last word. */
void config_sources_read(struct config_loading *loading, char *const *environment,
                         const char *const *overrides, size_t override_count);

#endif
