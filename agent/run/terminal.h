/* The terminal of `lockagent run`, lent to the command: a process group that is not the terminal's
 * foreground one can not read from it. */
#ifndef LOCKAGENT_RUN_TERMINAL_H
#define LOCKAGENT_RUN_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

/* Looks whether there is a controlling terminal. */
void run_terminal_open(void);

/* True where the command should have the terminal from the start: standard input is it, and
 * standard output is no pipe, behind which a pager may want the keyboard. Otherwise it gets it when
 * it asks (SIGTTIN, SIGTTOU). */
bool run_terminal_is_wanted(void);

/* Lends it to a process group, if we have it: true when it was ours to give. */
bool run_terminal_lend(pid_t group);
/* Takes it back where it was lent; true when it was. */
bool run_terminal_take_back(void);

#endif
