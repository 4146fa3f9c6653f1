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
    struct instant deadline; /* The deadline that was set last. */
    unsigned replaced;       /* How many keepers of this command have died. */
};

/* Starts a keeper of the process group, with its first deadline. Returns false with errno set. The
 * caller must ignore SIGPIPE before. */
bool run_keeper_start(struct run_keeper *keeper, pid_t group, struct instant deadline);

/* Sets the time at which the group is killed, unless a later one is set before. INSTANT_NEVER: only
 * when this process dies. */
void run_keeper_set(struct run_keeper *keeper, struct instant deadline);

/* Starts another keeper in place of one that was killed, with its deadline. If none can be started,
 * or if keepers of this group are killed again and again, kills the group at once, and returns
 * false. */
bool run_keeper_replace(struct run_keeper *keeper, pid_t group);

/* Ends the keeper without a kill, and waits for it. The group has ended, and its number may soon
 * belong to another group. */
void run_keeper_dismiss(struct run_keeper *keeper);

#endif
