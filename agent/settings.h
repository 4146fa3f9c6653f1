/* The configuration of a command, and what is wrong with it. */
#ifndef LOCKAGENT_SETTINGS_H
#define LOCKAGENT_SETTINGS_H

#include <stddef.h>

#include "config/config.h"

/* Where the configuration comes from, so that SIGHUP can read it again. `path` may be NULL. */
struct settings_source {
    const char *path;
    char *const *environment;
    const char *const *overrides;
    size_t override_count;
};

/* Loads it; the caller frees it. NULL when something is wrong: every error has then been written to
 * stderr. */
struct config *settings_load(const struct settings_source *source);

/* Looks at the files that a configuration names: certificates and keys. Prints on standard error
 * what is wrong behind the `path` of the configuration; false where no master could be reached like
 * that. */
bool settings_check_files(const struct config *config, const char *path);

/* The same into the log, as warnings: files may be there later, and are read at every connect. */
void settings_log_files(const struct config *config);

#endif
