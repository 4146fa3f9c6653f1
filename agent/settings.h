/* The configuration of a command, and what is wrong with it. */
#ifndef LOCKAGENT_SETTINGS_H
#define LOCKAGENT_SETTINGS_H

#include "agent/serve.h"
#include "config/config.h"

/* Loads it; the caller frees it. NULL when something is wrong: every error has then been written to stderr. */
struct config *settings_load(const struct serve_source *source);

#endif
