/* The keeper: a small process beside `lockagent run` that ends the command when `run` cannot. It
 * kills the command's process group when `run` dies, for any reason. It also kills the group when
 * the deadline passes that `run` has set last, even while `run` itself is stopped. */
#ifndef LOCKAGENT_RUN_KEEPER_H
#define LOCKAGENT_RUN_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/core/types.h"

struct run_keeper {
    pid_t pid; /* 0: there is none */
    int pipe;
};

/* Starts a keeper of the process group, without a deadline yet. Returns false with errno set. The
 * caller must ignore SIGPIPE before. */
bool run_keeper_start(struct run_keeper *keeper, pid_t group);

/* Sets the time at which the group is killed, unless a later one is set before. INSTANT_NEVER: only
 * when this process dies. */
void run_keeper_set(const struct run_keeper *keeper, struct instant deadline);

/* Ends the keeper without a kill, and waits for it. The group has ended, and its number may soon
 * belong to another group. */
void run_keeper_dismiss(struct run_keeper *keeper);

#endif
