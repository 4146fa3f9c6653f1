/* A command under its locks. It is started, receives signals, and is ended before the validity of
 * any of them ends. */
#ifndef LOCKAGENT_RUN_COMMAND_H
#define LOCKAGENT_RUN_COMMAND_H

#include "agent/loop.h"
#include "agent/run/child.h"
#include "agent/run/hold.h"
#include "agent/run/options.h"

struct run_command {
    const struct run_options *options;
    const struct run_inherited *inherited;
    struct loop *loop;
    struct run_hold holds[RUN_KEYS_MAX]; /* One for each key of the options, in their order. */
    struct instant kill_at; /* When the command must be dead; the keeper knows it too. */
    bool lost;              /* A loss was reported: `kill_at` moves forward no more. */
    struct run_child child;
    pid_t group;      /* The command's process group; 0: no command was started. */
    bool interactive; /* The command had the terminal when it ended. */
};

/* Starts the command; options, inherited, loop and all holds are set. Returns 0, or the exit code
 * that names the failure, which has then been reported. */
int run_command_start(struct run_command *command);

/* Ends the command if its time is over or a lock was lost. To be called first in every iteration
 * of the loop (R14). */
void run_command_watch(struct run_command *command);

/* Passes on a signal that was sent to this process. */
void run_command_signal(struct run_command *command, int signal_number);

/* Looks at the command, after SIGCHLD or now and then. Returns true if it has ended, with the exit
 * code of the session. */
bool run_command_look(struct run_command *command, int *ret_code);

/* Stops `whom` (as kill(2) takes it) by the terminal's default action. That does nothing if no
 * process could continue it. */
void run_stop_by_default(pid_t whom);

#endif
