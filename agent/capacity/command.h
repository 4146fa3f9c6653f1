/* `lockagent capacity`: how many masters a fleet needs. Asks nobody. */
#ifndef LOCKAGENT_CAPACITY_COMMAND_H
#define LOCKAGENT_CAPACITY_COMMAND_H

/* Its exit code: 0, 1 where no number of groups carries the load, 2 for a wrong command line.
 * argv[0] is the word `capacity`. */
int capacity_main(int argc, char **argv);

#endif
