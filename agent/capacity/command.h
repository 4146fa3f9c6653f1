/* `lockagent capacity`: how many masters a fleet needs. It connects to no master. */
#ifndef LOCKAGENT_CAPACITY_COMMAND_H
#define LOCKAGENT_CAPACITY_COMMAND_H

/* Returns the exit code: 0; 1 if no number of groups carries the load; 2 for a wrong command line.
 * argv[0] is the word `capacity`. */
int capacity_main(int argc, char **argv);

#endif
