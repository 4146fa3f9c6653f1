/* The terminal of `lockagent run`, lent to the command: only the terminal's foreground process
 * group can read from it. */
#ifndef LOCKAGENT_RUN_TERMINAL_H
#define LOCKAGENT_RUN_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

/* Looks whether there is a controlling terminal. */
void run_terminal_open(void);

/* Returns true if the command should have the terminal from the start: standard input is the
 * terminal, and standard output is no pipe, behind which a pager may want the keyboard. Otherwise
 * the command gets it when it asks (SIGTTIN, SIGTTOU). */
bool run_terminal_is_wanted(void);

/* Lends it to a process group. Returns false if it was not ours to give. */
bool run_terminal_lend(pid_t group);
/* Takes it back if it was lent. Returns true if it was. */
bool run_terminal_take_back(void);

#endif
