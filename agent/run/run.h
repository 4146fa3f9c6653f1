/* `lockagent run KEY... -- CMD`: takes locks in this process, runs a command under them, and
 * releases them. No agent is needed. */
#ifndef LOCKAGENT_RUN_RUN_H
#define LOCKAGENT_RUN_RUN_H

/* Runs the command. `argv` begins with "run". `config_path` (may be NULL) is used if no option
 * names a file. Returns the exit code. */
int run_main(int argc, char **argv, const char *config_path);

#endif
