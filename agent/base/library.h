/* Functions of shared libraries that are loaded when they are needed, not with the program. */
#ifndef LOCKAGENT_BASE_LIBRARY_H
#define LOCKAGENT_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/core/types.h"

/* A function of a library, and the pointer that gets its address. */
struct library_function {
    const char *name;
    void *pointer;
};

/* Loads a library, by the file name that the linker would record, and sets the pointers of `count`
 * functions. The library stays loaded. Returns false if the file, or one of the functions, is
 * missing: `why` names both then. Returns false also if there is not enough memory. */
MUST_CHECK bool library_load(const char *file, const struct library_function *functions,
                             size_t count, char *why, size_t size);

#endif
