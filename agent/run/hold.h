/* A command under a lock. It is started, receives signals, and is ended before the lock's validity
 * ends. */
#ifndef LOCKAGENT_RUN_HOLD_H
#define LOCKAGENT_RUN_HOLD_H

#include "agent/loop.h"
#include "agent/run/child.h"
#include "agent/run/options.h"

struct run_hold {
    const struct run_options *options;
    const struct run_inherited *inherited;
    struct loop *loop;
    struct token token;
    uint32_t ttl_ms;
    struct instant valid_until;
    struct instant kill_at; /* When the command must be dead; the keeper knows it too. */
    bool lost;              /* Set by the session with `reason`, when the core reports the loss. */
    enum reason reason;
    bool lost_said;
    struct run_child child;
    pid_t group;      /* The command's process group; 0: no command was started. */
    bool interactive; /* The command had the terminal when it ended. */
};

/* Takes over the granted hold; options, inherited and loop are set. Returns false if too little
 * validity is left to begin. */
bool run_hold_begin(struct run_hold *hold, const struct hold_view *granted);

/* Starts the command. Returns 0, or the exit code that names the failure, which has then been
 * reported. */
int run_hold_start(struct run_hold *hold);

/* Ends the command if its time is over or the lock was lost. To be called first in every iteration
 * of the loop (R14). */
void run_hold_watch(struct run_hold *hold);

/* Passes on a signal that was sent to this process. */
void run_hold_signal(struct run_hold *hold, int signal_number);

/* Looks at the command, after SIGCHLD or now and then. Returns true if it has ended, with the exit
 * code of the session. */
bool run_hold_look(struct run_hold *hold, int *ret_code);

/* Stops `whom` (as kill(2) takes it) by the terminal's default action. That does nothing if no
 * process could continue it. */
void run_stop_by_default(pid_t whom);

#endif
