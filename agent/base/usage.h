/* The faulty part of a command line, without the passwords that may be in it. */
#ifndef LOCKAGENT_BASE_USAGE_H
#define LOCKAGENT_BASE_USAGE_H

enum { USAGE_SHOWN = 200 };

/* Writes the argument as it may be shown: one line, cut, without passwords. Returns `shown`. */
const char *usage_shown(const char *argument, char shown[USAGE_SHOWN]);

/* Reports on stderr the option that getopt_long() refused when it returned `found`, `?` or `:`. For
 * `opterr` = 0 and an option string that begins with `:`; `program` begins the line. */
void usage_say_option(const char *program, int found, char *const *argv);

#endif
