/* What the process is to be before it does anything: safe from being looked into, and from its own
 * output. */
#ifndef LOCKAGENT_PREPARE_H
#define LOCKAGENT_PREPARE_H

/* First thing in main(): opens /dev/null for each of the descriptors 0, 1 and 2 that is closed,
 * since the next file that is opened would get its number, and what is printed would go into it.
 * Then keeps other processes of the same user from reading this one's memory, where tokens and
 * passwords stand: no ptrace, no /proc/PID/mem and environ, and no core dump. */
void prepare_process(void);

/* Whatever else this process does, children that it never started are buried: orphans come to
 * process 1 of a container. For a process that starts none of its own. */
void prepare_for_orphans(void);

#endif
