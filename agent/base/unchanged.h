/* Whether a file is still the one that was read. */
#ifndef LOCKAGENT_BASE_UNCHANGED_H
#define LOCKAGENT_BASE_UNCHANGED_H

#include <stdbool.h>
#include <sys/stat.h>

/* Returns true if two looks at a path have met the same file, and no process has written to it in
 * between. */
bool file_is_unchanged(const struct stat *before, const struct stat *now);

#endif
