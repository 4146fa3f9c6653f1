/* The agent as a service: boot order, signals, reload and drain. */
#ifndef LOCKAGENT_SERVE_H
#define LOCKAGENT_SERVE_H

#include "agent/settings.h"

/* Serves until a signal ends it. Returns the exit code. */
int serve(const struct settings_source *source);

#endif
