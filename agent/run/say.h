/* The messages of `lockagent run` on stderr. */
#ifndef LOCKAGENT_RUN_SAY_H
#define LOCKAGENT_RUN_SAY_H

/* Prints "lockagent run: KEY: ..."; without KEY if it is NULL. */
void run_say(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
