/* Matching a key against a pattern. Pure. */
#ifndef LOCKAGENT_CORE_GLOB_H
#define LOCKAGENT_CORE_GLOB_H

#include "types.h"

/* `*` is any run of bytes, `?` any one byte; the whole text must match. */
bool glob_matches(const char *pattern, struct text text);

#endif
