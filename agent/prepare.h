/* Prepares the process before it does anything else: its memory cannot be read by others, and its
 * output cannot get into a file that it opens. */
#ifndef LOCKAGENT_PREPARE_H
#define LOCKAGENT_PREPARE_H

/* Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed. Otherwise the next opened
 * file would get that number, and printed text would be written into it. Then keeps other processes
 * of the same user from reading the memory of this one, which contains tokens and passwords: no
 * ptrace, no /proc/PID/mem and environ, no core dump. Call it first in main(). */
void prepare_process(void);

/* Makes the kernel reap all children. As process 1 of a container, a process gets orphans that it
 * never started. Only for a process that starts no children of its own. */
void prepare_for_orphans(void);

#endif
