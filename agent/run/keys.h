/* The keys of one `lockagent run`: their order, and how the command reads their numbers. */
#ifndef LOCKAGENT_RUN_KEYS_H
#define LOCKAGENT_RUN_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/core/limits.h"

enum {
    RUN_KEYS_MAX = 16,
    /* Bytes that run_keys_add_number() needs for one key. */
    RUN_NUMBER_BYTES = 3 * LIMIT_KEY_BYTES + 24,
};

/* Sorts the keys bytewise, and drops doubles. Returns the number of keys that are left. */
size_t run_keys_sort(char **keys, size_t count);

/* Appends `KEY=NUMBER` to `list`, after a blank unless the list is empty. Letters, digits and
 * -._~/: of the key are written as they are, all other bytes as in a URL: %XX, with capitals. The
 * list must have room for RUN_NUMBER_BYTES more. */
void run_keys_add_number(char *list, const char *key, uint64_t number);

#endif
