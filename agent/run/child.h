/* The command of `lockagent run`: started without a shell, in a process group of its own that dies
 * with us. */
#ifndef LOCKAGENT_RUN_CHILD_H
#define LOCKAGENT_RUN_CHILD_H

#include "agent/run/keeper.h"

/* What this process found when it started, for the command to find the same. */
struct run_inherited;
/* Before any signal is caught or ignored. */
const struct run_inherited *run_inherit(void);
/* True where the signal was ignored from the start, as nohup(1) and shells do: then it is to stay
 * so. */
bool run_inherited_ignores(const struct run_inherited *inherited, int signal_number);

struct run_child {
    pid_t pid; /* also the number of its process group; 0: not started */
    struct run_keeper keeper;
    int died_of; /* the signal that ended it; 0: it has not ended, or by itself */
};

/* Starts `command` (NULL-terminated, looked up in PATH) with `environment`, and its keeper with
 * `deadline`. `before_exec` (may be NULL) is called with the group's number in this process before
 * the command begins. Returns 0, or the errno of what failed; `*ret_executed` is then true where
 * that was the execution of the command itself. */
int run_child_start(struct run_child *child, char *const *command, char *const *environment,
                    const struct run_inherited *inherited, struct instant deadline,
                    void (*before_exec)(pid_t group), bool *ret_executed);

/* Sends a signal to every process of the command's group. */
void run_child_signal(const struct run_child *child, int signal_number);

/* Reaps what ended and was neither the command nor to be looked at by run_child_look(): orphans of
 * the command, and, where we are process 1 of a container, everybody's; they would stay zombies for
 * as long as we live. */
void run_child_bury_others(struct run_child *child);

enum run_child_state { RUN_CHILD_RUNS, RUN_CHILD_STOPPED, RUN_CHILD_ENDED };
/* What SIGCHLD was about; asked until it answers RUNS. STOPPED: `*ret_code` is the signal. ENDED:
 * it is the exit code, or 128 + the signal; what was left of the group has been sent SIGKILL, the
 * keeper is gone, and the child is reaped. */
enum run_child_state run_child_look(struct run_child *child, int *ret_code);

/* After ENDED: true when no process of the group is left. */
bool run_child_group_is_gone(pid_t group);

/* The command's environment: ours without any LOCKAGENT_ variable, and with `added`
 * (NULL-terminated). NULL when out of memory. The texts stay where they are. */
char **run_environment(char *const *ours, char *const *added);

#endif
