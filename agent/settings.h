/* Loads the configuration of a command and reports its errors. */
#ifndef LOCKAGENT_SETTINGS_H
#define LOCKAGENT_SETTINGS_H

#include <stddef.h>

#include "config/config.h"

/* The sources of the configuration. SIGHUP reads them again. `path` may be NULL. */
struct settings_source {
    const char *path;
    char *const *environment;
    const char *const *overrides;
    size_t override_count;
};

/* Loads the configuration, which the caller frees. Returns NULL if it has errors, after they were
 * written to stderr. */
struct config *settings_load(const struct settings_source *source);

/* Checks the certificates and keys that a configuration names, and that OpenSSL can be loaded if a
 * master uses TLS. Prints each fault on stderr after `path`. Returns false if a fault makes a
 * master unreachable. */
bool settings_check_files(const struct config *config, const char *path);

/* Checks the same files and logs the faults as warnings. Files may appear later, and are read at
 * every connect. */
void settings_log_files(const struct config *config);

/* Prints remarks on a valid configuration on stderr after `path`, or logs them. */
void settings_print_remarks(const struct config *config, const char *path);
void settings_log_remarks(const struct config *config);

#endif
