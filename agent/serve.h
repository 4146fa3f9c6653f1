/* The agent as a service: boot order, signals, reload, drain. */
#ifndef LOCKAGENT_SERVE_H
#define LOCKAGENT_SERVE_H

#include <stddef.h>

/* Where the configuration comes from, so that SIGHUP can read it again. `path` may be NULL. */
struct serve_source {
    const char *path;
    char *const *environment;
    const char *const *overrides;
    size_t override_count;
};

/* Serves until a signal ends it. Returns the exit code. */
int serve(const struct serve_source *source);

#endif
