/* The rules for the keys of locks, the same for all sources. */
#ifndef LOCKAGENT_BASE_KEY_H
#define LOCKAGENT_BASE_KEY_H

#include "agent/core/types.h"

/* Returns NULL if `key` is valid; otherwise the fault, to be read after "the key" (D3). */
const char *key_fault(struct text key);

/* Returns true for keys that are the agent's own if no prefix is configured: a caller's lock of
 * such a name would be one of the agent's keys on the masters (D3). */
bool key_is_agents_own(struct text key);

#endif
