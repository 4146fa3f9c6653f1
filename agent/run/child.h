/* The command of `lockagent run`. It is started without a shell, in a process group of its own that
 * dies with this process. */
#ifndef LOCKAGENT_RUN_CHILD_H
#define LOCKAGENT_RUN_CHILD_H

#include "agent/run/keeper.h"

/* The signals as this process found them at its start. The command gets the same. */
struct run_inherited;
/* Reads the signals. To be called before any signal is caught or ignored. */
const struct run_inherited *run_inherit(void);
/* Returns true if the signal was ignored from the start, as nohup(1) and shells do. Then it stays
 * ignored. */
bool run_inherited_ignores(const struct run_inherited *inherited, int signal_number);

struct run_child {
    pid_t pid; /* Also the number of its process group; 0: not started. */
    struct run_keeper keeper;
    int died_of; /* The signal that ended it; 0: it has not ended, or ended by itself. */
};

/* Starts `command` (NULL-terminated, looked up in PATH) with `environment`, and its keeper with
 * `deadline`. `before_exec` (may be NULL) is called with the group's number in this process before
 * the command begins. Returns 0, or the errno of the failed call. Then `*ret_executed` is true if
 * that call was the execution of the command itself. */
int run_child_start(struct run_child *child, char *const *command, char *const *environment,
                    const struct run_inherited *inherited, struct instant deadline,
                    void (*before_exec)(pid_t group), bool *ret_executed);

/* Sends a signal to every process of the command's group. */
void run_child_signal(const struct run_child *child, int signal_number);

/* Reaps all other processes that have ended: neither the command nor one that run_child_look()
 * looks at. They are orphans of the command and, if we are process 1 of a container, all orphans in
 * it. Otherwise they would be zombies for as long as we live. */
void run_child_bury_others(struct run_child *child);

enum run_child_state { RUN_CHILD_RUNS, RUN_CHILD_STOPPED, RUN_CHILD_ENDED };
/* Looks for the cause of a SIGCHLD; to be called until it returns RUNS. STOPPED: `*ret_code` is the
 * signal. ENDED: it is the exit code, or 128 + the signal. Then the rest of the group has been sent
 * SIGKILL, the keeper is gone, and the child is reaped. */
enum run_child_state run_child_look(struct run_child *child, int *ret_code);

/* Returns true if no process of the group is left. To be called after ENDED. */
bool run_child_group_is_gone(pid_t group);

/* Returns the command's environment: ours without any LOCKAGENT_ variable, and with `added`
 * (NULL-terminated). Returns NULL if out of memory. The texts are not copied. */
char **run_environment(char *const *ours, char *const *added);

#endif
