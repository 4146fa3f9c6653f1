/* The locks of one command, from the first connection to the last release. */
#ifndef LOCKAGENT_RUN_SESSION_H
#define LOCKAGENT_RUN_SESSION_H

#include "agent/run/options.h"
#include "config/config.h"

/* Takes the locks in the order of the keys, runs the command, releases the locks, and reports
 * failures on stderr. Returns the exit code. `config` is changed, because one command needs less
 * than an agent, and more patience. Everything must live until the process ends. */
int run_session(const struct run_options *options, struct config *config);

#endif
